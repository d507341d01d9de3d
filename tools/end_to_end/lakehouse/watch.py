"""A node that watches a catalog, as its pages tell of it; and what engines plan with."""

import hashlib
import hmac
import json
import struct
import time
import urllib.error
import urllib.request

from . import tables
from .seaweed import TABLE_BUCKET

HINT_SECRET = "hint-secret-77d1"
WARM_SECONDS_MAX = 60
TRAILER_BYTES = 8


def proofs(seaweed):
    """The ways in which a node can prove itself to SeaweedFS's catalog."""
    access_key, secret_key = seaweed.endpoint.access_key, seaweed.endpoint.secret_key
    return {
        "oauth2": {"oauth2_client_id": access_key, "oauth2_client_secret": secret_key},
        "sigv4": {"auth": "sigv4", "signing_name": "s3", "access_key": access_key, "secret_key": secret_key},
    }


def catalog_settings(seaweed, proof="oauth2", **further):
    """An item of `[[catalog]]` for SeaweedFS's catalog, which is not asked twice unless somebody hints."""
    return {
        "name": "lake",
        "url": seaweed.catalog_url,
        "warehouse": f"s3://{TABLE_BUCKET}",
        "include": [f"{tables.NAMESPACE}.*"],
        "poll_interval": "1h",
        "hint_secret": HINT_SECRET,
        **proofs(seaweed)[proof],
        **further,
    }


def hint(node, body, secret=HINT_SECRET, content_type="application/json"):
    """The status and the answer of a hint."""
    text, now = json.dumps(body), int(time.time())
    mac = hmac.new(secret.encode(), f"{now}.{text}".encode(), hashlib.sha256).hexdigest()
    url = f"http://127.0.0.1:{node.admin_port}/admin/catalog/events"
    headers = {"Content-Type": content_type, "X-Nilas-Signature": f"t={now},v1={mac}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, text.encode(), headers)) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def hint_at(node, name, catalog="lake", namespace=(tables.NAMESPACE,)):
    """Says that a table has changed."""
    status, answer = hint(node, {"catalog": catalog, "namespace": list(namespace), "table": name})
    assert status == 202, answer


def page(node):
    return json.loads(node.admin("/admin/tables"))


def known(node):
    """What the page tells of each table, by its name."""
    return {each["name"]: each for each in page(node)["tables"]}


def wait_for(node, what):
    """What is known of the tables once `what` holds of it."""
    deadline = time.monotonic() + WARM_SECONDS_MAX
    while not what(tables_now := known(node)):
        assert time.monotonic() < deadline, json.dumps(tables_now, indent=1) + node.text()[-2000:]
        time.sleep(0.02)
    return tables_now


def wait_until_warm(node, locations):
    """Waits until the tables are warm at these locations of their metadata, by name, and history is, of all:
    then nothing but what engines ask for reaches the origin."""

    def is_warm(tables_now):
        at = {name: it for name, it in tables_now.items() if name in locations}
        states = {name: (it["state"], it["metadata_location"]) for name, it in at.items()}
        is_over = all(it["warmth"]["history_warm"] for it in tables_now.values())
        return is_over and states == {name: ("warm", location) for name, location in locations.items()}

    return wait_for(node, is_warm)


def order(node, path, body):
    """The status and the answer of an order to the admin port."""
    url = f"http://127.0.0.1:{node.admin_port}{path}"
    headers = {"Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


class Footers:
    """Where the footers of data files begin, learnt from the origin itself."""

    def __init__(self, s3):
        self.s3, self.starts = s3, {}

    def start(self, bucket, key):
        """The first byte of a file's footer, and the file's size."""
        if (bucket, key) not in self.starts:
            answer = self.s3.get_object(Bucket=bucket, Key=key, Range=f"bytes=-{TRAILER_BYTES}")
            size = int(answer["ContentRange"].rsplit("/", 1)[1])
            length, magic = struct.unpack("<I4s", answer["Body"].read())
            assert magic == b"PAR1", (bucket, key, magic)
            self.starts[bucket, key] = (size - TRAILER_BYTES - length, size)
        return self.starts[bucket, key]


def planning_requests(records, footers):
    """Those among `records` that ask for what engines plan with."""
    return [each for each in records if _is_planning(each, footers)]


def _is_planning(record, footers):
    bucket, _, key = record["path"].lstrip("/").partition("/")
    if record["method"] not in ("GET", "HEAD") or not key:
        return False
    if "/metadata/" in key:
        return True
    if not key.endswith(".parquet") or record["method"] == "HEAD":
        return True
    start, size = footers.start(bucket, key)
    first, last = _range_of(record["range"], size)
    return last >= start and first < size


def _range_of(text, size):
    if not text:
        return 0, size - 1
    first, last = text.removeprefix("bytes=").split("-")
    if not first:
        return size - int(last), size - 1
    return int(first), int(last) if last else size - 1

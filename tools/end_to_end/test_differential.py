"""Random requests, valid and nearly valid, to an origin directly and through a node: status, code,
headers and bodies are the same, but for what `lakehouse.comparison` and this file list.

NILAS_DIFFERENTIAL_SEED repeats a run, NILAS_DIFFERENTIAL_SECONDS makes it longer.
"""

import email.utils
import os
import random
import time
import urllib.parse

import pytest

from conftest import HAS_NODE, started_nodes
from lakehouse.oddity import CHECKSUMS, OBJECTS, Oddity
from lakehouse.twins import Side, Twins
from lakehouse.wire import Question, Wire

pytestmark = pytest.mark.skipif(not HAS_NODE, reason="compares a node with its origin")

SEED = int(os.environ.get("NILAS_DIFFERENTIAL_SEED", "20240601"))
SECONDS = float(os.environ.get("NILAS_DIFFERENTIAL_SECONDS", "12"))
FAILURES_MAX = 200
# What the node may call a body that does not prove what it claims: it refuses all of them, before the origin
# can commit them; origins check less, later, or call it otherwise.
BODY_REFUSALS = {
    "BadDigest", "InvalidDigest", "XAmzContentSHA256Mismatch", "SignatureDoesNotMatch", "IncompleteBody",
    "InvalidRequest", "MalformedTrailerError", "InvalidArgument",
}


@pytest.fixture(scope="module")
def node(seaweed, workspace):
    nodes = started_nodes(seaweed, workspace / "differential")
    yield next(nodes)(keys={"cache.mutable_ttl": "1h", "auth.anonymous": "relay"})
    next(nodes, None)


class Fuzz:
    """A run: questions of all kinds in turn, and what differed."""

    def __init__(self, origin, endpoint, stem):
        self.client = origin.boto3()
        self.wires = Wire(origin, forgives_close=True), Wire(endpoint)
        self.stem = stem
        self.asked = 0
        self.found = []
        for name in ("shared", "direct", "cached"):
            self.client.create_bucket(Bucket=f"{stem}-{name}")
        self.shared = Twins(*(Side(wire, f"{stem}-shared") for wire in self.wires))
        self.twins = Twins(Side(self.wires[0], f"{stem}-direct"), Side(self.wires[1], f"{stem}-cached"))
        self.etags, self.dates = self.fill()

    def fill(self):
        """Writes the shared objects past the node; their tags, and dates near their own."""
        etags, dates = {}, {}
        for key, (body, headers) in OBJECTS.items():
            path = f"/{self.stem}-shared/{urllib.parse.quote(key)}"
            headers = tuple((name, self.told(name, body, value)) for name, value in headers)
            assert self.wires[0].ask(Question("PUT", path, "", headers, body)).status == 200, key
            told = self.wires[0].ask(Question("HEAD", path))
            etags[key] = told.header("etag") or ""
            at = email.utils.parsedate_to_datetime(told.header("last-modified")).timestamp()
            dates[key] = [email.utils.formatdate(at + shift, usegmt=True) for shift in (0, -1, 1)]
        return etags, dates

    @staticmethod
    def told(name, body, value):
        return CHECKSUMS[value.lower()](body) if name.startswith("x-amz-checksum") else value

    def run(self, seed, seconds):
        deadline = time.monotonic() + seconds
        number = 0
        acts = [self.read, self.bucket_read, self.write, self.upload, self.change]
        while time.monotonic() < deadline and len(self.found) < FAILURES_MAX:
            oddity = Oddity(random.Random(f"{seed}/{number}"), self.etags, self.dates)
            self.number = number
            oddity.source.choices(acts, [50, 20, 20, 4, 6])[0](oddity)
            number += 1

    def ask(self, twins, make, excuse=lambda direct, through: False):
        direct, through, difference = twins.ask(make)
        self.asked += 1
        question = make(twins.direct)
        if difference and not any(known(question, direct, through) for known in KNOWN) and not excuse(direct, through):
            self.found.append(f"question {self.number}:\n{difference}")
        return direct, through

    def read(self, oddity):
        make = oddity.read()
        for _ in range(oddity.source.choice([1, 1, 2])):
            self.ask(self.shared, make)

    def bucket_read(self, oddity):
        self.ask(self.shared, oddity.bucket_read())

    def key(self, oddity):
        return f"fuzz/{oddity.source.choice(['a', 'b', 'c%20d', 'e+f', 'metadata/x.avro'])}"

    def look(self, key):
        """What has become of a key."""
        for method in ("GET", "HEAD", "GET"):
            self.ask(self.twins, lambda side: Question(method, side.path(key)))

    def write(self, oddity):
        key = self.key(oddity)
        self.look(key)
        make, is_wrong = oddity.write(key)

        def excuse(_, through):
            return is_wrong and through.status in (400, 403) and through.code in BODY_REFUSALS

        direct, through = self.ask(self.twins, make, excuse)
        if direct.status != through.status:
            # Excused or told already; from here on they are alike again.
            self.ask(self.twins, lambda side: Question("PUT", side.path(key), body=b"alike again"))
        self.look(key)

    def upload(self, oddity):
        key, source = self.key(oddity), oddity.source
        headers = tuple(oddity.described())
        told = self.ask(self.twins, lambda side: Question("POST", side.path(key), "uploads", headers), names_upload)
        for side, each in zip((self.twins.direct, self.twins.through), told):
            side.learnt["upload"] = each.element("UploadId") or "none"
        listed = []
        for number in source.sample([1, 2, 3, 0, 10001], source.choice([0, 1, 1])):
            body = oddity.body()
            part, _ = self.on_upload("PUT", key, f"partNumber={number}&", body=body)
            listed.append((number, part.header("etag")))
        self.on_upload("GET", key)
        if source.random() < 0.2:
            listed.append((source.choice([1, 2, 7]), '"0"'))
        end = source.choice(["POST", "POST", "DELETE"])
        parts = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>" for number, etag in listed)
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        if source.random() < 0.1:
            body = body[:-5]
        self.on_upload(end, key, body=body if end == "POST" else None)
        self.on_upload("GET", key)
        self.look(key)

    def on_upload(self, method, key, query="", **options):
        return self.ask(
            self.twins,
            lambda side: Question(method, side.path(key), f"{query}uploadId={side.learnt['upload']}", **options),
        )

    def change(self, oddity):
        """A change that is no upload, to an object or to the bucket."""
        key, source = self.key(oddity), oddity.source
        method, query, headers, body, is_bucket = source.choice(CHANGES)
        path = None if is_bucket else key

        def make(side):
            own = tuple((name, value.replace("{bucket}", side.bucket)) for name, value in headers)
            return Question(method, side.path(path), query, own, body and body.replace(b"{bucket}", side.bucket.encode()))

        self.ask(self.twins, make)
        if query and method != "POST":
            self.ask(self.twins, lambda side: Question("GET", side.path(path), query))
        self.look(key)


TAGS = b"<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tagging>"
DELETE = b"<Delete><Object><Key>fuzz/a</Key></Object><Object><Key>fuzz/c d</Key></Object></Delete>"
LIFECYCLE = (
    b"<LifecycleConfiguration><Rule><ID>x</ID><Filter><Prefix>none/</Prefix></Filter><Status>Enabled</Status>"
    b"<Expiration><Days>900</Days></Expiration></Rule></LifecycleConfiguration>"
)
CORS = (
    b"<CORSConfiguration><CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin>*</AllowedOrigin></CORSRule>"
    b"</CORSConfiguration>"
)
# No bucket is removed, nor any sub-resource of one that is unknown, by which SeaweedFS removes it as well: of a bucket
# that went and came its own answers differ for a while.
CHANGES = [
    ("DELETE", "", (), None, False),
    ("DELETE", "", (("If-Match", '"0"'),), None, False),
    ("DELETE", "versionId=null", (), None, False),
    ("DELETE", "versionId=none", (), None, False),
    ("PUT", "tagging", (), TAGS, False),
    ("PUT", "tagging", (), TAGS[:-3], False),
    ("DELETE", "tagging", (), None, False),
    ("PUT", "acl", (("x-amz-acl", "private"),), None, False),
    ("PUT", "retention", (), b"<Retention/>", False),
    ("PUT", "future", (), b"x", False),
    ("POST", "future", (), b"x", False),
    ("POST", "restore&versionId=1", (), b"<RestoreRequest/>", False),
    ("POST", "", (), b"x", False),
    ("PATCH", "", (), b"x", False),
    ("POST", "delete", (), DELETE, True),
    ("POST", "delete", (), DELETE.replace(b"<Delete>", b"<Delete><Quiet>true</Quiet>"), True),
    ("POST", "delete", (), DELETE[:-4], True),
    ("POST", "delete", (), b"", True),
    ("POST", "delete", (("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg=="),), b"", True),
    ("PUT", "", (("x-amz-copy-source", "{bucket}/fuzz/b"),), None, False),
    ("PUT", "", (("x-amz-copy-source", "/{bucket}/fuzz/c%20d"), ("x-amz-metadata-directive", "REPLACE")), None, False),
    ("PUT", "", (("x-amz-copy-source", "{bucket}/fuzz/b"), ("x-amz-copy-source-if-match", '"0"')), None, False),
    ("PUT", "", (("x-amz-copy-source", "{bucket}/fuzz/b"), ("x-amz-copy-source-if-none-match", "*")), None, False),
    ("PUT", "", (("x-amz-copy-source", "{bucket}"),), None, False),
    ("PUT", "", (("x-amz-copy-source", "/no-such-bucket/x"),), None, False),
    ("PUT", "partNumber=1&uploadId=none", (("x-amz-copy-source", "{bucket}/fuzz/b"),), None, False),
    ("PUT", "", (), None, True),
    ("PUT", "cors", (), CORS, True),
    ("DELETE", "cors", (), None, True),
    ("PUT", "lifecycle", (), LIFECYCLE, True),
    ("DELETE", "lifecycle", (), None, True),
    ("PUT", "policy", (), b"{}", True),
    ("DELETE", "policy", (), None, True),
    ("PUT", "tagging", (), TAGS, True),
    ("DELETE", "tagging", (), None, True),
    ("PUT", "future", (), b"x", True),
    ("POST", "future", (), b"x", True),
    ("PUT", "versioning", (), b"<VersioningConfiguration><Status>Odd</Status></VersioningConfiguration>", True),
]


def names_upload(direct, through):
    """Begun uploads have ids of their own, which are learnt from this very answer."""
    same = direct.status == through.status == 200 and direct.element("Key") == through.element("Key")
    return same and "" not in (direct.element("UploadId"), through.element("UploadId"))


def is_told_in_other_words(_, direct, through):
    """An error of the node's own that is the origin's too: its wording, and what else it tells, are the node's."""
    return is_own(through) and direct.status >= 400 and (direct.status, direct.code) == (through.status, through.code)


def is_unmodified(_, direct, through):
    """A 304 of the node's own tells what HTTP wants it to (RFC 9110, 15.4.5); origins tell more or less."""
    same_version = direct.header("etag") == through.header("etag")
    return is_own(through) and direct.status == through.status == 304 and same_version


def is_no_uri(question, _, through):
    """Half an escape is refused; an origin may call that a wrong signature, or take it for a percent sign."""
    return "%zz" in f"{question.path}?{question.query}" and (through.status, through.code) in ((400, "InvalidURI"), (400, ""))


def is_no_http(question, _, through):
    """An origin that is told to send a NUL in a header sends it; such an answer is no HTTP, and not passed on."""
    return "%00" in question.query and through.status == 503


def is_own(told):
    return len(told.header("x-amz-request-id") or "") == NODE_ID_LENGTH


# What may differ for a reason beyond the headers of `lakehouse.comparison`.
KNOWN = [is_told_in_other_words, is_unmodified, is_no_uri, is_no_http]
NODE_ID_LENGTH = 16


def test_random_requests_get_through_the_node_what_they_get_directly(origin, node):
    fuzz = Fuzz(origin, node.endpoint, "differential")
    fuzz.run(SEED, SECONDS)
    shown = "\n\n".join(fuzz.found[:5])
    assert not fuzz.found, f"{len(fuzz.found)} of {fuzz.asked} differ (seed {SEED}); the first:\n{shown}"
    assert fuzz.asked > 100

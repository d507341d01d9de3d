"""Keys of every kind, in every operation that names one: what the origin makes of a key directly, it
makes of it through the node, and what it refuses it refuses there in the same way.

A run is one seed: NILAS_KEYS_SEED repeats it, NILAS_KEYS asks for more random keys.
"""

import base64
import hashlib
import itertools
import os
import random
import urllib.parse
import xml.sax.saxutils

import pytest

from conftest import HAS_NODE, started_nodes
from lakehouse.twins import Side, Twins, shortened
from lakehouse.wire import UNRESERVED, Question, Wire

pytestmark = pytest.mark.skipif(not HAS_NODE, reason="compares a node with its origin")

SEED = int(os.environ.get("NILAS_KEYS_SEED", "20240501"))
RANDOM_KEYS = int(os.environ.get("NILAS_KEYS", "24"))
DOMAIN = "s3.nilas.test"
KEY_BYTES_MAX = 1024
PART = b"the only part"

NAMED_KEYS = [
    "plus+plus", "+", "a+b c+d", "percent%sign", "%", "%2F", "a%2Fb", "%252F", "a%zz", "100%", "hash#mark",
    "#", "question?mark", "?", "at@sign", "@", "equals=sign", "dt=2024-01-01/part=a%2Fb/x#1.parquet",
    "colon:colon", ":", "a b", " leading", "trailing ", " ", "a//b", "a///b", "/leading", "//", "a/./b",
    "./a", "a/..b", "a/../b", "../a", "..", ".", "a/.", "a/..", "...", "trailing/", "deep/er/trailing/",
    "trailing//", "naïve", "é", "é", "日本語/キー", "🦆", "🏳️‍🌈/emoji", "tab\there", "new\nline",
    "return\rhere", "delete\x7f", "next\x85line", "separator\u2028s", "amp&amp;", "<xml>", "quote\"'quote",
    "semi;comma,", "a=b&c=d", "dollar$bang!", "star*(paren)", "brace{}[]", "back\\slash", "pipe|caret^`",
    "tilde~", "?uploads", "x?versionId=1", "k" * KEY_BYTES_MAX, "k" * (KEY_BYTES_MAX + 1),
    "é" * (KEY_BYTES_MAX // 2), "d/" * 100 + "leaf", "segment" * 40, "\ufeffmark", "\ufffd", "e\u0301",
]
ATOMS = [
    "+", "%", "%2F", "%20", "%2B", "%25", "#", "?", "@", "=", ":", " ", "/", "//", ".", "..", "/./", "/../", "a",
    "Z", "9", "-", "_", "~", "é", "ß", "日", "🦆", "\t", "\n", "\r", "\x7f", "&", "<", ">", "'", '"', ";", ",",
    "$", "!", "*", "(", ")", "\\", "|", "^", "`", "{", "}", "[", "]", "key", "data/", "\u00a0", "\u200b",
]
# Characters that may stand on a request line as they are.
PLAIN_IN_PATH = "/+@=:!$&'()*,;"


# Those of a run by the host's name, where only the path's beginning is another: every so many.
VIRTUAL_HOST_STEP = 3
NUMBERS = itertools.count(1)


def random_key(source):
    return "".join(source.choice(ATOMS) for _ in range(source.randint(1, 7)))


def keys():
    source = random.Random(SEED)
    return NAMED_KEYS + [random_key(source) for _ in range(RANDOM_KEYS)]


ENCODINGS = {
    "as SDKs do": lambda key: urllib.parse.quote(key, safe="/" + UNRESERVED),
    "as little as can be": lambda key: urllib.parse.quote(key, safe=PLAIN_IN_PATH + UNRESERVED),
    "each byte": lambda key: "".join(f"%{byte:02X}" if byte != 0x2F else "/" for byte in key.encode()),
    "in small letters": lambda key: "".join(
        f"%{byte:02x}" if not chr(byte).isalnum() or byte > 127 else chr(byte) for byte in key.encode()
    ),
}


@pytest.fixture(scope="module")
def node(seaweed, workspace):
    """A node straight before the origin, that believes what it knows for an hour."""
    nodes = started_nodes(seaweed, workspace / "keys")
    start = next(nodes)
    yield start(keys={"cache.mutable_ttl": "1h", "server.domains": [DOMAIN]})
    next(nodes, None)


@pytest.fixture(params=["path", "virtual host"])
def twins(request, node, origin):
    """An empty bucket at either side, that of the node addressed in one style or the other."""
    is_virtual_host = request.param != "path"
    number = next(NUMBERS)
    names = f"keys-{number}-direct", f"keys-{number}-cached"
    for name in names:
        origin.boto3().create_bucket(Bucket=name)
    host = f"{names[1]}.{DOMAIN}:{node.endpoint.port}" if is_virtual_host else None
    direct = Side(Wire(origin, forgives_close=True), names[0])
    return Twins(direct, Side(Wire(node.endpoint, host), names[1], is_virtual_host))


class Torture:
    """All that can be done with one key, told to both sides; what differs is collected."""

    def __init__(self, twins, source):
        self.twins = twins
        self.source = source
        self.found = []
        # Questions that the node asked to be put again.
        self.again = 0

    def ask(self, what, make):
        direct, through, difference = self.twins.ask(make)
        if through.status == 503 and not direct.is_cut:
            # The origin had closed a kept connection without a word, and a write is not asked twice.
            self.again += 1
            difference = "" if self.is_same(direct, self.twins.through, make) else difference
        if difference and not is_broken_off(direct, through):
            self.found.append(f"{shortened(what)}:\n{difference}")
        return direct

    @staticmethod
    def is_same(direct, side, make):
        told = side.wire.ask(make(side))
        return (told.status, told.code, told.header("etag")) == (direct.status, direct.code, direct.header("etag"))

    def on(self, key, method, query="", headers=(), **options):
        """A question on a key, in one of the ways to spell it."""
        name = self.source.choice(list(ENCODINGS))
        spelt = ENCODINGS[name](key)

        def make(side):
            own = tuple((each, value.replace("{bucket}", side.bucket)) for each, value in headers)
            asked = query.replace("{upload}", side.learnt.get("upload", ""))
            return Question(method, side.path(spelt), asked, own, **options)

        return self.ask(f"{method} {key!r} {query} spelt {name}", make)

    def on_bucket(self, method, query, headers=(), **options):
        return self.ask(
            f"{method} of the bucket, {query}",
            lambda side: Question(method, side.path(None), query, tuple(headers), **options),
        )

    def write_and_read(self, key):
        body = f"of {key!r}".encode() * 3
        self.on(key, "PUT", headers=[("x-amz-meta-is", "1")], body=body)
        self.read(key)
        self.on(key, "PUT", body=body + b", again")
        self.read(key)

    def read(self, key):
        for _ in range(2):
            self.on(key, "GET")
        self.on(key, "HEAD")
        self.on(key, "GET", headers=[("Range", "bytes=2-5")])
        self.on(key, "GET", headers=[("Range", "bytes=-3")])

    def presign(self, key):
        self.on(key, "PUT", body=b"by address", proof="query")
        self.on(key, "GET", proof="query")
        self.on(key, "GET", "response-content-type=text%2Fodd", proof="query")

    def copy(self, key):
        target = f"copies/{key}"[:KEY_BYTES_MAX]
        for name, encode in ENCODINGS.items():
            slash = self.source.choice(["", "/"])
            self.on(target, "PUT", headers=[("x-amz-copy-source", f"{slash}{{bucket}}/{encode(key)}")])
            self.on(target, "GET")
        self.on(key, "PUT", headers=[("x-amz-copy-source", "{bucket}/no-such-source")])

    def multipart(self, key):
        def create(side):
            return Question("POST", side.path(ENCODINGS["as SDKs do"](key)), "uploads")

        told = [side.wire.ask(create(side)) for side in (self.twins.direct, self.twins.through)]
        for side, each in zip((self.twins.direct, self.twins.through), told):
            side.learnt["upload"] = each.element("UploadId") or "none"
        if told[0].status != told[1].status or told[0].element("Key") != told[1].element("Key"):
            self.found.append(f"{shortened(f'POST {key!r} uploads')}:\n{told}")
        part = self.on(key, "PUT", "partNumber=1&uploadId={upload}", body=PART)
        self.on(key, "GET", "uploadId={upload}")
        listed = f"<Part><PartNumber>1</PartNumber><ETag>{part.header('etag')}</ETag></Part>"
        body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        self.on(key, "POST", "uploadId={upload}", body=body)
        self.read(key)

    def list_near(self, key):
        quoted = urllib.parse.quote(key, safe=self.source.choice(["", "/"]))
        half = urllib.parse.quote(key[: len(key) // 2], safe="")
        encodings = itertools.cycle(["", "&encoding-type=url"])
        for query in (
            f"prefix={quoted}",
            f"prefix={quoted}&delimiter=%2F",
            f"list-type=2&prefix={quoted}",
            f"list-type=2&prefix={half}&delimiter={quoted[:3] if quoted.startswith('%') else '%2F'}&max-keys=2",
            f"marker={quoted}&max-keys=2",
            f"list-type=2&start-after={quoted}&max-keys=2",
            f"list-type=2&prefix={half}&start-after={quoted}",
        ):
            self.on_bucket("GET", query + next(encodings))
            self.on_bucket("GET", query + next(encodings))
            next(encodings)

    def delete(self, key):
        self.on(key, "DELETE")
        self.read(key)
        self.on(key, "PUT", body=b"once more")
        self.on(key, "GET")
        escaped = xml.sax.saxutils.escape(key, {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;"})
        quiet = self.source.choice(["", "<Quiet>true</Quiet>"])
        body = f"<Delete>{quiet}<Object><Key>{escaped}</Key></Object></Delete>".encode()
        md5 = [("Content-MD5", content_md5(body))]
        self.on_bucket("POST", "delete", md5, body=body)
        self.on(key, "GET")
        self.on(key, "HEAD")


def is_broken_off(direct, through):
    """SeaweedFS announces more bytes of some directories than it sends: the node has a 503 for that."""
    return direct.is_cut and (through.is_cut or through.status == 503)


def content_md5(body):
    return base64.b64encode(hashlib.md5(body).digest()).decode()


def test_every_key_is_to_the_node_what_it_is_to_its_origin(twins):
    source = random.Random(SEED)
    torture = Torture(twins, source)
    for key in keys()[:: VIRTUAL_HOST_STEP if twins.through.is_virtual_host else 1]:
        for act in ("write_and_read", "presign", "copy", "multipart", "list_near", "delete"):
            getattr(torture, act)(key)
    assert not torture.found, report(torture.found, twins)
    assert torture.again <= twins.asked / 500


@pytest.mark.parametrize("twins", ["path"], indirect=True)
def test_listings_in_pages_are_the_origins_whatever_the_keys(twins):
    torture = Torture(twins, random.Random(SEED))
    for key in keys():
        torture.on(key, "PUT", body=b"x")
    pages = 0
    for base in ("list-type=2", "list-type=2&delimiter=%2F", "", "delimiter=%2F", "encoding-type=url"):
        asked = f"{base}&max-keys=7"
        for _ in range(40):
            told = torture.on_bucket("GET", asked)
            token = told.element("NextContinuationToken")
            marker = token or told.element("NextMarker") or told.last_element("Key")
            if told.element("IsTruncated") != "true" or not marker:
                break
            pages += 1
            marker = xml.sax.saxutils.unescape(marker, {"&#13;": "\r", "&#xA;": "\n", "&#xD;": "\r", "&#x9;": "\t"})
            name = "continuation-token" if token else "marker"
            asked = f"{base}&max-keys=7&{name}={urllib.parse.quote(marker, safe='')}"
    assert not torture.found, report(torture.found, twins)
    assert pages > 30


def report(found, twins):
    shown = "\n\n".join(found[:5])
    return f"{len(found)} of {twins.asked} differ (seed {SEED}); the first:\n{shown}"

"""Valid and nearly valid requests, drawn from a seed: odd ranges, conditions in every combination,
bodies with right and wrong proofs, sub-resources known and unknown. Nothing here knows an answer.
"""

import base64
import hashlib
import urllib.parse
import zlib

from .wire import UNSIGNED, Question, signed_chunks, unsigned_chunks

OBJECTS = {
    "empty": (b"", ()),
    "one": (b"1", (("Content-Type", "text/x-one"),)),
    "small": (bytes(range(256)) * 4, (("x-amz-meta-Colour", "blue"), ("x-amz-meta-two-words", "a b"))),
    "page": (b"0123456789abcdef" * 4096, (("Cache-Control", "max-age=7"), ("Content-Language", "is"))),
    "more": (b"pqrs" * 50_001, (("x-amz-checksum-sha256", "SHA256"), ("Content-Type", "application/parquet"))),
    "crc": (b"crc" * 999, (("x-amz-checksum-crc32", "CRC32"),)),
    "zipped": (b"not really", (("Content-Encoding", "gzip"), ("Content-Disposition", 'attachment; filename="a b"'))),
    "old": (b"expires", (("Expires", "Thu, 01 Dec 1994 16:00:00 GMT"), ("x-amz-tagging", "a=1&b=2"))),
    "metadata/v1.metadata.json": (b'{"format-version": 2}', ()),
    "folder/": (b"", ()),
    "folder/in side+it": (b"inside", ()),
}
MISSING = ["missing", "folder", "small/under", "..."]

BOUNDS = ["0", "1", "5", "10", "1023", "1024", "65535", "65536", "200004", "999999999", "18446744073709551616"]
RANGES = [
    "bytes=-", "bytes=", "bytes", "bytes=a-b", "bytes=5-2", "bytes=0-0,2-3", "bytes=0-4,", "items=0-4", "0-4",
    "bytes=--4", "bytes=+1-4", "bytes= 0-4", "bytes=0 -4", "bytes=0-4 ", "BYTES=0-4", "bytes=0x1-4", "bytes=-0",
    "bytes=00000-0004", "bytes:0-4", "", "bytes=0-4;", "bytes=1-,-1",
]
DATES = [
    "Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT", "yesterday", "", "0", "1", "2024-01-01T00:00:00Z",
    "Thursday, 01-Jan-70 00:00:00 GMT", "Thu Jan  1 00:00:00 1970", "Thu, 01 Jan 1970 00:00:00 +0100",
]
OVERRIDES = ["content-type", "content-language", "expires", "cache-control", "content-disposition", "content-encoding"]
OVERRIDING = ["text%2Fodd", "", "a%20b", "a+b", "%22q%22", "%C3%A9", "x%0D%0Ay", "x%00y", "%09tab", "gzip", "%zz"]
QUERIES = [
    "x-id=GetObject", "acl", "tagging", "attributes", "torrent", "retention", "legal-hold", "versionId=null",
    "versionId=", "versionId=3sL4kqtJlcpXroDTDmJ", "versionid=1", "partNumber=1", "partNumber=2", "partNumber=0",
    "partNumber=x", "uploadId=none", "uploads", "select&select-type=2", "restore", "future", "future=1", "=", "a=b=c",
    "x-amz-checksum-mode=ENABLED", "x-amz-checksum-mode=enabled", "renameObject", "encryption", "policy",
    "prefix=a", "list-type=2", "location", "lambdaArn=1", "cors", "metadataTable",
]
EXTRA_HEADERS = [
    ("Accept-Encoding", "gzip"), ("Accept", "text/html"), ("Accept-Encoding", "identity;q=0"), ("TE", "trailers"),
    ("Origin", "http://app.example"), ("x-amz-checksum-mode", "ENABLED"), ("X-AMZ-CHECKSUM-MODE", "enabled"),
    ("x-amz-checksum-mode", "other"), ("x-amz-request-payer", "requester"), ("x-amz-expected-bucket-owner", "1"),
    ("x-amz-object-attributes", "ETag,ObjectSize"), ("x-amz-future", "1"), ("Content-Type", "a/b"),
    ("cOnTeNt-TyPe", "text/plain"), ("User-Agent", "x" * 500), ("x-amz-meta-on-a-read", "y"), ("Cookie", "a=b"),
    ("Cache-Control", "no-cache"), ("Pragma", "no-cache"), ("Via", "1.1 proxy"), ("Forwarded", "for=1.2.3.4"),
    ("X-Forwarded-For", "1.2.3.4"), ("X-Empty", ""), ("Authorization2", "none"), ("X-HTTP-Method-Override", "PUT"),
    ("x-amz-server-side-encryption-customer-algorithm", "AES256"), ("x-amz-server-side-encryption", "AES256"),
    ("x-amz-optional-object-attributes", "RestoreStatus"), ("x-amz-copy-source", "/nowhere/at-all"),
]
LISTING = {
    "prefix": ["", "f", "folder/", "folder%2F", "none", "%2F", "metadata%2Fv1", "+", "%zz"],
    "delimiter": ["%2F", "/", "", "o", "%20", "er%2F"],
    "max-keys": ["0", "1", "3", "1000", "1001", "-1", "x", "", "99999999999999999999"],
    "encoding-type": ["url", "URL", "xml", ""],
    "marker": ["crc", "", "folder%2F", "zzz"],
    "start-after": ["crc", "", "folder%2F", "zzz"],
    "continuation-token": ["", "bad", "Y3Jj", "crc"],
    "fetch-owner": ["true", "false", "x"],
    "key-marker": ["crc", ""],
    "version-id-marker": ["null", "x"],
    "upload-id-marker": ["x"],
    "list-type": ["2", "1", "3", ""],
    "unknown": ["1"],
}
BUCKET_QUERIES = [
    "location", "acl", "policy", "policyStatus", "cors", "lifecycle", "versioning", "tagging", "encryption", "logging",
    "object-lock", "notification", "website", "replication", "accelerate", "requestPayment", "ownershipControls",
    "publicAccessBlock", "inventory", "metrics", "analytics", "intelligent-tiering", "uploads", "versions", "future",
    "metadataTable", "session", "versions&uploads", "intelligent-tiering&id=1", "inventory&id=x",
]
METHODS = ["GET"] * 8 + ["HEAD"] * 4
ODD_METHODS = ["OPTIONS", "PATCH", "get", "TRACE", "LIST"]


class Oddity:
    """Draws questions. `etags` and `dates` are what the shared objects have, by key."""

    def __init__(self, source, etags, dates):
        self.source = source
        self.etags = etags
        self.dates = dates

    def some(self, chance):
        return self.source.random() < chance

    def key(self):
        pool = MISSING if self.some(0.15) else list(OBJECTS)
        return self.source.choice(pool)

    def proof(self):
        return self.source.choices(["header", "query", "none"], [80, 15, 5])[0]

    # Reads of objects.

    def read(self):
        """A read of one of the shared objects, or of one that is not there."""
        key = self.key()
        query = []
        if self.some(0.15):
            query.append(self.source.choice(QUERIES))
        for name in self.source.sample(OVERRIDES, self.source.choice([0, 0, 0, 1, 2])):
            query.append(f"response-{name}={self.source.choice(OVERRIDING)}")
        headers = []
        if self.some(0.5):
            headers.append(("Range", self.range(key)))
        if self.some(0.5):
            headers.extend(self.conditions(key))
        headers.extend(self.extras())
        self.source.shuffle(query)
        method = self.source.choice(METHODS if not self.some(0.02) else ODD_METHODS)
        path = urllib.parse.quote(key, safe="/" if self.some(0.8) else "")
        return self.on(path, method, "&".join(query), headers)

    def on(self, path, method, query, headers, **options):
        proof = self.proof()
        return lambda side: Question(method, side.path(path), query, tuple(headers), proof=proof, **options)

    def range(self, key):
        if self.some(0.3):
            return self.source.choice(RANGES)
        length = len(OBJECTS.get(key, (b"x" * 100, ()))[0])
        ends = [*BOUNDS, str(length - 1), str(length), str(length + 1), str(length // 2)]
        first, last = self.source.choice(ends), self.source.choice(ends)
        return self.source.choice([f"bytes={first}-{last}", f"bytes={first}-", f"bytes=-{last}"])

    def conditions(self, key):
        names = ["If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range"]
        chosen = self.source.sample(names, self.source.choice([1, 1, 2, 2, 3, 4]))
        headers = []
        for name in chosen:
            is_date = name.endswith("Since") or (name == "If-Range" and self.some(0.3))
            value = self.date(key) if is_date else self.tag(key)
            headers.append((self.cased(name), value))
            if self.some(0.03):
                headers.append((name, self.tag(key)))
        return headers

    def tag(self, key):
        etag = self.etags.get(key, '"none"')
        bare = etag.strip('"')
        other = '"0123456789abcdef0123456789abcdef"'
        odd = ["*", '"*"', f"W/{etag}", f"{other}, {etag}", f"{etag},{other}", "", '""', f'"{bare}', f" {etag} ", bare.upper()]
        return self.source.choice([etag] * 6 + [bare] * 2 + [other] * 4 + odd)

    def date(self, key):
        return self.source.choice([*self.dates.get(key, []) * 3, *DATES])

    def cased(self, name):
        return self.source.choice([name, name, name.lower(), name.upper(), name.swapcase()])

    def extras(self):
        return self.source.sample(EXTRA_HEADERS, self.source.choice([0, 0, 0, 1, 1, 2]))

    # Buckets.

    def bucket_read(self):
        """A list or a sub-resource of the shared bucket, or of one that is not there; or the service."""
        pairs = []
        if self.some(0.7):
            for name in self.source.sample(list(LISTING), self.source.choice([0, 1, 2, 3, 4])):
                pairs.append(f"{name}={self.source.choice(LISTING[name])}")
        if self.some(0.4) or not pairs:
            pairs.append(self.source.choice(BUCKET_QUERIES))
        self.source.shuffle(pairs)
        query, headers = "&".join(pairs), self.extras()
        proof = self.proof()
        method = "HEAD" if self.some(0.15) else "GET"
        # The list of buckets is of all tests.
        where = self.source.choices(["", "/", "missing"], [60, 30, 10])[0]

        def make(side):
            path = "/no-such-bucket" if where == "missing" else side.path(None) + where
            return Question(method, path, query, tuple(headers), proof=proof)

        return make

    # Bodies.

    def body(self):
        return self.source.choice([b"", b"x", b"some bytes", b"<xml/>", self.source.randbytes(self.source.randrange(5000))])

    def write(self, path):
        """A PUT of an object, and whether its body is proved wrongly."""
        body = self.body()
        headers = self.described()
        if self.some(0.2):
            headers.append(self.source.choice([("If-None-Match", "*"), ("If-Match", '"0"'), ("If-Match", "*"), ("If-None-Match", '"0"')]))
        is_wrong = self.some(0.25)
        proved = self.proved(body, is_wrong)
        headers.extend(proved.pop("headers"))
        proof = "query" if not proved and self.some(0.1) else "header"
        proved.setdefault("body", body)
        make = lambda side: Question("PUT", side.path(path), "", tuple(headers), proof=proof, **proved)
        return make, is_wrong

    def described(self):
        choices = [
            ("Content-Type", "text/x-fuzz"), ("Content-Type", ""), ("cache-control", "no-store"),
            ("Content-Encoding", "gzip"), ("Content-Language", "de"), ("Content-Disposition", "inline"),
            ("Expires", "soon"), ("x-amz-meta-a", "1"), ("X-Amz-Meta-MiXeD", "Case"), ("x-amz-meta-empty", ""),
            ("x-amz-meta-long", "v" * 1500), ("x-amz-meta-utf8", "é"), ("x-amz-tagging", "k=v&l=w"),
            ("x-amz-tagging", "k=v&k=w"), ("x-amz-storage-class", "STANDARD"), ("x-amz-storage-class", "NONSENSE"),
            ("x-amz-acl", "private"), ("x-amz-acl", "nonsense"), ("x-amz-website-redirect-location", "/x"),
            ("x-amz-expected-bucket-owner", "1"), ("x-amz-future", "1"), ("x-amz-meta-spaces", "a   b"),
            ("x-amz-object-lock-mode", "GOVERNANCE"), ("Expect", "100-continue"), ("x-amz-write-offset-bytes", "0"),
        ]
        return self.source.sample(choices, self.source.choice([0, 1, 1, 2, 3]))

    def proved(self, body, is_wrong):
        """The ways to prove a body, one of them: further fields of a question, and its headers."""
        told = b"another body" if is_wrong else body
        ways = [self.by_md5, self.by_digest, self.by_checksum, self.by_trailer, self.by_chunks, self.unsigned]
        return self.source.choice(ways[:5] if is_wrong else ways)(body, told)

    def unsigned(self, _body, _told):
        return {"headers": [], "payload": UNSIGNED}

    def by_md5(self, _body, told):
        return {"headers": [("Content-MD5", base64.b64encode(hashlib.md5(told).digest()).decode())]}

    def by_digest(self, _body, told):
        return {"headers": [], "payload": hashlib.sha256(told).hexdigest()}

    def by_checksum(self, _body, told):
        name = self.source.choice(list(CHECKSUMS))
        headers = [(f"x-amz-checksum-{name}", CHECKSUMS[name](told))]
        if self.some(0.5):
            headers.append(("x-amz-sdk-checksum-algorithm", name.upper()))
        return {"headers": headers}

    def by_trailer(self, body, told):
        name = self.source.choice(list(CHECKSUMS))
        trailer = [(f"x-amz-checksum-{name}", CHECKSUMS[name](told))]
        headers = [*self.framed(body), ("x-amz-trailer", trailer[0][0])]
        if self.some(0.5):
            headers.append(("x-amz-sdk-checksum-algorithm", name.upper()))
        pieces = self.pieces(body)
        if self.some(0.5):
            payload = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
            return {"headers": headers, "payload": payload, "chunked": signed_chunks(pieces, trailer)}
        payload = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
        return {"headers": headers, "payload": payload, "body": unsigned_chunks(pieces, trailer)}

    def by_chunks(self, body, told):
        payload = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
        chunked = signed_chunks(self.pieces(body))
        spoilt = (lambda signature: chunked(signature).replace(b"chunk-signature=", b"chunk-signature=0", 1))
        return {"headers": self.framed(body), "payload": payload, "chunked": chunked if body == told else spoilt}

    def framed(self, body):
        coding = self.source.choice(["aws-chunked", "aws-chunked", "aws-chunked,gzip", None])
        headers = [("x-amz-decoded-content-length", str(len(body)))]
        return headers + ([("Content-Encoding", coding)] if coding else [])

    def pieces(self, body):
        """Chunks of 8 KiB at least but for the last, as S3 wants them: here, one."""
        return [body] if body else []


CHECKSUMS = {
    "crc32": lambda body: base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode(),
    "sha1": lambda body: base64.b64encode(hashlib.sha1(body).digest()).decode(),
    "sha256": lambda body: base64.b64encode(hashlib.sha256(body).digest()).decode(),
}

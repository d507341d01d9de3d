"""Malformed requests over raw sockets: each gets its clear error, none harms the node."""

import datetime
import hashlib
import os
import pathlib
import socket
import time
import urllib.parse
import xml.etree.ElementTree as xml

import pytest

from conftest import HAS_NODE
from lakehouse.endpoint import REGION
from lakehouse.seaweed import OBJECT_BUCKET
from lakehouse.wire import EMPTY_SHA256, sign_text

pytestmark = pytest.mark.skipif(not HAS_NODE, reason="the node's own errors")

ANSWER_SECONDS_MAX = 20
SIGNED_HEADERS = "host;x-amz-content-sha256;x-amz-date"
KEY = "protocol/object"


def send(endpoint, request, close=True):
    """Sends bytes as they are; everything that comes back until the node closes."""
    with socket.create_connection(("127.0.0.1", endpoint.port), timeout=ANSWER_SECONDS_MAX) as wire:
        wire.sendall(request)
        if close:
            wire.shutdown(socket.SHUT_WR)
        answer = b""
        while received := wire.recv(65536):
            answer += received
        return answer


def read_answer(answer):
    """The status and the S3 error code of the first answer; the code is empty without an error."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 "), answer[:200]
    status = int(head.split(b" ")[1])
    start = body.find(b"<Error>")
    if start < 0:
        return status, ""
    error = xml.fromstring(body[start : body.find(b"</Error>") + len(b"</Error>")])
    for name in ("Code", "Message", "Resource", "RequestId"):
        assert error.find(name) is not None, f"the error has no {name}"
    assert b"x-amz-request-id" in head.lower()
    return status, error.find("Code").text


class Signature:
    """A SigV4 signature by hand, so that each of its parts can be spoilt."""

    def __init__(self, endpoint, path=f"/{OBJECT_BUCKET}/{KEY}", method="GET", at=None):
        self.endpoint = endpoint
        self.path = path
        self.method = method
        at = at or datetime.datetime.now(datetime.timezone.utc)
        self.date = at.strftime("%Y%m%dT%H%M%SZ")
        self.access_key = endpoint.access_key
        self.secret_key = endpoint.secret_key
        self.payload = EMPTY_SHA256
        self.service = "s3"

    def scope(self):
        return f"{self.date[:8]}/{REGION}/{self.service}/aws4_request"

    def sign(self, canonical):
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{self.date}\n{self.scope()}\n{digest}"
        return sign_text(self.secret_key, self.scope(), text)

    def authorization(self):
        headers = f"host:{self.endpoint.host}\nx-amz-content-sha256:{self.payload}\nx-amz-date:{self.date}\n"
        canonical = "\n".join([self.method, self.path, "", headers, SIGNED_HEADERS, self.payload])
        return (
            f"AWS4-HMAC-SHA256 Credential={self.access_key}/{self.scope()}, "
            f"SignedHeaders={SIGNED_HEADERS}, Signature={self.sign(canonical)}"
        )

    def headers(self, authorization=None):
        return (
            f"Host: {self.endpoint.host}\r\n"
            f"x-amz-date: {self.date}\r\n"
            f"x-amz-content-sha256: {self.payload}\r\n"
            f"Authorization: {authorization or self.authorization()}\r\n"
        )

    def request(self, extra="", authorization=None, body=b""):
        head = f"{self.method} {self.path} HTTP/1.1\r\n{self.headers(authorization)}{extra}\r\n"
        return head.encode("latin-1") + body

    def presigned_target(self, seconds=300):
        query = {
            "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
            "X-Amz-Credential": f"{self.access_key}/{self.scope()}",
            "X-Amz-Date": self.date,
            "X-Amz-Expires": str(seconds),
            "X-Amz-SignedHeaders": "host",
        }
        text = "&".join(f"{name}={urllib.parse.quote(value, safe='')}" for name, value in query.items())
        host = f"host:{self.endpoint.host}\n"
        canonical = "\n".join([self.method, self.path, text, host, "host", "UNSIGNED-PAYLOAD"])
        return f"{self.path}?{text}&X-Amz-Signature={self.sign(canonical)}"

    def presigned(self, target):
        return f"{self.method} {target} HTTP/1.1\r\nHost: {self.endpoint.host}\r\n\r\n".encode()


@pytest.fixture(scope="module")
def stored(origin):
    body = os.urandom(70_000)
    origin.boto3().put_object(Bucket=OBJECT_BUCKET, Key=KEY, Body=body)
    return body


@pytest.fixture()
def endpoint(node, stored):
    """The node's endpoint; afterwards the node must be whole, quiet and rid of the connections."""
    yield node.endpoint
    assert node.is_running()
    answer = send(node.endpoint, Signature(node.endpoint).request("Connection: close\r\n"), close=False)
    assert read_answer(answer) == (200, "") and answer.endswith(stored)
    said = node.text()
    assert "panicked" not in said
    assert node.endpoint.secret_key not in said


MALFORMED_HEADS = {
    "no request line": b"\r\n\r\n\r\n",
    "no version": b"GET /\r\nHost: x\r\n\r\n",
    "an unknown version": b"GET / HTTP/3.7\r\nHost: x\r\n\r\n",
    "a bare word": b"nonsense\r\n\r\n",
    "TLS on a plain port": bytes.fromhex("16030100c8010000c40303") + b"\0" * 64,
    "a null in the target": b"GET /a\0b HTTP/1.1\r\nHost: x\r\n\r\n",
    "a space in a header's name": b"GET / HTTP/1.1\r\nHo st: x\r\n\r\n",
    "a header without a colon": b"GET / HTTP/1.1\r\nHost\r\n\r\n",
    "a header's name that is empty": b"GET / HTTP/1.1\r\n: x\r\n\r\n",
    "a folded header": b"GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
    "a control character in a value": b"GET / HTTP/1.1\r\nHost: x\x01\r\n\r\n",
    "two lengths that differ": b"PUT /b/k HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "a length that is no number": b"PUT /b/k HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "a length beyond all bounds": b"PUT /b/k HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
    "a length and chunks": b"PUT /b/k HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "an unknown transfer coding": b"PUT /b/k HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
    "no host in HTTP/1.1": b"GET / HTTP/1.1\r\n\r\n",
    "a broken percent escape": b"GET /b/%zz HTTP/1.1\r\nHost: x\r\n\r\n",
    "headers without end": b"GET / HTTP/1.1\r\n" + b"A: " + b"x" * 200_000,
    "too many headers": b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 5_000 + b"\r\n",
    "a target without end": b"GET /" + b"a" * 200_000,
}


@pytest.mark.parametrize("name", MALFORMED_HEADS)
def test_a_malformed_head_is_refused_or_the_connection_closed(name, endpoint):
    try:
        answer = send(endpoint, MALFORMED_HEADS[name])
    except ConnectionError:
        return  # Closed before everything was read: an answer too.
    if answer:
        status, _ = read_answer(answer)
        assert status in (400, 403, 411, 414, 431, 501, 505), answer[:300]


def spoilt(change):
    def make(endpoint):
        signature = Signature(endpoint)
        change(signature)
        return signature.request()

    return make


def at(minutes):
    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=minutes)


BAD_SIGNATURES = {
    "no signature": (
        lambda endpoint: f"GET /{OBJECT_BUCKET}/{KEY} HTTP/1.1\r\nHost: {endpoint.host}\r\n\r\n".encode(),
        (403, "AccessDenied"),
    ),
    "an unknown key": (spoilt(lambda each: setattr(each, "access_key", "nobody")), (403, "InvalidAccessKeyId")),
    "a wrong secret": (spoilt(lambda each: setattr(each, "secret_key", "wrong")), (403, "SignatureDoesNotMatch")),
    "a clock that is behind": (
        lambda endpoint: Signature(endpoint, at=at(-20)).request(),
        (403, "RequestTimeTooSkewed"),
    ),
    "a clock that is ahead": (
        lambda endpoint: Signature(endpoint, at=at(20)).request(),
        (403, "RequestTimeTooSkewed"),
    ),
    "a key that is unknown and a session token": (
        lambda endpoint: _unknown_with_token(endpoint),
        (403, "InvalidAccessKeyId"),
    ),
    "an authorization that is cut": (
        lambda endpoint: Signature(endpoint).request(authorization="AWS4-HMAC-SHA256 Credential="),
        (400, "AuthorizationHeaderMalformed"),
    ),
    "an address signed for another path": (
        lambda endpoint: Signature(endpoint).presigned(
            Signature(endpoint).presigned_target().replace(KEY, KEY + "2")
        ),
        (403, "SignatureDoesNotMatch"),
    ),
    "an address that has expired": (
        lambda endpoint: Signature(endpoint).presigned(
            Signature(endpoint, at=at(-10)).presigned_target(seconds=60)
        ),
        (403, "AccessDenied"),
    ),
}


def _unknown_with_token(endpoint):
    signature = Signature(endpoint)
    signature.access_key = "ASIAVENDED"
    return signature.request("x-amz-security-token: token\r\n")


@pytest.mark.parametrize("name", BAD_SIGNATURES)
def test_a_bad_signature_gets_s3s_code(name, endpoint):
    make, expected = BAD_SIGNATURES[name]
    assert read_answer(send(endpoint, make(endpoint))) == expected


def test_a_good_presigned_address_is_served(endpoint, stored):
    signature = Signature(endpoint)
    answer = send(endpoint, signature.presigned(signature.presigned_target()))
    assert read_answer(answer) == (200, "") and answer.endswith(stored)


def test_pipelined_requests_are_answered_in_order(endpoint, stored):
    ranges = [(0, 9), (70, 99), (69_000, 69_999)]
    requests = [Signature(endpoint).request(f"Range: bytes={first}-{last}\r\n") for first, last in ranges]
    requests[-1] = requests[-1].replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    answer = send(endpoint, b"".join(requests), close=False)
    for first, last in ranges:
        head, _, rest = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 206"), head
        assert rest[: last - first + 1] == stored[first : last + 1]
        answer = rest[last - first + 1 :]
    assert answer == b""


def test_a_head_that_arrives_byte_by_byte_is_understood(endpoint, stored):
    request = Signature(endpoint).request("Connection: close\r\n")
    with socket.create_connection(("127.0.0.1", endpoint.port), timeout=ANSWER_SECONDS_MAX) as wire:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in request:
            wire.sendall(bytes([byte]))
        answer = b""
        while received := wire.recv(65536):
            answer += received
    assert answer.endswith(stored)


def test_http_1_0_is_answered_and_closed(endpoint, stored):
    request = Signature(endpoint).request().replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    assert send(endpoint, request, close=False).endswith(stored)


def test_a_refused_upload_gets_its_answer_at_once_and_no_100(endpoint):
    signature = Signature(endpoint, method="PUT")
    signature.secret_key = "wrong"
    signature.payload = "UNSIGNED-PAYLOAD"
    request = signature.request("Expect: 100-continue\r\nContent-Length: 1000000\r\nConnection: close\r\n")
    answer = send(endpoint, request, close=False)
    assert read_answer(answer) == (403, "SignatureDoesNotMatch")


def test_an_accepted_upload_is_told_to_go_on(endpoint, origin):
    signature = Signature(endpoint, f"/{OBJECT_BUCKET}/protocol/expected", "PUT")
    signature.payload = "UNSIGNED-PAYLOAD"
    head = signature.request("Expect: 100-continue\r\nContent-Length: 4\r\nConnection: close\r\n")
    with socket.create_connection(("127.0.0.1", endpoint.port), timeout=ANSWER_SECONDS_MAX) as wire:
        wire.sendall(head)
        assert wire.recv(65536).startswith(b"HTTP/1.1 100")
        wire.sendall(b"body")
        assert read_answer(wire.recv(65536)) == (200, "")
    read = origin.boto3().get_object(Bucket=OBJECT_BUCKET, Key="protocol/expected")
    assert read["Body"].read() == b"body"


def test_an_empty_upload_that_expects_100_does_not_poison_its_connection(endpoint, stored):
    signature = Signature(endpoint, f"/{OBJECT_BUCKET}/protocol/empty", "PUT")
    first = signature.request("Expect: 100-continue\r\nContent-Length: 0\r\n")
    second = Signature(endpoint).request("Connection: close\r\n")
    with socket.create_connection(("127.0.0.1", endpoint.port), timeout=ANSWER_SECONDS_MAX) as wire:
        wire.sendall(first + second)
        answer = b""
        while received := wire.recv(65536):
            answer += received
    assert answer.count(b"HTTP/1.1 200") == 2 and answer.endswith(stored)


def test_a_payload_that_is_not_what_was_signed_leaves_the_old_object(endpoint, origin):
    key = "protocol/digest"
    origin.boto3().put_object(Bucket=OBJECT_BUCKET, Key=key, Body=b"old")
    signature = Signature(endpoint, f"/{OBJECT_BUCKET}/{key}", "PUT")
    signature.payload = hashlib.sha256(b"signed").hexdigest()
    request = signature.request("Content-Length: 6\r\nConnection: close\r\n", body=b"forged")
    assert read_answer(send(endpoint, request, close=False)) == (400, "XAmzContentSHA256Mismatch")
    assert origin.boto3().get_object(Bucket=OBJECT_BUCKET, Key=key)["Body"].read() == b"old"


def test_an_upload_that_breaks_off_leaves_the_old_object(endpoint, origin):
    key = "protocol/broken"
    origin.boto3().put_object(Bucket=OBJECT_BUCKET, Key=key, Body=b"old")
    signature = Signature(endpoint, f"/{OBJECT_BUCKET}/{key}", "PUT")
    signature.payload = "UNSIGNED-PAYLOAD"
    with socket.create_connection(("127.0.0.1", endpoint.port), timeout=ANSWER_SECONDS_MAX) as wire:
        wire.sendall(signature.request("Content-Length: 1000000\r\n", body=b"x" * 1000))
    assert origin.boto3().get_object(Bucket=OBJECT_BUCKET, Key=key)["Body"].read() == b"old"


def test_connections_that_went_away_leave_nothing_open(node, stored):
    files = pathlib.Path(f"/proc/{node.pid}/fd")

    def settled():
        # Closing takes its turn on the shard; a count is settled when it stays the same.
        counts = []
        for _ in range(100):
            counts.append(len(list(files.iterdir())))
            if counts[-5:].count(counts[-1]) == 5:
                break
            time.sleep(0.05)
        return counts[-1]

    for number in range(200):
        if number == 50:
            before = settled()
        wire = socket.create_connection(("127.0.0.1", node.endpoint.port), timeout=ANSWER_SECONDS_MAX)
        if number % 2:
            wire.sendall(Signature(node.endpoint).request()[: number * 3])
        wire.close()
    assert settled() <= before + 2

"""Byte-exactness: thousands of random ranges through cold, half-filled and warm nodes."""

import concurrent.futures
import http.client
import random

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import pytest

from conftest import HAS_NODE, RINGS
from lakehouse.endpoint import REGION
from lakehouse.seaweed import OBJECT_BUCKET

KIB = 1 << 10
MIB = 1 << 20
SECTOR = 64 * KIB
BLOCK = 2 * MIB
LENGTHS = [0, 1, 4095, SECTOR - 1, SECTOR, SECTOR + 1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * MIB + 123]
RANGES = 1000
THREADS = 4
SEED = 20240229
# What does not depend on who answers, or when.
COMPARED_HEADERS = ["content-length", "content-range", "etag", "last-modified", "content-type", "accept-ranges"]


@pytest.fixture(scope="module")
def contents(origin):
    """Objects of every interesting length, by key; written past any node."""
    source = random.Random(SEED)
    contents = {f"ranges/{length}.bin": source.randbytes(length) for length in LENGTHS}
    client = origin.boto3()
    for key, body in contents.items():
        client.put_object(Bucket=OBJECT_BUCKET, Key=key, Body=body)
    return contents


class Reader:
    """Signed GETs and HEADs without a client's own ideas of ranges, retries or errors."""

    def __init__(self, endpoint):
        self._endpoint = endpoint
        credentials = botocore.credentials.Credentials(endpoint.access_key, endpoint.secret_key)
        self._signer = botocore.auth.S3SigV4Auth(credentials, "s3", REGION)
        self._connection = http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=30)

    def ask(self, method, key, headers):
        path = f"/{OBJECT_BUCKET}/{key}"
        request = botocore.awsrequest.AWSRequest(method, self._endpoint.url + path, headers=headers)
        self._signer.add_auth(request)
        self._connection.request(method, path, headers=dict(request.headers.items()))
        answer = self._connection.getresponse()
        body = answer.read()
        seen = {name: answer.headers.get(name) for name in COMPARED_HEADERS}
        return answer.status, seen, body


def random_range(source, length):
    """A range that begins and ends at, near, or far from borders; bounds as a slice has them."""
    borders = [0, SECTOR, 2 * SECTOR, BLOCK, BLOCK + SECTOR, 2 * BLOCK, length]
    spots = [spot for spot in borders if spot <= length]

    def near():
        if source.random() < 0.5:
            return min(max(source.choice(spots) + source.randint(-2, 2), 0), length - 1)
        return source.randrange(length)

    first, last = sorted((near(), near()))
    if source.random() < 0.5:
        last = min(first + source.randrange(1, 3 * SECTOR), length - 1)
    return first, last


def read_ranges(endpoint, contents, seed, count):
    """Reads `count` random ranges and compares each with the truth."""
    source = random.Random(seed)
    reader = Reader(endpoint)
    keys = [key for key, body in contents.items() if body]
    for _ in range(count):
        key = source.choice(keys)
        body = contents[key]
        first, last = random_range(source, len(body))
        header, expected = range_header(source, first, last, body)
        status, headers, received = reader.ask("GET", key, {"Range": header})
        assert status == 206, (key, header, status, received[:300])
        assert received == expected, f"{key} {header}: {len(received)} bytes differ"
        assert headers["content-length"] == str(len(expected))


def range_header(source, first, last, body):
    """The range as a header in one of its three forms, and the bytes that it means."""
    form = source.random()
    if form < 0.1:
        suffix = source.randint(1, len(body) + 5)
        return f"bytes=-{suffix}", body[-suffix:]
    if form < 0.2:
        return f"bytes={first}-", body[first:]
    if form < 0.3:
        return f"bytes={first}-{len(body) + source.randrange(9)}", body[first:]
    return f"bytes={first}-{last}", body[first : last + 1]


@pytest.mark.parametrize("ring", RINGS if HAS_NODE else RINGS[:1])
def test_random_ranges_equal_the_origins_cold_half_filled_and_warm(ring, start_node, contents):
    node = start_node(ring=ring, keys={"cache.mutable_ttl": "1h"})
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        # The node is cold at first, half-filled soon, and warm at the end.
        for passes in range(3):
            seeds = [SEED + passes * THREADS + thread for thread in range(THREADS)]
            work = [
                pool.submit(read_ranges, node.endpoint, contents, seed, RANGES // THREADS)
                for seed in seeds
            ]
            for done in work:
                done.result()


def test_what_was_read_once_is_not_fetched_again(start_node, recorder, contents, needs_node):
    node = start_node(keys={"cache.mutable_ttl": "1h"})
    read_ranges(node.endpoint, contents, SEED, RANGES)
    mark = recorder.mark()
    read_ranges(node.endpoint, contents, SEED, RANGES)
    assert recorder.since(mark) == []


SPECIAL_RANGES = [
    "bytes=0-",
    "bytes=0-0",
    "bytes=-1",
    "bytes=-0",
    "bytes=-9999999999",
    "bytes=0-18446744073709551615",
    "bytes=0-99999999999999999999999",
    "bytes=5000000000-",
    "bytes=2-1",
    "bytes=1-2,4-5",
    "bytes=",
    "bytes=-",
    "bytes=a-b",
    "bytes 0-1",
    "items=0-1",
    "bytes=0-1x",
    "bytes = 0-1",
    "0-1",
    "BYTES=0-1",
    "bytes=+1-2",
]


@pytest.mark.parametrize("header", SPECIAL_RANGES)
@pytest.mark.parametrize("length", [0, 1, SECTOR + 1])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_odd_ranges_get_what_the_origin_gives(method, length, header, node, origin, contents):
    key = f"ranges/{length}.bin"
    expected = Reader(origin).ask(method, key, {"Range": header})
    for state in ("cold", "warm"):
        assert_equal(Reader(node.endpoint).ask(method, key, {"Range": header}), expected, state)


def assert_equal(seen, expected, state):
    """Whether two answers are one: of an error's wording only the code is compared."""
    assert seen[0] == expected[0], state
    if seen[0] < 400:
        assert seen[1:] == expected[1:], state
    else:
        assert seen[1]["content-range"] == expected[1]["content-range"], state
        assert error_code(seen[2]) == error_code(expected[2]), state


def error_code(body):
    return body.partition(b"<Code>")[2].partition(b"</Code>")[0]


@pytest.mark.parametrize("length", LENGTHS)
def test_a_whole_object_has_the_origins_headers_and_bytes(length, node, origin, contents):
    key = f"ranges/{length}.bin"
    for method in ("HEAD", "GET", "GET", "HEAD"):
        assert Reader(node.endpoint).ask(method, key, {}) == Reader(origin).ask(method, key, {})


CONDITIONS = [
    {"If-Match": "ETAG"},
    {"If-Match": '"0"'},
    {"If-Match": "*"},
    {"If-None-Match": "ETAG"},
    {"If-None-Match": '"0"'},
    {"If-None-Match": "*"},
    {"If-Modified-Since": "Thu, 01 Jan 1970 00:00:00 GMT"},
    {"If-Modified-Since": "Fri, 01 Jan 2100 00:00:00 GMT"},
    {"If-Unmodified-Since": "Thu, 01 Jan 1970 00:00:00 GMT"},
    {"If-Unmodified-Since": "Fri, 01 Jan 2100 00:00:00 GMT"},
    {"If-Match": "ETAG", "If-Unmodified-Since": "Thu, 01 Jan 1970 00:00:00 GMT"},
    {"If-None-Match": '"0"', "If-Modified-Since": "Fri, 01 Jan 2100 00:00:00 GMT"},
    {"If-Modified-Since": "not a date"},
    {"Range": "bytes=0-9", "If-Range": "ETAG"},
    {"Range": "bytes=0-9", "If-Range": '"0"'},
    {"Range": "bytes=0-9", "If-Match": '"0"'},
]


@pytest.mark.parametrize("conditions", CONDITIONS, ids=lambda each: " ".join(map(str, each.items())))
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_conditions_get_what_the_origin_gives(method, conditions, node, origin, contents):
    key = f"ranges/{SECTOR}.bin"
    etag = Reader(origin).ask("HEAD", key, {})[1]["etag"]
    headers = {name: value.replace("ETAG", etag) for name, value in conditions.items()}
    expected = Reader(origin).ask(method, key, headers)
    for state in ("cold", "warm"):
        seen = Reader(node.endpoint).ask(method, key, headers)
        if seen[0] == 304:
            seen, expected = (seen[0], {}, b""), (expected[0], {}, b"")
        assert_equal(seen, expected, state)

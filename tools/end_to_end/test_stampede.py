"""Many clients who ask for the same cold object at once: the origin sends each byte once, and one
client that stops reading holds nobody up."""

import socket
import statistics
import threading
import time
import zlib

import pytest

from conftest import HAS_NODE, RINGS
from lakehouse.client import presigned
from lakehouse.recorder import reads_of_objects
from lakehouse.seaweed import OBJECT_BUCKET
from lakehouse.version import MIB, POOL

pytestmark = pytest.mark.skipif(not HAS_NODE, reason="claims about the cache")

CLIENTS = 64
LENGTH = 64 * MIB
KEYS = ["stampede/together", "stampede/with-one-that-stalls"]
PIECE = 256 << 10
STALLS_AT = 2 * MIB
SECONDS_MAX = 120
# So much longer the others may take beside one that stalls; what a wait for it would cost is far more.
SLOWER_MAX = 2.0
SLOWER_SECONDS_MAX = 2.0


@pytest.fixture(scope="module")
def checksum(origin):
    body = (POOL * (LENGTH // len(POOL) + 1))[:LENGTH]
    for key in KEYS:
        origin.boto3().put_object(Bucket=OBJECT_BUCKET, Key=key, Body=body)
    return zlib.crc32(body)


class Asker:
    """Reads an object to its end over a raw socket, or up to a place where it stops."""

    def __init__(self, endpoint, key, together, stalls=False):
        self._endpoint = endpoint
        self._request = self._head(key)
        self._together = together
        self._stalls = stalls
        self.may_go_on = threading.Event()
        self.received = 0
        self.checksum = 0
        self.seconds = None

    def _head(self, key):
        target = presigned(self._endpoint, "GET", f"/{OBJECT_BUCKET}/{key}")
        return f"GET {target} HTTP/1.1\r\nHost: {self._endpoint.host}\r\n\r\n".encode()

    def run(self):
        with socket.create_connection(("127.0.0.1", self._endpoint.port), SECONDS_MAX) as wire:
            self._together.wait()
            begun = time.monotonic()
            wire.sendall(self._request)
            self._read(wire)
            self.seconds = time.monotonic() - begun

    def _read(self, wire):
        head, _, body = self._read_head(wire)
        assert head.startswith(b"HTTP/1.1 200"), head
        assert f"content-length: {LENGTH}".encode() in head.lower(), head
        self._count(body)
        piece = memoryview(bytearray(PIECE))
        while self.received < LENGTH:
            if self._stalls and self.received > STALLS_AT:
                self.may_go_on.wait()
            received = wire.recv_into(piece)
            assert received, f"it was cut after {self.received} bytes"
            self._count(piece[:received])

    @staticmethod
    def _read_head(wire):
        read = b""
        while b"\r\n\r\n" not in read:
            received = wire.recv(PIECE)
            assert received, read
            read += received
        return read.partition(b"\r\n\r\n")

    def _count(self, piece):
        self.received += len(piece)
        self.checksum = zlib.crc32(piece, self.checksum)


def start(asker):
    thread = threading.Thread(target=asker.run, daemon=True)
    thread.start()
    return thread


def ask_together(endpoint, key):
    """All ask at once, and have read to the end when this returns."""
    together = threading.Barrier(CLIENTS)
    askers = [Asker(endpoint, key, together) for _ in range(CLIENTS)]
    for thread in [start(asker) for asker in askers]:
        thread.join(SECONDS_MAX)
    return askers


def ask_together_behind_one_that_stalls(endpoint, key, checksum):
    """One asks first and stops; the others ask, and read to the end; then it goes on, to the end too."""
    first = Asker(endpoint, key, threading.Barrier(1), stalls=True)
    thread = start(first)
    deadline = time.monotonic() + SECONDS_MAX
    while first.received <= STALLS_AT and time.monotonic() < deadline:
        time.sleep(0.001)
    others = ask_together(endpoint, key)
    assert thread.is_alive() and STALLS_AT < first.received < LENGTH
    first.may_go_on.set()
    thread.join(SECONDS_MAX)
    assert (first.received, first.checksum) == (LENGTH, checksum)
    return others


@pytest.mark.parametrize("ring", RINGS)
def test_the_origin_sends_each_byte_once_and_one_that_stalls_holds_nobody_up(
    ring, start_behind, proxy, checksum
):
    keys = {"origin.hedge": False, "cache.mutable_ttl": "1h"}
    node = start_behind(ring=ring, keys=keys)
    mark = proxy.mark()
    alone = ask_together(node.endpoint, KEYS[0])
    assert_each_byte_once(proxy.since(mark), KEYS[0])
    beside = ask_together_behind_one_that_stalls(node.endpoint, KEYS[1], checksum)
    assert_each_byte_once(proxy.since(mark), KEYS[1])
    ends = {(each.received, each.checksum) for each in alone + beside}
    assert ends == {(LENGTH, checksum)}
    usual = statistics.median(each.seconds for each in alone)
    slowest = max(each.seconds for each in beside)
    assert slowest < usual * SLOWER_MAX + SLOWER_SECONDS_MAX, (usual, slowest)


def assert_each_byte_once(records, key):
    """By the ledger: the answers' bytes add up to the object's, and no two of them overlap."""
    asked = [each for each in reads_of_objects(records) if each["path"].endswith(key)]
    assert sum(each["bytes_sent"] for each in asked) == LENGTH, asked
    covered = 0
    for first, last in sorted(_span(each) for each in asked):
        assert first == covered, asked
        covered = last + 1
    assert covered == LENGTH, asked


def _span(record):
    if record["range"] is None:
        return 0, record["bytes_sent"] - 1
    first, last = record["range"].removeprefix("bytes=").split("-")
    return int(first), min(int(last or LENGTH), LENGTH - 1)

"""The cache device: what it holds is read from it, also after a restart and a kill, and never wrong:
whatever becomes of its file, the node serves what the origin has, and refuses at its start what cannot work."""

import contextlib
import json
import os
import random
import subprocess
import time

import pytest

from conftest import HAS_NODE, RINGS
from lakehouse.client import Client, put, target, until
from lakehouse.device import (
    OBJECT_BYTES,
    OBJECTS,
    SMALL,
    Device,
    ask_of_all,
    bodies,
    fill,
    is_recovered,
    kill,
    mappings,
    read_all,
    until_nothing_is_written,
    until_written,
)
from lakehouse.mount import filesystem
from lakehouse.version import MIB, content

pytestmark = pytest.mark.skipif(not HAS_NODE, reason="claims about the node")

SEEDS = int(os.environ.get("NILAS_DEVICE_SEEDS", "2"))
ROUNDS = int(os.environ.get("NILAS_KILL_ROUNDS", "10"))
WAIT_SECONDS_MAX = 30
SEGMENT_BYTES = 4 * MIB
LIVES = 4
KINDS = [("data/part", ".parquet"), ("metadata/part", ".avro"), ("plain", ".bin")]


@pytest.fixture(params=RINGS)
def device(request, proxy, tmp_path):
    return Device(proxy, tmp_path, request.param, SMALL)


def test_what_does_not_fit_into_memory_is_read_from_the_device_before_and_after_a_restart(device, proxy, origin):
    fill(origin, "device/kept")
    with device.node() as node:
        until_written(node, lambda: read_all(node, "device/kept"))
        mark = proxy.mark()
        read_all(node, "device/kept")
        assert not bodies(proxy, mark)
        disk = node.stats()["disk"]
        assert disk["hits"] > OBJECTS and disk["damaged"] == disk["read_failures"] == 0, disk
    with device.node() as node:
        until("all was found", lambda: is_recovered(node), WAIT_SECONDS_MAX)
        ask_of_all(node, "device/kept")
        mark = proxy.mark()
        read_all(node, "device/kept")
        assert not bodies(proxy, mark), "no body is asked for again"
        assert node.stats()["disk"]["hits"] > OBJECTS


@pytest.mark.parametrize("ring", RINGS)
def test_the_device_never_takes_more_than_it_was_given(ring, proxy, origin, tmp_path):
    # What comes once is written too, though others must leave for it.
    device = Device(proxy, tmp_path, ring, {**SMALL, "disk.admission": "always"})
    budget = (224 + 96 + 32) * MIB
    with device.node() as node:
        for turn in range(4):
            fill(origin, f"device/more-{turn}", salt=100 * turn)
            read_all(node, f"device/more-{turn}", salt=100 * turn)
            used = int(subprocess.check_output(["du", "-s", "-B1", device.path]).split()[0])
            assert used <= budget, used
        disk = node.stats()["disk"]
        assert disk["reclaimed"] > 0 and disk["evictions"] > 0, disk


# The least that two shards can do with, and some bytes over.
SMALLEST = {
    "cache.block_bytes": "1MiB",
    "cache.data_bytes": "24MiB",
    "cache.metadata_bytes": "24MiB",
    "disk.data_bytes": str(65 * MIB + 4321) + "B",
    "disk.metadata_bytes": str(66 * MIB + 1234) + "B",
    "disk.mapping_bytes": str(33 * MIB + 99) + "B",
}
SMALLEST_BYTES = (65 + 66 + 33) * MIB + 4321 + 1234 + 99


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("ring", RINGS)
def test_whatever_is_done_the_device_and_its_filesystem_take_no_more_than_was_given(
    ring, seed, proxy, origin, tmp_path
):
    chance = random.Random(f"budget-{ring}-{seed}")
    objects = Objects(f"device/budget-{ring}-{seed}", chance)
    with filesystem(tmp_path) as mounted:
        empty, path = taken_bytes(mounted.path), mounted.path / "device"
        path.mkdir()
        device = Device(proxy, tmp_path / "lives", ring, SMALLEST, path)
        reclaimed = 0
        for _ in range(LIVES):
            with device.node() as node:
                client = Client(node.endpoint)
                for _ in range(chance.randint(150, 250)):
                    objects.work(client)
                    # All that has become less on the filesystem: the file, its folder, and what finds their blocks.
                    assert taken_bytes(mounted.path) - empty <= SMALLEST_BYTES
                    assert device_bytes(device) <= SMALLEST_BYTES
                client.close()
                disk = node.stats()["disk"]
                reclaimed += disk["reclaimed"]
                assert disk["read_failures"] == disk["write_failures"] == disk["damaged"] == 0, disk
                if chance.random() < 0.5:
                    kill(node)
        assert reclaimed > 0, "it has been full"


def taken_bytes(mount):
    facts = os.statvfs(mount)
    return (facts.f_blocks - facts.f_bfree) * facts.f_frsize


def device_bytes(device):
    """As `du` counts them."""
    return sum(each.stat().st_blocks * 512 for each in [device.path, *device.path.rglob("*")])


class Objects:
    """Objects of all sizes, in tables and beside them, and what each of them is."""

    def __init__(self, folder, chance):
        names = [f"{kind}-{number}{end}" for kind, end in KINDS for number in range(16)]
        self._bodies = dict.fromkeys(f"{folder}/{name}" for name in names)
        self._chance = chance

    def work(self, client):
        """One thing to one of them, at random; an answer is what is right."""
        key, chance = self._chance.choice(list(self._bodies)), self._chance
        body = self._bodies[key]
        match chance.choices(["read", "range", "write", "delete"], [4, 3, 4, 1])[0]:
            case "write":
                size = chance.choice([1, 70_000, MIB, OBJECT_BYTES, OBJECT_BYTES])
                self._bodies[key] = content(chance.randrange(1000), chance.randint(1, size))
                assert client.ask("PUT", target(key), body=self._bodies[key]).status == 200
            case "delete":
                assert client.ask("DELETE", target(key)).status == 204
                self._bodies[key] = None
            case _ if body is None:
                assert client.get(target(key)).status == 404, key
            case "range":
                first = chance.randrange(len(body))
                last = chance.randrange(first, len(body))
                answer = client.get(target(key), first, last)
                assert answer.status == 206 and answer.body == body[first : last + 1], (key, first, last)
            case "read":
                answer = client.get(target(key))
                assert answer.status == 200 and answer.body == body, key


IMMUTABLE = [
    "metadata/00001-a.metadata.json",
    "metadata/snap-1-a.avro",
    "metadata/a-m0.avro",
    *[f"data/part-{number}.parquet" for number in range(6)],
]


def read_all_ways(node, folder):
    client = Client(node.endpoint)
    answers = {}
    for key in IMMUTABLE:
        at = target(folder, key)
        answers[key] = [
            (answer.status, answer.headers.get("etag"), answer.headers.get("last-modified"), answer.body)
            for answer in (client.ask("HEAD", at), client.get(at), client.get(at, 70_000, 299_999))
        ]
    client.close()
    return answers


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_what_cannot_have_changed_is_served_after_a_restart_without_an_origin(device, proxy, origin, ending):
    folder = f"device/{ending}/table"
    for number, key in enumerate(IMMUTABLE):
        put(origin, f"{folder}/{key}", content(number, MIB + 5))
    with device.node() as node:
        before = read_all_ways(node, folder)
        if ending == "kill":
            until("it is written", lambda: node.stats()["disk"]["written_bytes"] > len(IMMUTABLE) * MIB, WAIT_SECONDS_MAX)
            until_nothing_is_written(node)
            kill(node)
    mark = proxy.mark()
    proxy.play({"fault": "refuse"})
    try:
        with device.node() as node:
            until("all was found", lambda: is_recovered(node), WAIT_SECONDS_MAX)
            until("its mappings are there", lambda: mappings(node) >= len(IMMUTABLE), WAIT_SECONDS_MAX)
            assert read_all_ways(node, folder) == before
    finally:
        proxy.lift()
    with device.node() as node:
        until("its mappings are there", lambda: mappings(node) >= len(IMMUTABLE), WAIT_SECONDS_MAX)
        mark = proxy.mark()
        assert read_all_ways(node, folder) == before
        assert not [entry for entry in proxy.since(mark) if entry["method"] in ("GET", "HEAD")]
        new = content(99, MIB + 5)
        put(node.endpoint, f"{folder}/{IMMUTABLE[-1]}", new)
        kill(node)
    with device.node() as node:
        client = Client(node.endpoint)
        assert client.get(target(folder, IMMUTABLE[-1])).body == new
        client.close()


def damage(file, chance):
    """What may become of a file while nobody has it open."""
    length = file.stat().st_size
    segments = length // SEGMENT_BYTES
    with file.open("r+b") as stream:
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(1, segments) * SEGMENT_BYTES
            match chance.choice(["flip", "zeros", "swap", "copy", "noise"]):
                case "flip":
                    for _ in range(200):
                        place = at + chance.randrange(SEGMENT_BYTES)
                        stream.seek(place)
                        byte = stream.read(1)
                        stream.seek(place)
                        stream.write(bytes([byte[0] ^ 1 << chance.randrange(8)]))
                case "zeros":
                    stream.seek(at)
                    stream.write(bytes(SEGMENT_BYTES))
                case "noise":
                    stream.seek(at)
                    stream.write(chance.randbytes(SEGMENT_BYTES))
                case "copy" | "swap" as way:
                    other = chance.randrange(1, segments) * SEGMENT_BYTES
                    stream.seek(other)
                    theirs = stream.read(SEGMENT_BYTES)
                    stream.seek(at)
                    ours = stream.read(SEGMENT_BYTES)
                    stream.seek(at)
                    stream.write(theirs)
                    if way == "swap":
                        stream.seek(other)
                        stream.write(ours)
    if chance.random() < 0.2:
        os.truncate(file, chance.randrange(length))
    elif chance.random() < 0.1:
        file.unlink()



# So many segments that to look at them takes seconds, however fast the disk is.
LARGE = {
    "cache.data_bytes": "256MiB",
    "cache.metadata_bytes": "48MiB",
    "cache.mutable_ttl": "1h",
    "disk.data_bytes": "1500GiB",
    "disk.metadata_bytes": "64MiB",
    "disk.mapping_bytes": "32MiB",
}
START_SECONDS_MAX = 5


@contextlib.contextmanager
def large_block_device(folder):
    """A block device of two terabytes, of which only what is written takes place."""
    image = folder / "large"
    with image.open("wb") as stream:
        stream.truncate(2 << 40)
    command = ["losetup", "--find", "--show", "--direct-io=on", image]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"no loop device: {made.stderr}")
    device = made.stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


def readiness(node):
    return json.loads(node.admin("/readyz"))["phase"]


def gauge(node, name):
    lines = [line for line in node.admin("/metrics").splitlines() if line.startswith((f"{name} ", f"{name}{{"))]
    assert lines, name
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


@pytest.mark.parametrize("ring", RINGS)
def test_after_a_hard_reboot_a_large_cache_is_looked_through_while_requests_are_answered(ring, proxy, origin, tmp_path):
    folder = f"device/large-{ring}/table"
    for number, key in enumerate(IMMUTABLE):
        put(origin, f"{folder}/{key}", content(number, MIB + 5))
    with large_block_device(tmp_path) as path:
        device = Device(proxy, tmp_path, ring, {**LARGE, "disk.path": path})
        with device.node() as node:
            until("it is looked through", lambda: is_recovered(node), 4 * WAIT_SECONDS_MAX)
            before = read_all_ways(node, folder)
            until("it is written", lambda: node.stats()["disk"]["written_bytes"] > len(IMMUTABLE) * MIB, WAIT_SECONDS_MAX)
            until_nothing_is_written(node)
            kill(node)
        began = time.monotonic()
        with device.node() as node:
            # What has not been found yet is asked of the origin, and nobody waits for the rest.
            assert readiness(node) == "recovering"
            assert node.admin("/healthz") == "ok\n"
            assert read_all_ways(node, folder) == before
            assert time.monotonic() - began < START_SECONDS_MAX
            assert readiness(node) == "recovering" and not is_recovered(node), "it was answered meanwhile"
            assert gauge(node, "nilas_disk_recovery_seconds") == 0
            seen = gauge(node, "nilas_disk_recovery_segments")
            until("it goes on", lambda: gauge(node, "nilas_disk_recovery_segments") > seen, WAIT_SECONDS_MAX)
            until("it has ended", lambda: readiness(node) == "ready", 4 * WAIT_SECONDS_MAX)
            assert is_recovered(node) and gauge(node, "nilas_disk_recovery_seconds") > 0
            assert node.stats()["disk"]["recovery_unsealed"] > 0, "it was killed"
            assert gauge(node, "nilas_disk_recovery_records") >= len(IMMUTABLE)
            assert gauge(node, "nilas_journal_replayed_entries") >= len(IMMUTABLE)
            assert gauge(node, "nilas_journal_failed") == gauge(node, "nilas_journal_damaged") == 0
            assert read_all_ways(node, folder) == before


@pytest.mark.parametrize("ring", RINGS)
def test_a_node_that_is_killed_at_any_moment_serves_what_is_right(ring, proxy, origin, tmp_path):
    chance = random.Random(f"kill-{ring}")
    objects = [Overwritten(f"device/killed-{ring}/{number}", number) for number in range(12)]
    for each in objects:
        put(origin, each.key, each.body())
    # An ext4 of its own, so that the crash is of a filesystem that nobody else uses.
    with filesystem(tmp_path) as disk:
        device = Device(proxy, disk.path, ring)
        for _ in range(ROUNDS):
            with device.node() as node:
                work(node, objects, chance)
                kill(node)
            if chance.random() < 0.7:
                damage(device.file, chance)
        with device.node() as node:
            work(node, objects, chance)


class Overwritten:
    """An object and its present version."""

    VERSIONS = 80

    def __init__(self, key, number):
        self.key = key
        self._first = number * self.VERSIONS
        self._version = 0

    def body(self):
        return content(self._first + self._version % self.VERSIONS, OBJECT_BYTES)

    def overwrite(self, endpoint):
        self._version += 1
        put(endpoint, self.key, self.body())


def work(node, objects, chance):
    """Reads, whole and in part, and overwrites through the node; every answer is held against what was written."""
    client = Client(node.endpoint)
    for _ in range(chance.randint(10, 60)):
        each = chance.choice(objects)
        if chance.random() < 0.15:
            each.overwrite(node.endpoint)
            continue
        whole = each.body()
        first = chance.randrange(OBJECT_BYTES)
        last = min(first + chance.choice([1000, 100_000, 3_000_000]), OBJECT_BYTES - 1)
        answer = client.get(target(each.key), first, last)
        assert answer.status == 206 and answer.body == whole[first : last + 1], (each.key, first, last)
    client.close()

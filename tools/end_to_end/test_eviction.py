"""The policies that are chosen by configuration: what stays in memory through a scan, what is written to the cache
device, and that every answer is right under each of them."""

import re

import pytest

from conftest import HAS_NODE, RINGS
from lakehouse.client import Client, put, target, until
from lakehouse.device import LEAST, Device, bodies, until_nothing_is_written
from lakehouse.node import Node
from lakehouse.version import MIB, content

pytestmark = pytest.mark.skipif(not HAS_NODE, reason="claims about the node")

OBJECT_BYTES = MIB // 4
MEMORY_BYTES = 32 * MIB
HOT = MEMORY_BYTES // 2 // OBJECT_BYTES
SCANNED = 10 * MEMORY_BYTES // OBJECT_BYTES
MEMORY = {
    "cache.block_bytes": "1MiB",
    "cache.data_bytes": f"{MEMORY_BYTES // MIB}MiB",
    "cache.metadata_bytes": "16MiB",
    "cache.mutable_ttl": "1h",
}
# The policies, and how often a block is read before a scan leaves it: S3-FIFO's small queue wants it touched twice by
# those who come after the first.
READS = {"fifo": 3, "lru": 3, "sieve": 2, "s3-fifo": 3, "w-tinylfu": 2}
DEFAULT = "w-tinylfu"
WAIT_SECONDS_MAX = 30


@pytest.fixture(scope="module")
def objects(origin):
    """A hot set of half the memory, and ten times the memory that is scanned."""
    names = {"hot": HOT, "scanned": SCANNED}
    for number, key in enumerate(keys(names)):
        put(origin, key, content(number, OBJECT_BYTES))
    return names


def keys(names):
    return [f"eviction/{name}-{number}.bin" for name, count in names.items() for number in range(count)]


def read(node, wanted):
    """Reads the objects with these numbers, and sees that each is what the origin has."""
    client = Client(node.endpoint)
    all_keys = keys({"hot": HOT, "scanned": SCANNED})
    for number in wanted:
        answer = client.get(target(all_keys[number]))
        assert answer.status == 200 and answer.body == content(number, OBJECT_BYTES), all_keys[number]
    client.close()


def kept_after_a_scan(node, proxy, reads):
    """How many of the hot set, read so often, are answered from memory after everything else was read once. The newest
    are asked for first: what was lost takes the place of the oldest when it comes back, which would be the next."""
    for _ in range(reads):
        read(node, range(HOT))
    read(node, range(HOT, HOT + SCANNED))
    mark = proxy.mark()
    read(node, reversed(range(HOT)))
    return HOT - len({entry["path"] for entry in bodies(proxy, mark)})


@pytest.mark.parametrize("policy", [None, *READS])
def test_a_scan_of_ten_times_memory_leaves_what_is_read_again_but_under_the_two_that_it_flushes(
    policy, objects, proxy, tmp_path
):
    chosen = {"cache.eviction": policy} if policy else {}
    node = Node(proxy.endpoint, tmp_path, keys={**MEMORY, **chosen}, ring=RINGS[0], shards=1)
    try:
        kept = kept_after_a_scan(node, proxy, READS[policy or DEFAULT])
    finally:
        node.stop()
    if policy in ("fifo", "lru"):
        assert kept == 0, f"{policy}: {kept} of {HOT}"
    else:
        assert kept >= 0.9 * HOT, f"{policy}: {kept} of {HOT}"


def counted(node, name):
    return int(re.search(rf"^{name} (\d+)$", node.admin("/metrics"), re.MULTILINE).group(1))


@pytest.mark.parametrize("carry_over", ["never", "touched", "frequent"])
@pytest.mark.parametrize("ring", RINGS)
def test_what_a_scan_brings_once_is_not_written_when_a_second_touch_is_asked_for(
    carry_over, ring, objects, proxy, tmp_path
):
    policies = {"disk.admission": "second-touch", "disk.carry_over": carry_over}
    device = Device(proxy, tmp_path, ring, {**LEAST, **policies})
    with device.node() as node:
        # While there is room everything is written.
        read(node, range(HOT))
        until("it is written", lambda: node.stats()["disk"]["written_bytes"] > 0.9 * HOT * OBJECT_BYTES, WAIT_SECONDS_MAX)
        read(node, range(HOT, HOT + SCANNED))
        until_nothing_is_written(node)
        assert counted(node, "nilas_disk_unadmitted_total") > SCANNED / 2
        assert node.stats()["disk"]["written_bytes"] < SCANNED * OBJECT_BYTES / 2
        read(node, range(HOT + SCANNED))
        disk = node.stats()["disk"]
        assert disk["damaged"] == disk["read_failures"] == 0, disk

"""A cache device's folder or block device, nodes on it one after the other, and objects that are read through them."""

import contextlib
import os
import pathlib
import re
import signal
import time

from .client import Client, put, target, until
from .node import Node
from .version import MIB, content

# Memory for a few objects, and room for all on the device, however they fall to two shards.
SMALL = {
    "cache.data_bytes": "48MiB",
    "cache.metadata_bytes": "48MiB",
    "disk.data_bytes": "224MiB",
    "disk.metadata_bytes": "96MiB",
    "disk.mapping_bytes": "32MiB",
    # What is asked of the origin anew is not what this is about.
    "cache.mutable_ttl": "1h",
}
# The least that two shards work with, and memory for a few objects.
LEAST = {
    "cache.block_bytes": "1MiB",
    "cache.data_bytes": "24MiB",
    "cache.metadata_bytes": "24MiB",
    "disk.data_bytes": "64MiB",
    "disk.metadata_bytes": "32MiB",
    "disk.mapping_bytes": "16MiB",
    "cache.mutable_ttl": "1h",
}
# What their device takes of these budgets, in whole segments.
LEAST_DEVICE_BYTES = 110 * MIB
OBJECTS = 24
OBJECT_BYTES = 4 * MIB + 12_345
END_SECONDS_MAX = 30
WRITTEN_SECONDS_MAX = 60
# The counters are a second old at most.
SETTLE_SECONDS = 1.1


def keys(folder, objects=OBJECTS):
    return [f"{folder}/part-{number}.bin" for number in range(objects)]


def fill(origin, folder, salt=0, objects=OBJECTS):
    for number, key in enumerate(keys(folder, objects)):
        put(origin, key, content(salt + number, OBJECT_BYTES))


def read_all(node, folder, salt=0, objects=OBJECTS):
    client = Client(node.endpoint)
    for number, key in enumerate(keys(folder, objects)):
        answer = client.get(target(key))
        assert answer.status == 200 and answer.body == content(salt + number, OBJECT_BYTES), key
    client.close()


def ask_of_all(node, folder, objects=OBJECTS):
    """Which versions they are: after a restart the node asks for a whole object, if it is asked for one, before it
    knows."""
    client = Client(node.endpoint)
    for key in keys(folder, objects):
        assert client.ask("HEAD", target(key)).status == 200
    client.close()


def is_recovered(node):
    """Whether everything was found that was on the device."""
    return "nilas_disk_recovered 1" in node.admin("/metrics").splitlines()


def bodies(proxy, mark):
    return [entry for entry in proxy.since(mark) if entry["method"] == "GET"]


def is_written(node, objects=OBJECTS):
    return node.stats()["disk"]["written_bytes"] > 0.9 * objects * OBJECT_BYTES


def faults(node):
    """What is counted of the device's faults, by kind."""
    kinds = re.findall(r'nilas_disk_faults_total{kind="(\w+)"} (\d+)', node.admin("/metrics"))
    return {kind: int(count) for kind, count in kinds}


def told(node):
    """What the node warns of, line by line."""
    return [line for line in node.text().splitlines() if re.search(r"\b(WARN|ERROR)\b", line)]


def mappings(node):
    """Objects whose version it knows."""
    return sum(shard["resources"]["mappings"]["used"] for shard in node.stats()["shards"])


def until_nothing_is_written(node):
    """Waits until what it had to write to the device has been written."""
    seen = -1
    while seen != (seen := node.stats()["disk"]["written_bytes"]):
        time.sleep(SETTLE_SECONDS)


def until_written(node, read, objects=OBJECTS):
    """Reads until all of it is on the device: what memory gave away before a busy device took it is read once more."""

    def is_kept():
        lost = node.stats()["disk"]["refused"]
        read()
        until_nothing_is_written(node)
        return is_written(node, objects) and node.stats()["disk"]["refused"] == lost

    until("it is written", is_kept, WRITTEN_SECONDS_MAX)


def kill(node):
    """Ends it as a crash would."""
    os.kill(node.pid, signal.SIGKILL)
    until("it is gone", lambda: not node.is_running(), END_SECONDS_MAX)


class Device:
    """A device's folder, and nodes on it one after the other. What they say stays in `folder`; `path`, a directory
    or a block device, is one in it unless it is given."""

    def __init__(self, proxy, folder, ring, keys=SMALL, path=None):
        self.folder = pathlib.Path(folder)
        self.path = path or self.folder / "device"
        if path is None:
            self.path.mkdir(parents=True, exist_ok=True)
        self.file = self.path / "nilas.cache"
        self.keys = {"disk.path": str(self.path), **keys}
        self._proxy = proxy
        self.ring = ring
        self._lives = 0

    @contextlib.contextmanager
    def node(self, shards=2, origin=None, catalogs=()):
        self._lives += 1
        folder = self.folder / f"life-{self._lives}"
        origin = origin or self._proxy.endpoint
        node = Node(origin, folder, keys=self.keys, ring=self.ring, shards=shards, catalogs=catalogs)
        try:
            yield node
        finally:
            if node.is_running():
                node.stop()

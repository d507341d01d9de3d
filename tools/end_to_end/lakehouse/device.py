"""A folder for the cache device, and the nodes that live on it one after the other."""

import contextlib
import os
import pathlib
import signal
import time

from .client import until
from .node import Node

END_SECONDS_MAX = 30
SETTLE_SECONDS = 0.5


class Device:
    """A device's folder, `path` or one in `folder`, and nodes with these keys of the configuration before `proxy`."""

    def __init__(self, proxy, folder, ring, keys, path=None):
        self.folder = pathlib.Path(folder)
        self.path = pathlib.Path(path or self.folder / "device")
        self.path.mkdir(parents=True, exist_ok=True)
        self.file = self.path / "nilas.cache"
        self._proxy = proxy
        self._keys = {"disk.path": str(self.path), **keys}
        self.ring = ring
        self._lives = 0

    @contextlib.contextmanager
    def node(self):
        """The next life; stopped at the end, unless it was killed."""
        self._lives += 1
        node = Node(self._proxy.endpoint, self.folder / f"life-{self._lives}", keys=self._keys, ring=self.ring)
        try:
            yield node
        finally:
            if node.is_running():
                node.stop()


def kill(node):
    """Ends it as a crash would."""
    os.kill(node.pid, signal.SIGKILL)
    until("it is gone", lambda: not node.is_running(), END_SECONDS_MAX)


def is_recovered(node):
    """Whether everything was found that was on the device."""
    return "nilas_disk_recovered 1" in node.admin("/metrics").splitlines()


def mappings(node):
    """Objects whose version it knows."""
    return sum(shard["resources"]["mappings"]["used"] for shard in node.stats()["shards"])


def until_nothing_is_written(node):
    """Waits until what it had to write to the device has been written."""
    seen = -1
    while seen != (seen := node.stats()["disk"]["written_bytes"]):
        time.sleep(SETTLE_SECONDS)

"""A stand: an empty origin with the suite's users, and a node before it for the runs that go through it."""

import pathlib
import shutil

from ..node import Node
from .origin import ORIGINS
from .user import node_credentials, suite_configuration

DIRECT = "direct"
THROUGH = "through"
SIDES = [DIRECT, THROUGH]
# A client without a credential, or with an older signature, has to reach the origin as it is.
NODE_KEYS = {"auth.anonymous": "relay", "auth.sigv2": "relay"}


class Stand:
    """The servers of a run under `folder`; each suite's user is the same one on both `sides`."""

    def __init__(self, kind, folder, sides):
        self.folder = pathlib.Path(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self._node = None
        self._origin = ORIGINS[kind](self.folder / "origin")
        try:
            if THROUGH in sides:
                self._node = self._start_node()
        except BaseException:
            self.stop()
            raise

    def configuration(self, side):
        """The suite's configuration for a side."""
        endpoint = self._origin.endpoint if side == DIRECT else self._node.endpoint
        return suite_configuration(endpoint, self._origin.zone_group)

    def remarks(self):
        """What happened to the servers that a reader of the outcomes has to know."""
        remarks = []
        if self._origin.restarts:
            remarks.append(f"the origin's daemon aborted and was started anew {self._origin.restarts} times")
        if self._node and not self._node.is_running():
            remarks.append(f"the node has ended: {self._node.text()[-2000:]}")
        return remarks

    def stop(self):
        """Ends the servers; their logs stay, their data goes."""
        if self._node:
            self._node.stop()
        self._origin.stop()
        for name in ("data", "osd", "mon"):
            shutil.rmtree(self.folder / "origin" / name, ignore_errors=True)

    def _start_node(self):
        keys = {**NODE_KEYS, "cache.data_bytes": "256MiB"}
        return Node(self._origin.endpoint, self.folder / "node", keys, clients=node_credentials())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

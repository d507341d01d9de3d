"""One origin with a catalog for the whole run, the recorder before it, and nodes before that.

With NILAS_THROUGH=recorder the tests run against the origin through the recorder alone: what they
claim of bytes must hold there too, and what they claim of the cache is skipped.
"""

import os
import pathlib
import tempfile

import pytest

from lakehouse import tables
from lakehouse.node import Node
from lakehouse.recorder import REPOSITORY, Recorder
from lakehouse.seaweed import Seaweed

SCALE = os.environ.get("NILAS_SCALE", "0.1")
HAS_NODE = os.environ.get("NILAS_THROUGH", "node") == "node"
RINGS = ["io_uring", "epoll"]


@pytest.fixture(scope="session")
def workspace():
    with tempfile.TemporaryDirectory(prefix="nilas-end-to-end-") as folder:
        yield pathlib.Path(folder)


@pytest.fixture(scope="session")
def seaweed(workspace):
    origin = Seaweed(workspace / "seaweed")
    yield origin
    origin.stop()


@pytest.fixture(scope="session")
def origin(seaweed):
    """The origin's own endpoint: what is true."""
    return seaweed.endpoint


@pytest.fixture(scope="session")
def recorder(origin, workspace):
    recorder = Recorder(origin, workspace)
    yield recorder
    recorder.stop()


@pytest.fixture(scope="session")
def catalog(seaweed):
    """The catalog, its TPC-H tables loaded past any node."""
    catalog = tables.open_catalog(seaweed, seaweed.endpoint)
    tables.load(catalog, tables.generate(SCALE, REPOSITORY / "target" / "lakehouse"))
    return catalog


@pytest.fixture(scope="module")
def proxy(origin, workspace, request):
    """A recorder of this module's own, whose faults meet nobody else."""
    proxy = Recorder(origin, workspace / request.module.__name__)
    yield proxy
    proxy.stop()


@pytest.fixture(scope="module")
def start_behind(proxy, workspace, request):
    """Starts nodes before the module's own recorder, as `start_node` does before the run's."""
    yield from started_nodes(proxy, workspace / request.module.__name__)


class NoNode:
    """The recorder in a node's place."""

    def __init__(self, recorder):
        self.endpoint = recorder.endpoint


@pytest.fixture(scope="session")
def start_node(recorder, workspace):
    """Starts nodes before the recorder; each is stopped when the run ends, and must end well."""
    yield from started_nodes(recorder, workspace)


def started_nodes(recorder, folder):
    nodes = []

    def start(**options):
        if not HAS_NODE:
            return NoNode(recorder)
        node = Node(recorder.endpoint, folder / f"node-{len(nodes)}", **options)
        nodes.append(node)
        return node

    yield start
    statuses = [node.stop() for node in nodes]
    assert set(statuses) <= {0}, [node.text()[-2000:] for node in nodes if node.stop()]


@pytest.fixture(scope="session", params=RINGS)
def node(request, start_node):
    """A node of two shards, once for each ring."""
    if not HAS_NODE and request.param != RINGS[0]:
        pytest.skip("no node, no ring")
    return start_node(ring=request.param)


@pytest.fixture()
def needs_node():
    if not HAS_NODE:
        pytest.skip("a claim about the cache")

"""`nilas trace record`: what clients read of a running node is written down, and nothing of what it was."""

import os
import pathlib
import subprocess

import pytest

from conftest import HAS_NODE
from lakehouse import engine, tables
from lakehouse.client import Client, put, target, until
from lakehouse.node import Node
from lakehouse.recorder import BINARIES
from lakehouse.version import content

pytestmark = pytest.mark.skipif(not HAS_NODE, reason="claims about the node")

COLUMNS = "object,length,start,end"
WAIT_SECONDS_MAX = 30
LENGTH = 300_000
# What is read, in order: an object, and the range header, if any, with what it means.
READS = [
    (1, None, (0, LENGTH)),
    (0, "bytes=10-19", (10, 20)),
    (1, "bytes=-1000", (LENGTH - 1000, LENGTH)),
    (0, "bytes=299990-999999", (299_990, LENGTH)),
]


@pytest.fixture
def node(proxy, tmp_path):
    node = Node(proxy.endpoint, tmp_path)
    yield node
    node.stop()


def recording(node, file, *arguments):
    """Begins a recording; the process that makes it."""
    command = [BINARIES / "nilas", "trace", "record", file, f"--admin=http://127.0.0.1:{node.admin_port}", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finished(process):
    told, _ = process.communicate(timeout=WAIT_SECONDS_MAX)
    return process.returncode, told


def test_what_is_read_is_recorded_in_order_and_names_nothing(node, origin, tmp_path):
    keys = [f"trace/secret-{number}.bin" for number in range(2)]
    for number, key in enumerate(keys):
        put(origin, key, content(number, LENGTH))
    file = tmp_path / "trace.csv"
    process = recording(node, file, "--seconds=4")
    client = Client(node.endpoint)
    # What was read before it had begun is not in it.
    until("it has begun", lambda: file.exists() and file.stat().st_size > 0, WAIT_SECONDS_MAX)
    for number, bounds, _ in READS:
        answer = client.ask("GET", target(keys[number]), {"Range": bounds} if bounds else None)
        assert answer.status in (200, 206)
        assert client.ask("HEAD", target(keys[number])).status == 200
    other_file = tmp_path / "other.csv"
    status, told = finished(recording(node, other_file, "--seconds=1"))
    assert status == 1 and "another recording is under way" in told, told
    status, told = finished(process)
    assert status == 0 and "4 reads of 2 objects" in told, told
    lines = file.read_text().splitlines()
    numbers = {1: 0, 0: 1}
    expected = [f"{numbers[number]},{LENGTH},{start},{end}" for number, _, (start, end) in READS]
    assert lines == [COLUMNS, *expected]


def test_a_file_that_is_there_is_not_written_over(node, tmp_path):
    file = tmp_path / "trace.csv"
    file.write_text("mine")
    status, told = finished(recording(node, file, "--seconds=1"))
    assert status == 1 and "exists" in told, told
    assert file.read_text() == "mine"


def test_a_recorded_run_of_queries_can_be_replayed(node, seaweed, catalog, tmp_path):
    """With NILAS_TRACE the trace is kept there."""
    file = pathlib.Path(os.environ.get("NILAS_TRACE", tmp_path / "queries.csv"))
    locations = {name: catalog.load_table(f"{tables.NAMESPACE}.{name}").metadata_location for name in tables.TABLES}
    process = recording(node, file)
    try:
        until("it has begun", lambda: file.exists() and file.stat().st_size > 0, WAIT_SECONDS_MAX)
        engine.run("duckdb_without_catalog", seaweed, node.endpoint, tmp_path / "results", locations)
    finally:
        process.send_signal(2)
    status, told = finished(process)
    assert status == 0 and "lost" not in told, told
    reads = [list(map(int, line.split(","))) for line in file.read_text().splitlines()[1:]]
    assert len(reads) > 100
    assert all(0 <= start < end <= length for _, length, start, end in reads)

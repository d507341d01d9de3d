"""A node that begins anew on its cache device: what whole runs of queries have read is served from there, with
the same rows; without an origin, and with one that is asked for no object. Its memory holds a part of it alone."""

import collections
import json

import pytest

from conftest import HAS_NODE, RINGS
from lakehouse import engine, tables
from lakehouse.client import Client, put, target, until
from lakehouse.device import Device, is_recovered, kill, mappings, until_nothing_is_written
from lakehouse.recorder import reads_of_objects
from lakehouse.version import MIB, content
from test_engines import assert_same_results

pytestmark = pytest.mark.skipif(not HAS_NODE, reason="claims about the node")

# As little memory as a shard can do with, for either store.
SHARD_BYTES = 12 * MIB
DISK = {
    "cache.block_bytes": "1MiB",
    "disk.data_bytes": "640MiB",
    "disk.metadata_bytes": "128MiB",
    "disk.mapping_bytes": "32MiB",
}
ENGINES = ["duckdb_without_catalog", "polars", "pyiceberg"]
WAIT_SECONDS_MAX = 30
FILES = 12
RUNS_MAX = 4


@pytest.fixture(scope="module")
def locations(catalog):
    """Each table's metadata file: with it DuckDB asks no catalog."""
    return {name: catalog.load_table(f"{tables.NAMESPACE}.{name}").metadata_location for name in tables.TABLES}


@pytest.fixture(scope="module")
def run(seaweed, locations, workspace):
    """Runs the engines through an endpoint: their results by name. The catalog is the origin's own, and not away."""
    runs = iter(range(1000))

    def through(endpoint):
        folder = workspace / "restart" / f"run-{next(runs)}"
        return {name: engine.run(name, seaweed, endpoint, folder / name, locations) for name in ENGINES}

    return through


@pytest.fixture(scope="module")
def direct(run, origin):
    """What is true."""
    return run(origin)


def assert_same(results, expected):
    for name in ENGINES:
        assert_same_results(results[name], expected[name])


def kinds(records):
    """How many requests of each kind reached the origin."""
    objects = collections.Counter(f"{each['method']} of an object" for each in reads_of_objects(records))
    others = collections.Counter(
        f"{each['method']} {each['path']}?{each['query']}" for each in records if each not in reads_of_objects(records)
    )
    return {**objects, **others}


def tell(what, node, records):
    """For who runs it by hand, with `-s`."""
    disk = node.stats()["disk"]
    print(f"\n{what}: {json.dumps(disk)}; origin: {json.dumps(kinds(records))}")


def until_all_is_on_the_device(node, run_once):
    """What has to leave so little memory before the device has taken it is not on it: then it is read once more."""
    for _ in range(RUNS_MAX):
        refused = node.stats()["disk"]["refused"]
        run_once()
        until_nothing_is_written(node)
        if node.stats()["disk"]["refused"] == refused:
            return
    pytest.fail("the device does not keep up")


def end(node, ending):
    """Kills it, once everything was written, or leaves it to be stopped."""
    if ending == "kill":
        until_nothing_is_written(node)
        kill(node)


@pytest.mark.parametrize("ending, shards", [("stop", 1), ("kill", 2)])
@pytest.mark.parametrize("ring", RINGS)
def test_a_run_of_queries_is_served_by_the_next_node_without_an_origin_and_asks_nothing_of_one(
    ring, ending, shards, run, direct, proxy, tmp_path
):
    memory = f"{shards * SHARD_BYTES}B"
    keys = {**DISK, "server.shards": shards, "cache.data_bytes": memory, "cache.metadata_bytes": memory}
    device = Device(proxy, tmp_path, ring, keys)
    with device.node() as node:
        until("it can be written", lambda: is_recovered(node), WAIT_SECONDS_MAX)
        mark = proxy.mark()
        until_all_is_on_the_device(node, lambda: assert_same(run(node.endpoint), direct))
        records = proxy.since(mark)
        tell("cold", node, records)
        fetched = sum(each["bytes_sent"] for each in reads_of_objects(records))
        assert fetched > shards * SHARD_BYTES or shards > 1, "one shard's memory holds a part of it alone"
        known = mappings(node)
        end(node, ending)
    for is_away in (True, False):
        mark = proxy.mark()
        if is_away:
            proxy.play({"fault": "refuse"})
        try:
            with device.node() as node:
                until("all was found", lambda: is_recovered(node), WAIT_SECONDS_MAX)
                until("its mappings are there", lambda: mappings(node) == known, WAIT_SECONDS_MAX)
                assert node.ring() == ring
                assert_same(run(node.endpoint), direct)
                records = proxy.since(mark)
                tell("away" if is_away else "back", node, records)
                assert is_away or reads_of_objects(records) == [], node.stats()["disk"]
                assert node.stats()["disk"]["read_bytes"] > 0.9 * fetched
                end(node, ending)
        finally:
            proxy.lift()


@pytest.mark.parametrize("ending", ["stop", "kill"])
@pytest.mark.parametrize("ring", RINGS)
def test_data_files_that_were_read_once_alone_are_served_by_the_next_node_without_an_origin(
    ring, ending, proxy, origin, tmp_path
):
    """An engine with a catalog may never read the metadata file that shows its table to be one."""
    folder = f"restart/{ring}/{ending}/table"
    put(origin, f"{folder}/metadata/00001-a.metadata.json", b"{}")
    bodies = {f"{folder}/data/part-{number}.parquet": content(number, 300_000) for number in range(FILES)}
    for key, body in bodies.items():
        put(origin, key, body)
    device = Device(proxy, tmp_path, ring, DISK)
    with device.node() as node:
        until("it can be written", lambda: is_recovered(node), WAIT_SECONDS_MAX)
        assert read_all(node, bodies) == bodies
        until("it is written", lambda: node.stats()["disk"]["written_bytes"] > FILES * 300_000, WAIT_SECONDS_MAX)
        end(node, ending)
    proxy.play({"fault": "refuse"})
    try:
        with device.node() as node:
            until("all was found", lambda: is_recovered(node), WAIT_SECONDS_MAX)
            until("its mappings are there", lambda: mappings(node) == FILES, WAIT_SECONDS_MAX)
            assert read_all(node, bodies) == bodies
    finally:
        proxy.lift()


def read_all(node, keys):
    client = Client(node.endpoint)
    answers = {key: client.get(target(key)) for key in keys}
    client.close()
    return {key: answer.body if answer.status == 200 else answer.status for key, answer in answers.items()}


@pytest.mark.parametrize("ring", RINGS)
def test_who_reads_on_what_the_device_holds_makes_nobody_read_ahead_from_the_origin(ring, proxy, origin, tmp_path):
    """Twice the same ranges, first in no order, then one after the other."""
    key, piece = f"restart/{ring}/ahead/metadata/part-0.stats", 256 << 10
    body = content(1, 4 * MIB)
    put(origin, key, body)
    device = Device(proxy, tmp_path, ring, DISK)

    def read(node, pieces):
        client = Client(node.endpoint)
        for number in pieces:
            answer = client.get(target(key), number * piece, (number + 1) * piece - 1)
            assert answer.status == 206 and answer.body == body[number * piece : (number + 1) * piece]
        client.close()

    with device.node() as node:
        until("it can be written", lambda: is_recovered(node), WAIT_SECONDS_MAX)
        read(node, [3, 2, 1, 0])
        until("it is written", lambda: node.stats()["disk"]["written_bytes"] > 4 * piece, WAIT_SECONDS_MAX)
    with device.node() as node:
        until("its mapping is there", lambda: is_recovered(node) and mappings(node) == 1, WAIT_SECONDS_MAX)
        mark = proxy.mark()
        read(node, [0, 1, 2, 3])
        assert reads_of_objects(proxy.since(mark)) == []

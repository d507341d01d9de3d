"""Real engines over real Iceberg tables: the same rows direct, cold and warm, and nothing fetched twice."""

import collections

import pyarrow
import pytest

from conftest import HAS_NODE, RINGS
from lakehouse import engine, tables
from lakehouse.recorder import reads_of_objects

SHARDS = 2
ENGINES = ["duckdb", "polars", "pyiceberg"]
RESULTS = {"duckdb": 22, "polars": 1, "pyiceberg": 1}


@pytest.fixture(scope="module")
def direct(seaweed, catalog, workspace):
    """Each engine's results without a node, made once."""
    results = {}

    def of(name):
        if name not in results:
            results[name] = engine.run(name, seaweed, seaweed.endpoint, workspace / f"direct-{name}")
        return results[name]

    return of


@pytest.mark.parametrize("ring", RINGS if HAS_NODE else RINGS[:1])
@pytest.mark.parametrize("name", ENGINES)
def test_rows_are_equal_direct_cold_and_warm_and_warm_fetches_nothing(
    name, ring, seaweed, direct, start_node, recorder, workspace
):
    expected = direct(name)
    assert len(expected) == RESULTS[name]
    node = start_node(ring=ring, shards=SHARDS)
    folder = workspace / f"{name}-{ring}"

    start = recorder.mark()
    cold = engine.run(name, seaweed, node.endpoint, folder / "cold")
    assert_same_results(cold, expected)
    assert reads_of_objects(recorder.since(start)), "the engine read past the node"

    warm_start = recorder.mark()
    served_before = node.served_requests() if HAS_NODE else 0
    warm = engine.run(name, seaweed, node.endpoint, folder / "warm")
    assert_same_results(warm, expected)
    if HAS_NODE:
        records = recorder.since(warm_start)
        assert reads_of_objects(records) == []
        # Whether a folder is a table's is asked once by each shard, when a file's time is first up.
        asked = collections.Counter(each["query"] for each in records)
        assert all(query.startswith("list-type=2&") for query in asked)
        assert all(times <= SHARDS for times in asked.values())
        assert len(asked) <= len(tables.TABLES)
        assert node.served_requests() > served_before
        assert node.ring() == ring


def assert_same_results(results, expected):
    assert results.keys() == expected.keys()
    for name, table in results.items():
        assert ordered(table).equals(ordered(expected[name])), f"{name} differs"


def ordered(table):
    """The rows in an order of their own: SQL leaves ties open, and scans promise none."""
    table = table.combine_chunks()
    names = [f"{index}" for index in range(table.num_columns)]
    table = table.rename_columns(names)
    return table.sort_by([(name, "ascending") for name in names]) if names else table


def test_the_order_of_rows_does_not_matter_and_their_values_do():
    rows = pyarrow.table({"a": [1, 2], "b": ["x", "y"]})
    assert ordered(rows).equals(ordered(pyarrow.table({"a": [2, 1], "b": ["y", "x"]})))
    assert not ordered(rows).equals(ordered(pyarrow.table({"a": [2, 1], "b": ["x", "y"]})))

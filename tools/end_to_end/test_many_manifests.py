"""The table of a thousand manifests is what it is said to be, and is planned through a node as directly."""

import pyiceberg.manifest
from pyiceberg.table import StaticTable

from conftest import HAS_NODE
from lakehouse import many_manifests
from lakehouse.recorder import reads_of_objects
from lakehouse.table_reader import storage


def planned(endpoint, table):
    pyiceberg.manifest.clear_manifest_cache()
    static = StaticTable.from_metadata(table.metadata_location, storage(endpoint))
    return sorted(task.file.file_path for task in static.scan().plan_files())


def test_a_thousand_manifests_are_planned_alike_and_warm_from_the_node_alone(origin, start_behind, proxy):
    table, node = many_manifests.make(origin), start_behind()
    direct = planned(origin, table)
    assert len(direct) == len(set(direct)) == len(table.manifests) == many_manifests.MANIFESTS
    assert planned(node.endpoint, table) == direct
    start = proxy.mark()
    assert planned(node.endpoint, table) == direct
    if HAS_NODE:
        assert reads_of_objects(proxy.since(start)) == []

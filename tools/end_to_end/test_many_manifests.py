"""The table of a thousand manifests is what it is said to be, and is planned through a node as directly."""

import pyiceberg.manifest
from pyiceberg.table import StaticTable

from conftest import HAS_NODE
from lakehouse import many_manifests
from lakehouse.recorder import reads_of_objects
from lakehouse.scripted_catalog import ScriptedCatalog
from lakehouse.table_reader import storage
from lakehouse.watch import wait_until_warm

COMMITS = 20


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


def test_a_thousand_manifests_are_warm_after_the_start_and_after_each_commit(origin, start_behind, proxy, needs_node):
    table = many_manifests.make(origin, name="warmed_manifests")
    with ScriptedCatalog() as catalog:
        catalog.put_table("many", "manifests", table.metadata_location, table.metadata)
        settings = {"name": "many", "url": catalog.url, "poll_interval": "200ms"}
        node = start_behind(catalogs=[settings], keys={"cache.metadata_bytes": "512MiB"})
        for number in range(COMMITS):
            if number:
                table.commit([table.data(f"more-{number}.parquet", [(number, "more")])])
                catalog.put_table("many", "manifests", table.metadata_location, table.metadata)
            wait_until_warm(node, {"manifests": table.metadata_location})
            start = proxy.mark()
            assert len(planned(node.endpoint, table)) == many_manifests.MANIFESTS + number
            assert reads_of_objects(proxy.since(start)) == [], f"after commit {number}"

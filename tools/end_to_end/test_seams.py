"""Tables at the format's seams: the same rows and the same bytes direct, cold and warm through a node that
watches their catalog; what an engine cannot read it refuses alike, and a damaged table hurts no other.
"""

import functools
import json
import re
import urllib.parse

import botocore.exceptions
import pyiceberg.catalog
import pytest

from conftest import HAS_NODE, RINGS
from lakehouse import seams
from lakehouse.client import until
from lakehouse.engine import connect_duckdb
from lakehouse.handmade import place
from lakehouse.recorder import reads_of_objects
from lakehouse.scripted_catalog import ScriptedCatalog
from lakehouse.watch import page
from lakehouse.table_reader import ENGINES, read, read_apart, storage

SEEN_SECONDS_MAX = 30
VIEW = "a_view"
SPOILT = [name for name in seams.DAMAGED if name != "missing_data_file"]
AT_RANDOM = [("pyiceberg", name) for name in SPOILT]
RANGES = [None, "bytes=0-15", "bytes=-8", "bytes=-65536", "bytes=100-", "bytes=7-7", "bytes=900000-"]


@pytest.fixture(scope="module")
def made(seaweed):
    """Every table, by name."""
    return {name: make(seaweed) for name, make in {**seams.SEAMS, **seams.DAMAGED}.items()}


@pytest.fixture(scope="module")
def scripted(made):
    """A catalog that tells of them all, and of a view beside them."""
    with ScriptedCatalog(page_size=5) as scripted:
        seams.put_all(scripted, made.values())
        scripted.put_view(seams.NAMESPACE, VIEW)
        yield scripted


@pytest.fixture(scope="module")
def watching(scripted, made, start_behind):
    """Nodes that watch the catalog and have read what it tells, one for each name that is asked for: the first
    read of data is cold, but of the one that is called `shown`."""
    nodes = {}

    def has_read_all(node):
        states = [each["state"] for each in page(node)["tables"]]
        return len(states) == len(made) and not {"reading", "indexing"} & set(states)

    def named(name, ring="auto"):
        if (name, ring) not in nodes:
            settings = {"name": "seams", "url": scripted.url, "poll_interval": "1s"}
            keys = {"tables.warm": name == "shown"}
            node = nodes[name, ring] = start_behind(ring=ring, catalogs=[settings], keys=keys)
            if HAS_NODE:
                until("every table is read", lambda: has_read_all(node), SEEN_SECONDS_MAX)
        return nodes[name, ring]

    return named


def shown(node):
    return json.loads(node.admin("/admin/catalogs"))["catalogs"][0]


@pytest.mark.parametrize("ring", RINGS if HAS_NODE else RINGS[:1])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", seams.SEAMS)
def test_a_table_has_the_same_rows_direct_cold_and_warm(name, engine, ring, made, origin, watching, proxy):
    seam, node = made[name], watching(engine, ring)
    direct = read(engine, origin, seam.metadata_location)
    if engine in seam.refusals:
        assert re.search(seam.refusals[engine], direct.refusal)
    else:
        assert (direct.rows, direct.refusal) == (seam.rows, None)
    start = proxy.mark()
    assert read(engine, node.endpoint, seam.metadata_location) == direct
    records = proxy.since(start)
    assert reads_of_objects(records), "the engine read past the node"
    warm_start, served = start + len(records), node.served_requests() if HAS_NODE else 0
    assert read(engine, node.endpoint, seam.metadata_location) == direct
    if HAS_NODE and engine not in seam.refusals:
        assert reads_of_objects(proxy.since(warm_start)) == []
        assert node.served_requests() > served, "the engine read what it had kept itself"
        assert node.ring() == ring


@pytest.mark.parametrize("order", ["whole first", "ranges first"])
@pytest.mark.parametrize("name", [*seams.SEAMS, *seams.DAMAGED])
def test_each_file_has_the_same_bytes_whole_and_in_ranges(name, order, made, origin, watching):
    seam, node = made[name], watching(order)
    asked = RANGES if order == "whole first" else RANGES[::-1]
    for path in seam.paths:
        direct = [answer(origin, path, wanted) for wanted in asked]
        for warmth in ("cold", "warm"):
            through = [answer(node.endpoint, path, wanted) for wanted in asked]
            assert through == direct, (warmth, path)


def answer(endpoint, path, wanted):
    """What a GET of a file, or of a range of it, comes to: all that an engine goes by."""
    bucket, key = place(path)
    ranged = {"Range": wanted} if wanted else {}
    try:
        told = client(endpoint).get_object(Bucket=bucket, Key=key, **ranged)
    except botocore.exceptions.ClientError as error:
        about = error.response["Error"]
        return error.response["ResponseMetadata"]["HTTPStatusCode"], about["Code"], about.get("Key")
    return told["ContentLength"], told.get("ContentRange"), told["ETag"], told["Body"].read()


@functools.cache
def client(endpoint):
    return endpoint.boto3()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", seams.DAMAGED)
def test_a_damaged_table_fails_as_it_does_directly_and_its_neighbours_do_not(name, engine, made, origin, watching):
    seam, neighbour, node = made[name], made["version_2"], watching(f"damaged {engine}")
    direct = read_apart(engine, origin, seam.metadata_location)
    assert re.search(seam.refusals[engine], direct.refusal, re.DOTALL)
    for _ in ("cold", "warm"):
        through = read_apart(engine, node.endpoint, seam.metadata_location)
        # PyIceberg reads past the end of what is no Avro, and says what it found in its own memory.
        assert through.refusal if (engine, name) in AT_RANDOM else through == direct
        assert read(engine, node.endpoint, neighbour.metadata_location).rows == neighbour.rows
    if name == "missing_data_file":
        assert place(seam.damaged)[1] in urllib.parse.unquote(direct.refusal), "the file is named"


def test_the_watched_catalog_shows_every_table_and_takes_no_view_for_one(made, watching, needs_node):
    node = watching("shown")

    def all_seen():
        page = shown(node)
        seen = [each for each in page["tables"] if each["seen"]]
        return len(seen) == len(made) and page["listing"]["views"] == 1

    until("each table is seen", all_seen, SEEN_SECONDS_MAX)
    page = shown(node)
    true = {(tuple(seam.namespace.split(".")), seam.name): seam.metadata_location for seam in made.values()}
    found = {(tuple(each["namespace"]), each["name"]): each["seen"]["metadata_location"] for each in page["tables"]}
    assert found == true
    assert page["counts"]["failures"] == 0 and page["listing"]["troubles"] == []


@pytest.mark.parametrize("name", SPOILT)
def test_the_page_names_the_damaged_file_at_its_table_and_nothing_at_the_others(name, made, watching, needs_node):
    node = watching("shown")

    def told():
        return {each["name"]: each for each in page(node)["tables"]}

    until("each table is read", lambda: all(is_settled(each) for each in told().values()), SEEN_SECONDS_MAX)
    assert {table for table, each in told().items() if each["state"] != "warm"} == set(seams.DAMAGED)
    faults = told()[name]["faults"]
    assert any(made[name].damaged in fault for fault in faults), faults
    others = {table: each["faults"] for table, each in told().items() if each["faults"] and table not in seams.DAMAGED}
    assert others == {}
    lost = told()["missing_data_file"]["warmth"]
    assert lost["failed"] == 1 and made["missing_data_file"].damaged in lost["failures"][0], lost


def is_settled(table):
    return table["state"] in ("warm", "partly warm")


@pytest.mark.parametrize("engine", ENGINES)
def test_what_was_warmed_is_what_is_read(engine, made, origin, watching, proxy, needs_node):
    node = watching("shown")
    until("all is read", lambda: all(map(is_settled, page(node)["tables"])), SEEN_SECONDS_MAX)
    for name in seams.SEAMS:
        seam = made[name]
        if engine not in seam.refusals:
            assert read(engine, node.endpoint, seam.metadata_location).rows == seam.rows, name


def test_an_engine_finds_nested_tables_by_the_catalog_and_reads_them_through_the_node(made, scripted, watching):
    seam, node = made["nested"], watching("by the catalog")
    catalog = pyiceberg.catalog.load_catalog("seams", type="rest", uri=scripted.url, **storage(node.endpoint))
    rows = catalog.load_table((*seam.namespace.split("."), seam.name)).scan().to_arrow()
    assert sorted(zip(rows["n"].to_pylist(), rows["kind"].to_pylist())) == seam.rows
    connection = connect_duckdb(node.endpoint)
    options = "AUTHORIZATION_TYPE 'none', ACCESS_DELEGATION_MODE 'none'"
    connection.execute(f"ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{scripted.url}', {options})")
    assert sorted(connection.execute(f'FROM lake."{seam.namespace}".{seam.name}').fetchall()) == seam.rows

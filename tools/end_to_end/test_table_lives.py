"""What becomes of files and tables over time: tables made anew under an old name, files that are nobody's any more,
origins that fail or refuse for a while. The catalog is scripted; nothing is ever believed that it does not say.
"""

import io
import json
import time

import pyarrow.parquet
import pytest

from conftest import HAS_NODE
from lakehouse.client import Client, put, target, until
from lakehouse.handmade import File, Table, parquet, place
from lakehouse.recorder import reads_of_objects
from lakehouse.scripted_catalog import ScriptedCatalog
from lakehouse.seaweed import OBJECT_BUCKET
from lakehouse.watch import HINT_SECRET, hint_at, known, order, wait_for, wait_until_warm

pytestmark = pytest.mark.skipif(not HAS_NODE, reason="claims about the node and the catalog that it watches")

ROOT = f"s3://{OBJECT_BUCKET}/table-lives"
# What is read of a file's end at first, and what stands behind its footer.
WINDOW_BYTES, TRAILER_BYTES = 64 << 10, 8
ROWS = [(n, "plain") for n in range(10)]


@pytest.fixture()
def catalog():
    with ScriptedCatalog() as catalog:
        yield catalog


@pytest.fixture()
def watch(catalog, start_behind):
    """Starts nodes that watch the catalog and ask it for nothing twice by themselves."""

    def start(poll_interval="1h", **options):
        settings = {"name": "lake", "url": catalog.url, "poll_interval": poll_interval, "hint_secret": HINT_SECRET}
        return start_behind(catalogs=[settings], **options)

    return start


def tell(catalog, node, name, table):
    """Has the catalog tell of a table's state, and the node hear of it."""
    catalog.put_table("n", name, table.metadata_location, table.metadata)
    hint_at(node, name, namespace=["n"])
    wait_until_warm(node, {name: table.metadata_location})


def get(node, path):
    bucket, key = place(path)
    return node.endpoint.boto3().get_object(Bucket=bucket, Key=key)["Body"].read()


def test_nothing_of_a_table_is_believed_of_another_that_has_taken_its_name(origin, catalog, watch):
    def made(rows):
        table = Table(origin, f"{ROOT}/renewed")
        odd = f"{ROOT}/elsewhere/renewed"
        body = parquet(rows)
        table.put(odd, body)
        file = table.data("x.parquet", rows)
        table.commit([file, File(odd, len(body), len(rows))])
        return table, {path: table_body(origin, path) for path in (file.path, odd)}

    old, old_bodies = made([(1, "old")])
    node = watch()
    tell(catalog, node, "renewed", old)
    assert {path: get(node, path) for path in old_bodies} == old_bodies
    new, new_bodies = made([(2, "new, and longer")])
    assert new_bodies.keys() == old_bodies.keys() and new_bodies != old_bodies
    tell(catalog, node, "renewed", new)
    assert {path: get(node, path) for path in new_bodies} == new_bodies


def table_body(origin, path):
    bucket, key = place(path)
    return origin.boto3().get_object(Bucket=bucket, Key=key)["Body"].read()


@pytest.mark.parametrize("is_odd", [False, True], ids=["in data", "elsewhere"])
def test_a_file_that_is_nobodys_any_more_is_what_the_origin_says_until_a_table_lists_it_again(
    is_odd, origin, catalog, watch
):
    name = f"orphaned_{is_odd}"
    table = Table(origin, f"{ROOT}/{name}")
    path = f"{ROOT}/elsewhere/{name}" if is_odd else f"{ROOT}/{name}/data/x.parquet"
    body, other = parquet(ROWS), parquet([(7, "other")])
    table.put(path, body)
    table.commit([table.data("kept.parquet", ROWS), file := File(path, len(body), len(ROWS))])
    node = watch(keys={"cache.mutable_ttl": "200ms"})
    before = table.current
    tell(catalog, node, name, table)
    assert get(node, path) == body
    table.commit(removed=[file], operation="delete")
    table.expire(before)
    tell(catalog, node, name, table)
    assert get(node, path) == body, "it is still there, and read as what it is now: anybody's"
    table.put(path, other)
    time.sleep(0.3)
    assert get(node, path) == other
    table.commit([again := File(path, len(other), 1)])
    tell(catalog, node, name, table)
    assert get(node, path) == other
    now = table.current
    table.commit(removed=[again], operation="delete")
    table.expire(now)
    tell(catalog, node, name, table)
    assert get(node, path) == other
    table.remove(path)
    time.sleep(0.3)
    with pytest.raises(node.endpoint.boto3().exceptions.NoSuchKey):
        get(node, path)


def test_what_was_refused_or_failed_at_the_start_is_warm_once_the_origin_gives_it(origin, catalog, watch, proxy):
    table = Table(origin, f"{ROOT}/late")
    table.commit([table.data(f"{n}.parquet", ROWS) for n in range(40)])
    catalog.put_table("n", "late", table.metadata_location, table.metadata)
    for status, prefix in [(403, "/objects/table-lives/late/"), (403, "/objects/table-lives/late/data/"),
                           (503, "/objects/table-lives/late/data/")]:
        proxy.play({"fault": "status", "status": status, "prefix": prefix})
        try:
            node = watch()
            trouble = wait_for(node, lambda tables: is_in_trouble(tables.get("late")))["late"]
            assert trouble["state"] != "warm"
        finally:
            proxy.lift()
        wait_until_warm(node, {"late": table.metadata_location})
        start = proxy.mark()
        for file in range(40):
            path = f"{table.location}/data/{file}.parquet"
            bucket, key = place(path)
            node.endpoint.boto3().get_object(Bucket=bucket, Key=key, Range="bytes=-64")["Body"].read()
        assert reads_of_objects(proxy.since(start)) == []


def is_in_trouble(table):
    return table and (table["trouble"] or table["warmth"]["failed"])


def test_a_table_whose_files_fail_takes_no_others_reads_with_it(origin, catalog, watch, proxy):
    table = Table(origin, f"{ROOT}/failing")
    table.commit([table.data(f"{n}.parquet", ROWS) for n in range(40)])
    catalog.put_table("n", "failing", table.metadata_location, table.metadata)
    proxy.play({"fault": "status", "status": 503, "prefix": "/objects/table-lives/failing/data/"})
    try:
        node = watch()
        client = Client(node.endpoint)
        for number in range(8):
            put(origin, f"beside/{number}", b"bytes")
            time.sleep(0.5)
            assert client.ask("GET", target(f"beside/{number}")).body == b"bytes"
        client.close()
        assert known(node)["failing"]["warmth"]["failed"] > 0
        assert "left alone" not in node.text()
    finally:
        proxy.lift()


def test_tables_that_are_written_alike_are_told_apart(origin, catalog, watch):
    made = {}
    for namespace, name in [(("a.b",), "c"), (("a",), "b.c")]:
        table = Table(origin, f"{ROOT}/alike/{len(made)}")
        table.commit([table.data("x.parquet", ROWS)])
        catalog.put_table(namespace, name, table.metadata_location, table.metadata)
        made[name] = table.metadata_location
    node = watch()
    wait_until_warm(node, made)
    status, answer = order(node, "/admin/purge", {"table": "lake.a.b.c"})
    assert status == 400 and "`a.b`" in answer["error"], answer
    status, answer = order(node, "/admin/purge", {"table": "lake.a.`b.c`"})
    assert status == 200 and len(answer["purged"]["purges"]) == 1, answer
    status, answer = order(node, "/admin/tables/warm", {"table": "lake.a.`b.c`", "partitions": ["nope=*"]})
    assert status == 400 and "name=value" in answer["error"], answer


def test_pins_that_do_not_fit_together_leave_some_out_and_fetch_nothing_again(origin, catalog, watch, proxy):
    made = {}
    for number in range(4):
        table = Table(origin, f"{ROOT}/pinned/{number}")
        body = parquet([(n, "x" * 200 + str(n * 7919 % 10007)) for n in range(40_000)])
        path = f"{table.location}/data/x.parquet"
        table.put(path, body * (1 + (6 << 20) // len(body)))
        table.commit([File(path, len(body) * (1 + (6 << 20) // len(body)), 40_000)])
        catalog.put_table("n", f"pinned_{number}", table.metadata_location, table.metadata)
        made[f"pinned_{number}"] = table.metadata_location
    node = watch(keys={"cache.data_bytes": "24MiB"}, warm=[{"tables": ["*"], "pin": True}])
    wait_until_warm(node, made)

    def jobs():
        return json.loads(node.admin("/admin/tables/warm"))["jobs"]

    until("each rule has ended", lambda: len(jobs()) == 4 and all(each["ended_at"] for each in jobs()), 30)
    assert sum(each["left_out"] for each in jobs()) >= 1
    assert sum(each["estimated_bytes"] for each in jobs()) <= 24 << 20


@pytest.mark.parametrize("is_asked_for", [True, False], ids=["asked for", "not asked for"])
def test_page_indexes_are_at_hand_where_they_are_asked_for(is_asked_for, origin, proxy, catalog, watch):
    name = f"indexed_{is_asked_for}"
    table = Table(origin, f"{ROOT}/{name}")
    how = {"write_page_index": True, "data_page_size": 64, "use_dictionary": False, "compression": "none"}
    rows = [(n, f"{n:032}") for n in range(20_000)]
    body = parquet(rows, write_batch_size=4, **how)
    path = table.put(f"{ROOT}/{name}/data/x.parquet", body)
    table.commit([File(path, len(body), len(rows))])
    indexes = index_range(body)
    assert indexes.stop - indexes.start > 2 * WINDOW_BYTES
    node = watch(keys={"tables.page_indexes": is_asked_for})
    tell(catalog, node, name, table)
    mark, client = proxy.mark(), Client(node.endpoint)
    answer = client.get("/" + "/".join(place(path)), indexes.start, indexes.stop - 1)
    client.close()
    assert (answer.status, answer.body) == (206, body[indexes.start : indexes.stop])
    assert bool(reads_of_objects(proxy.since(mark))) != is_asked_for


def index_range(body):
    """Where a Parquet file's page indexes lie: between its data and its footer."""
    metadata = pyarrow.parquet.read_metadata(io.BytesIO(body))
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    starts = [each.dictionary_page_offset or each.data_page_offset for each in chunks]
    end = max(start + each.total_compressed_size for start, each in zip(starts, chunks))
    return range(end, len(body) - TRAILER_BYTES - metadata.serialized_size)

"""The tables of a watched catalog: what engines plan with is at hand before they ask, what a table lists is
believed as long as it lists it, and people can see, warm and purge a table by its name."""

import concurrent.futures
import contextlib
import json
import subprocess
import threading

import pyarrow
import pyarrow.parquet
import pytest

from conftest import RINGS
from lakehouse import engine, tables
from lakehouse.client import Client, put, target, until
from lakehouse.device import Device, mappings
from lakehouse.process import free_ports
from lakehouse.recorder import BINARIES, reads_of_objects
from lakehouse.seaweed import OBJECT_BUCKET, TABLE_BUCKET
from lakehouse.watch import (
    Footers,
    catalog_settings,
    hint_at,
    order,
    page,
    planning_requests,
    wait_until_warm,
)

MANY = 50
COMMITS = 20
ROWS = 2000
JUNK_BYTES = 4 << 20
DISK = {"disk.data_bytes": "128MiB", "disk.metadata_bytes": "128MiB", "disk.mapping_bytes": "32MiB"}

pytestmark = pytest.mark.usefixtures("needs_node")


def rows(first, count=ROWS):
    numbers = list(range(first, first + count))
    return pyarrow.table({"n": numbers, "text": [f"row {number}" for number in numbers]})


def full_name(name):
    return f"{tables.NAMESPACE}.{name}"


@pytest.fixture(scope="module")
def many(catalog):
    """Tables of two commits each, by name."""
    made = {}
    for number in range(MANY):
        name = f"many_{number:02}"
        table = catalog.create_table(full_name(name), schema=rows(0, 1).schema)
        table.append(rows(0))
        table.append(rows(ROWS))
        made[name] = table.metadata_location
    return made


@contextlib.contextmanager
def made_table(catalog, name, **further):
    """A table that is there while somebody looks at it."""
    table = catalog.create_table(full_name(name), schema=rows(0, 1).schema, **further)
    try:
        yield table
    finally:
        catalog.drop_table(full_name(name))


def engines(seaweed, node):
    """What plans and reads a table by its name through a node, with DuckDB and with PyIceberg."""
    connection = engine.attach_duckdb(seaweed, node.endpoint)
    through = tables.open_catalog(seaweed, node.endpoint)

    def read(name):
        count, total = connection.execute(f"SELECT count(*), sum(n) FROM {name} WHERE n >= 0").fetchone()
        scanned = through.load_table(full_name(name)).scan(selected_fields=("n",)).to_arrow()
        assert scanned.num_rows == count and sum(scanned["n"].to_pylist()) == (total or 0)
        return count

    return read


@pytest.mark.parametrize("ring", RINGS)
def test_planning_asks_the_origin_for_nothing_once_the_tables_are_reported_warm(
    ring, many, seaweed, origin, start_node, recorder
):
    node = start_node(ring=ring, catalogs=[catalog_settings(seaweed)])
    wait_until_warm(node, many)
    footers, read = Footers(origin.boto3()), engines(seaweed, node)
    start = recorder.mark()
    for name in many:
        assert read(name) == 2 * ROWS
    records = recorder.since(start)
    assert planning_requests(records, footers) == []
    told = page(node)
    assert told["index"]["footers"] >= 2 * MANY and told["index"]["files"] > 4 * MANY, told["index"]
    assert told["metadata_bytes_warmed"] <= told["metadata_bytes_room"]
    text = node.admin("/metrics")
    assert f'nilas_tables_warm{{catalog="lake"}} {told["tables_watched"]}\n' in text, text[-3000:]


@pytest.mark.parametrize("by", ["hint", "poll"])
def test_the_first_query_after_each_commit_is_planned_from_what_was_warmed(
    by, catalog, seaweed, origin, start_node, recorder
):
    name = f"commits_by_{by}"
    interval = {"hint": "1h", "poll": "200ms"}[by]
    include = [full_name(name)]
    settings = catalog_settings(seaweed, poll_interval=interval, include=include)
    with made_table(catalog, name) as table:
        table.append(rows(0))
        node = start_node(catalogs=[settings])
        read, footers = engines(seaweed, node), Footers(origin.boto3())
        for number in range(COMMITS):
            if number:
                table.append(rows(ROWS * number))
            if by == "hint":
                hint_at(node, name)
            wait_until_warm(node, {name: table.metadata_location})
            start = recorder.mark()
            assert read(name) == ROWS * (number + 1)
            assert planning_requests(recorder.since(start), footers) == [], f"after commit {number}"


def test_a_scan_of_ten_times_the_data_budget_evicts_no_planning_metadata(
    many, seaweed, origin, start_node, recorder
):
    budget = 32 << 20
    keys = {"cache.data_bytes": f"{budget >> 20}MiB", "cache.metadata_bytes": "64MiB"}
    node = start_node(catalogs=[catalog_settings(seaweed)], keys=keys)
    wait_until_warm(node, many)
    client = Client(node.endpoint)
    junk = bytes(JUNK_BYTES)
    for number in range(10 * budget // JUNK_BYTES):
        key = f"scan/{number}"
        put(origin, key, junk)
        assert client.ask("GET", target(key)).body == junk
    client.close()
    footers, read = Footers(origin.boto3()), engines(seaweed, node)
    start = recorder.mark()
    for name in many:
        assert read(name) == 2 * ROWS
    assert planning_requests(recorder.since(start), footers) == []
    evicted = node.stats()["cache"]["evictions"]
    assert evicted["metadata"] == 0 < evicted["data"], evicted


def key_of(location):
    return location.removeprefix(f"s3://{TABLE_BUCKET}/")


def test_a_file_that_no_snapshot_lists_any_more_is_asked_for_anew(catalog, seaweed, origin, start_node):
    name = "expired"
    with made_table(catalog, name) as table:
        table.append(rows(0))
        old = [task.file.file_path for task in table.scan().plan_files()]
        node = start_node(catalogs=[catalog_settings(seaweed, include=[full_name(name)])])
        wait_until_warm(node, {name: table.metadata_location})
        s3, direct = node.endpoint.boto3(), origin.boto3()
        whole = s3.get_object(Bucket=TABLE_BUCKET, Key=key_of(old[0]))["Body"].read()
        first = table.current_snapshot().snapshot_id
        table.overwrite(rows(ROWS))
        hint_at(node, name)
        wait_until_warm(node, {name: table.metadata_location})
        direct.delete_object(Bucket=TABLE_BUCKET, Key=key_of(old[0]))
        again = s3.get_object(Bucket=TABLE_BUCKET, Key=key_of(old[0]))["Body"].read()
        assert again == whole, "an older snapshot lists it still"
        table.maintenance.expire_snapshots().by_ids(
            [each.snapshot_id for each in table.snapshots() if each.snapshot_id != table.current_snapshot().snapshot_id]
        ).commit()
        assert first not in [each.snapshot_id for each in table.refresh().snapshots()]
        hint_at(node, name)
        wait_until_warm(node, {name: table.metadata_location})
        with pytest.raises(s3.exceptions.NoSuchKey):
            s3.get_object(Bucket=TABLE_BUCKET, Key=key_of(old[0]))


def test_a_file_of_any_name_is_believed_while_a_table_lists_it(catalog, seaweed, origin, start_node, recorder):
    name, key = "adopted", "odd folder/of=files/x.parquet"
    body = parquet_bytes(0)
    origin.boto3().put_object(Bucket=OBJECT_BUCKET, Key=key, Body=body)
    keys = {"cache.mutable_ttl": "0s"}
    with made_table(catalog, name) as table:
        node = start_node(catalogs=[catalog_settings(seaweed, include=[full_name(name)])], keys=keys)
        s3 = node.endpoint.boto3()

        def origin_reads():
            start = recorder.mark()
            assert s3.get_object(Bucket=OBJECT_BUCKET, Key=key)["Body"].read() == body
            return len(reads_of_objects(recorder.since(start)))

        assert [origin_reads() for _ in range(2)] == [1, 1], "nobody vouches for it: the origin is asked each time"
        table.add_files([f"s3://{OBJECT_BUCKET}/{key}"])
        hint_at(node, name)
        wait_until_warm(node, {name: table.metadata_location})
        origin_reads()
        assert [origin_reads() for _ in range(3)] == [0, 0, 0]


def parquet_bytes(first):
    with pyarrow.BufferOutputStream() as sink:
        pyarrow.parquet.write_table(rows(first), sink)
        return sink.getvalue().to_pybytes()


def test_what_a_catalog_vouched_for_outlives_the_node_as_long_as_nobody_says_otherwise(
    catalog, seaweed, origin, proxy, tmp_path
):
    name, key, body = "outliving", "odd folder/outliving.parquet", parquet_bytes(7)
    direct = origin.boto3()
    direct.put_object(Bucket=OBJECT_BUCKET, Key=key, Body=body)
    settings = catalog_settings(seaweed, include=[full_name(name)])
    down = {**settings, "url": f"http://127.0.0.1:{free_ports(1)[0]}"}
    device = Device(proxy, tmp_path, "auto", keys={**DISK, "cache.mutable_ttl": "0s"})
    with made_table(catalog, name) as table:
        table.add_files([f"s3://{OBJECT_BUCKET}/{key}"])
        with device.node(catalogs=[settings]) as node:
            wait_until_warm(node, {name: table.metadata_location})
            assert get(node, key) == body
        proxy.play({"fault": "refuse"})
        try:
            with device.node(catalogs=[down]) as node:
                until("its mappings are back", lambda: mappings(node) > 0, 30)
                assert get(node, key) == body, "neither the origin nor the catalog is there"
        finally:
            proxy.lift()
        table.delete("n >= 0")
        table.maintenance.expire_snapshots().by_ids(
            [each.snapshot_id for each in table.snapshots() if each.snapshot_id != table.current_snapshot().snapshot_id]
        ).commit()
        direct.delete_object(Bucket=OBJECT_BUCKET, Key=key)
        with device.node(catalogs=[settings]) as node:
            wait_until_warm(node, {name: table.metadata_location})
            with pytest.raises(node.endpoint.boto3().exceptions.NoSuchKey):
                get(node, key)
        with device.node() as node, pytest.raises(node.endpoint.boto3().exceptions.NoSuchKey):
            get(node, key)


def get(node, key):
    return node.endpoint.boto3().get_object(Bucket=OBJECT_BUCKET, Key=key)["Body"].read()


def test_every_read_is_right_while_tables_change(catalog, seaweed, origin, start_node):
    name, key, body = "changing", "beside/changing", bytes(range(256)) * 4096
    origin.boto3().put_object(Bucket=OBJECT_BUCKET, Key=key, Body=body)
    with made_table(catalog, name) as table:
        node = start_node(catalogs=[catalog_settings(seaweed, include=[full_name(name)])])
        over = threading.Event()

        def read_again_and_again():
            client, done = Client(node.endpoint), 0
            while not over.is_set():
                assert client.ask("GET", target(key)).body == body
                done += 1
            client.close()
            return done

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            reading = [pool.submit(read_again_and_again) for _ in range(2)]
            try:
                for number in range(10):
                    table.append(rows(number, 10))
                    hint_at(node, name)
                    wait_until_warm(node, {name: table.metadata_location})
            finally:
                over.set()
            assert all(each.result() > 10 for each in reading)


def test_a_table_is_purged_by_its_name_and_warmed_anew(many, seaweed, start_node, recorder):
    name = "many_07"
    node = start_node(catalogs=[catalog_settings(seaweed)])
    wait_until_warm(node, many)
    start = recorder.mark()
    status, answer = order(node, "/admin/purge", {"table": f"lake.{full_name(name)}"})
    assert status == 200 and answer["purged"]["purges"], answer
    wait_until_warm(node, many)
    fetched = {each["path"] for each in reads_of_objects(recorder.since(start))}
    of_table = {path for path in fetched if f"/{name}/" in path or key_of(many[name]) in path}
    assert of_table, fetched
    for body, status in [
        ({"table": "lake.nowhere.t"}, 404),
        ({"table": f"lake.{full_name(name)}", "prefix": "x"}, 400),
        ({}, 400),
    ]:
        found, answer = order(node, "/admin/purge", body)
        assert found == status and answer["error"], (body, answer)


def test_columns_are_warmed_on_order_and_read_without_the_origin(many, seaweed, start_node, recorder):
    name = "many_11"
    node = start_node(catalogs=[catalog_settings(seaweed)])
    wait_until_warm(node, many)
    status, job = order(node, "/admin/tables/warm", {"table": full_name(name), "columns": ["n"]})
    assert status == 202 and job["files"] == 2 and job["estimated_bytes"] > 0, job
    until("the job ends", lambda: job_of(node, job["job"])["ended_at"], 30)
    done = job_of(node, job["job"])
    assert (done["files_done"], done["failed"]) == (2, 0), done
    through = tables.open_catalog(seaweed, node.endpoint)
    start = recorder.mark()
    scanned = through.load_table(full_name(name)).scan(selected_fields=("n",)).to_arrow()
    assert scanned.num_rows == 2 * ROWS
    assert reads_of_objects(recorder.since(start)) == []
    for body, status, word in [
        ({"table": full_name(name), "columns": ["nn"]}, 400, "it has n, text"),
        ({"table": full_name(name), "snapshot_id": 7}, 400, "no snapshot 7"),
        ({"table": "nobody.knows"}, 404, "no watched catalog"),
        ({"tables": "x"}, 400, "unknown field"),
    ]:
        found, answer = order(node, "/admin/tables/warm", body)
        assert found == status and word in answer["error"], (body, answer)


def job_of(node, number):
    return json.loads(node.admin(f"/admin/tables/warm/{number}"))


def test_a_file_is_shown_with_its_table_and_its_columns(many, seaweed, start_node, catalog):
    name = "many_03"
    node = start_node(catalogs=[catalog_settings(seaweed)])
    wait_until_warm(node, many)
    path = next(iter(catalog.load_table(full_name(name)).scan().plan_files())).file.file_path
    fields = {each.name: each.field_id for each in catalog.load_table(full_name(name)).schema().fields}

    def told():
        return json.loads(node.admin(f"/admin/tables/file?bucket={TABLE_BUCKET}&key={key_of(path)}"))

    until("its footer is known", lambda: told()["columns"], 10)
    shown = told()
    assert (shown["table"], shown["kind"], shown["rows"]) == (f"lake.{full_name(name)}", "Data", ROWS), shown
    assert {(each["column"], each["field_id"]) for each in shown["columns"]} == set(fields.items())


def nilas(node, *arguments):
    """The status of `nilas`, and what it says."""
    command = [BINARIES / "nilas", *arguments, f"--admin=http://127.0.0.1:{node.admin_port}"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_the_command_line_shows_warms_and_purges_tables(many, seaweed, start_node, recorder):
    name = "many_19"
    node = start_node(catalogs=[catalog_settings(seaweed)])
    wait_until_warm(node, many)
    status, text = nilas(node, "tables")
    assert status == 0 and f"lake.{full_name(name)}" in text and "warm" in text, text
    status, text = nilas(node, "tables", full_name(name))
    assert status == 0 and many[name] in text, text
    status, text = nilas(node, "tables", "--json")
    assert status == 0 and len(json.loads(text)["tables"]) >= MANY, text[:500]
    status, text = nilas(node, "warm", full_name(name), "--columns", "n,text")
    assert status == 0 and "2 of 2 files" in text, text
    through = tables.open_catalog(seaweed, node.endpoint)
    start = recorder.mark()
    assert through.load_table(full_name(name)).scan().to_arrow().num_rows == 2 * ROWS
    assert reads_of_objects(recorder.since(start)) == []
    status, text = nilas(node, "purge", "--table", f"lake.{full_name(name)}")
    assert status == 0 and text.startswith(f"purged lake.{full_name(name)}"), text
    start = recorder.mark()
    assert through.load_table(full_name(name)).scan().to_arrow().num_rows == 2 * ROWS
    assert reads_of_objects(recorder.since(start)), "what was purged is fetched again"
    for arguments, word in [
        (["tables", "nobody.knows"], "no table"),
        (["warm", full_name(name), "--columns", "m"], "it has n, text"),
        (["purge", "--table", "nobody.knows"], "no watched catalog"),
    ]:
        status, text = nilas(node, *arguments)
        assert status == 1 and word in text, (arguments, text)
    assert nilas(node, "purge")[0] == 2


def test_what_a_rule_names_is_at_hand_after_each_commit(catalog, seaweed, start_node, recorder):
    name = "ruled"
    with made_table(catalog, name) as table:
        table.append(rows(0))
        settings = catalog_settings(seaweed, include=[full_name(name)])
        node = start_node(catalogs=[settings], warm=[{"tables": [f"lake.{tables.NAMESPACE}.*"], "pin": True}])
        through = tables.open_catalog(seaweed, node.endpoint)
        for number in range(3):
            if number:
                table.append(rows(ROWS * number))
                hint_at(node, name)
            wait_until_warm(node, {name: table.metadata_location})
            until("the rule's job ends", lambda: has_at_hand(node, number + 1), 30)
            start = recorder.mark()
            assert through.load_table(full_name(name)).scan().to_arrow().num_rows == ROWS * (number + 1)
            assert reads_of_objects(recorder.since(start)) == []


def has_at_hand(node, files):
    """Whether the one job there is has ended with so many files."""
    (job,) = json.loads(node.admin("/admin/tables/warm"))["jobs"] or [{"ended_at": None}]
    return job["ended_at"] and job["files_done"] == files

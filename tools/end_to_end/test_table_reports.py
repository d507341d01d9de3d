"""What users of other systems ran into with tables and catalogs, each as what is right. The catalog is
scripted, so that it pages, lends, ends its tokens and answers wrong when the test wants it to.
"""

import contextlib
import datetime
import json
import os
import re
import time
import urllib.parse

import pytest
from pyiceberg.table import StaticTable

from conftest import HAS_NODE
from lakehouse import engine, many_manifests
from lakehouse.client import Client, target, until
from lakehouse.handmade import Table, place
from lakehouse.recorder import reads_of_objects
from lakehouse.scripted_catalog import ScriptedCatalog
from lakehouse.seaweed import OBJECT_BUCKET
from lakehouse.table_reader import ENGINES, Outcome, read, storage
from lakehouse.watch import wait_for

pytestmark = pytest.mark.skipif(not HAS_NODE, reason="claims about the node and the catalog that it watches")

ROOT = f"s3://{OBJECT_BUCKET}/table-reports"
WAIT_SECONDS_MAX = 30
CLIENT = ("client-5", "client-secret-c1")
LIFE_SECONDS = 5
COMMITS = 30
MIB = 1 << 20
ROWS = [(n, "plain") for n in range(10)]


@pytest.fixture()
def scripts():
    """Starts scripted catalogs that end with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda **options: stack.enter_context(ScriptedCatalog(**options))


@pytest.fixture()
def watch(start_behind):
    """Starts a node that watches these catalogs, each by the name that it is given."""

    def start(keys=None, settings=None, **catalogs):
        plain = {"poll_interval": "200ms", "listing_interval": "500ms", **(settings or {})}
        items = [{"name": name, "url": catalog.url, **plain} for name, catalog in catalogs.items()]
        return start_behind(keys=keys, catalogs=items)

    return start


@pytest.fixture()
def table(origin, request):
    """A plain table of one file."""
    table = Table(origin, f"{ROOT}/{re.sub('[^a-z_0-9]', '_', request.node.name)}")
    table.commit([table.data("0.parquet", ROWS)])
    return table


def page(node, catalog="lake"):
    return next(each for each in json.loads(node.admin("/admin/catalogs"))["catalogs"] if each["name"] == catalog)


def seen(node, catalog="lake"):
    """What the node has seen of each table, by its namespace's levels and its name."""
    tables = page(node, catalog)["tables"]
    return {(*each["namespace"], each["name"]): each["seen"] for each in tables if each["seen"]}


def wait_for_seen(node, names, catalog="lake"):
    until(f"{names} are seen", lambda: seen(node, catalog).keys() == set(names), WAIT_SECONDS_MAX)


def put(catalog, table, namespace="reports", name="orders"):
    catalog.put_table(namespace, name, table.metadata_location, table.metadata)


def lent_for(seconds):
    """Credentials that are lent for so long, or without a word of their end."""

    def lend(_, name):
        ends_at = {"s3.session-token-expires-at-ms": str(int((time.time() + seconds) * 1000))} if seconds else {}
        config = {"s3.access-key-id": "lent", "s3.secret-access-key": "lent-secret-3d", **ends_at}
        return [{"prefix": f"{ROOT}/{name}", "config": config}]

    return lend


def credentials(node, catalog):
    return next(iter(seen(node, catalog).values()))["credentials"]


def test_lent_credentials_are_renewed_before_they_end_with_an_endpoint_for_that_and_without(scripts, watch, table):
    lenders = {"with": scripts(has_credentials_endpoint=True), "without": scripts()}
    for lender in lenders.values():
        lender.lend = lent_for(LIFE_SECONDS)
        put(lender, table)
    node = watch(settings={"vended_credentials": True}, **lenders)
    for name in lenders:
        wait_for_seen(node, [("reports", "orders")], name)
    ends = {name: set() for name in lenders}
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while min(map(len, ends.values())) < 3:
        assert time.monotonic() < deadline, ends
        for name in lenders:
            (lent,) = credentials(node, name)
            ends_at = datetime.datetime.fromisoformat(lent["expires_at"])
            assert ends_at > datetime.datetime.now(datetime.UTC), f"{name}: they have ended"
            ends[name].add(ends_at)
        time.sleep(0.1)
    assert lenders["with"].asked("*/credentials") and not lenders["without"].asked("*/credentials")
    assert "lent-secret" not in node.admin("/admin/catalogs") + node.text()


def lent_as(origin, secret_key):
    """Credentials for the folder of each table here."""
    config = {"s3.access-key-id": origin.access_key, "s3.secret-access-key": secret_key}
    return lambda *_: [{"prefix": ROOT, "config": config}]


def test_what_is_lent_for_a_table_reads_it_where_the_nodes_own_key_is_good_for_nothing(origin, scripts, watch, table):
    lake = scripts()
    lake.lend = lent_as(origin, origin.secret_key)
    put(lake, table)
    node = watch(keys={"origin.secret_key": "good-for-nothing"}, settings={"vended_credentials": True}, lake=lake)
    wait_for(node, all_warm)
    assert read("duckdb", node.endpoint, table.metadata_location) == Outcome(ROWS, None)
    client = Client(node.endpoint)
    refused = client.get(target("table-elsewhere/0.parquet"))
    client.close()
    assert (refused.status, refused.code) == (403, "SignatureDoesNotMatch"), refused


def test_what_is_lent_and_good_for_nothing_keeps_nobody_from_reading(origin, scripts, watch, table):
    lake = scripts()
    lake.lend = lent_as(origin, "good-for-nothing")
    put(lake, table)
    node = watch(settings={"vended_credentials": True}, lake=lake)
    wait_for(node, all_warm)
    assert read("duckdb", node.endpoint, table.metadata_location) == Outcome(ROWS, None)


def all_warm(tables):
    return tables and all(each["state"] == "warm" for each in tables.values())


def test_credentials_without_an_end_or_a_way_to_renew_them_are_kept_and_asked_for_in_no_hurry(scripts, watch, table):
    lake = scripts()
    lake.lend = lent_for(None)
    put(lake, table)
    node = watch(settings={"vended_credentials": True, "listing_interval": "1h"}, lake=lake)
    wait_for_seen(node, [("reports", "orders")])
    until("it is polled", lambda: page(node)["counts"]["polls"] >= 5, WAIT_SECONDS_MAX)
    assert credentials(node, "lake") == [{"prefix": f"{ROOT}/orders", "expires_at": None}]
    told = page(node)
    assert told["counts"]["failures"] == 0 and told["last_error"] is None
    whole = [each for each in lake.asked("*/tables/orders") if each.status == 200]
    assert len(whole) == 1, "the other polls cost a 304"


def test_a_table_that_is_large_and_often_new_takes_no_more_memory_with_each_commit(origin, scripts, watch):
    lake, table = scripts(), many_manifests.make(origin, "table-reports/large", manifests=100)
    node = watch(keys={"cache.data_bytes": "64MiB", "cache.metadata_bytes": "16MiB"}, lake=lake)
    before = 0
    for commit in range(1, COMMITS + 1):
        metadata = {**table.metadata, "properties": {f"p{n}": f"{commit:0100}" for n in range(20_000)}}
        location = f"{table.location}/metadata/{commit}.metadata.json"
        lake.put_table("reports", "large", location, metadata)
        until("it is seen", lambda: location in str(seen(node)), WAIT_SECONDS_MAX)
        if commit == COMMITS // 3:
            before = resident_bytes(node)
    later_bytes = seen(node)["reports", "large"]["metadata_bytes"] * (COMMITS - COMMITS // 3)
    grown_bytes = resident_bytes(node) - before
    assert grown_bytes < later_bytes // 3


def resident_bytes(node):
    with open(f"/proc/{node.pid}/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("scheme", ["s3a", "s3n"])
def test_locations_of_another_scheme_are_read_as_the_same_objects(scheme, name, scripts, watch, origin, proxy):
    lake, folder = scripts(), f"{ROOT.removeprefix('s3://')}/{scheme}-{name}"
    table = Table(origin, f"{scheme}://{folder}")
    table.commit([table.data("0.parquet", ROWS)])
    put(lake, table)
    node = watch(lake=lake)
    wait_for_seen(node, [("reports", "orders")])
    assert seen(node)["reports", "orders"]["metadata_location"] == table.metadata_location
    assert read(name, node.endpoint, table.metadata_location).rows == ROWS
    start = proxy.mark()
    as_s3 = table.metadata_location.replace(f"{scheme}://", "s3://")
    assert read(name, node.endpoint, as_s3).rows == ROWS
    assert reads_of_objects(proxy.since(start)) == [], "they are not the same objects to the node"


@pytest.mark.parametrize(
    "value,wrong",
    [("a%2Fb", ["a/b", "a%252Fb"]), ("a#b", ["a", "a%23b"]), ("a%23b", ["a#b", "a%2523b"])],
    ids=["escaped slash", "hash", "escaped hash"],
)
def test_a_partitions_path_is_neither_cut_nor_decoded_on_its_way_through(value, wrong, origin, request, watch, scripts):
    part = Table(origin, f"{ROOT}/{request.node.callspec.id.replace(' ', '-')}", is_partitioned=True)
    rows = [(n, value) for n in range(10)]
    part.commit([part.data(f"kind={value}/0.parquet", rows, partition=value)])
    for decoy in wrong:
        part.data(f"kind={decoy}/0.parquet", [(n, "wrong") for n in range(90, 99)])
    lake = scripts()
    put(lake, part)
    node = watch(lake=lake)
    wait_for_seen(node, [("reports", "orders")])
    for name in ENGINES:
        direct = read(name, origin, part.metadata_location)
        for _ in ("cold", "warm"):
            assert read(name, node.endpoint, part.metadata_location) == direct
    assert read("duckdb", node.endpoint, part.metadata_location).rows == rows


@pytest.mark.parametrize("separator", [None, ".", "/", "::", "\x1f"])
def test_nested_namespaces_are_seen_whatever_the_catalog_puts_between_their_levels(separator, scripts, watch, table):
    lake = scripts(separator=separator, page_size=1)
    names = [("a",), ("a", "b", "c"), ("größe 1", "50%/x"), ("dotted.level", "x")]
    # A level that holds the separator cannot be asked for as a parent, whoever asks.
    names = [levels for levels in names if (separator or "\x1f") not in "".join(levels)]
    for levels in names:
        put(lake, table, levels)
    put(lake, table, ("a", "b", "c"), "other#1/2?")
    node = watch(lake=lake)
    wait_for_seen(node, [*((*levels, "orders") for levels in names), ("a", "b", "c", "other#1/2?")])
    told = page(node)
    assert told["listing"]["troubles"] == [] and told["counts"]["failures"] == 0


@pytest.mark.parametrize("name", ENGINES)
def test_gzip_metadata_is_known_for_metadata_and_read_as_it_is(name, origin, scripts, watch, proxy):
    table = Table(origin, f"{ROOT}/gzip-{name}", is_gzip=True)
    table.commit([table.data("0.parquet", ROWS)])
    assert table.metadata_location.endswith(".gz.metadata.json")
    lake = scripts()
    put(lake, table)
    node = watch(lake=lake)
    wait_for_seen(node, [("reports", "orders")])
    assert seen(node)["reports", "orders"]["metadata_location"] == table.metadata_location
    assert read(name, node.endpoint, table.metadata_location).rows == ROWS
    start = proxy.mark()
    assert read(name, node.endpoint, table.metadata_location).rows == ROWS
    assert reads_of_objects(proxy.since(start)) == []


@pytest.mark.parametrize("page_size", [1, 3])
def test_every_page_is_read_although_the_token_ends_in_the_middle(page_size, scripts, watch, table):
    lake = scripts(page_size=page_size, client=CLIENT)
    namespaces = [f"n{number}" for number in range(7)] + ["n0.deep"]
    names = {(*namespace.split("."), f"t{number}") for namespace in namespaces for number in range(4)}
    for *levels, name in names:
        put(lake, table, levels, name)
    # Everything that was given is refused from the fifth page on.
    lake.play("/v1/namespaces/n2/tables", status=401, times=1)
    secrets = {"oauth2_client_id": CLIENT[0], "oauth2_client_secret": CLIENT[1]}
    node = watch(settings=secrets, lake=lake)
    wait_for_seen(node, names)
    told = page(node)
    assert told["listing"]["troubles"] == [] and told["listing"]["namespaces"] == len(namespaces)
    assert len([each for each in lake.asked("*/n2/tables") if each.status == 401]) == 1
    assert CLIENT[1] not in node.admin("/admin/catalogs") + node.text()


def test_a_token_that_ends_early_or_in_time_is_replaced_and_nothing_is_missed(scripts, watch, table):
    lake = scripts(client=CLIENT)
    lake.token_seconds = 4
    put(lake, table)
    node = watch(settings={"oauth2_client_id": CLIENT[0], "oauth2_client_secret": CLIENT[1]}, lake=lake)
    wait_for_seen(node, [("reports", "orders")])
    until("tokens follow each other", lambda: page(node)["counts"]["token_requests"] >= 2, WAIT_SECONDS_MAX)
    assert [each for each in lake.requests if each.status == 401] == [], "each was renewed in time"
    lake.end_tokens()
    location = table.commit([table.data("1.parquet", ROWS)])
    put(lake, table)
    until("the commit is seen", lambda: location in str(seen(node)), WAIT_SECONDS_MAX)
    assert page(node)["counts"]["failures"] == 0


def test_a_rotated_token_file_is_used_without_a_restart(scripts, watch, table, tmp_path):
    lake, file = scripts(), tmp_path / "token"
    file.write_text("token-one\n")
    lake.tokens = {"token-one"}
    put(lake, table)
    node = watch(settings={"token_file": str(file)}, lake=lake)
    wait_for_seen(node, [("reports", "orders")])
    for number, is_renamed in enumerate([True, False]):
        token, count = f"token-{number}-next", len(lake.requests)
        replace(file, token, is_renamed)
        until("the new token is sent", lambda: lake.requests[count:][-1:] and lake.requests[-1].bearer == token, 10)
        lake.tokens = {token}
        location = table.commit([table.data(f"{number}-next.parquet", ROWS)])
        put(lake, table)
        until("the commit is seen", lambda: location in str(seen(node)), WAIT_SECONDS_MAX)
    # The other order: refused first, replaced later.
    lake.tokens = {"token-last"}
    until("it is refused", lambda: page(node)["last_error"], WAIT_SECONDS_MAX)
    replace(file, "token-last", True)
    location = table.commit([table.data("last.parquet", ROWS)])
    put(lake, table)
    until("the commit is seen", lambda: location in str(seen(node)), WAIT_SECONDS_MAX)
    until("no error is left", lambda: page(node)["last_error"] is None, WAIT_SECONDS_MAX)
    assert "token-" not in node.admin("/admin/catalogs") + node.text()


def replace(file, text, is_renamed):
    if is_renamed:
        other = file.with_name("token-new")
        other.write_text(text)
        other.rename(file)
    else:
        file.write_text(text)


@pytest.mark.parametrize("name", ENGINES)
def test_a_missing_data_file_is_named_and_fails_only_what_needs_it(name, origin, scripts, watch):
    table = Table(origin, f"{ROOT}/missing-{name}", is_partitioned=True)
    lost = table.data("kind=lost/0.parquet", [(99, "lost")], partition="lost")
    table.commit([lost, table.data("kind=plain/0.parquet", ROWS, partition="plain")])
    bucket, key = place(lost.path)
    body = origin.boto3().get_object(Bucket=bucket, Key=key)["Body"].read()
    table.remove(lost.path)
    lake = scripts()
    put(lake, table)
    node = watch(lake=lake)
    wait_for_seen(node, [("reports", "orders")])
    client = Client(node.endpoint)
    for _ in range(2):
        refused = read(name, node.endpoint, table.metadata_location)
        assert refused == read(name, origin, table.metadata_location) and "lost/0.parquet" in refused.refusal
        told = client.ask("GET", f"/{bucket}/{urllib.parse.quote(key)}")
        assert (told.status, told.code) == (404, "NoSuchKey") and key in told.body.decode()
        assert kinds(name, node.endpoint, table) == {"plain"}
    table.put(lost.path, body)
    assert read(name, node.endpoint, table.metadata_location).rows == [*ROWS, (99, "lost")]
    client.close()


def kinds(name, endpoint, table):
    """The kinds of a query that needs the partition `plain` alone."""
    if name == "duckdb":
        scan = "SELECT DISTINCT kind FROM iceberg_scan(?) WHERE kind = 'plain'"
        return {kind for kind, in engine.connect_duckdb(endpoint).execute(scan, [table.metadata_location]).fetchall()}
    static = StaticTable.from_metadata(table.metadata_location, storage(endpoint))
    return set(static.scan(row_filter="kind = 'plain'").to_arrow()["kind"].to_pylist())


@pytest.mark.parametrize("kind", ["slow", "wrong", "flood", "endless", "busy"])
def test_a_catalog_that_is_slow_or_wrong_or_floods_costs_no_read_and_is_told_of(kind, scripts, watch, table):
    bad, good = scripts(), scripts()
    put(bad, table)
    put(good, table)
    spoil(bad, kind)
    node = watch(settings={"request_timeout": "2s", "answer_bytes_max": "1MiB"}, bad=bad, lake=good)
    wait_for_seen(node, [("reports", "orders")])
    for name in ENGINES:
        assert read(name, node.endpoint, table.metadata_location).rows == ROWS
    until("it is told", lambda: page(node, "bad")["last_error"], WAIT_SECONDS_MAX)
    assert page(node)["counts"]["failures"] == 0
    bad.lift()
    bad.delay = 0
    until("it is seen when it is well again", lambda: seen(node, "bad"), WAIT_SECONDS_MAX)


def spoil(catalog, kind):
    """Has it answer so from the first request on."""
    if kind == "slow":
        catalog.play("*", delay=6)
    elif kind == "wrong":
        catalog.play("*/tables/*", body=b'{"metadata-location": 5, "metadata": []}')
    elif kind == "flood":
        catalog.play("*/tables/*", body=b'{"metadata": {"x": "' + b"x" * 64 * MIB)
    elif kind == "endless":
        endless = {"namespaces": [["reports"]], "next-page-token": "again"}
        catalog.play("/v1/namespaces", body=json.dumps(endless).encode())
    else:
        catalog.play("*", status=503, headers={"Retry-After": "1"})

"""A real catalog, watched: its tables are on the node's page, commits are seen, and hints make that sooner."""

import json
import time

import pyarrow
import pytest

from lakehouse import tables
from lakehouse.client import Client, put, target, until
from lakehouse.process import free_ports
from lakehouse.seaweed import TABLE_BUCKET
from lakehouse.watch import catalog_settings, hint

SEEN_SECONDS_MAX = 30

pytestmark = pytest.mark.usefixtures("needs_node")


@pytest.fixture(scope="module", params=["oauth2", "sigv4"])
def watching(request, catalog, seaweed, start_node):
    """A node that watches the catalog, proved in one of two ways, and never asks twice by itself."""
    return start_node(catalogs=[catalog_settings(seaweed, proof=request.param)])


def shown(node):
    return json.loads(node.admin("/admin/catalogs"))["catalogs"][0]


def wait_for(what, node):
    """What the page says once `what` holds of it."""
    deadline = time.monotonic() + SEEN_SECONDS_MAX
    while not what(page := shown(node)):
        assert time.monotonic() < deadline, json.dumps(page, indent=1)
        time.sleep(0.05)
    return page


def locations(page):
    return {each["name"]: each["seen"] and each["seen"]["metadata_location"] for each in page["tables"]}


def test_every_table_is_seen_where_the_catalog_says_it_is(watching, catalog):
    def are_seen(page):
        return set(tables.TABLES) <= {each["name"] for each in page["tables"] if each["seen"]}

    page = wait_for(are_seen, watching)
    true = {name: catalog.load_table(f"{tables.NAMESPACE}.{name}").metadata_location for name in tables.TABLES}
    assert {name: where for name, where in locations(page).items() if name in true} == true
    assert page["last_error"] is None and page["counts"]["failures"] == 0, page
    assert f'nilas_catalog_tables{{catalog="lake"}} {page["tables_watched"]}' in watching.admin("/metrics")


def test_a_commit_is_seen_at_once_when_somebody_hints_at_it(watching, catalog):
    name = f"hinted_{watching.admin_port}"
    table = catalog.create_table(f"{tables.NAMESPACE}.{name}", schema=pyarrow.schema([("n", pyarrow.int64())]))
    plain = {"catalog": "lake", "namespace": [tables.NAMESPACE], "table": name}
    event = {
        "specversion": "1.0",
        "id": "1",
        "source": "test",
        "type": "org.apache.iceberg.snapshot.committed",
        "data": {"table": f"{tables.NAMESPACE}.{name}"},
    }
    # The first makes the new table known, the others show a commit each.
    for body, content_type in [(plain, "application/json"), (event, "application/cloudevents+json")]:
        table.append(pyarrow.table({"n": [1]}))
        status, answer = hint(watching, body, content_type=content_type)
        assert (status, answer["hint"]) == (202, "taken")
        wait_for(lambda page: locations(page).get(name) == table.metadata_location, watching)
    catalog.drop_table(f"{tables.NAMESPACE}.{name}")
    assert hint(watching, plain)[0] == 202
    wait_for(lambda page: name not in locations(page), watching)


def test_a_hint_that_is_not_signed_right_is_refused(watching):
    body = {"catalog": "lake", "namespace": [tables.NAMESPACE], "table": "orders"}
    before = shown(watching)["counts"]["hints_taken"]
    status, answer = hint(watching, body, secret="another")
    assert status == 401 and "hint_secret" in answer["error"]
    assert shown(watching)["counts"]["hints_taken"] == before


def test_catalogs_that_refuse_or_are_not_there_are_told_of_and_cost_no_read(seaweed, origin, start_node):
    known = {"url": seaweed.catalog_url, "warehouse": f"s3://{TABLE_BUCKET}", "poll_interval": "100ms"}
    access_key = seaweed.endpoint.access_key
    node = start_node(
        catalogs=[
            {"name": "gone", "url": f"http://127.0.0.1:{free_ports(1)[0]}"},
            {"name": "no_token", **known, "oauth2_client_id": access_key, "oauth2_client_secret": "geheim-1"},
            {"name": "no_signature", **known, "auth": "sigv4", "access_key": access_key, "secret_key": "geheim-2"},
        ]
    )

    def all_told():
        return all(each["last_error"] for each in json.loads(node.admin("/admin/catalogs"))["catalogs"])

    until("each has its error", all_told, SEEN_SECONDS_MAX)
    page = node.admin("/admin/catalogs")
    causes = [each["last_error"]["cause"] for each in json.loads(page)["catalogs"]]
    assert "cannot be reached" in causes[0] and "gives no token" in causes[1], causes
    assert "(401)" in causes[2] or "(403)" in causes[2], causes
    assert "geheim" not in page + node.text() + node.admin("/admin/config")
    put(origin, "beside-a-catalog", b"bytes")
    client = Client(node.endpoint)
    assert client.ask("GET", target("beside-a-catalog")).body == b"bytes"
    client.close()

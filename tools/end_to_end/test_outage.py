"""An origin that is away: what cannot have changed is served, what may have changed is served for as long
as it is believed, everything else is told to come back; and nothing of it lasts longer than the outage."""

import json
import time

import pytest

from conftest import HAS_NODE, RINGS
from lakehouse.client import Client, put, target, until
from lakehouse.version import content

pytestmark = pytest.mark.skipif(not HAS_NODE, reason="what a node makes of an outage")

TTL_SECONDS = 2.0
STALE_SECONDS = 2.0
RECOVERY_SECONDS_MAX = 30
REFUSE = {"fault": "refuse"}
OLD, NEW = content(1, 300_000), content(2, 200_000)
# What an origin says of itself, or of one answer alone.
VARYING = ["x-amz-request-id", "x-amz-id-2", "date", "connection"]
IMMUTABLE = [
    "table/metadata/00001-a.metadata.json",
    "table/metadata/snap-1-a.avro",
    "table/metadata/a-m0.avro",
    "table/data/part-0.parquet",
]
MUTABLE = "plain/object.bin"
NEVER_READ = ["table/data/part-1.parquet", "plain/other.bin"]


def facts(answer):
    """Status, headers and bytes, as far as they tell of the object."""
    headers = {name: value for name, value in answer.headers.items() if name not in VARYING}
    return answer.status, headers, answer.body


def read_all_ways(client, folder, key):
    at = target(folder, key)
    return [
        facts(client.ask("HEAD", at)),
        facts(client.get(at)),
        facts(client.get(at, 70_000, 199_999)),
        facts(client.ask("GET", at, {"Range": "bytes=-100"})),
    ]


def assert_told_to_come_back(answer):
    assert (answer.status, answer.is_cut) == (503, False), answer
    assert int(answer.headers["retry-after"]) > 0


def readiness(node):
    return json.loads(node.admin("/readyz"))


@pytest.fixture(autouse=True)
def origin_is_back(proxy):
    yield
    proxy.lift()


@pytest.mark.parametrize("ring", RINGS)
def test_what_cannot_have_changed_is_served_without_an_origin_and_the_rest_comes_back_with_it(
    ring, start_behind, proxy, origin
):
    folder = f"outage/{ring}"
    for key in [*IMMUTABLE, MUTABLE, *NEVER_READ]:
        put(origin, f"{folder}/{key}", OLD)
    node = start_behind(ring=ring, keys={"cache.mutable_ttl": f"{TTL_SECONDS:.0f}s"})
    client = Client(node.endpoint)
    before = {key: read_all_ways(client, folder, key) for key in IMMUTABLE}
    client.get(target(folder, MUTABLE))
    believed_until = time.monotonic() + TTL_SECONDS
    proxy.play(REFUSE)
    answer = client.get(target(folder, MUTABLE))
    assert time.monotonic() > believed_until or (answer.status, answer.body) == (200, OLD)
    for is_open in (False, True):
        if is_open:
            until("the breaker opens", lambda: fails_until_open(client, node, folder), RECOVERY_SECONDS_MAX)
        for key, seen in before.items():
            assert read_all_ways(client, folder, key) == seen, key
        for key in NEVER_READ:
            for method in ("GET", "HEAD"):
                assert_told_to_come_back(client.ask(method, target(folder, key)))
        assert_told_to_come_back(client.ask("PUT", target(folder, "plain/new.bin"), body=NEW))
        assert_told_to_come_back(client.ask("DELETE", target(folder, NEVER_READ[1])))
    time.sleep(max(0.0, believed_until - time.monotonic()))
    for method in ("GET", "HEAD"):
        assert_told_to_come_back(client.ask(method, target(folder, MUTABLE)))
    ready = readiness(node)
    assert (ready["phase"], ready["origin"]["failing"]) == ("ready", True)
    put(origin, f"{folder}/{MUTABLE}", NEW)
    proxy.lift()
    until("it is served again", lambda: client.get(target(folder, MUTABLE)).status == 200, RECOVERY_SECONDS_MAX)
    assert client.get(target(folder, MUTABLE)).body == NEW
    for key in NEVER_READ:
        assert client.get(target(folder, key)).body == OLD
    assert client.ask("HEAD", target(folder, "plain/new.bin")).status == 404, "so was the write"
    assert readiness(node)["origin"]["failing"] is False
    assert node.text().count("is left alone for a while") == 1
    assert node.text().count("the origin answers again") == 1


def fails_until_open(client, node, folder):
    assert_told_to_come_back(client.get(target(folder, NEVER_READ[0])))
    return readiness(node)["origin"]["failing"]


def test_what_may_have_changed_is_served_past_its_time_as_long_as_the_operator_says(
    start_behind, proxy, origin
):
    put(origin, f"stale/{MUTABLE}", OLD)
    keys = {"cache.mutable_ttl": "100ms", "cache.stale_if_error": f"{STALE_SECONDS:.0f}s"}
    node = start_behind(keys=keys)
    client = Client(node.endpoint)
    assert client.get(target("stale", MUTABLE)).body == OLD
    read_at = time.monotonic()
    proxy.play(REFUSE)
    time.sleep(0.2)
    for method, body in (("GET", OLD), ("HEAD", b"")):
        answer = client.ask(method, target("stale", MUTABLE))
        in_time = time.monotonic() < read_at + STALE_SECONDS
        assert not in_time or (answer.status, answer.body) == (200, body)
    put(origin, f"stale/{MUTABLE}", NEW)
    time.sleep(max(0.0, read_at + 0.2 + STALE_SECONDS - time.monotonic()))
    assert_told_to_come_back(client.get(target("stale", MUTABLE)))
    proxy.lift()
    until("it is served again", lambda: client.get(target("stale", MUTABLE)).status == 200, RECOVERY_SECONDS_MAX)
    assert client.get(target("stale", MUTABLE)).body == NEW


def test_a_write_that_may_still_happen_is_never_covered_by_what_is_stale(start_behind, proxy, origin):
    put(origin, f"doubt/{MUTABLE}", OLD)
    node = start_behind(keys={"cache.mutable_ttl": "1h", "cache.stale_if_error": "1h"})
    client = Client(node.endpoint)
    at = target("doubt", MUTABLE)
    assert client.get(at).body == OLD
    proxy.play({"fault": "reset", "method": "PUT"})
    assert_told_to_come_back(client.ask("PUT", at, body=NEW))
    proxy.play(REFUSE)
    assert_told_to_come_back(client.get(at))
    proxy.lift()
    until("it is served again", lambda: client.get(at).status == 200, RECOVERY_SECONDS_MAX)
    assert client.get(at).body == NEW


def test_a_node_that_starts_without_its_origin_says_so_and_serves_when_it_comes(start_behind, proxy, origin):
    put(origin, f"start/{MUTABLE}", OLD)
    proxy.play(REFUSE)
    node = start_behind()
    client = Client(node.endpoint)
    assert_told_to_come_back(client.get(target("start", MUTABLE)))
    until("readiness tells", lambda: readiness(node)["origin"]["reachable"] is False, RECOVERY_SECONDS_MAX)
    assert readiness(node)["phase"] == "ready"
    proxy.lift()
    until("it is served", lambda: client.get(target("start", MUTABLE)).status == 200, RECOVERY_SECONDS_MAX)
    assert client.get(target("start", MUTABLE)).body == OLD

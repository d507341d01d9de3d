"""An origin that misbehaves, in every way that the proxy before it can play: a client gets the right
bytes or a proper error in time, and nothing wrong is left behind when it is over. What is known is
believed for an hour, so that whatever was kept wrongly would be seen."""

import concurrent.futures
import dataclasses
import json
import time

import pytest

from conftest import HAS_NODE, RINGS
from lakehouse.client import Client, put, target
from lakehouse.seaweed import OBJECT_BUCKET
from lakehouse.version import BLOCK, KIB, MIB, SECTOR, content

pytestmark = pytest.mark.skipif(not HAS_NODE, reason="what a node makes of an origin's faults")

FIRST_BYTE_SECONDS = 1.0
IDLE_SECONDS = 0.5
TRIES = 3
KEYS = {
    "origin.first_byte_timeout": "1s",
    "origin.body_idle_timeout": "500ms",
    "cache.mutable_ttl": "1h",
    "cache.block_bytes": "1MiB",
}
# Every try waits for its head or in its body; the rest is for a machine that has other things to do.
ANSWER_SECONDS_MAX = TRIES * (FIRST_BYTE_SECONDS + IDLE_SECONDS) + 5
RECOVERY_SECONDS_MAX = 30
LENGTH = 2 * MIB + 77
BODY = content(1, LENGTH)
FIELD_RETRY_AFTER = "retry-after"

FAULTS = {
    "a head that is late": {"fault": "delay", "ms": 300, "before": "answer"},
    "a request that is late": {"fault": "delay", "ms": 300},
    "a head beyond all patience": {"fault": "delay", "ms": 4000, "before": "answer"},
    "a slow body": {"fault": "rate", "bytes_per_second": 4 * MIB},
    "a cut instead of a head": {"fault": "cut"},
    "a cut behind the head": {"fault": "cut", "after_bytes": 0},
    "a cut in the body": {"fault": "cut", "after_bytes": 300 * KIB + 1},
    "a reset instead of a head": {"fault": "reset"},
    "a reset behind the head": {"fault": "reset", "after_bytes": 0},
    "a reset in the body": {"fault": "reset", "after_bytes": 300 * KIB + 1},
    "a reset now and then": {"fault": "reset", "chance_percent": 40, "seed": 7},
    "silence instead of a head": {"fault": "stall"},
    "silence in the body": {"fault": "stall", "after_bytes": MIB // 2 + 1},
    "a pause in the body": {"fault": "stall", "after_bytes": SECTOR, "ms": 200},
    # Of a HEAD nobody could tell.
    "a length that is too long": {"fault": "wrong_length", "by": 5, "method": "GET"},
    "a length that is too short": {"fault": "wrong_length", "by": -5, "method": "GET"},
    "bytes behind the body": {"fault": "surplus", "bytes": 100},
    "a range elsewhere": {"fault": "wrong_range", "by": 1},
    "a range of a longer object": {"fault": "wrong_range", "total_by": 1},
    "500": {"fault": "status", "status": 500},
    "502": {"fault": "status", "status": 502, "code": "BadGateway"},
    "503": {"fault": "status", "status": 503},
    "503 and a second": {"fault": "status", "status": 503, "retry_after_s": 1},
    "503 and half a minute": {"fault": "status", "status": 503, "retry_after_s": 30},
    "504": {"fault": "status", "status": 504, "code": "GatewayTimeout"},
    "nobody there": {"fault": "refuse"},
}
# What they say of a body's length or place cannot be believed, and is passed on where it is not.
LIES = ("wrong_length", "wrong_range")


@dataclasses.dataclass(frozen=True)
class Ask:
    """One way of reading an object."""

    name: str
    method: str = "GET"
    first: int = 0
    last: int = LENGTH - 1

    @property
    def headers(self):
        is_whole = (self.first, self.last) == (0, LENGTH - 1)
        return {} if is_whole else {"Range": f"bytes={self.first}-{self.last}"}

    @property
    def expected(self):
        return BODY[self.first : self.last + 1]


ASKS = [
    Ask("whole"),
    Ask("across", first=SECTOR - 3, last=2 * BLOCK + 5),
    Ask("small", first=2 * BLOCK - 10, last=2 * BLOCK + 9),
    Ask("head", method="HEAD"),
]


def read(node, folder, ask):
    client = Client(node.endpoint, timeout=2 * ANSWER_SECONDS_MAX)
    answer = client.ask(ask.method, target(folder, ask.name), ask.headers)
    client.close()
    return answer


def is_right(ask, answer):
    has_length = answer.headers.get("content-length") == str(len(ask.expected))
    if ask.method == "HEAD":
        return answer.status == 200 and has_length
    is_whole = not answer.is_cut and answer.body == ask.expected
    return answer.status in (200, 206) and has_length and is_whole


def is_right_so_far(ask, answer):
    """Whether a body that broke off, or is of a doubtful length, is of the right bytes as far as it goes."""
    return answer.status in (200, 206) and ask.expected.startswith(answer.body)


def is_error(rule, answer):
    """Whether it is a proper error: the node's own, or the origin's as it was."""
    if answer.is_cut or answer.status < 500:
        return answer.is_cut and answer.status == 0
    if rule["fault"] == "status" and answer.status == rule.get("status", 503):
        told = answer.headers.get(FIELD_RETRY_AFTER)
        return told in (None, "1") or told == str(rule.get("retry_after_s"))
    return answer.status != 503 or FIELD_RETRY_AFTER in answer.headers


def judge(rule, ask, answer):
    if answer.seconds > ANSWER_SECONDS_MAX:
        return f"{answer.seconds:.1f} s"
    if is_right(ask, answer) or is_error(rule, answer):
        return None
    is_doubtful = answer.is_cut or rule["fault"] in LIES
    if is_doubtful and (ask.method == "HEAD" or is_right_so_far(ask, answer)):
        return None
    return f"{answer.status} {answer.headers} {len(answer.body)} bytes, cut: {answer.is_cut}"


def place(origin, folder):
    """Puts an object for each way of reading, past the node."""
    for ask in ASKS:
        put(origin, f"{folder}/{ask.name}", BODY)


def rule_for(fault, folder, **more):
    if fault["fault"] == "refuse":
        return fault
    return {**fault, "prefix": f"/{OBJECT_BUCKET}/{folder}/", **more}


def read_all(node, folder):
    with concurrent.futures.ThreadPoolExecutor(len(ASKS)) as pool:
        return list(pool.map(lambda ask: read(node, folder, ask), ASKS))


def until_right(node, folder, ask, may_be_cut=False):
    """Reads until the node has found out that the origin is well again. Nothing else may be wrong."""
    deadline = time.monotonic() + RECOVERY_SECONDS_MAX
    while True:
        answer = read(node, folder, ask)
        if is_right(ask, answer):
            return
        is_begun = may_be_cut and answer.is_cut and is_right_so_far(ask, answer)
        assert answer.status >= 500 or is_begun, (ask, answer.status, answer.headers)
        assert time.monotonic() < deadline, (ask, answer)
        time.sleep(0.05)


@pytest.fixture(scope="module", params=RINGS)
def node(request, start_behind):
    return start_behind(ring=request.param, keys=KEYS)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_costs_an_error_in_time_at_most_and_leaves_nothing_wrong(name, node, proxy, origin):
    folder = f"faults/{name.replace(' ', '-')}/{node.ring()}"
    rule = rule_for(FAULTS[name], folder)
    place(origin, folder)
    proxy.play(rule)
    answers = read_all(node, folder)
    met = proxy.met()
    proxy.lift()
    assert rule["fault"] == "refuse" or met[0] > 0
    wrong = [judge(rule, ask, answer) for ask, answer in zip(ASKS, answers)]
    assert not any(wrong), wrong
    for ask in ASKS:
        # A version that never was ends the read that finds it out, and no other.
        until_right(node, folder, ask, may_be_cut=rule["fault"] in LIES)
    for ask in ASKS:
        every = [Ask(ask.name), *(dataclasses.replace(other, name=ask.name) for other in ASKS)]
        assert all(is_right(each, read(node, folder, each)) for each in every), ask
    assert node.is_running() and "panicked" not in node.text()


PASSING = [
    "a head that is late",
    "a slow body",
    "a cut instead of a head",
    "a cut in the body",
    "a reset instead of a head",
    "a reset in the body",
    "silence in the body",
    "bytes behind the body",
    "500",
    "503 and a second",
]


@pytest.mark.parametrize("ring", RINGS)
def test_a_fault_that_passes_costs_nothing_but_time(ring, start_behind, proxy, origin):
    node = start_behind(ring=ring, keys=KEYS)
    for name in PASSING:
        folder = f"passing/{name.replace(' ', '-')}/{ring}"
        place(origin, folder)
        proxy.play(rule_for(FAULTS[name], folder, times=1))
        answers = read_all(node, folder)
        assert proxy.met() == [1], name
        wrong = [ask for ask, answer in zip(ASKS, answers) if not is_right(ask, answer)]
        assert not wrong, (name, wrong, [answer.status for answer in answers])
    proxy.lift()


def events(node):
    return node.stats()["origin_events"]


@pytest.mark.parametrize("ring", RINGS)
def test_the_breaker_opens_when_the_origin_fails_and_closes_when_it_is_well(
    ring, start_behind, proxy, origin
):
    node = start_behind(ring=ring, keys=KEYS)
    folder = f"breaker/{ring}"
    place(origin, folder)
    assert not node.stats()["origin_breaker_open"]
    proxy.play(rule_for(FAULTS["500"], folder))
    client = Client(node.endpoint)
    deadline = time.monotonic() + RECOVERY_SECONDS_MAX
    while not node.stats()["origin_breaker_open"]:
        assert client.get(target(folder, ASKS[0].name)).status in (500, 503)
        assert time.monotonic() < deadline
    assert "nilas_origin_breaker_open 1" in node.admin("/metrics")
    assert json.loads(node.admin("/readyz"))["origin"]["failing"] is True
    before = proxy.met()[0]
    answers = [client.get(target(folder, ASKS[0].name)) for _ in range(30)]
    refused = [each for each in answers if each.status == 503]
    assert all(FIELD_RETRY_AFTER in each.headers for each in refused)
    assert len(refused) >= 28, "refused at once, but for a probe"
    assert proxy.met()[0] - before <= 2, "the origin is left alone"
    proxy.lift()
    for ask in ASKS:
        until_right(node, folder, ask)
    assert "nilas_origin_breaker_open 0" in node.admin("/metrics")
    assert (events(node)["breaker_opened"], events(node)["breaker_closed"]) == (1, 1)
    assert node.text().count("is left alone for a while") == 1
    assert node.text().count("the origin answers again") == 1

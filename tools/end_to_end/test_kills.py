"""Processes that are killed in the midst of it. A writer, between its request and the answer: the node
goes on without it and agrees with the origin. The node itself, under uploads and reads: clients see an
error, the origin holds the old object or the new one, and a node that starts afterwards serves it."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from conftest import HAS_NODE, RINGS
from lakehouse.client import Client, amazon_headers, presigned, put, target, until
from lakehouse.node import Node
from lakehouse.seaweed import OBJECT_BUCKET
from lakehouse.version import MIB, content

pytestmark = pytest.mark.skipif(not HAS_NODE, reason="claims about the node")

OLD, NEW = content(1, 300_000), content(2, MIB + 5)
WAIT_SECONDS_MAX = 30
READS_AFTERWARDS = 10
# A client as small as can be, so that it is soon there: it asks and waits for its answer.
WRITER = """
import http.client, json, sys
job = json.load(sys.stdin)
connection = http.client.HTTPConnection("127.0.0.1", job["port"])
body = open(job["body"], "rb").read() if job["body"] else None
connection.request(job["method"], job["target"], body=body, headers=job["headers"])
print("the answer is", connection.getresponse().status)
"""
SOURCE = "kills/source"


class Write:
    """One write to one object, by a process that can be killed or by this one."""

    def __init__(self, node, key, way):
        self.key = key
        self.at = target(key)
        self.leaves, (self.method, query, self.headers, self.body) = way(node, key)
        self._query = query
        self._node = node
        self._process = None

    def start(self, folder):
        """A process of its own asks."""
        path = ""
        if self.body is not None:
            path = folder / f"{self.key.replace('/', '-')}.body"
            path.write_bytes(self.body)
        endpoint, signed = self._node.endpoint, amazon_headers(self.headers)
        job = {
            "port": endpoint.port,
            "method": self.method,
            "target": presigned(endpoint, self.method, self.at + self._query, signed),
            "headers": self.headers,
            "body": str(path),
        }
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen([sys.executable, "-S", "-c", WRITER], **pipes)
        self._process.stdin.write(json.dumps(job))
        self._process.stdin.close()

    def kill(self):
        """Kills the process, which must not have had its answer."""
        self._process.kill()
        assert self._process.stdout.read() == ""
        assert self._process.wait() == -signal.SIGKILL

    def ask(self):
        """This process asks."""
        client = Client(self._node.endpoint)
        answer = client.ask(self.method, self.at + self._query, self.headers, self.body)
        client.close()
        return answer


def put_object(node, key):
    return NEW, ("PUT", "", {}, NEW)


def delete_object(node, key):
    return None, ("DELETE", "", {}, None)


def copy_object(node, key):
    return NEW, ("PUT", "", {"x-amz-copy-source": target(SOURCE)}, None)


def complete_upload(node, key):
    client = node.endpoint.boto3()
    place = {"Bucket": OBJECT_BUCKET, "Key": key}
    upload = client.create_multipart_upload(**place)["UploadId"]
    part = client.upload_part(**place, UploadId=upload, PartNumber=1, Body=NEW)
    told = f"<Part><PartNumber>1</PartNumber><ETag>{part['ETag']}</ETag></Part>"
    xml = f"<CompleteMultipartUpload>{told}</CompleteMultipartUpload>"
    return NEW, ("POST", f"?uploadId={upload}", {}, xml.encode())


WAYS = [put_object, delete_object, copy_object, complete_upload]
LATE_MS = 700
# How the answer is kept from a writer that waits for it.
HELD = {
    "the answer is held": {"fault": "delay", "ms": LATE_MS, "before": "answer"},
    "the request is held": {"fault": "delay", "ms": LATE_MS, "before": "request"},
    "the answer never comes": {"fault": "stall"},
}
# How it is lost, so that nobody knows.
LOST = {
    "the answer is reset": {"fault": "reset"},
    "the answer is cut": {"fault": "cut"},
    "the answer is an error": {"fault": "status", "status": 500, "asks_origin": True},
    "the request comes late": {"fault": "reset", "late_ms": LATE_MS},
}


@pytest.fixture(scope="module", params=RINGS)
def node(request, start_behind, origin):
    put(origin, SOURCE, NEW)
    return start_behind(ring=request.param, keys={"cache.mutable_ttl": "1h"})


def seen(endpoint, at):
    """The object, or nothing; an error is neither."""
    answer = Client(endpoint).get(at)
    assert answer.status in (200, 404) and not answer.is_cut, (at, answer.status, answer.headers)
    return answer.body if answer.status == 200 else None


def prepare(node, origin, name):
    """A write of each way to an object of its own, which the node knows and believes for an hour."""
    folder = f"kills/{name.replace(' ', '-')}/{node.ring()}"
    writes = [Write(node, f"{folder}/{way.__name__}", way) for way in WAYS]
    for write in writes:
        put(origin, write.key, OLD)
        assert seen(node.endpoint, write.at) == OLD
    return folder, writes


def rules(rule, folder):
    """The rule, for whatever changes something there."""
    return [{**rule, "prefix": target(folder), "method": method} for method in ("PUT", "DELETE", "POST")]


def unknown_writes(node):
    return node.stats()["failures"]["write_unknown"]


def assert_old_or_new(node, writes):
    for write in writes:
        assert seen(node.endpoint, write.at) in (OLD, write.leaves), write.key


def are_done(endpoint, writes):
    return all(seen(endpoint, write.at) == write.leaves for write in writes)


def assert_agreement(node, writes):
    assert all(are_done(node.endpoint, writes) for _ in range(READS_AFTERWARDS))


@pytest.mark.parametrize("name", HELD)
def test_a_writer_killed_before_its_answer_leaves_the_node_in_agreement_with_the_origin(
    name, node, proxy, origin, tmp_path
):
    folder, writes = prepare(node, origin, name)
    unknown = unknown_writes(node)
    proxy.play(*rules(HELD[name], folder))
    for write in writes:
        write.start(tmp_path)
    until("the requests are on their way", lambda: sum(proxy.met()) == len(WAYS), WAIT_SECONDS_MAX)
    for write in writes:
        write.kill()
    assert_old_or_new(node, writes)
    until("the origin has done it", lambda: are_done(origin, writes), WAIT_SECONDS_MAX)
    if name == "the answer never comes":
        # Only the end of its connection tells the node that it will never know.
        proxy.play({"fault": "refuse"})
        until("the node knows", lambda: unknown_writes(node) == unknown + len(WAYS), WAIT_SECONDS_MAX)
    proxy.lift()
    until("the node has heard", lambda: are_done(node.endpoint, writes), WAIT_SECONDS_MAX)
    assert_agreement(node, writes)


@pytest.mark.parametrize("name", LOST)
def test_a_write_whose_answer_is_lost_is_an_error_and_every_read_asks_the_origin(
    name, node, proxy, origin
):
    folder, writes = prepare(node, origin, name)
    unknown = unknown_writes(node)
    proxy.play(*rules(LOST[name], folder))
    for write in writes:
        answer = write.ask()
        assert answer.status in (500, 503) and answer.is_proper_error, (write.key, answer)
    assert sum(proxy.met()) == len(WAYS), "no write is asked twice"
    assert unknown_writes(node) == unknown + len(WAYS)
    for write in writes:
        while (at_origin := seen(origin, write.at)) != write.leaves:
            assert at_origin == OLD
            assert seen(node.endpoint, write.at) in (OLD, write.leaves)
        assert seen(node.endpoint, write.at) == write.leaves, write.key
    proxy.lift()
    assert_agreement(node, writes)


HALF = 4 * MIB
WHOLE = content(3, 2 * HALF)


def half_a_body(is_half_sent, may_go_on):
    yield WHOLE[:HALF]
    is_half_sent.set()
    may_go_on.wait(WAIT_SECONDS_MAX)
    yield WHOLE[HALF:]


class Asking:
    """A request in a thread of its own."""

    def __init__(self, endpoint, *request):
        self.answer = None
        self._thread = threading.Thread(target=self._ask, args=[endpoint, request])
        self._thread.start()

    def _ask(self, endpoint, request):
        self.answer = Client(endpoint).ask(*request)

    def end(self):
        self._thread.join(WAIT_SECONDS_MAX)
        return self.answer


def test_a_node_killed_under_uploads_and_reads_costs_errors_and_harms_no_object(
    proxy, origin, workspace
):
    half, new, done, read = (target(f"kills/node/{name}") for name in ("half", "new", "done", "read"))
    for name in ("half", "done", "read"):
        put(origin, f"kills/node/{name}", WHOLE if name == "read" else OLD)
    node = Node(proxy.endpoint, workspace / "killed-node")
    proxy.play(
        {"fault": "delay", "ms": 1000 * WAIT_SECONDS_MAX, "before": "answer", "path": done},
        {"fault": "rate", "bytes_per_second": MIB, "path": read},
    )
    may_go_on, sent = threading.Event(), [threading.Event(), threading.Event()]
    length = {"Content-Length": str(len(WHOLE))}
    asked = [
        Asking(node.endpoint, "PUT", half, length, half_a_body(sent[0], may_go_on)),
        Asking(node.endpoint, "PUT", new, length, half_a_body(sent[1], may_go_on)),
        Asking(node.endpoint, "PUT", done, {}, NEW),
        Asking(node.endpoint, "GET", read),
    ]
    assert all(event.wait(WAIT_SECONDS_MAX) for event in sent)
    until("one write is done, one read under way", lambda: proxy.met()[0] == 1 <= proxy.met()[1], WAIT_SECONDS_MAX)
    until("the origin has done it", lambda: seen(origin, done) == NEW, WAIT_SECONDS_MAX)
    os.kill(node.pid, signal.SIGKILL)
    may_go_on.set()
    answers = [each.end() for each in asked]
    assert all(answer.is_cut for answer in answers), answers
    assert WHOLE.startswith(answers[3].body)
    node.stop()
    proxy.lift()
    expected = {half: OLD, new: None, done: NEW, read: WHOLE}
    with_node = Node(proxy.endpoint, workspace / "next-node")
    try:
        for endpoint in (origin, with_node.endpoint):
            assert {at: seen(endpoint, at) for at in expected} == expected
        assert Client(with_node.endpoint).ask("PUT", half, body=NEW).status == 200
        assert seen(origin, half) == seen(with_node.endpoint, half) == NEW
    finally:
        with_node.stop()

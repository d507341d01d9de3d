"""Objects that are overwritten, copied over, deleted and purged while many read them: every answer is
of one version, and of one that could be seen then. Where what is known of objects is believed for an
hour, whatever is told on is seen at once, or never; where it is for a moment, versions are found out."""

import collections
import json
import os
import random
import subprocess
import threading
import time
import urllib.request

import pytest

from conftest import HAS_NODE, RINGS
from lakehouse.client import Client, target
from lakehouse.recorder import BINARIES
from lakehouse.seaweed import OBJECT_BUCKET
from lakehouse.version import BLOCK, LENGTH_IN_PARTS, MIB, SECTOR, History, content

RACE_SECONDS = float(os.environ.get("NILAS_RACE_SECONDS", "4"))
READERS = 6
KEYS = ["races/a", "races/b", "races/c"]
SOURCES = {"races/source-1": 901, "races/source-2": 902}
SEED = 20241130
PURGE_SECONDS = 0.05
WRONG_SHOWN = 5
PART = 5 * MIB


def put_past_node(origin, key, number):
    body, metadata = content(number), {"version": str(number)}
    origin.boto3().put_object(Bucket=OBJECT_BUCKET, Key=key, Body=body, Metadata=metadata)


class Writer:
    """Changes one object in every way there is, one after another."""

    def __init__(self, endpoint, key):
        self.history = History()
        self._key = key
        self._place = {"Bucket": OBJECT_BUCKET, "Key": key}
        self._client = endpoint.boto3()
        self._source = random.Random(f"{SEED} {key}")
        self._number = 0
        self.done = collections.Counter()

    def run(self, ends_at):
        rare = [self.copy, self.delete, self.delete_list, self.put_in_parts]
        first = [self.put, *self._source.sample(rare, len(rare))]
        while first or time.monotonic() < ends_at:
            way = first.pop(0) if first else self._source.choice([self.put] * 6 + rare)
            way()
            self.done[way.__name__] += 1
            time.sleep(self._source.random() * 0.02)
        self.put()

    def _write(self, act, number, length=None):
        self.history.begin(number, length)
        act()
        self.history.end()

    def put(self):
        number = self._next()
        body, metadata = content(number), {"version": str(number)}
        put = self._client.put_object
        self._write(lambda: put(**self._place, Body=body, Metadata=metadata), number)

    def copy(self):
        key, number = self._source.choice(sorted(SOURCES.items()))
        copied = {"Bucket": OBJECT_BUCKET, "Key": key}
        self._write(lambda: self._client.copy_object(**self._place, CopySource=copied), number)

    def delete(self):
        self._write(lambda: self._client.delete_object(**self._place), None)

    def delete_list(self):
        listed = {"Objects": [{"Key": self._key}]}
        delete = self._client.delete_objects
        self._write(lambda: delete(Bucket=OBJECT_BUCKET, Delete=listed), None)

    def put_in_parts(self):
        number = self._next()
        body, metadata = content(number, LENGTH_IN_PARTS), {"version": str(number)}
        upload = self._client.create_multipart_upload(**self._place, Metadata=metadata)
        place = {**self._place, "UploadId": upload["UploadId"]}
        parts = []
        for at in range(0, LENGTH_IN_PARTS, PART):
            part = {"PartNumber": len(parts) + 1}
            answer = self._client.upload_part(**place, **part, Body=body[at : at + PART])
            parts.append({**part, "ETag": answer["ETag"]})
        complete = self._client.complete_multipart_upload
        whole = {"Parts": parts}
        self._write(lambda: complete(**place, MultipartUpload=whole), number, LENGTH_IN_PARTS)

    def _next(self):
        self._number += 1
        return self._number


class Reader:
    """Reads what the writers write, mostly across borders of blocks, and judges every answer."""

    def __init__(self, endpoint, seed, writers):
        self._client = Client(endpoint)
        self._source = random.Random(seed)
        self._writers = writers
        self.seen = collections.Counter()
        self.wrong = []

    def run(self, has_ended):
        while not has_ended.is_set() and len(self.wrong) < WRONG_SHOWN:
            key = self._source.choice(KEYS)
            self.read(key, self._writers[key].history)

    def read(self, key, history):
        place = history.now()
        form = self._source.random()
        if form < 0.1:
            self._judge(history, place, self._client.ask("HEAD", target(key)), is_head=True)
        elif form < 0.3:
            self._judge(history, place, self._client.get(target(key)))
        else:
            first, last = border_range(self._source)
            answer = self._client.get(target(key), first, last)
            self._judge(history, place, answer, first=first, last=last)

    def _judge(self, history, place, answer, **asked):
        wrong = history.judge(place, answer, **asked)
        self.seen["cut" if answer.is_cut else answer.status] += 1
        if wrong:
            self.wrong.append(f"{asked}: {wrong}")


def border_range(source):
    """From a little before a border of blocks or sectors to a little or far behind it."""
    border = source.choice([SECTOR, BLOCK, BLOCK, BLOCK, 2 * BLOCK, 2 * BLOCK, 3 * BLOCK])
    first = max(border - source.randrange(1, SECTOR), 0)
    last = border + source.choice([0, source.randrange(SECTOR), source.randrange(2 * BLOCK)])
    return first, last


def purge_now_and_then(node, has_ended, source, purges):
    orders = [{"key": key} for key in KEYS] + [{"prefix": "races/"}, {}]
    while not has_ended.wait(PURGE_SECONDS * 2 * source.random()):
        by = source.choice([purge, purge, purge, purge_by_command])
        by(node, source.choice(orders))
        purges[by.__name__] += 1


def purge(node, order):
    body = json.dumps({"bucket": OBJECT_BUCKET, **order}).encode()
    url = f"http://127.0.0.1:{node.admin_port}/admin/purge"
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=30).close()


def purge_by_command(node, order):
    command = [BINARIES / "nilas", "purge", f"--admin=http://127.0.0.1:{node.admin_port}"]
    command += [f"--{name}={value}" for name, value in {"bucket": OBJECT_BUCKET, **order}.items()]
    subprocess.run(command, check=True, capture_output=True, timeout=30)


class Crew:
    """Threads that run at once, and what has failed in them."""

    def __init__(self, jobs):
        self.failures = []
        self._threads = [threading.Thread(target=self._attempt, args=[job]) for job in jobs]
        for thread in self._threads:
            thread.start()

    def _attempt(self, job):
        try:
            job()
        except Exception as failure:
            self.failures.append(failure)

    def join(self):
        for thread in self._threads:
            thread.join()


class Race:
    """Writers and readers of the same objects, and somebody who purges them, for a while."""

    def __init__(self, node, origin):
        for key, number in SOURCES.items():
            put_past_node(origin, key, number)
        for key in KEYS:
            origin.boto3().delete_object(Bucket=OBJECT_BUCKET, Key=key)
        self._node = node
        self.writers = {key: Writer(node.endpoint, key) for key in KEYS}
        self.readers = [Reader(node.endpoint, SEED + index, self.writers) for index in range(READERS)]
        self.purges = collections.Counter()

    def run(self):
        has_ended = threading.Event()
        ends_at = time.monotonic() + RACE_SECONDS
        watching = [lambda each=each: each.run(has_ended) for each in self.readers]
        if HAS_NODE:
            purging = (self._node, has_ended, random.Random(SEED), self.purges)
            watching.append(lambda: purge_now_and_then(*purging))
        writing = Crew([lambda each=each: each.run(ends_at) for each in self.writers.values()])
        watching = Crew(watching)
        writing.join()
        has_ended.set()
        watching.join()
        assert not writing.failures + watching.failures, writing.failures + watching.failures

    def judge(self):
        """Nothing was wrong; and there was something to be wrong."""
        wrong = [each for reader in self.readers for each in reader.wrong]
        assert not wrong, "\n".join(wrong[:WRONG_SHOWN])
        seen = sum((reader.seen for reader in self.readers), collections.Counter())
        done = sum((writer.done for writer in self.writers.values()), collections.Counter())
        print(f"{dict(seen)} {dict(done)} {dict(self.purges)}")
        assert seen[206] > 20 and seen[200] > 5 and seen[404] > 0, seen
        assert len(done) == 5 and (not HAS_NODE or self.purges), done
        for key, writer in self.writers.items():
            last = writer.history.now()
            answer = Client(self._node.endpoint).get(target(key))
            assert answer.status == 200 and writer.history.judge(last, answer) is None


RACE_KEYS = {"cache.mutable_ttl": "1h", "cache.block_bytes": "1MiB", "cache.data_bytes": "64MiB"}


@pytest.mark.parametrize("ring", RINGS if HAS_NODE else RINGS[:1])
def test_no_answer_mixes_versions_and_every_acknowledged_write_is_seen(ring, start_behind, origin):
    race = Race(start_behind(ring=ring, keys=RACE_KEYS), origin)
    race.run()
    race.judge()


WEATHER = [
    {"fault": "reset", "after_bytes": 100_000, "chance_percent": 10, "seed": 1},
    {"fault": "cut", "after_bytes": 70_001, "chance_percent": 10, "seed": 2},
    {"fault": "delay", "ms": 60, "before": "answer", "chance_percent": 20, "seed": 3},
    {"fault": "stall", "ms": 60, "after_bytes": 65_536, "chance_percent": 10, "seed": 4},
    {"fault": "reset", "chance_percent": 3, "seed": 5},
]


@pytest.mark.parametrize("ring", RINGS)
def test_nor_does_it_while_the_origins_answers_to_reads_are_late_and_break_off(
    ring, start_behind, proxy, origin, needs_node
):
    race = Race(start_behind(ring=ring, keys={**RACE_KEYS, "cache.mutable_ttl": "20ms"}), origin)
    proxy.play(*({**rule, "method": "GET", "prefix": target("races/")} for rule in WEATHER))
    race.run()
    met = proxy.met()
    proxy.lift()
    assert all(met), met
    race.judge()

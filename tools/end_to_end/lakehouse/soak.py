"""A long mixed load with faults: writers, readers fast and slow, lists, clients that leave or send
nonsense, and an origin that misbehaves now and then. Every answer is judged, no request may be stuck,
and the node's memory, files and connections must stay where they were.

Run by hand from `tools/end_to_end`: `python -m lakehouse.soak --minutes 60`.
"""

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import random
import socket
import statistics
import sys
import tempfile
import threading
import time

from .client import Client, presigned, put, target, until
from .node import Node
from .recorder import Recorder
from .seaweed import OBJECT_BUCKET, Seaweed
from .version import BLOCK, KIB, MIB, SECTOR, History, content

KEYS = {
    "origin.first_byte_timeout": "2s",
    "origin.body_idle_timeout": "2s",
    "origin.write_timeout": "10s",
    "cache.mutable_ttl": "1s",
    "cache.block_bytes": "1MiB",
    "cache.data_bytes": "96MiB",
    "cache.metadata_bytes": "16MiB",
    "cache.mapping_bytes": "4MiB",
    "limits.buffer_bytes": "32MiB",
    "log.level": "warn",
}
FAULTS = [
    {"fault": "delay", "ms": 300, "before": "answer"},
    {"fault": "delay", "ms": 4000, "before": "answer", "chance_percent": 20, "seed": 1},
    {"fault": "rate", "bytes_per_second": 4 * MIB},
    {"fault": "cut", "chance_percent": 30, "seed": 2},
    {"fault": "cut", "after_bytes": 100 * KIB + 1, "method": "GET"},
    {"fault": "reset", "chance_percent": 30, "seed": 3},
    {"fault": "reset", "after_bytes": 100 * KIB + 1, "method": "GET"},
    {"fault": "stall", "chance_percent": 10, "seed": 4},
    {"fault": "stall", "after_bytes": SECTOR, "ms": 200, "method": "GET"},
    {"fault": "surplus", "bytes": 100, "method": "GET"},
    {"fault": "status", "status": 500, "chance_percent": 50, "seed": 5},
    {"fault": "status", "status": 503, "retry_after_s": 1, "chance_percent": 50, "seed": 6},
    {"fault": "refuse"},
]
STATIC_OBJECTS = 24
STATIC_BYTES = 8 * MIB + 77
VERSIONS_A_KEY = 100
# Between two requests of one actor: the load is to be mixed for an hour, not heavy.
THINK_SECONDS = 0.03
WRITERS, READERS, SLOW_READERS, LEAVERS = 2, 3, 3, 2
# Every time-out of the node and of its origin, one after the other, and a busy machine.
ANSWER_SECONDS_MAX = 60
WRONG_SHOWN = 10
# 148 MiB of budgets, and what OPERATIONS promises beside them.
RESIDENT_BYTES_MAX = (96 + 16 + 4 + 32 + 64) * MIB
# What may come on top between an hour's second quarter and its last.
RESIDENT_GROWTH_MAX = 8 * MIB
FILES_GROWTH_MAX = 16
AT_REST = ["connections", "leased", "waiting_reads", "buffer", "flights"]


@dataclasses.dataclass
class Sample:
    """The node at one moment."""

    seconds: float
    resident_bytes: int
    files: int
    connections: int
    origin_requests: int


class Soak:
    """The actors around one node; `seen` counts answers, `wrong` says what was."""

    def __init__(self, node, proxy, seed):
        self._node, self._proxy, self._seed = node, proxy, seed
        self._has_ended = threading.Event()
        self.seen, self.wrong, self.samples, self.actors = collections.Counter(), [], [], []

    def run(self, seconds):
        """Runs all actors for so long, and waits until the last has its answer."""
        self._begin(self._play_faults)
        for number, act in enumerate(
            [self._write] * WRITERS + [self._read] * READERS + [self._read_slowly] * SLOW_READERS
            + [self._leave] * LEAVERS + [self._list]
        ):
            self._begin(act, number)
        begun = time.monotonic()
        while time.monotonic() - begun < seconds and not self.wrong:
            self.samples.append(self._sample(time.monotonic() - begun))
            # A signature lives for an hour.
            presigned.cache_clear()
            time.sleep(min(5, seconds / 20))
        self._has_ended.set()
        for actor in self.actors:
            actor.join(2 * ANSWER_SECONDS_MAX)
            if actor.is_alive():
                self.wrong.append(f"{actor.name} is stuck")

    def comes_to_rest(self):
        """All that requests hold is given back."""
        for resource in AT_REST:
            until(f"{resource} come to rest", lambda: self._used(resource) == 0, ANSWER_SECONDS_MAX)

    def growth(self):
        """What was more in the last quarter than in the second, by the medians: bytes and files."""
        quarter = len(self.samples) // 4
        second, last = self.samples[quarter : 2 * quarter], self.samples[-quarter:]
        return tuple(
            statistics.median(of(each) for each in last) - statistics.median(of(each) for each in second)
            for of in (lambda it: it.resident_bytes, lambda it: it.files)
        )

    def _begin(self, act, number=0):
        name = f"{act.__name__.strip('_')} {number}"
        source = random.Random(f"{self._seed} {name}")

        def run():
            try:
                act(source, number)
            except Exception as error:
                self.wrong.append(f"{name}: {error!r}")

        actor = threading.Thread(target=run, name=name, daemon=True)
        self.actors.append(actor)
        actor.start()

    def _client(self):
        return Client(self._node.endpoint, timeout=ANSWER_SECONDS_MAX)

    def _note(self, actor, answer, wrong=None):
        self.seen[actor, "cut" if answer.is_cut else answer.status] += 1
        if wrong and len(self.wrong) < WRONG_SHOWN:
            self.wrong.append(f"{actor}: {wrong}")

    def _play_faults(self, source, _):
        while not self._has_ended.wait(source.uniform(1, 4)):
            rule = source.choice(FAULTS)
            if rule["fault"] != "refuse":
                rule = {**rule, "prefix": f"/{OBJECT_BUCKET}"}
            self._proxy.play(rule)
            self._has_ended.wait(source.uniform(0.5, 3))
            self._proxy.lift()

    def _write(self, source, number):
        """Writes versions of a key, and reads them back; a key of unknown state is left alone."""
        client, generation = self._client(), 0
        while not self._has_ended.is_set():
            generation += 1
            self._write_key(client, source, f"soak/{number}/{generation}")

    def _write_key(self, client, source, key):
        history = History()
        for number in range(VERSIONS_A_KEY):
            if self._has_ended.wait(THINK_SECONDS):
                return
            history.begin(number)
            headers = {"x-amz-meta-version": str(number)}
            answer = client.ask("PUT", target(key), headers, content(number))
            self._note("write", answer)
            if answer.status != 200:
                return
            history.end()
            for _ in range(source.randrange(3)):
                first = source.choice([None, source.randrange(BLOCK)])
                last = None if first is None else first + source.randrange(2 * BLOCK)
                place = history.now()
                answer = client.get(target(key), first, last)
                self._note("own read", answer, history.judge(place, answer, first=first, last=last))
        self._note("delete", client.ask("DELETE", target(key)))

    def _read(self, source, _):
        client = self._client()
        while not self._has_ended.wait(THINK_SECONDS):
            number = source.randrange(STATIC_OBJECTS)
            first = source.randrange(STATIC_BYTES)
            last = min(first + source.choice([4 * KIB, SECTOR, 2 * BLOCK]), STATIC_BYTES - 1)
            answer = client.get(target(static_key(number)), first, last)
            expected = static_content(number)[first : last + 1]
            wrong = None
            if answer.status == 206:
                is_right = expected.startswith(answer.body) if answer.is_cut else expected == answer.body
                wrong = None if is_right else f"wrong bytes of {number}: {first}-{last}"
            elif not (answer.is_cut or answer.is_proper_error):
                wrong = f"no proper error: {answer}"
            self._note("read", answer, wrong)

    def _read_slowly(self, source, _):
        """Asks for whole objects, takes a little at a time, and leaves before the end."""
        while not self._has_ended.is_set():
            path = presigned(self._node.endpoint, "GET", target(static_key(source.randrange(STATIC_OBJECTS))))
            with self._connect() as stream:
                self._send(stream, f"GET {path} HTTP/1.1\r\nHost: {self._node.endpoint.host}\r\n\r\n".encode())
                for _ in range(source.randrange(40)):
                    if self._has_ended.wait(0.2) or not self._receive(stream, SECTOR):
                        break
            self.seen["slow read", "left"] += 1

    def _leave(self, source, _):
        """Connections that break off within a request or in its answer, or send what is none."""
        while not self._has_ended.wait(source.uniform(0, 0.2)):
            key = target(static_key(source.randrange(STATIC_OBJECTS)))
            method = source.choice(["GET", "PUT", "HEAD", "DELETE"])
            # Only a GET is sent whole: whatever else would change what others read.
            path = presigned(self._node.endpoint, "GET", key)
            text = f"{method} {path} HTTP/1.1\r\nHost: {self._node.endpoint.host}\r\nContent-Length: 9\r\n\r\n"
            whole = text.encode() if method == "GET" else source.randbytes(200)
            with self._connect() as stream:
                self._send(stream, whole[: source.randrange(1, len(whole) + 1)])
                if source.random() < 0.3:
                    self._receive(stream, source.randrange(1, SECTOR))
            self.seen["leave", "left"] += 1

    def _list(self, source, _):
        client = self._client()
        while not self._has_ended.wait(source.uniform(0, 0.5)):
            path = f"/{OBJECT_BUCKET}?list-type=2&prefix=static/&max-keys={source.randrange(1, 50)}"
            answer = client.ask("GET", path)
            is_right = answer.is_cut or answer.is_proper_error or answer.status == 200
            self._note("list", answer, None if is_right else str(answer))

    def _connect(self):
        return socket.create_connection(("127.0.0.1", self._node.endpoint.port), timeout=1)

    def _send(self, stream, data):
        try:
            stream.sendall(data)
        except OSError:
            pass

    def _receive(self, stream, length):
        try:
            return stream.recv(length)
        except OSError:
            return b""

    def _used(self, resource):
        return metric(self._node.admin("/metrics"), "nilas_used", f'resource="{resource}"')

    def _sample(self, seconds):
        page = self._node.admin("/metrics")
        return Sample(
            seconds,
            resident_bytes(self._node.pid),
            len(os.listdir(f"/proc/{self._node.pid}/fd")),
            int(metric(page, "nilas_used", 'resource="connections"')),
            int(metric(page, "nilas_origin_in_flight", "")),
        )

    def resident_bytes_max(self):
        return max(each.resident_bytes for each in self.samples)


def static_key(number):
    return f"static/{number}.parquet"


def static_content(number):
    return content(number + 1, STATIC_BYTES)


def resident_bytes(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * KIB


def metric(page, name, label):
    """The sum of the samples that carry a label, of the metrics whose names begin so."""
    lines = [line for line in page.splitlines() if line.startswith(name) and label in line]
    assert lines, f"no {name} with {label}"
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def soak(folder, seconds, ring, seed):
    """A whole run; gives what was seen, after it has come to rest."""
    folder = pathlib.Path(folder)
    origin = Seaweed(folder / "origin")
    try:
        proxy = Recorder(origin.endpoint, folder)
        node = Node(proxy.endpoint, folder / "node", KEYS, ring=ring)
        for number in range(STATIC_OBJECTS):
            put(origin.endpoint, static_key(number), static_content(number))
        run = Soak(node, proxy, seed)
        run.run(seconds)
        if not run.wrong:
            run.comes_to_rest()
        if not node.is_running() or "panicked" in node.text():
            run.wrong.append(f"the node: {node.text()[-2000:]}")
        node.stop()
        proxy.stop()
        return run
    finally:
        origin.stop()


def main():
    parser = argparse.ArgumentParser(prog="python -m lakehouse.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--ring", default="io_uring")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nilas-soak-") as folder:
        run = soak(folder, 60 * arguments.minutes, arguments.ring, arguments.seed)
    for (actor, status), count in sorted(run.seen.items(), key=str):
        print(f"{actor:>10} {status}: {count}")
    for sample in run.samples[:: max(len(run.samples) // 12, 1)]:
        print(json.dumps(dataclasses.asdict(sample)))
    resident, files = run.growth()
    print(f"growth: {resident / MIB:.1f} MiB, {files:.0f} files; wrong: {run.wrong}")
    is_flat = resident <= RESIDENT_GROWTH_MAX and files <= FILES_GROWTH_MAX
    is_flat &= run.resident_bytes_max() <= RESIDENT_BYTES_MAX
    return 0 if is_flat and not run.wrong else 1


if __name__ == "__main__":
    sys.exit(main())

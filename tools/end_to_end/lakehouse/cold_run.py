"""Cold DuckDB: the 22 TPC-H queries by a fresh process, from the origin itself and through a node that
has nothing of it, in turns; the time's ratio, and what the origin sent by what the engine was given.

Run by hand from `tools/end_to_end`: `python -m lakehouse.cold_run --scale 1 --latency-ms 30`.
"""

import argparse
import collections
import dataclasses
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import types

from . import engine, node, tables
from .endpoint import Endpoint
from .recorder import REPOSITORY, Recorder
from .seaweed import Seaweed

FOLDER = pathlib.Path(__file__).resolve().parents[1]
QUERIES_SECONDS_MAX = 600
TIME_RATIO_AIM = 1.0
AMPLIFICATION_AIM = 1.15


@dataclasses.dataclass
class Run:
    """One pass over all queries."""

    seconds: float
    requests: int
    origin_bytes: int
    client_bytes: int
    distinct_bytes: int

    @property
    def amplification(self):
        """What the origin sent by what the engine was given. The engine asks for much more than once."""
        return self.origin_bytes / self.client_bytes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", default="1")
    parser.add_argument("--latency-ms", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--server", help="the nilas-server to run; the tree's own by default")
    parser.add_argument("--gate", action="store_true", help="fail when an aim is missed")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        print(json.dumps(_run_queries(json.loads(arguments.job))))
        return
    if arguments.server:
        node.SERVER = arguments.server
    direct, cold = measure(arguments)
    missed = report(direct, cold)
    if missed and arguments.gate:
        sys.exit(f"aims missed: {'; '.join(missed)}")


def measure(arguments):
    """The runs without and with a node, round by round."""
    direct, cold = [], []
    with tempfile.TemporaryDirectory(prefix="nilas-cold-run-") as folder:
        seaweed = Seaweed(f"{folder}/seaweed")
        try:
            catalog = tables.open_catalog(seaweed, seaweed.endpoint)
            tables.load(catalog, tables.generate(arguments.scale, REPOSITORY / "target" / "lakehouse"))
            recorder = Recorder(seaweed.endpoint, folder, arguments.latency_ms)
            try:
                for number in range(arguments.rounds):
                    direct.append(_direct(seaweed, recorder))
                    cold.append(_cold(seaweed, recorder, arguments, f"{folder}/node-{number}"))
                    print(f"round {number}: direct {direct[-1]}, cold {cold[-1]}", flush=True)
            finally:
                recorder.stop()
        finally:
            seaweed.stop()
    return direct, cold


def report(direct, cold):
    """Prints the figures; the aims that were missed, in words."""
    ratios = [one.seconds / other.seconds for one, other in zip(cold, direct)]
    time_ratio = statistics.median(ratios)
    amplification = statistics.median(run.amplification for run in cold)
    print("| read | s, min/median | origin requests | origin MB | of it distinct | client MB "
          "| origin ÷ client | time |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, runs, ratio in [("direct", direct, 1.0), ("cold node", cold, time_ratio)]:
        middle = sorted(runs, key=lambda run: run.seconds)[len(runs) // 2]
        seconds = f"{min(run.seconds for run in runs):.2f}/{middle.seconds:.2f}"
        figures = (middle.origin_bytes, middle.distinct_bytes, middle.client_bytes)
        megabytes = " | ".join(f"{figure / 1e6:.1f}" for figure in figures)
        amplified = statistics.median(run.amplification for run in runs)
        print(f"| {name} | {seconds} | {middle.requests} | {megabytes} | {amplified:.3f} | {ratio:.2f} × |")
    missed = []
    if time_ratio > TIME_RATIO_AIM:
        missed.append(f"time {time_ratio:.2f} × direct, aim {TIME_RATIO_AIM:.2f}")
    if amplification > AMPLIFICATION_AIM:
        missed.append(f"amplification {amplification:.3f}, aim {AMPLIFICATION_AIM:.2f}")
    return missed


def _direct(seaweed, recorder):
    mark = recorder.mark()
    seconds = _queries_in_a_fresh_process(seaweed, recorder.endpoint)
    requests, origin_bytes, distinct_bytes = _seen(recorder, mark)
    return Run(seconds, requests, origin_bytes, origin_bytes, distinct_bytes)


def _cold(seaweed, recorder, arguments, folder):
    keys = {"cache.data_bytes": "2GiB", "log.level": "warn"}
    cold = node.Node(recorder.endpoint, folder, keys, arguments.shards)
    try:
        mark = recorder.mark()
        seconds = _queries_in_a_fresh_process(seaweed, cold.endpoint)
        requests, origin_bytes, distinct_bytes = _seen(recorder, mark)
        client_bytes = sum(cold.stats()["clients"]["sent_bytes"].values())
        return Run(seconds, requests, origin_bytes, client_bytes, distinct_bytes)
    finally:
        cold.stop()


def _seen(recorder, mark):
    """Requests that the origin answered since `mark`, the bytes it sent, and how many of them once."""
    records = recorder.since(mark)
    pieces = collections.defaultdict(list)
    for record in records:
        if record["method"] == "GET" and record["status"] in (200, 206):
            start = _range_start(record["range"])
            pieces[record["path"], record["query"]].append((start, start + record["bytes_sent"]))
    distinct_bytes = sum(_union_length(each) for each in pieces.values())
    return len(records), sum(record["bytes_sent"] for record in records), distinct_bytes


def _range_start(header):
    """Where an answer to this `Range` begins. Suffixes stand beyond every other byte, as far as is known."""
    first = (header or "bytes=0-").removeprefix("bytes=").split("-")[0]
    return int(first) if first else 1 << 60


def _union_length(pieces):
    length, reached = 0, 0
    for start, end in sorted(pieces):
        length += max(end - max(start, reached), 0)
        reached = max(reached, end)
    return length


def _queries_in_a_fresh_process(seaweed, endpoint):
    """Seconds that the queries took, without the process's start."""
    job = {
        "catalog_url": seaweed.catalog_url,
        "origin": dataclasses.asdict(seaweed.endpoint),
        "endpoint": dataclasses.asdict(endpoint),
    }
    done = subprocess.run(
        [sys.executable, "-m", "lakehouse.cold_run", "--job", json.dumps(job)],
        cwd=FOLDER,
        env=node.quiet_environment(),
        capture_output=True,
        text=True,
        timeout=QUERIES_SECONDS_MAX,
    )
    if done.returncode:
        raise RuntimeError(f"the queries failed:\n{done.stderr[-6000:]}")
    return json.loads(done.stdout)


def _run_queries(job):
    origin, endpoint = Endpoint(**job["origin"]), Endpoint(**job["endpoint"])
    place = types.SimpleNamespace(catalog_url=job["catalog_url"], endpoint=origin)
    connection = engine.attach_duckdb(place, endpoint)
    texts = [
        connection.execute("SELECT query FROM tpch_queries() WHERE query_nr = ?", [query]).fetchone()[0]
        for query in engine.QUERIES
    ]
    began = time.monotonic()
    for text in texts:
        connection.execute(text).to_arrow_table()
    return time.monotonic() - began


if __name__ == "__main__":
    main()

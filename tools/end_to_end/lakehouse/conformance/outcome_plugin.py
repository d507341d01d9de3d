"""A plugin of pytest: one line of JSON a test, written as soon as the test has ended.

It is loaded into the suite's own environment, so it imports nothing of this folder. Each test gets a
bucket prefix of its own: buckets that one test could not delete are not the next one's failure.
"""

import json
import os
import sys

RECORD = "NILAS_OUTCOMES"
TEXT_CHARACTERS_MAX = 20_000
_phases = {}


def pytest_runtest_setup():
    suite = sys.modules["s3tests.functional"]
    if suite.prefix is not None:
        suite.prefix = suite.choose_bucket_prefix(template="suite-{random}-")


def pytest_runtest_logreport(report):
    # A process of its own for each worker: only the one that gathers all reports writes.
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    phases = _phases.setdefault(report.nodeid, [])
    phases.append(report)
    if report.when in ("teardown", "???"):
        _write(_phases.pop(report.nodeid))


def _write(phases):
    failed = [each for each in phases if each.failed]
    skipped = any(each.skipped for each in phases)
    outcome = {
        "test": phases[0].nodeid.rpartition("/")[2],
        "outcome": "failed" if failed else "skipped" if skipped else "passed",
        "seconds": round(sum(each.duration for each in phases), 2),
        "text": "\n".join(f"--- {each.when}\n{each.longreprtext}" for each in failed)[-TEXT_CHARACTERS_MAX:],
    }
    with open(os.environ[RECORD], "a") as record:
        record.write(json.dumps(outcome) + "\n")

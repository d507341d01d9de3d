"""Runs the suite and prints the verdict; the exit status is that of the list that has to be empty.

What a run has found is kept in the folder: a later call takes up the runs that are already there.
"""

import argparse
import pathlib
import sys
import time

from . import report
from .origin import ORIGINS
from .stand import DIRECT, SIDES, THROUGH, Stand
from .suite import TARGET, Suite, read_outcomes
from .verdict import Verdict


def main():
    arguments = _arguments()
    suite = Suite(arguments.suite)
    verdicts = {}
    for kind in arguments.origin:
        folder = pathlib.Path(arguments.folder).resolve() / kind
        verdicts[kind] = _judge(kind, suite, folder, arguments)
        report.write_failures(verdicts[kind], folder / "failures")
    text = report.text(verdicts, suite.revision())
    if arguments.report:
        pathlib.Path(arguments.report).write_text(text)
    print(text)
    return 1 if any(verdict.differences() for verdict in verdicts.values()) else 0


def _judge(kind, suite, folder, arguments):
    verdict = Verdict()
    for number in range(1, arguments.runs + 1):
        for side in arguments.sides:
            outcomes = _run(kind, suite, folder / f"{side}-{number}", side, arguments, verdict.remarks)
            verdict.runs[side].append(outcomes)
    if set(arguments.sides) == set(SIDES) and arguments.reruns and verdict.in_doubt():
        _run_again(kind, suite, folder / "again", verdict, arguments.reruns)
    return verdict


def _run(kind, suite, folder, side, arguments, remarks):
    """One run from an empty origin, unless the folder holds it already."""
    done = folder / "done"
    if done.exists():
        remarks += done.read_text().splitlines()
        return read_outcomes(folder / "outcomes.jsonl")
    began = time.monotonic()
    with Stand(kind, folder, [side]) as stand:
        configuration = stand.configuration(side)
        outcomes = suite.run(configuration, folder, only=arguments.only, workers=arguments.workers)
        remarked = [f"{folder.name}: {remark}" for remark in stand.remarks()]
    remarks += remarked
    passed = sum(outcome.passed for outcome in outcomes.values())
    seconds = time.monotonic() - began
    _say(f"{kind}, {folder.name}: {passed} of {len(outcomes)} passed in {seconds:.0f} s")
    done.write_text("\n".join(remarked))
    return outcomes


def _run_again(kind, suite, folder, verdict, reruns):
    """Each test in doubt alone, alternately on both sides."""
    with Stand(kind, folder, SIDES) as stand:
        for test in verdict.in_doubt():
            verdict.again[test] = {DIRECT: [], THROUGH: []}
            for side in SIDES * reruns:
                outcomes = suite.run(stand.configuration(side), folder, tests=[test])
                verdict.again[test][side] += outcomes.values()
            counts = [f"{verdict.passes_again(side, test)} of {reruns} {side}" for side in SIDES]
            _say(f"{kind}, {test} alone: passed {', '.join(counts)}")
        verdict.remarks += [f"{folder.name}: {remark}" for remark in stand.remarks()]


def _say(line):
    print(line, file=sys.stderr, flush=True)


def _arguments():
    parser = argparse.ArgumentParser(prog="python -m lakehouse.conformance", description=__doc__)
    parser.add_argument("--origin", nargs="+", choices=ORIGINS, default=list(ORIGINS))
    parser.add_argument("--suite", metavar="DIR", help="a checkout of the suite; fetched when not given")
    parser.add_argument("--runs", type=int, default=3, help="runs of the whole on each side")
    parser.add_argument("--reruns", type=int, default=10, help="runs of each test in doubt, alone, on each side")
    parser.add_argument("--only", metavar="PATTERN", help="the tests that pytest's -k selects")
    parser.add_argument("--workers", type=int, default=2, help="tests that run at once")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES)
    parser.add_argument("--folder", default=TARGET / "conformance", help="where records and logs are kept")
    parser.add_argument("--report", metavar="FILE", help="write the report there as well")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

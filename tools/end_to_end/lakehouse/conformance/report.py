"""The report: a table for people, the names behind its numbers, and the tracebacks in files beside it."""

from .origin import NAMES
from .stand import DIRECT, THROUGH

ROWS = {
    "tests": lambda verdict: verdict.tests(),
    "pass directly": lambda verdict: verdict.pass_always(DIRECT),
    "pass through Nilas": lambda verdict: verdict.pass_always(THROUGH),
    "passes directly, fails through Nilas": lambda verdict: verdict.differences(),
}


def table(verdicts):
    """A column an origin."""
    names = " | ".join(NAMES[kind] for kind in verdicts)
    lines = [f"| | {names} |", "|---|" + "---|" * len(verdicts)]
    for name, row in ROWS.items():
        counts = [str(len(row(verdict))) for verdict in verdicts.values()]
        lines.append(f"| {name} | " + " | ".join(counts) + " |")
    return "\n".join(lines)


def text(verdicts, revision):
    """The whole report in Markdown."""
    parts = ["# ceph/s3-tests, directly and through Nilas", f"Suite at revision {revision}.", table(verdicts)]
    for kind, verdict in verdicts.items():
        parts.append(f"## {NAMES[kind]}")
        counts = f"{len(verdict.runs[DIRECT])} runs directly, {len(verdict.runs[THROUGH])} through Nilas"
        parts.append(f"{counts}; the suite skips {len(verdict.skipped())} tests.")
        parts += [f"- {remark}" for remark in verdict.remarks]
        parts += _names(verdict, "Passes directly, fails through Nilas", verdict.differences())
        parts += _names(verdict, "Failed through Nilas at times, and alone directly as well", verdict.unsteady())
        parts += _names(verdict, "Passes only through Nilas", verdict.only_through())
    return "\n\n".join(parts) + "\n"


def write_failures(verdict, folder):
    """A file for each test that is not the same on both sides, with what it said on each."""
    folder.mkdir(parents=True, exist_ok=True)
    for test in verdict.in_doubt() + verdict.only_through():
        said = []
        for side in (DIRECT, THROUGH):
            for outcome in verdict.failures(side, test):
                said.append(f"=== {side}: {outcome.outcome} after {outcome.seconds} s\n{outcome.text}\n")
        (folder / f"{test.replace('::', '.')}.txt").write_text("\n".join(said))


def _names(verdict, title, tests):
    lines = [f"### {title}: {len(tests)}"]
    for test in tests:
        runs = {side: len(outcomes) for side, outcomes in verdict.runs.items()}
        counts = [f"{verdict.passes(side, test)} of {runs[side]} {side}" for side in runs]
        for side, outcomes in verdict.again.get(test, {}).items():
            counts.append(f"alone {verdict.passes_again(side, test)} of {len(outcomes)} {side}")
        lines.append(f"- `{test}`: passed " + ", ".join(counts))
    return ["\n".join(lines)]

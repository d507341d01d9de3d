"""The verdict: runs of both sides compared test by test, and the tests in doubt run again, alone.

A test belongs to the bar when it passed directly in every run. One that did not pass through the node
in every run is a difference, unless it is seen to fail directly as well.
"""

import dataclasses

from .stand import DIRECT, SIDES, THROUGH


@dataclasses.dataclass
class Verdict:
    """`runs` holds the outcomes by test of each run, by side; `again` those of each test run alone."""

    runs: dict = dataclasses.field(default_factory=lambda: {side: [] for side in SIDES})
    again: dict = dataclasses.field(default_factory=dict)
    remarks: list = dataclasses.field(default_factory=list)

    def tests(self):
        return sorted({test for side in SIDES for outcomes in self.runs[side] for test in outcomes})

    def skipped(self):
        """Tests that the suite itself leaves out everywhere."""
        return [test for test in self.tests() if set(self._words(test)) == {"skipped"}]

    def pass_always(self, side):
        runs = len(self.runs[side])
        return [test for test in self.tests() if runs and self.passes(side, test) == runs]

    def passes(self, side, test):
        """How many runs of a side it passed in."""
        return sum(test in outcomes and outcomes[test].passed for outcomes in self.runs[side])

    def in_doubt(self):
        """Tests of the bar that failed through the node at least once."""
        if not self.runs[THROUGH]:
            return []
        through = set(self.pass_always(THROUGH))
        return [test for test in self.pass_always(DIRECT) if test not in through]

    def differences(self):
        """What passes directly and fails through the node."""
        return [test for test in self.in_doubt() if self.passes_again(DIRECT, test) == self._runs_again(test)]

    def unsteady(self):
        """Tests in doubt that are seen to fail directly as well."""
        differences = set(self.differences())
        return [test for test in self.in_doubt() if test not in differences]

    def only_through(self):
        """What passes through the node in every run, and directly not in every run."""
        if not self.runs[DIRECT]:
            return []
        direct = set(self.pass_always(DIRECT))
        return [test for test in self.pass_always(THROUGH) if test not in direct]

    def passes_again(self, side, test):
        return sum(outcome.passed for outcome in self.again.get(test, {}).get(side, []))

    def failures(self, side, test):
        """The outcomes of a test that are not passes, in the runs and alone."""
        outcomes = [each[test] for each in self.runs[side] if test in each]
        outcomes += self.again.get(test, {}).get(side, [])
        return [each for each in outcomes if not each.passed]

    def _runs_again(self, test):
        return len(self.again.get(test, {}).get(DIRECT, []))

    def _words(self, test):
        return [each[test].outcome for side in SIDES for each in self.runs[side] if test in each]

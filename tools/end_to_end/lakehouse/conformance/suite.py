"""The suite: its checkout, its environment under target/, and one run of it against one endpoint."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys

from ..recorder import REPOSITORY

SOURCE = "https://github.com/ceph/s3-tests"
FILES = ["s3tests/functional/test_s3.py", "s3tests/functional/test_headers.py"]
TOOLS = ["pytest-timeout", "pytest-xdist"]
TARGET = REPOSITORY / "target"
PINNED = REPOSITORY / "tools" / "end_to_end" / "requirements.txt"
TEST_SECONDS_MAX = 300
# On these an origin's daemon aborts at times. They run behind all others, one by one: a test beside them
# would meet an origin that is away, directly as through a node.
APART = ["test_s3.py::test_upload_part_copy_percent_encoded_key"]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How one test ended; `text` says why it failed."""

    test: str
    outcome: str
    seconds: float
    text: str

    @property
    def passed(self):
        return self.outcome == "passed"


class Suite:
    """A checkout at `folder`, fetched when none is named."""

    def __init__(self, folder=None):
        self.folder = pathlib.Path(folder) if folder else _fetched(TARGET / "s3-tests")
        self._python = _environment(TARGET / "s3-tests-python", self.folder / "requirements.txt")

    def revision(self):
        command = ["git", "-C", str(self.folder), "rev-parse", "--short=12", "HEAD"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def run(self, configuration, folder, tests=None, only=None, workers=1):
        """Runs it, or some of its `tests`. The outcomes, by test."""
        record = folder.resolve() / "outcomes.jsonl"
        record.unlink(missing_ok=True)
        file = folder.resolve() / "s3tests.conf"
        file.write_text(configuration)
        environment = _environment_variables(S3TEST_CONF=file, NILAS_OUTCOMES=record)
        together = [*_named(tests)] if tests else [*FILES, *(f"--deselect={each}" for each in _named(APART))]
        parallel = ["-n", str(workers), "--dist=worksteal"] if workers > 1 else []
        common = [self._python, "-m", "pytest", "-p", "outcome_plugin", "-p", "no:cacheprovider", "-q"]
        common += ["--tb=short", f"--timeout={TEST_SECONDS_MAX}", *(["-k", only] if only else [])]
        commands = [[*common, *parallel, *together]]
        commands += [] if tests else [[*common, *_named(APART)]]
        with (folder / "pytest.log").open("ab") as log:
            for command in commands:
                subprocess.run(command, cwd=self.folder, stdout=log, stderr=log, env=environment)
        return read_outcomes(record)


def _named(tests):
    return [f"s3tests/functional/{test}" for test in tests]


def read_outcomes(record):
    """The outcomes of a run, by test; none when it wrote none."""
    lines = record.read_text().splitlines() if record.exists() else []
    outcomes = [Outcome(**json.loads(line)) for line in lines]
    return {each.test: each for each in outcomes}


def _fetched(folder):
    if not folder.exists():
        subprocess.run(["git", "clone", "--quiet", SOURCE, str(folder)], check=True)
    return folder


def _environment(folder, requirements):
    """The interpreter of an environment with the suite's requirements, made once."""
    python = folder / "bin" / "python"
    done = folder / "done"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        # The tree's own versions where both name a package: another boto3 sends other requests.
        command += ["--requirement", requirements, "--constraint", PINNED, *TOOLS]
        subprocess.run([str(part) for part in command], check=True)
        done.touch()
    return str(python)


def _environment_variables(**more):
    """Nothing that could configure a client by accident, and the plugin's place."""
    hidden = ("AWS_", "NILAS_", "PYTHON")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    own = {
        # Compiled once, out of the checkout: the suite's files are long, and tests in doubt run alone.
        "PYTHONPYCACHEPREFIX": str(TARGET / "s3-tests-compiled"),
        "PYTHONPATH": str(pathlib.Path(__file__).resolve().parent),
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    return {**kept, **own, **{name: str(value) for name, value in more.items()}}

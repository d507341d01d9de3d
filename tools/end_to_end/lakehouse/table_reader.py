"""Reads one hand-made table from its metadata file by one engine, and tells the rows or the refusal in a
form that can be compared: which endpoint was asked does not show in it.

Run as `python -m lakehouse.table_reader JOB`, a JSON object, where a damaged table may end the process.
"""

import dataclasses
import functools
import json
import re
import subprocess
import sys

from . import engine
from .endpoint import REGION, Endpoint
from .node import quiet_environment

READ_SECONDS_MAX = 60
ENGINES = ["duckdb", "pyiceberg"]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of a read: rows in order, (n, kind) each, or why there are none."""

    rows: list | None
    refusal: str | None


def read(name, endpoint, location):
    """Reads through `endpoint`, keeping nothing from reads before."""
    try:
        return Outcome(sorted(READERS[name](endpoint, location)), None)
    except Exception as error:  # Each engine has its own; what was refused is compared.
        return Outcome(None, _placeless(f"{type(error).__name__}: {error}", endpoint))


def read_apart(name, endpoint, location):
    """The same in a process of its own, which may end as it likes."""
    job = {"name": name, "endpoint": dataclasses.asdict(endpoint), "location": location}
    done = subprocess.run(
        [sys.executable, "-m", "lakehouse.table_reader", json.dumps(job)],
        cwd=engine.FOLDER,
        env=quiet_environment(),
        capture_output=True,
        text=True,
        timeout=READ_SECONDS_MAX,
    )
    if done.returncode:
        return Outcome(None, _placeless(f"ended with {done.returncode}: {done.stderr}", endpoint))
    told = json.loads(done.stdout)
    return Outcome(told["rows"] and [tuple(row) for row in told["rows"]], told["refusal"])


def _placeless(text, endpoint):
    text = text.replace(endpoint.host, "ENDPOINT")
    # Each answer's own.
    return re.sub(r"(?i)(request.?id|host.?id)\W+[\w-]+", r"\1", text)


def duckdb(endpoint, location):
    return _duckdb(endpoint).execute("SELECT n, kind FROM iceberg_scan(?)", [location]).fetchall()


@functools.cache
def _duckdb(endpoint):
    """A connection that is kept, since to make one takes longer than a read; its caches are off."""
    connection = engine.connect_duckdb(endpoint)
    connection.execute("SET http_retries = 0")
    return connection


def pyiceberg(endpoint, location):
    import pyiceberg.manifest
    from pyiceberg.table import StaticTable

    pyiceberg.manifest.clear_manifest_cache()
    rows = StaticTable.from_metadata(location, storage(endpoint)).scan().to_arrow()
    return list(zip(rows["n"].to_pylist(), rows["kind"].to_pylist()))


def storage(endpoint):
    """The properties by which PyIceberg reads files through `endpoint`."""
    return {
        "s3.endpoint": endpoint.url,
        "s3.access-key-id": endpoint.access_key,
        "s3.secret-access-key": endpoint.secret_key,
        "s3.region": REGION,
        "s3.force-virtual-addressing": "false",
    }


READERS = {each.__name__: each for each in (duckdb, pyiceberg)}

if __name__ == "__main__":
    values = json.loads(sys.argv[1])
    outcome = read(values["name"], Endpoint(**values["endpoint"]), values["location"])
    print(json.dumps(dataclasses.asdict(outcome)))

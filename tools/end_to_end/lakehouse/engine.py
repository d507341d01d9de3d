"""The engines, each run in a fresh process with its own caches off, so that what is warm is the node.

Run as `python -m lakehouse.engine JOB`, a JSON object; results are Arrow files, one a query.
"""

import dataclasses
import datetime
import decimal
import json
import pathlib
import subprocess
import sys

import pyarrow
import pyarrow.ipc

from . import tables
from .endpoint import REGION, Endpoint
from .node import quiet_environment

FOLDER = pathlib.Path(__file__).resolve().parents[1]
# Of a whole lake on a busy machine; a test has its own, shorter time.
RUN_SECONDS_MAX = 1500
QUERIES = range(1, 23)
SHIP_DATE_MIN = datetime.date(1995, 3, 1)
SHIP_DATE_END = datetime.date(1995, 9, 1)
QUANTITY_MAX = decimal.Decimal("24.00")
COLUMNS = ["l_orderkey", "l_extendedprice", "l_shipdate", "l_shipmode"]


def run(engine, seaweed, endpoint, output, locations=None):
    """Runs `engine` through `endpoint`. Its results by name, each an Arrow table.

    `locations` are the tables' metadata files by table, for an engine that reads without a catalog.
    """
    output = pathlib.Path(output)
    output.mkdir(parents=True, exist_ok=True)
    job = {
        "engine": engine,
        "catalog_url": seaweed.catalog_url,
        "origin": dataclasses.asdict(seaweed.endpoint),
        "endpoint": dataclasses.asdict(endpoint),
        "output": str(output),
        "locations": locations,
    }
    command = [sys.executable, "-m", "lakehouse.engine", json.dumps(job)]
    done = subprocess.run(
        command,
        cwd=FOLDER,
        env=quiet_environment(),
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
    )
    if done.returncode:
        raise RuntimeError(f"{engine} failed:\n{done.stdout[-2000:]}{done.stderr[-6000:]}")
    results = {}
    for path in sorted(output.glob("*.arrow")):
        with pyarrow.ipc.open_file(path) as reader:
            results[path.stem] = reader.read_all()
    return results


@dataclasses.dataclass
class _Place:
    """What `tables.open_catalog` needs of an origin that another process started."""

    catalog_url: str
    endpoint: Endpoint


class _Job:
    def __init__(self, values):
        self.endpoint = Endpoint(**values["endpoint"])
        self.place = _Place(values["catalog_url"], Endpoint(**values["origin"]))
        self.output = pathlib.Path(values["output"])
        self.locations = values["locations"]

    def keep(self, name, table):
        with pyarrow.ipc.new_file(self.output / f"{name}.arrow", table.schema) as writer:
            writer.write_table(table)

    def lineitem(self):
        catalog = tables.open_catalog(self.place, self.endpoint)
        return catalog.load_table(f"{tables.NAMESPACE}.lineitem")


def duckdb(job):
    """The 22 TPC-H queries."""
    _keep_queries(job, attach_duckdb(job.place, job.endpoint))


def duckdb_without_catalog(job):
    """The same over the tables' metadata files, so that nobody but `endpoint` is asked for anything."""
    connection = connect_duckdb(job.endpoint)
    for table, location in job.locations.items():
        connection.execute(f"CREATE VIEW {table} AS FROM iceberg_scan('{location}')")
    _keep_queries(job, connection)


def _keep_queries(job, connection):
    for query in QUERIES:
        text = connection.execute(
            "SELECT query FROM tpch_queries() WHERE query_nr = ?", [query]
        ).fetchone()[0]
        job.keep(f"q{query:02}", connection.execute(text).to_arrow_table())


def connect_duckdb(endpoint):
    """A DuckDB connection without caches of its own, whose S3 is `endpoint`."""
    import duckdb
    import duckdb_extensions

    connection = duckdb.connect()
    for extension in ("httpfs", "avro", "iceberg", "tpch"):
        duckdb_extensions.import_extension(extension, con=connection)
        connection.load_extension(extension)
    connection.execute("SET enable_external_file_cache = false")
    connection.execute("SET enable_http_metadata_cache = false")
    connection.execute("SET parquet_metadata_cache = false")
    connection.execute(
        f"""CREATE SECRET data (TYPE s3, KEY_ID '{endpoint.access_key}',
            SECRET '{endpoint.secret_key}', ENDPOINT '{endpoint.host}', REGION '{REGION}',
            URL_STYLE 'path', USE_SSL false)"""
    )
    return connection


def attach_duckdb(place, endpoint):
    """One whose catalog is the REST catalog beside that."""
    connection, origin = connect_duckdb(endpoint), place.endpoint
    connection.execute(
        f"""CREATE SECRET catalog (TYPE iceberg, CLIENT_ID '{origin.access_key}',
            CLIENT_SECRET '{origin.secret_key}',
            OAUTH2_SERVER_URI '{place.catalog_url}/v1/oauth/tokens')"""
    )
    connection.execute(
        f"""ATTACH '{tables.TABLE_BUCKET}' AS lake (TYPE iceberg, SECRET catalog,
            ENDPOINT '{place.catalog_url}', ACCESS_DELEGATION_MODE 'none')"""
    )
    connection.execute(f"USE lake.{tables.NAMESPACE}")
    return connection


def polars(job):
    """A scan with filter and projection by Polars' own reader."""
    import polars

    endpoint = job.endpoint
    options = {
        "aws_access_key_id": endpoint.access_key,
        "aws_secret_access_key": endpoint.secret_key,
        "aws_region": REGION,
        "aws_endpoint_url": endpoint.url,
        "aws_allow_http": "true",
        "aws_virtual_hosted_style_request": "false",
    }
    rows = polars.scan_iceberg(job.lineitem(), reader_override="native", storage_options=options)
    shipped = polars.col("l_shipdate").is_between(SHIP_DATE_MIN, SHIP_DATE_END, closed="left")
    rows = rows.filter(shipped & (polars.col("l_quantity") < QUANTITY_MAX)).select(COLUMNS)
    job.keep("scan", rows.collect().to_arrow(compat_level=polars.CompatLevel.oldest()))


def pyiceberg(job):
    """The same scan by PyIceberg."""
    from pyiceberg import expressions

    wanted = expressions.And(
        expressions.GreaterThanOrEqual("l_shipdate", SHIP_DATE_MIN.isoformat()),
        expressions.LessThan("l_shipdate", SHIP_DATE_END.isoformat()),
        expressions.LessThan("l_quantity", QUANTITY_MAX),
    )
    scan = job.lineitem().scan(row_filter=wanted, selected_fields=tuple(COLUMNS))
    job.keep("scan", scan.to_arrow())


ENGINES = {each.__name__: each for each in (duckdb, duckdb_without_catalog, polars, pyiceberg)}

if __name__ == "__main__":
    values = json.loads(sys.argv[1])
    ENGINES[values["engine"]](_Job(values))

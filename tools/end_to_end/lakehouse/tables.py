"""The TPC-H tables: generated once a scale, then written by PyIceberg through the REST catalog.

The catalog alone is shared by every way of reading; the data's endpoint is the caller's choice and
wins over whatever the catalog hands out.
"""

import pathlib
import subprocess
import sys

import pyarrow.parquet
import pyiceberg.catalog

from .endpoint import REGION
from .seaweed import TABLE_BUCKET

NAMESPACE = "tpch"
TABLES = ["nation", "region", "supplier", "customer", "part", "partsupp", "orders", "lineitem"]
# Several files a table make a scan look like a lakehouse's; small ones keep the tests quick.
ROWS_A_FILE = 150_000


def open_catalog(seaweed, endpoint, **properties):
    """A PyIceberg catalog whose data goes through `endpoint`, with these further properties."""
    origin = seaweed.endpoint
    return pyiceberg.catalog.load_catalog(
        "lakehouse",
        **{
            "type": "rest",
            "uri": seaweed.catalog_url,
            "warehouse": f"s3://{TABLE_BUCKET}",
            "prefix": TABLE_BUCKET,
            "credential": f"{origin.access_key}:{origin.secret_key}",
            "oauth2-server-uri": f"{seaweed.catalog_url}/v1/oauth/tokens",
            "s3.endpoint": endpoint.url,
            "s3.access-key-id": endpoint.access_key,
            "s3.secret-access-key": endpoint.secret_key,
            "s3.region": REGION,
            "s3.force-virtual-addressing": "false",
            **properties,
        },
    )


def generate(scale, folder):
    """Parquet files of the eight tables at `scale`, made once and kept under `folder`."""
    folder = pathlib.Path(folder) / f"tpch-{scale}"
    done = folder / "done"
    if not done.exists():
        generator = pathlib.Path(sys.executable).with_name("tpchgen-cli")
        command = [generator, "parquet", "-s", str(scale), "--output-dir", folder]
        subprocess.run([str(part) for part in command], check=True, capture_output=True)
        done.touch()
    return folder


def load(catalog, folder):
    """Writes every table into the catalog: several commits, hence several data files and manifests."""
    catalog.create_namespace_if_not_exists(NAMESPACE)
    for name in TABLES:
        rows = pyarrow.parquet.read_table(pathlib.Path(folder) / f"{name}.parquet")
        table = catalog.create_table(f"{NAMESPACE}.{name}", schema=_plain(rows.schema))
        for start in range(0, max(rows.num_rows, 1), ROWS_A_FILE):
            table.append(rows.slice(start, ROWS_A_FILE).cast(_plain(rows.schema)))


def _plain(schema):
    """The schema without string views, which Iceberg's writers do not all know."""
    fields = []
    for field in schema:
        kind = pyarrow.string() if pyarrow.types.is_string_view(field.type) else field.type
        fields.append(pyarrow.field(field.name, kind, nullable=True))
    return pyarrow.schema(fields)

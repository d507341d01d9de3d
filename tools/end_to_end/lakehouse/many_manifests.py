"""A table of very many manifests, made in seconds: each lists a file of its own, all of them the same few
rows. For the scripted catalog, or for whoever reads tables from their metadata.
"""

from .handmade import File, Table, parquet
from .seaweed import OBJECT_BUCKET

MANIFESTS = 1000
ROWS_A_FILE = 10


def make(endpoint, name="many_manifests", manifests=MANIFESTS, bucket=OBJECT_BUCKET):
    """The table, committed as one snapshot. Its rows are those of one file, once for each manifest."""
    table = Table(endpoint, f"s3://{bucket}/{name}")
    body = parquet([(n, "same") for n in range(ROWS_A_FILE)])
    files = [File(f"{table.location}/data/{number:05}.parquet", len(body), ROWS_A_FILE) for number in range(manifests)]
    table.put_all((file.path, body) for file in files)
    table.commit(*([file] for file in files))
    return table

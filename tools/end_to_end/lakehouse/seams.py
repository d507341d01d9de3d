"""Tables at the format's seams: each named for what is odd about it, with the rows that are true of it and
what each engine says that cannot read it. `SEAMS` makes them, `put_all` shows them to a scripted catalog.
"""

import dataclasses

from pyiceberg.table import StaticTable
from pyiceberg.table.statistics import StatisticsFile

from . import engine, tables
from .handmade import Table, place, puffin
from .seaweed import OBJECT_BUCKET
from .table_reader import storage

ROOT = f"s3://{OBJECT_BUCKET}/seams"
NAMESPACE = "seams"
WRITTEN_NAMESPACE = "written"
BY_NAME = {"schema.name-mapping.default": '[{"field-id": 1, "names": ["n"]}, {"field-id": 2, "names": ["kind"]}]'}
# PyIceberg cuts a location at what would end the path of a URL, and DuckDB at a question mark.
PYICEBERG_CUTS = "FileNotFoundError.*kind=a'"
DUCKDB_ASKS = "Invalid query parameters"
NO_AVRO, NO_ORC = "'AVRO' not supported", "'ORC' not supported"
PYICEBERG_AVRO = "(Unsupported|not supported).*AVRO"
SEAMS, DAMAGED = {}, {}


@dataclasses.dataclass(frozen=True)
class Seam:
    """One table: where it is, what is true of it, and by engine the refusal of one that cannot read it."""

    name: str
    metadata_location: str
    metadata: dict
    paths: list
    rows: list
    refusals: dict = dataclasses.field(default_factory=dict)
    namespace: str = NAMESPACE
    # Of a table that is damaged: the file that is.
    damaged: str | None = None


def put_all(catalog, seams):
    """Has a scripted catalog tell of these tables."""
    for seam in seams:
        catalog.put_table(seam.namespace, seam.name, seam.metadata_location, seam.metadata)


def _of(table, name, rows, **more):
    return Seam(name, table.metadata_location, table.metadata, table.paths(), sorted(rows), **more)


def _rows(start, end, kind="plain"):
    return [(n, kind) for n in range(start, end)]


def _location(name, scheme="s3"):
    return f"{scheme}{ROOT.removeprefix('s3')}/{name}"


def _plain(name, version):
    """Three commits, the last of which replaces a file."""

    def make(seaweed):
        table = Table(seaweed.endpoint, _location(name), version)
        files = [table.data(f"{n}.parquet", _rows(n, n + 10)) for n in (0, 10, 20)]
        table.commit(files[:2])
        table.commit([table.data("more.parquet", _rows(30, 40))])
        table.commit([files[2]], removed=[files[0]], operation="overwrite")
        return _of(table, name, _rows(10, 40))

    return make


def _history(seaweed):
    """Rolled back, committed to again, with a tag, a branch, and an ancestor that has expired."""
    table = Table(seaweed.endpoint, _location("history"))
    made = []
    for n in (0, 10, 20):
        table.commit([table.data(f"{n}.parquet", _rows(n, n + 10))])
        made.append(table.current)
    table.refer("before", made[2])
    table.roll_back(made[1])
    table.refer("audit", made[1], "branch")
    table.commit([table.data("more.parquet", _rows(30, 40))])
    table.expire(made[0])
    return _of(table, "history", [*_rows(0, 20), *_rows(30, 40)])


def _position_deletes(name, form, refusals):
    def make(seaweed):
        table = Table(seaweed.endpoint, _location(name), properties=BY_NAME)
        one, other = (table.data(f"{n}.parquet", _rows(n, n + 10)) for n in (0, 10))
        table.commit([one, other])
        gone = [(one.path, 0), (one.path, 9), (other.path, 4)]
        table.commit([table.position_deletes(f"deletes.{form.lower()}", gone, form)], operation="delete")
        rows = [row for row in _rows(0, 20) if row[0] not in (0, 9, 14)]
        return _of(table, name, rows, refusals=refusals)

    return make


def _equality_deletes(seaweed):
    table = Table(seaweed.endpoint, _location("equality_deletes"))
    table.commit([table.data("0.parquet", _rows(0, 10))])
    deletes = table.equality_deletes("deletes.parquet", [2, 3])
    # Written with the deletes, and so not older than they: its 3 stays.
    table.commit([table.data("1.parquet", _rows(3, 4, "new"))], [deletes], operation="overwrite")
    rows = [row for row in _rows(0, 10) if row[0] not in (2, 3)] + _rows(3, 4, "new")
    return _of(table, "equality_deletes", rows, refusals={"pyiceberg": "does not yet support equality deletes"})


def _deletion_vectors(seaweed):
    table = Table(seaweed.endpoint, _location("deletion_vectors"), version=3)
    one, other = (table.data(f"{n}.parquet", _rows(n, n + 1000)) for n in (0, 1000))
    table.commit([one, other])
    vectors = table.deletion_vectors("vectors.puffin", {one.path: range(10, 900), other.path: [0, 999]})
    table.commit(vectors, operation="delete")
    gone = {*range(10, 900), 1000, 1999}
    return _of(table, "deletion_vectors", [row for row in _rows(0, 2000) if row[0] not in gone])


def _forms(name, forms, refusals):
    def make(seaweed):
        table = Table(seaweed.endpoint, _location(name), properties=BY_NAME)
        files = [table.data(f"{at}.{form.lower()}", _rows(at, at + 1), form) for at, form in enumerate(forms)]
        table.commit(files)
        return _of(table, name, _rows(0, len(forms)), refusals=refusals)

    return make


def _gzip_metadata(seaweed):
    table = Table(seaweed.endpoint, _location("gzip_metadata"), is_gzip=True)
    table.commit([table.data("0.parquet", _rows(0, 10))])
    return _of(table, "gzip_metadata", _rows(0, 10))


def _scheme(scheme):
    def make(seaweed):
        table = Table(seaweed.endpoint, _location(scheme, scheme))
        table.commit([table.data("0.parquet", _rows(0, 10))])
        return _of(table, scheme, _rows(0, 10))

    return make


def _partition(name, value, refusals):
    """A partition whose value stands in the key as it is, and as its escape would be read a decoy."""

    def make(seaweed):
        table = Table(seaweed.endpoint, _location(name), is_partitioned=True)
        file = table.data(f"kind={value}/0.parquet", _rows(0, 10, value), partition=value)
        plain = table.data("kind=plain/0.parquet", _rows(10, 20), partition="plain")
        for decoy in DECOYS.get(value, []):
            table.data(f"kind={decoy}/0.parquet", _rows(90, 99, "decoy"))
        table.commit([file, plain])
        return _of(table, name, [*_rows(0, 10, value), *_rows(10, 20)], refusals=refusals)

    return make


def _odd_location(name, part, refusals):
    """A table whose own folder is odd, and so the key of each of its files."""

    def make(seaweed):
        table = Table(seaweed.endpoint, _location(f"{name}/{part}"))
        table.commit([table.data("0.parquet", _rows(0, 10))])
        return _of(table, name, _rows(0, 10), refusals=refusals)

    return make


def _nested(seaweed):
    table = Table(seaweed.endpoint, _location("a/b/c/nested"))
    table.commit([table.data("0.parquet", _rows(0, 10))])
    return _of(table, "nested", _rows(0, 10), namespace="a.b.c")


def _statistics(seaweed):
    table = Table(seaweed.endpoint, _location("statistics"))
    table.commit([table.data("0.parquet", _rows(0, 10))])
    table.add_statistics("sketches.stats")
    table.write_metadata()
    return _of(table, "statistics", _rows(0, 10))


def _written(seaweed, name):
    """A table of the real catalog that DuckDB wrote, and deleted from, and updated."""
    catalog = tables.open_catalog(seaweed, seaweed.endpoint)
    for namespace in (tables.NAMESPACE, WRITTEN_NAMESPACE):
        catalog.create_namespace_if_not_exists(namespace)
    connection = engine.attach_duckdb(seaweed, seaweed.endpoint)
    at = f"lake.{WRITTEN_NAMESPACE}.{name}"
    connection.execute(f"CREATE TABLE {at} (n BIGINT, kind VARCHAR)")
    connection.execute(f"INSERT INTO {at} SELECT range, 'plain' FROM range(100)")
    connection.execute(f"DELETE FROM {at} WHERE n % 3 = 0")
    connection.execute(f"UPDATE {at} SET kind = 'new' WHERE n % 5 = 0")
    connection.close()
    rows = [(n, "new" if n % 5 == 0 else "plain") for n in range(100) if n % 3]
    return catalog.load_table(f"{WRITTEN_NAMESPACE}.{name}"), rows


def _of_written(seaweed, table, rows):
    table = StaticTable.from_metadata(table.metadata_location, storage(seaweed.endpoint))
    paths = [table.metadata_location, table.current_snapshot().manifest_list]
    paths += table.inspect.manifests()["path"].to_pylist() + table.inspect.files()["file_path"].to_pylist()
    paths += [each.statistics_path for each in table.metadata.statistics]
    metadata = table.metadata.model_dump(mode="json", by_alias=True, exclude_none=True)
    name = table.metadata.location.rstrip("/").rpartition("/")[2]
    location = table.metadata_location
    return Seam(name, location, metadata, paths, sorted(rows), namespace=WRITTEN_NAMESPACE)


def _written_deletes(seaweed):
    return _of_written(seaweed, *_written(seaweed, "written_deletes"))


def _written_statistics(seaweed):
    """One whose statistics PyIceberg put in."""
    table, rows = _written(seaweed, "written_statistics")
    snapshot = table.current_snapshot().snapshot_id
    path = f"{table.location()}/metadata/{snapshot}.stats"
    body, _ = puffin([("apache-datasketches-theta-v1", b"a sketch", {}, snapshot, 1)])
    bucket, key = place(path)
    seaweed.endpoint.boto3().put_object(Bucket=bucket, Key=key, Body=body)
    about = {"snapshot-id": snapshot, "statistics-path": path, "blob-metadata": []}
    sizes = {"file-size-in-bytes": len(body), "file-footer-size-in-bytes": len(body) - 12}
    with table.update_statistics() as update:
        update.set_statistics(StatisticsFile(**about, **sizes))
    return _of_written(seaweed, table, rows)


def _missing_data_file(seaweed):
    table = Table(seaweed.endpoint, _location("missing_data_file"), is_partitioned=True)
    lost = table.data("kind=lost/0.parquet", _rows(0, 10, "lost"), partition="lost")
    table.commit([lost, table.data("kind=plain/0.parquet", _rows(10, 20), partition="plain")])
    table.remove(lost.path)
    refusals = {"duckdb": "404.*NoSuchKey", "pyiceberg": "FileNotFoundError"}
    return _of(table, "missing_data_file", [], refusals=refusals, damaged=lost.path)


def _damaged(name, pick, spoil):
    """A table one of whose files is spoilt. No engine at hand names the file: each fails in Avro's depths."""

    def make(seaweed):
        table = Table(seaweed.endpoint, _location(name))
        table.commit([table.data("0.parquet", _rows(0, 10))])
        path = pick(table)
        bucket, key = place(path)
        table.put(path, spoil(seaweed.endpoint.boto3().get_object(Bucket=bucket, Key=key)["Body"].read()))
        return _of(table, name, [], refusals={"duckdb": ".", "pyiceberg": "."}, damaged=path)

    return make


def _manifest(table):
    return table.manifests[0].path


def _manifest_list(table):
    return table.manifest_list


def _foreign(_):
    return b"this is no Avro file, whatever its name says"


def _cut(body):
    return body[: len(body) // 2]


DECOYS = {"a%2Fb": ["a/b", "a%252Fb"], "a#b": ["a", "a%23b"], "a b": ["a+b", "a%20b"], "a+b": ["a b", "a%2Bb"]}
PARTITIONS = {
    "hash": ("a#b", {"pyiceberg": PYICEBERG_CUTS}),
    "escaped_slash": ("a%2Fb", {}),
    "escaped_hash": ("a%23b", {}),
    "percent": ("50%", {}),
    "question_mark": ("a?b", {"pyiceberg": PYICEBERG_CUTS, "duckdb": DUCKDB_ASKS}),
    "space": ("a b", {}),
    "plus": ("a+b", {}),
    "equals": ("a=b&c", {}),
    "letters": ("größe-日本-🦆", {}),
    "slash": ("a/b", {}),
}

SEAMS |= {f"version_{version}": _plain(f"version_{version}", version) for version in (1, 2, 3)}
SEAMS |= {
    "history": _history,
    "position_deletes": _position_deletes("position_deletes", "PARQUET", {}),
    "avro_deletes": _position_deletes("avro_deletes", "AVRO", {"duckdb": NO_AVRO, "pyiceberg": PYICEBERG_AVRO}),
    "orc_deletes": _position_deletes("orc_deletes", "ORC", {"duckdb": NO_ORC}),
    "equality_deletes": _equality_deletes,
    "deletion_vectors": _deletion_vectors,
    "avro": _forms("avro", ["AVRO"], {"duckdb": NO_AVRO, "pyiceberg": PYICEBERG_AVRO}),
    "orc": _forms("orc", ["ORC"], {"duckdb": NO_ORC}),
    "parquet_and_orc": _forms("parquet_and_orc", ["PARQUET", "ORC"], {"duckdb": NO_ORC}),
    "all_forms": _forms("all_forms", ["PARQUET", "ORC", "AVRO"], {"duckdb": NO_ORC, "pyiceberg": PYICEBERG_AVRO}),
    "gzip_metadata": _gzip_metadata,
    "s3a": _scheme("s3a"),
    "s3n": _scheme("s3n"),
    "nested": _nested,
    "statistics": _statistics,
    "written_deletes": _written_deletes,
    "written_statistics": _written_statistics,
    "odd_location": _odd_location("odd_location", "größe 50%/a%2Fb=c+d", {}),
    "hash_location": _odd_location("hash_location", "a#b", {"pyiceberg": "FileNotFoundError"}),
}
SEAMS |= {f"partition_{name}": _partition(f"partition_{name}", *of) for name, of in PARTITIONS.items()}
DAMAGED |= {
    "missing_data_file": _missing_data_file,
    "foreign_manifest": _damaged("foreign_manifest", _manifest, _foreign),
    "cut_manifest": _damaged("cut_manifest", _manifest, _cut),
    "foreign_manifest_list": _damaged("foreign_manifest_list", _manifest_list, _foreign),
    "cut_manifest_list": _damaged("cut_manifest_list", _manifest_list, _cut),
}

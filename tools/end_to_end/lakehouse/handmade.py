"""Iceberg tables written by hand, so that a table can be what no writer at hand writes, and each byte of
it is known. Nothing is checked here: a wrong table is as easily made as a right one. See `seams`.
"""

import concurrent.futures
import dataclasses
import functools
import gzip
import io
import json
import struct
import time
import uuid
import zlib

import fastavro
import pyarrow
import pyarrow.orc
import pyarrow.parquet
import pyroaring

from . import manifest
from .manifest import FIELDS

ARROW_TYPES = {"long": pyarrow.int64(), "string": pyarrow.string()}
POSITION_FIELDS = [(2147483546, "file_path", "string"), (2147483545, "pos", "long")]
UPLOADS_AT_ONCE = 16
DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2


@dataclasses.dataclass(frozen=True)
class File:
    """A data or delete file, as its manifest tells of it."""

    path: str
    size_bytes: int
    rows: int
    form: str = "PARQUET"
    content: int = DATA
    partition: str | None = None
    equality_ids: tuple = ()
    # Of a deletion vector: the data file, and where in the Puffin file it lies.
    referenced: str | None = None
    offset: int | None = None
    length: int | None = None


@dataclasses.dataclass
class Manifest:
    """A manifest of the current snapshot: what it lists, each with its status and sequence number."""

    path: str
    size_bytes: int
    content: int
    sequence: int
    # The id of its first row, which version 3 counts.
    first_row: int
    entries: list


class Table:
    """One table at `location`, a URL of any scheme whose host is a bucket at `endpoint`; partitioned by
    `kind`, or not at all. `metadata_location` and `metadata` are those of the last commit."""

    def __init__(self, endpoint, location, version=2, is_partitioned=False, properties=None, is_gzip=False):
        self._client = _client(endpoint)
        self.location, self.version = location, version
        self.is_partitioned, self.is_gzip = is_partitioned, is_gzip
        self.properties = dict(properties or {})
        self.identity = str(uuid.uuid4())
        self.manifests, self.snapshots, self.statistics = [], [], []
        # The current snapshot's id, and further references by name, as metadata has them.
        self.current, self.refs = None, {}
        self._listed = {None: []}
        self.sequence, self.rows, self.number = 0, 0, 0
        self.metadata_location, self.metadata, self._log = None, None, []

    # Objects.

    def put(self, path, body):
        """Writes the object that `path` names, whatever was there."""
        bucket, key = place(path)
        self._client.put_object(Bucket=bucket, Key=key, Body=body)
        return path

    def put_all(self, objects):
        """Writes many, (path, body) each, several at once."""
        with concurrent.futures.ThreadPoolExecutor(UPLOADS_AT_ONCE) as pool:
            list(pool.map(lambda each: self.put(*each), objects))

    def remove(self, path):
        bucket, key = place(path)
        self._client.delete_object(Bucket=bucket, Key=key)

    # Files.

    def data(self, name, rows, form="PARQUET", partition=None):
        """A data file of these rows, (n, kind) each."""
        body = BODIES[form](rows)
        path = self.put(f"{self.location}/data/{name}", body)
        return File(path, len(body), len(rows), form, partition=partition)

    def position_deletes(self, name, positions, form="PARQUET", partition=None):
        """A delete file of these positions, (data file's path, position) each."""
        body = BODIES[form](sorted(positions), POSITION_FIELDS)
        path = self.put(f"{self.location}/data/{name}", body)
        return File(path, len(body), len(positions), form, content=POSITION_DELETES, partition=partition)

    def equality_deletes(self, name, values, partition=None):
        """A delete file of every older row whose `n` is one of these."""
        body = parquet([(value,) for value in values], FIELDS[:1])
        path = self.put(f"{self.location}/data/{name}", body)
        ids = (FIELDS[0][0],)
        return File(path, len(body), len(values), content=EQUALITY_DELETES, partition=partition, equality_ids=ids)

    def deletion_vectors(self, name, positions):
        """A Puffin file of deletion vectors, by data file; each is a delete file of its own."""
        blobs = [(vector(gone), {"referenced-data-file": path}, len(gone)) for path, gone in positions.items()]
        body, places = puffin([
            ("deletion-vector-v1", blob, {**about, "cardinality": str(count)}, -1, -1) for blob, about, count in blobs
        ])
        path = self.put(f"{self.location}/data/{name}", body)
        return [
            File(path, len(body), count, "PUFFIN", POSITION_DELETES, None, (), about["referenced-data-file"], *at)
            for (_, about, count), at in zip(blobs, places)
        ]

    # Commits.

    def commit(self, *groups, removed=(), operation="append"):
        """A snapshot with a new manifest for each group of files, and without those that are removed. The
        metadata's location."""
        self.sequence += 1
        snapshot = self.sequence * 1_000_003
        changed = [each for each in self.manifests if any(file in removed for _, _, file in each.entries)]
        kept = [each for each in self.manifests if each not in changed]
        made = [self._rewritten(each, removed) for each in changed]
        added = 0
        for group in groups:
            entries = [(manifest.ADDED, self.sequence, file) for file in group]
            made.append((min(group[0].content, 1), self.rows + added, entries))
            added += sum(file.rows for file in group if file.content == DATA)
        written = [self._manifest(number, snapshot, *each) for number, each in enumerate(made)]
        self.put_all((each.path, body) for each, body in written)
        listed = [each for each, _ in written] + kept
        self.manifests = [each for each in listed if any(status != manifest.DELETED for status, *_ in each.entries)]
        body = manifest.list_body(self, snapshot, listed)
        path = self.put(f"{self.location}/metadata/snap-{snapshot}-1-{self.identity}.avro", body)
        self.snapshots.append(self._snapshot(snapshot, path, operation, added))
        self.rows += added
        self.current, self._listed[snapshot] = snapshot, self.manifests
        return self.write_metadata()

    def roll_back(self, snapshot):
        """Makes a snapshot of before the current one again."""
        self.current, self.manifests = snapshot, self._listed[snapshot]
        return self.write_metadata()

    def refer(self, name, snapshot, kind="tag"):
        """Gives a snapshot a name: a tag, or a branch."""
        self.refs[name] = {"snapshot-id": snapshot, "type": kind}
        return self.write_metadata()

    def expire(self, snapshot):
        """Leaves a snapshot out of the metadata; its files stay where they are."""
        self.snapshots = [each for each in self.snapshots if each["snapshot-id"] != snapshot]
        return self.write_metadata()

    def _rewritten(self, old, removed):
        entries = []
        for status, sequence, file in old.entries:
            if status != manifest.DELETED:
                entries.append((manifest.DELETED if file in removed else manifest.EXISTING, sequence, file))
        return old.content, old.first_row, entries

    def _manifest(self, number, snapshot, content, first_row, entries):
        body = manifest.body(self, snapshot, content, entries)
        path = f"{self.location}/metadata/{self.identity}-{self.sequence}-m{number}.avro"
        return Manifest(path, len(body), content, self.sequence, first_row, entries), body

    def _snapshot(self, snapshot, path, operation, added):
        parent = {"parent-snapshot-id": self.current} if self.current else {}
        return {
            "snapshot-id": snapshot,
            **parent,
            **({"sequence-number": self.sequence} if self.version > 1 else {}),
            **({"first-row-id": self.rows, "added-rows": added} if self.version > 2 else {}),
            "timestamp-ms": now_ms(),
            "summary": {"operation": operation, "added-records": str(added)},
            "manifest-list": path,
            "schema-id": 0,
        }

    def write_metadata(self):
        """Writes the metadata of now as a new file, and says where."""
        ending = "gz.metadata.json" if self.is_gzip else "metadata.json"
        if self.metadata_location:
            before = {"metadata-file": self.metadata_location, "timestamp-ms": self.metadata["last-updated-ms"]}
            self._log.append(before)
        path = f"{self.location}/metadata/{self.number:05}-{uuid.uuid4()}.{ending}"
        self.metadata, self.number = self._metadata(), self.number + 1
        body = json.dumps(self.metadata).encode()
        self.metadata_location = self.put(path, gzip.compress(body) if self.is_gzip else body)
        return self.metadata_location

    def _metadata(self):
        main = {"main": {"snapshot-id": self.current, "type": "branch"}} if self.current else {}
        metadata = {
            "format-version": self.version,
            "table-uuid": self.identity,
            "location": self.location,
            "last-updated-ms": now_ms(),
            "last-column-id": FIELDS[-1][0],
            "schemas": [manifest.schema()],
            "current-schema-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": manifest.partition_fields(self)}],
            "default-spec-id": 0,
            "last-partition-id": 1000 if self.is_partitioned else 999,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "properties": self.properties,
            "current-snapshot-id": self.current,
            "refs": {**main, **self.refs},
            "snapshots": list(self.snapshots),
            "snapshot-log": [
                {name: each[name] for name in ("snapshot-id", "timestamp-ms")} for each in self.snapshots
            ],
            "metadata-log": list(self._log),
            "statistics": list(self.statistics),
        }
        if self.version == 1:
            metadata["schema"] = metadata["schemas"][0]
            metadata["partition-spec"] = manifest.partition_fields(self)
        else:
            metadata["last-sequence-number"] = self.sequence
        if self.version > 2:
            metadata["next-row-id"] = self.rows
        return metadata

    def add_statistics(self, name, body=b"a sketch"):
        """A statistics file of one blob for the current snapshot; seen from the next metadata on."""
        snapshot, kind = self.current, "apache-datasketches-theta-v1"
        whole, _ = puffin([(kind, body, {}, snapshot, self.sequence)])
        path = self.put(f"{self.location}/metadata/{name}", whole)
        about = {"type": kind, "snapshot-id": snapshot, "sequence-number": self.sequence, "fields": [1]}
        sizes = {"file-size-in-bytes": len(whole), "file-footer-size-in-bytes": len(whole) - 4 - len(body)}
        self.statistics.append({"snapshot-id": snapshot, "statistics-path": path, **sizes, "blob-metadata": [about]})

    @property
    def manifest_list(self):
        return next(each["manifest-list"] for each in self.snapshots if each["snapshot-id"] == self.current)

    def paths(self):
        """Every file that the current snapshot stands on, its own metadata first."""
        listed = [each.path for each in self.manifests]
        files = {file.path: None for each in self.manifests for _, _, file in each.entries}
        statistics = [each["statistics-path"] for each in self.statistics]
        return [self.metadata_location, self.manifest_list, *listed, *files, *statistics]


@functools.cache
def _client(endpoint):
    """One for all tables: to make one takes longer than a commit."""
    return endpoint.boto3(max_pool_connections=UPLOADS_AT_ONCE)


def place(path):
    """Bucket and key of a location: what follows the bucket is the key as it stands."""
    bucket, _, key = path.partition("://")[2].partition("/")
    return bucket, key


def now_ms():
    return int(time.time() * 1000)


def _arrow(rows, fields):
    kinds = [
        pyarrow.field(name, ARROW_TYPES[kind], metadata={"PARQUET:field_id": str(number)})
        for number, name, kind in fields
    ]
    columns = [pyarrow.array([row[at] for row in rows], kind.type) for at, kind in enumerate(kinds)]
    return pyarrow.table(columns, schema=pyarrow.schema(kinds))


def parquet(rows, fields=FIELDS, **how):
    sink = io.BytesIO()
    pyarrow.parquet.write_table(_arrow(rows, fields), sink, **how)
    return sink.getvalue()


def orc(rows, fields=FIELDS):
    """ORC without field ids, which PyArrow cannot write: a table of these needs a name mapping."""
    sink = io.BytesIO()
    pyarrow.orc.write_table(_arrow(rows, fields), sink)
    return sink.getvalue()


def avro(rows, fields=FIELDS):
    described = [manifest.optional(name, number, kind) for number, name, kind in fields]
    names = [name for _, name, _ in fields]
    record = {"type": "record", "name": "table", "fields": described}
    sink = io.BytesIO()
    fastavro.writer(sink, record, [dict(zip(names, row)) for row in rows], codec="deflate")
    return sink.getvalue()


BODIES = {"PARQUET": parquet, "ORC": orc, "AVRO": avro}


def vector(positions):
    """A deletion vector, as Iceberg's Puffin spec has it."""
    bitmap = pyroaring.BitMap(positions).serialize()
    body = b"\xd1\xd3\x39\x64" + struct.pack("<QI", 1, 0) + bitmap
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def puffin(blobs):
    """A Puffin file of blobs, (type, bytes, properties, snapshot, sequence number) each, and the place of
    each in it."""
    magic, body, about, places = b"PFA1", b"PFA1", [], []
    for kind, blob, properties, snapshot, sequence in blobs:
        at = {"offset": len(body), "length": len(blob)}
        of = {"type": kind, "fields": [1], "snapshot-id": snapshot, "sequence-number": sequence}
        about.append({**of, **at, "properties": properties})
        places.append((at["offset"], at["length"]))
        body += blob
    footer = json.dumps({"blobs": about, "properties": {"created-by": "by hand"}}).encode()
    return body + magic + footer + struct.pack("<iI", len(footer), 0) + magic, places

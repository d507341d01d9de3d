"""Manifests and manifest lists as Avro, in the three versions of the format. The schemas are the spec's,
without what is optional and nobody needs here, such as bounds. See `handmade`, which writes tables of them.
"""

import io
import json

import fastavro

# Every table's columns: field id, name, type. All of them may be null.
FIELDS = [(1, "n", "long"), (2, "kind", "string")]
EXISTING, ADDED, DELETED = 0, 1, 2


def schema():
    """The tables' schema, as metadata has it."""
    fields = [{"id": number, "name": name, "required": False, "type": kind} for number, name, kind in FIELDS]
    return {"type": "struct", "schema-id": 0, "fields": fields}


def partition_fields(table):
    by_kind = {"name": "kind", "transform": "identity", "source-id": 2, "field-id": 1000}
    return [by_kind] if table.is_partitioned else []


def required(name, number, kind, **more):
    return {"name": name, "type": kind, "field-id": number, **more}


def optional(name, number, kind):
    return required(name, number, ["null", kind], default=None)


def _entry_schema(table):
    version = table.version
    partition = [optional("kind", 1000, "string")] if table.is_partitioned else []
    ids = {"type": "array", "items": "int", "element-id": 136}
    file = [
        required("content", 134, "int") if version > 1 else None,
        required("file_path", 100, "string"),
        required("file_format", 101, "string"),
        required("partition", 102, {"type": "record", "name": "r102", "fields": partition}),
        required("record_count", 103, "long"),
        required("file_size_in_bytes", 104, "long"),
        required("block_size_in_bytes", 105, "long") if version == 1 else None,
        optional("equality_ids", 135, ids) if version > 1 else None,
        optional("first_row_id", 142, "long") if version > 2 else None,
        optional("referenced_data_file", 143, "string") if version > 1 else None,
        optional("content_offset", 144, "long") if version > 2 else None,
        optional("content_size_in_bytes", 145, "long") if version > 2 else None,
    ]
    entry = [
        required("status", 0, "int"),
        optional("snapshot_id", 1, "long") if version > 1 else required("snapshot_id", 1, "long"),
        optional("sequence_number", 3, "long") if version > 1 else None,
        optional("file_sequence_number", 4, "long") if version > 1 else None,
        required("data_file", 2, {"type": "record", "name": "r2", "fields": [each for each in file if each]}),
    ]
    return {"type": "record", "name": "manifest_entry", "fields": [each for each in entry if each]}


def body(table, snapshot, content, entries):
    """A manifest of `entries`, (status, sequence number, file) each."""
    about = {
        "schema": json.dumps(schema()),
        "schema-id": "0",
        "partition-spec": json.dumps(partition_fields(table)),
        "partition-spec-id": "0",
        "format-version": str(table.version),
        "content": "deletes" if content else "data",
    }
    records = [_entry(table, snapshot, *each) for each in entries]
    return _avro(_entry_schema(table), records, about)


def _entry(table, snapshot, status, sequence, file):
    at = None if status == ADDED else sequence
    return {
        "status": status,
        # Of a file that stays, the snapshot that added it.
        "snapshot_id": sequence * 1_000_003 if status == EXISTING else snapshot,
        "sequence_number": at,
        "file_sequence_number": at,
        "data_file": {
            "content": file.content,
            "file_path": file.path,
            "file_format": file.form,
            "partition": {"kind": file.partition} if table.is_partitioned else {},
            "record_count": file.rows,
            "file_size_in_bytes": file.size_bytes,
            "block_size_in_bytes": 64 << 20,
            "equality_ids": list(file.equality_ids) or None,
            "first_row_id": None,
            "referenced_data_file": file.referenced,
            "content_offset": file.offset,
            "content_size_in_bytes": file.length,
        },
    }


def _list_schema(version):
    fields = [
        required("manifest_path", 500, "string"),
        required("manifest_length", 501, "long"),
        required("partition_spec_id", 502, "int"),
        required("content", 517, "int") if version > 1 else None,
        required("sequence_number", 515, "long") if version > 1 else None,
        required("min_sequence_number", 516, "long") if version > 1 else None,
        required("added_snapshot_id", 503, "long"),
        required("added_files_count", 504, "int"),
        required("existing_files_count", 505, "int"),
        required("deleted_files_count", 506, "int"),
        required("added_rows_count", 512, "long"),
        required("existing_rows_count", 513, "long"),
        required("deleted_rows_count", 514, "long"),
        optional("first_row_id", 520, "long") if version > 2 else None,
    ]
    return {"type": "record", "name": "manifest_file", "fields": [each for each in fields if each]}


def list_body(table, snapshot, manifests):
    """The list of a snapshot's manifests."""
    about = {
        "snapshot-id": str(snapshot),
        "sequence-number": str(table.sequence),
        "format-version": str(table.version),
    }
    return _avro(_list_schema(table.version), [_listed(each) for each in manifests], about)


def _listed(one):
    files, rows = [0, 0, 0], [0, 0, 0]
    for status, _, file in one.entries:
        files[status] += 1
        rows[status] += file.rows
    alive = [sequence for status, sequence, _ in one.entries if status != DELETED]
    return {
        "manifest_path": one.path,
        "manifest_length": one.size_bytes,
        "partition_spec_id": 0,
        "content": one.content,
        "sequence_number": one.sequence,
        "min_sequence_number": min(alive, default=one.sequence),
        "added_snapshot_id": one.sequence * 1_000_003,
        "added_files_count": files[ADDED],
        "existing_files_count": files[EXISTING],
        "deleted_files_count": files[DELETED],
        "added_rows_count": rows[ADDED],
        "existing_rows_count": rows[EXISTING],
        "deleted_rows_count": rows[DELETED],
        "first_row_id": None if one.content else one.first_row,
    }


def _avro(schema, records, about):
    sink = io.BytesIO()
    fastavro.writer(sink, schema, records, codec="deflate", metadata=about)
    return sink.getvalue()

//! Manifests and manifest lists for tests, written with apache-avro by the schemas of the format's
//! specification. Statistics of columns are among them, as in those of engines.

use apache_avro::types::Value;
use apache_avro::{Codec, Schema, Writer};
use serde_json::json;

/// A file as an entry is to tell of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SampleFile {
    pub(crate) path: String,
    pub(crate) content: i32,
    pub(crate) format: &'static str,
    pub(crate) size: i64,
    pub(crate) records: i64,
    /// Days since 1970, and a region.
    pub(crate) partition: (Option<i32>, Option<String>),
    pub(crate) status: i32,
    pub(crate) snapshot_id: Option<i64>,
    pub(crate) sequence_number: Option<i64>,
    pub(crate) referenced: Option<String>,
    pub(crate) offset: Option<i64>,
    pub(crate) vector_size: Option<i64>,
}

impl SampleFile {
    /// A data file that the commit adds.
    pub(crate) fn data(path: &str) -> SampleFile {
        SampleFile {
            path: path.into(),
            content: 0,
            format: "PARQUET",
            size: 1 << 20,
            records: 1000,
            partition: (Some(19_723), Some("eu".into())),
            status: 1,
            snapshot_id: None,
            sequence_number: None,
            referenced: None,
            offset: None,
            vector_size: None,
        }
    }

    /// A deletion vector that the commit adds.
    pub(crate) fn vector(path: &str, offset: i64, referenced: &str) -> SampleFile {
        SampleFile {
            content: 1,
            format: "PUFFIN",
            records: 3,
            referenced: Some(referenced.into()),
            offset: Some(offset),
            vector_size: Some(40),
            ..SampleFile::data(path)
        }
    }
}

/// How a manifest is written.
#[derive(Clone, Debug)]
pub(crate) struct SampleManifest {
    pub(crate) version: u8,
    pub(crate) deletes: bool,
    pub(crate) codec: Codec,
    /// Columns that statistics are written of.
    pub(crate) columns: i32,
    /// Without any, the partition is an empty record.
    pub(crate) partitioned: bool,
    /// Whether the schema has Iceberg's ids.
    pub(crate) ids: bool,
}

impl SampleManifest {
    pub(crate) fn of_version(version: u8) -> SampleManifest {
        let codec = Codec::Null;
        SampleManifest { version, deletes: false, codec, columns: 2, partitioned: true, ids: true }
    }

    pub(crate) fn write(&self, files: &[SampleFile]) -> Vec<u8> {
        let schema = self.schema();
        let mut writer = Writer::with_codec(&schema, Vec::new(), self.codec);
        let spec = json!([
            {"name": "day", "transform": "day", "source-id": 1, "field-id": 1000},
            {"name": "the region", "transform": "identity", "source-id": 2, "field-id": 1001}]);
        let content = if self.deletes { "deletes" } else { "data" };
        let version = self.version.to_string();
        let members = [
            ("partition-spec", spec.to_string()),
            ("partition-spec-id", "7".into()),
            ("format-version", version),
            ("content", content.into()),
        ];
        for (name, value) in members {
            writer.add_user_metadata(name.into(), value).expect("no reserved name");
        }
        for file in files {
            writer.append(self.entry(file)).expect("it is of the schema");
        }
        writer.into_inner().expect("memory takes it")
    }

    fn schema(&self) -> Schema {
        let mut file = vec![
            field(100, "file_path", json!("string")),
            field(101, "file_format", json!("string")),
            field(102, "partition", self.partition_schema()),
            field(103, "record_count", json!("long")),
            field(104, "file_size_in_bytes", json!("long")),
        ];
        if self.version == 1 {
            file.push(field(105, "block_size_in_bytes", json!("long")));
        } else {
            file.insert(0, field(134, "content", json!("int")));
        }
        for (id, name, key, value, of) in STATISTICS {
            file.push(field(*id, name, optional(map_schema(*key, *value, of))));
        }
        let offsets = json!({"type": "array", "items": "long", "element-id": 133});
        file.push(field(131, "key_metadata", optional(json!("bytes"))));
        file.push(field(132, "split_offsets", optional(offsets)));
        if self.version >= 3 {
            file.push(field(142, "first_row_id", optional(json!("long"))));
            file.push(field(143, "referenced_data_file", optional(json!("string"))));
            file.push(field(144, "content_offset", optional(json!("long"))));
            file.push(field(145, "content_size_in_bytes", optional(json!("long"))));
        }
        let file = json!({"type": "record", "name": "r2", "fields": file});
        let mut entry = vec![field(0, "status", json!("int"))];
        if self.version == 1 {
            entry.push(field(1, "snapshot_id", json!("long")));
        } else {
            entry.push(field(1, "snapshot_id", optional(json!("long"))));
            entry.push(field(3, "sequence_number", optional(json!("long"))));
            entry.push(field(4, "file_sequence_number", optional(json!("long"))));
        }
        entry.push(field(2, "data_file", file));
        let mut schema = json!({"type": "record", "name": "manifest_entry", "fields": entry});
        if !self.ids {
            forget_ids(&mut schema);
        }
        Schema::parse(&schema).expect("a sound schema")
    }

    fn partition_schema(&self) -> serde_json::Value {
        let day = json!({"type": "int", "logicalType": "date"});
        let fields = [
            field(1000, "day", optional(day)),
            // Avro's names take no spaces, and writers escape them.
            field(1001, "the_x20region", optional(json!("string"))),
        ];
        let fields = if self.partitioned { &fields[..] } else { &[] };
        json!({"type": "record", "name": "r102", "fields": fields})
    }

    fn entry(&self, file: &SampleFile) -> Value {
        let mut members = Vec::new();
        if self.version > 1 {
            members.push(("content", Value::Int(file.content)));
        }
        members.push(("file_path", Value::String(file.path.clone())));
        members.push(("file_format", Value::String(file.format.into())));
        let (day, region) = &file.partition;
        let tuple = vec![
            ("day".into(), maybe(day.map(Value::Date))),
            ("the_x20region".into(), maybe(region.clone().map(Value::String))),
        ];
        let tuple = if self.partitioned { tuple } else { Vec::new() };
        members.push(("partition", Value::Record(tuple)));
        members.push(("record_count", Value::Long(file.records)));
        members.push(("file_size_in_bytes", Value::Long(file.size)));
        if self.version == 1 {
            members.push(("block_size_in_bytes", Value::Long(64 << 20)));
        }
        for (_, name, _, _, of) in STATISTICS {
            members.push((name, maybe(Some(self.statistics(of)))));
        }
        members.push(("key_metadata", maybe(None)));
        members.push(("split_offsets", maybe(Some(Value::Array(vec![Value::Long(4)])))));
        if self.version >= 3 {
            members.push(("first_row_id", maybe(Some(Value::Long(5)))));
            let referenced = file.referenced.clone().map(Value::String);
            members.push(("referenced_data_file", maybe(referenced)));
            members.push(("content_offset", maybe(file.offset.map(Value::Long))));
            members.push(("content_size_in_bytes", maybe(file.vector_size.map(Value::Long))));
        }
        let mut entry = vec![("status", Value::Int(file.status))];
        if self.version == 1 {
            entry.push(("snapshot_id", Value::Long(file.snapshot_id.unwrap_or(0))));
        } else {
            entry.push(("snapshot_id", maybe(file.snapshot_id.map(Value::Long))));
            entry.push(("sequence_number", maybe(file.sequence_number.map(Value::Long))));
            entry.push(("file_sequence_number", maybe(file.sequence_number.map(Value::Long))));
        }
        entry.push(("data_file", record(members)));
        record(entry)
    }

    fn statistics(&self, of: &str) -> Value {
        let items = (1..=self.columns).map(|column| {
            let value = match of {
                "long" => Value::Long(i64::from(column) * 1000),
                _ => Value::Bytes(vec![7; 8]),
            };
            record(vec![("key", Value::Int(column)), ("value", value)])
        });
        Value::Array(items.collect())
    }
}

/// Field id, name, ids of key and value, and type of a column's statistics.
const STATISTICS: &[(i64, &str, i64, i64, &str)] = &[
    (108, "column_sizes", 117, 118, "long"),
    (109, "value_counts", 119, 120, "long"),
    (110, "null_value_counts", 121, 122, "long"),
    (137, "nan_value_counts", 138, 139, "long"),
    (125, "lower_bounds", 126, 127, "bytes"),
    (128, "upper_bounds", 129, 130, "bytes"),
];

/// A manifest as a list is to name it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SampleListed {
    pub(crate) path: String,
    pub(crate) length: i64,
    pub(crate) deletes: bool,
    pub(crate) sequence_number: i64,
    pub(crate) snapshot_id: i64,
    /// Added, existing, deleted.
    pub(crate) counts: [i32; 3],
}

/// A manifest list.
pub(crate) fn write_list(version: u8, manifests: &[SampleListed]) -> Vec<u8> {
    let summary = json!({"type": "record", "name": "r508", "fields": [
        field(509, "contains_null", json!("boolean")),
        field(510, "lower_bound", optional(json!("bytes"))),
        field(511, "upper_bound", optional(json!("bytes"))),
    ]});
    let mut fields = vec![
        field(500, "manifest_path", json!("string")),
        field(501, "manifest_length", json!("long")),
        field(502, "partition_spec_id", json!("int")),
    ];
    if version > 1 {
        fields.push(field(517, "content", json!("int")));
        fields.push(field(515, "sequence_number", json!("long")));
        fields.push(field(516, "min_sequence_number", json!("long")));
    }
    let older = if version == 1 { "data_" } else { "" };
    fields.push(field(503, "added_snapshot_id", json!("long")));
    for (id, word) in [(504, "added"), (505, "existing"), (506, "deleted")] {
        fields.push(field(id, &format!("{word}_{older}files_count"), json!("int")));
    }
    let summaries = json!({"type": "array", "items": summary, "element-id": 508});
    fields.push(field(507, "partitions", optional(summaries)));
    fields.push(field(519, "key_metadata", optional(json!("bytes"))));
    let schema = json!({"type": "record", "name": "manifest_file", "fields": fields});
    let schema = Schema::parse(&schema).expect("a sound schema");
    let mut writer = Writer::new(&schema, Vec::new());
    for manifest in manifests {
        writer.append(listed(version, older, manifest)).expect("it is of the schema");
    }
    writer.into_inner().expect("memory takes it")
}

fn listed(version: u8, older: &str, manifest: &SampleListed) -> Value {
    let mut members: Vec<(String, Value)> = vec![
        ("manifest_path".into(), Value::String(manifest.path.clone())),
        ("manifest_length".into(), Value::Long(manifest.length)),
        ("partition_spec_id".into(), Value::Int(7)),
    ];
    if version > 1 {
        members.push(("content".into(), Value::Int(manifest.deletes.into())));
        members.push(("sequence_number".into(), Value::Long(manifest.sequence_number)));
        members.push(("min_sequence_number".into(), Value::Long(0)));
    }
    members.push(("added_snapshot_id".into(), Value::Long(manifest.snapshot_id)));
    for (word, count) in ["added", "existing", "deleted"].iter().zip(manifest.counts) {
        members.push((format!("{word}_{older}files_count"), Value::Int(count)));
    }
    let bound = || maybe(Some(Value::Bytes(vec![1, 2])));
    let summary = record(vec![
        ("contains_null", Value::Boolean(false)),
        ("lower_bound", bound()),
        ("upper_bound", bound()),
    ]);
    members.push(("partitions".into(), maybe(Some(Value::Array(vec![summary])))));
    members.push(("key_metadata".into(), maybe(None)));
    Value::Record(members)
}

fn field(id: i64, name: &str, of: serde_json::Value) -> serde_json::Value {
    json!({"name": name, "type": of, "field-id": id})
}

fn optional(of: serde_json::Value) -> serde_json::Value {
    json!(["null", of])
}

fn map_schema(key: i64, value: i64, of: &str) -> serde_json::Value {
    let pair = json!({"type": "record", "name": format!("k{key}_v{value}"), "fields": [
        field(key, "key", json!("int")), field(value, "value", json!(of))]});
    json!({"type": "array", "items": pair, "logicalType": "map"})
}

fn forget_ids(schema: &mut serde_json::Value) {
    match schema {
        serde_json::Value::Object(members) => {
            members.remove("field-id");
            members.values_mut().for_each(forget_ids);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(forget_ids),
        _ => {}
    }
}

fn record(members: Vec<(&str, Value)>) -> Value {
    Value::Record(members.into_iter().map(|(name, value)| (name.into(), value)).collect())
}

fn maybe(value: Option<Value>) -> Value {
    match value {
        None => Value::Union(0, Box::new(Value::Null)),
        Some(value) => Value::Union(1, Box::new(value)),
    }
}

//! What the catalog's tables are made of, in the origin's folder: metadata files, and one large table, its manifests
//! and a commit after another, made before anything is measured. Its data files are named and are not there.

use std::path::Path;

use apache_avro::types::Value;
use apache_avro::{Schema, Writer};
use serde_json::json;

use crate::error::{Doing, Result};
use crate::object::BUCKET;

/// Documents that a flooding catalog goes through, and bytes of each.
const DOCUMENTS: u64 = 64;
const DOCUMENT_BYTES: usize = 256 << 10;
/// Commits that are made.
pub(super) const COMMITS_MAX: u64 = 48;

/// Places and documents of tables' metadata.
pub(super) struct Lake {
    small: (String, String),
    documents: Vec<(String, String)>,
    large: Vec<(String, String)>,
    /// Files of the large table before its first commit, and of each commit.
    pub(super) files: u64,
    pub(super) files_a_commit: u64,
}

/// How large the large table is.
#[derive(Clone, Copy, Debug)]
pub(super) struct LakePlan {
    pub(super) manifests: u64,
    pub(super) files_a_manifest: u64,
}

/// A manifest as its list tells of it.
struct Listed {
    path: String,
    bytes: usize,
    commit: u64,
}

impl Lake {
    /// Makes all of it under the origin's root.
    pub(super) fn make(root: &Path, plan: LakePlan) -> Result<Lake> {
        let bucket = root.join(BUCKET);
        for folder in ["tables", "large/metadata"] {
            std::fs::create_dir_all(bucket.join(folder)).doing("making the tables' folders")?;
        }
        let put = |path: &str, body: &[u8]| {
            std::fs::write(bucket.join(path), body).doing(format!("writing {path}"))
        };
        let small = (location("tables/small.metadata.json"), document("tables", 0, &json!({})));
        put("tables/small.metadata.json", small.1.as_bytes())?;
        let mut documents = Vec::new();
        for number in 0..DOCUMENTS {
            let path = format!("tables/{number:05}.metadata.json");
            let padding = "x".repeat(DOCUMENT_BYTES);
            let text =
                document("tables", 0, &json!({"padding": padding, "number": number.to_string()}));
            put(&path, text.as_bytes())?;
            documents.push((location(&path), text));
        }
        let schema = manifest_schema();
        let manifest = |number: u64, commit: u64| -> Result<Listed> {
            let path = format!("large/metadata/{number:06}-m0.avro");
            let body = manifest(&schema, number, plan.files_a_manifest);
            put(&path, &body)?;
            Ok(Listed { path: location(&path), bytes: body.len(), commit })
        };
        let mut listed = Vec::new();
        for number in 0..plan.manifests {
            listed.push(manifest(number, 0)?);
        }
        let mut large = Vec::new();
        for commit in 0..=COMMITS_MAX {
            if commit > 0 {
                listed.push(manifest(plan.manifests + commit, commit)?);
            }
            put(&list_path(commit), &manifest_list(&listed, plan.files_a_manifest))?;
            let path = format!("large/metadata/{commit:05}.metadata.json");
            let text = document("large", commit, &json!({}));
            put(&path, text.as_bytes())?;
            large.push((location(&path), text));
        }
        let files_a_commit = plan.files_a_manifest;
        let files = plan.manifests * files_a_commit;
        Ok(Lake { small, documents, large, files, files_a_commit })
    }

    /// A table without any file.
    pub(super) fn small(&self) -> (&str, &str) {
        (&self.small.0, &self.small.1)
    }

    /// A table without any file and with a long document, which is another for another number.
    pub(super) fn document(&self, number: u64) -> (&str, &str) {
        let (location, text) = &self.documents[(number % DOCUMENTS) as usize];
        (location, text)
    }

    /// The large table at a commit.
    pub(super) fn large(&self, commit: u64) -> (&str, &str) {
        let (location, text) = &self.large[commit.min(COMMITS_MAX) as usize];
        (location, text)
    }
}

fn location(path: &str) -> String {
    format!("s3://{BUCKET}/{path}")
}

fn list_path(commit: u64) -> String {
    format!("large/metadata/snap-{commit:05}.avro")
}

/// A table's metadata; it has the snapshots of this commit and of the one before, if it is the large one.
fn document(folder: &str, commit: u64, properties: &serde_json::Value) -> String {
    let is_large = folder == "large";
    let snapshot = |commit: u64| {
        json!({"snapshot-id": commit + 1, "sequence-number": commit + 1, "timestamp-ms": commit + 1,
               "manifest-list": location(&list_path(commit)), "summary": {"operation": "append"},
               "schema-id": 0})
    };
    let first = commit.saturating_sub(1);
    let snapshots: Vec<_> =
        if is_large { (first..=commit).map(snapshot).collect() } else { Vec::new() };
    let current = if is_large { json!(commit + 1) } else { json!(null) };
    json!({
        "format-version": 2, "table-uuid": "0f2b1a52-3b32-4a0e-9d4d-3f1f6a8a2b11",
        "location": location(folder), "last-sequence-number": commit + 1,
        "last-updated-ms": commit + 1, "last-column-id": 1, "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0,
                     "fields": [{"id": 1, "name": "day", "required": false, "type": "string"}]}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": [spec_field()]}],
        "last-partition-id": 1000, "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": properties, "current-snapshot-id": current, "snapshots": snapshots,
    })
    .to_string()
}

fn spec_field() -> serde_json::Value {
    json!({"name": "day", "transform": "identity", "source-id": 1, "field-id": 1000})
}

fn field(id: u32, name: &str, of: &serde_json::Value) -> serde_json::Value {
    json!({"name": name, "type": of, "field-id": id})
}

fn manifest_schema() -> Schema {
    let (long, int, text) = (json!("long"), json!("int"), json!("string"));
    let (maybe_long, maybe_text) = (json!(["null", "long"]), json!(["null", "string"]));
    let partition =
        json!({"type": "record", "name": "r102", "fields": [field(1000, "day", &maybe_text)]});
    let file = json!({"type": "record", "name": "r2", "fields": [
        field(134, "content", &int), field(100, "file_path", &text), field(101, "file_format", &text),
        field(102, "partition", &partition), field(103, "record_count", &long),
        field(104, "file_size_in_bytes", &long)]});
    let entry = json!({"type": "record", "name": "manifest_entry", "fields": [
        field(0, "status", &int), field(1, "snapshot_id", &maybe_long),
        field(3, "sequence_number", &maybe_long), field(4, "file_sequence_number", &maybe_long),
        field(2, "data_file", &file)]});
    Schema::parse(&entry).expect("a sound schema")
}

fn manifest(schema: &Schema, number: u64, files: u64) -> Vec<u8> {
    let mut writer = Writer::new(schema, Vec::new());
    for (name, value) in [
        ("partition-spec", json!([spec_field()]).to_string()),
        ("partition-spec-id", "0".to_owned()),
        ("format-version", "2".to_owned()),
        ("content", "data".to_owned()),
    ] {
        writer.add_user_metadata(name.to_owned(), value).expect("no reserved name");
    }
    let day = format!("2026-{:02}-{:02}", number % 336 / 28 + 1, number % 28 + 1);
    for file in 0..files {
        let path = format!(
            "s3://{BUCKET}/large/data/day={day}/{file:05}-7-45268d71-54eb-476c-b42c-{number:012x}-00001.parquet"
        );
        let partition = Value::Record(vec![("day".to_owned(), maybe(Value::String(day.clone())))]);
        let data_file = record(vec![
            ("content", Value::Int(0)),
            ("file_path", Value::String(path)),
            ("file_format", Value::String("PARQUET".to_owned())),
            ("partition", partition),
            ("record_count", Value::Long(1000)),
            ("file_size_in_bytes", Value::Long(1 << 20)),
        ]);
        let none = || Value::Union(0, Box::new(Value::Null));
        let entry = record(vec![
            ("status", Value::Int(1)),
            ("snapshot_id", none()),
            ("sequence_number", none()),
            ("file_sequence_number", none()),
            ("data_file", data_file),
        ]);
        writer.append(entry).expect("it is of the schema");
    }
    writer.into_inner().expect("memory takes it")
}

fn manifest_list(manifests: &[Listed], files: u64) -> Vec<u8> {
    let (long, int, text) = (json!("long"), json!("int"), json!("string"));
    let counts =
        [(504, "added_files_count"), (505, "existing_files_count"), (506, "deleted_files_count")];
    let mut fields = vec![
        field(500, "manifest_path", &text),
        field(501, "manifest_length", &long),
        field(502, "partition_spec_id", &int),
        field(517, "content", &int),
        field(515, "sequence_number", &long),
        field(516, "min_sequence_number", &long),
        field(503, "added_snapshot_id", &long),
    ];
    fields.extend(counts.iter().map(|(id, name)| field(*id, name, &int)));
    let schema = json!({"type": "record", "name": "manifest_file", "fields": fields});
    let schema = Schema::parse(&schema).expect("a sound schema");
    let mut writer = Writer::new(&schema, Vec::new());
    for Listed { path, bytes, commit } in manifests {
        let number = Value::Long(*commit as i64 + 1);
        let entry = record(vec![
            ("manifest_path", Value::String(path.clone())),
            ("manifest_length", Value::Long(*bytes as i64)),
            ("partition_spec_id", Value::Int(0)),
            ("content", Value::Int(0)),
            ("sequence_number", number.clone()),
            ("min_sequence_number", number.clone()),
            ("added_snapshot_id", number),
            ("added_files_count", Value::Int(files as i32)),
            ("existing_files_count", Value::Int(0)),
            ("deleted_files_count", Value::Int(0)),
        ]);
        writer.append(entry).expect("it is of the schema");
    }
    writer.into_inner().expect("memory takes it")
}

fn record(members: Vec<(&str, Value)>) -> Value {
    Value::Record(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn maybe(value: Value) -> Value {
    Value::Union(1, Box::new(value))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nilas_iceberg::manifest::{Manifest, ManifestList};
    use nilas_iceberg::metadata::TableMetadata;

    use super::*;

    #[test]
    fn a_commit_adds_one_manifest_to_the_table_before_it() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let plan = LakePlan { manifests: 3, files_a_manifest: 5 };
        let lake = Lake::make(root.path(), plan).expect("a writable folder");
        assert_eq!((lake.files, lake.files_a_commit), (15, 5));
        let body = |location: &str| {
            let path = location.strip_prefix("s3://").expect("a location");
            std::fs::read(root.path().join(path)).expect("it was made")
        };
        let (location, text) = lake.large(2);
        assert_eq!(body(location), text.as_bytes());
        let metadata = TableMetadata::parse(location, text.as_bytes()).expect("sound");
        assert_eq!(metadata.snapshots.len(), 2);
        let list = metadata.current().and_then(|it| it.manifest_list.clone()).expect("one");
        let list = ManifestList::parse(&list, &body(&list)).expect("sound");
        assert_eq!(list.manifests.len(), 5);
        let path: Arc<str> = Arc::clone(&list.manifests[4].path);
        let manifest = Manifest::parse(&path, &body(&path)).expect("sound");
        assert_eq!(manifest.live_files().count(), 5);
        let of = |number: u64| lake.document(number).0.to_owned();
        assert_ne!(of(0), of(1));
        assert_eq!(of(0), of(DOCUMENTS));
    }
}

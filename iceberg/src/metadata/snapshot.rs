//! Snapshots, the branches and tags that name them, and the files that belong to them.
//! Each is read from one element of the document, tolerant of every member that it can do without.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

/// A state of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its id.
    pub id: i64,
    /// The snapshot that it was made from; the table may have it no more.
    pub parent_id: Option<i64>,
    /// 0 in format 1.
    pub sequence_number: i64,
    /// When it was committed, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// Its manifest list. Without one, `manifests` are the list.
    pub manifest_list: Option<Arc<str>>,
    /// Manifests that stand in the document itself, as early writers of format 1 did.
    pub manifests: Vec<Arc<str>>,
    /// What its writer says that it did.
    pub summary: Summary,
    /// Its manifest list is encrypted with a key of the table, so that nothing below can be read.
    pub encrypted: bool,
}

/// A snapshot's summary: claims of its writer, to be held against the manifests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// What kind of commit it was. Early writers do not say.
    pub operation: Option<Operation>,
    /// Data files that the commit added.
    pub added_data_files: Option<u64>,
    /// Data files that the commit removed.
    pub deleted_data_files: Option<u64>,
}

/// The kinds of commit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Data files were added, and nothing removed.
    Append,
    /// Files were exchanged for others with the same rows.
    Replace,
    /// Rows were exchanged for others.
    Overwrite,
    /// Rows were removed.
    Delete,
    /// Another word, verbatim.
    Other(Box<str>),
}

impl Operation {
    /// The word of the summary.
    pub fn text(&self) -> &str {
        match self {
            Operation::Append => "append",
            Operation::Replace => "replace",
            Operation::Overwrite => "overwrite",
            Operation::Delete => "delete",
            Operation::Other(text) => text,
        }
    }

    fn read(text: &str) -> Operation {
        match text {
            "append" => Operation::Append,
            "replace" => Operation::Replace,
            "overwrite" => Operation::Overwrite,
            "delete" => Operation::Delete,
            other => Operation::Other(other.into()),
        }
    }
}

/// A branch or a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Its name.
    pub name: Box<str>,
    /// The snapshot that it names.
    pub snapshot_id: i64,
    /// Which of the two.
    pub kind: ReferenceKind,
}

/// What a name of a snapshot is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceKind {
    /// Commits move it.
    Branch,
    /// It stays.
    Tag,
    /// A later kind.
    Other,
}

/// A file with statistics of one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatisticsFile {
    /// The snapshot.
    pub snapshot_id: i64,
    /// Where it is.
    pub path: Arc<str>,
    /// Its size; 0 where the document does not say.
    pub size: u64,
    /// The size of its Puffin footer; 0 where it has none.
    pub footer_size: u64,
}

/// An earlier metadata.json of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataLogEntry {
    /// When it was superseded, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// Where it is.
    pub path: Arc<str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct SnapshotText {
    snapshot_id: i64,
    #[serde(default)]
    parent_snapshot_id: Value,
    #[serde(default)]
    sequence_number: Value,
    #[serde(default)]
    timestamp_ms: Value,
    #[serde(default)]
    manifest_list: Option<Box<str>>,
    #[serde(default)]
    manifests: Option<Vec<Box<str>>>,
    #[serde(default)]
    summary: Value,
    #[serde(default)]
    key_id: Value,
}

impl<'de> Deserialize<'de> for Snapshot {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Snapshot, D::Error> {
        let text = SnapshotText::deserialize(from)?;
        if text.manifest_list.is_none() && text.manifests.is_none() {
            return Err(serde::de::Error::missing_field("manifest-list"));
        }
        Ok(Snapshot {
            id: text.snapshot_id,
            parent_id: text.parent_snapshot_id.as_i64().filter(|id| *id != -1),
            sequence_number: text.sequence_number.as_i64().unwrap_or(0),
            timestamp_ms: text.timestamp_ms.as_i64().unwrap_or(0),
            manifest_list: text.manifest_list.map(Arc::from),
            manifests: text.manifests.into_iter().flatten().map(Arc::from).collect(),
            summary: Summary::read(&text.summary),
            encrypted: text.key_id.is_string(),
        })
    }
}

impl Summary {
    fn read(summary: &Value) -> Summary {
        // The format says that counts are texts; some writers give numbers.
        let count = |name: &str| match &summary[name] {
            Value::String(text) => text.parse().ok(),
            other => other.as_u64(),
        };
        Summary {
            operation: summary["operation"].as_str().map(Operation::read),
            added_data_files: count("added-data-files"),
            deleted_data_files: count("deleted-data-files"),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct ReferenceText {
    snapshot_id: i64,
    #[serde(default)]
    r#type: Value,
}

/// The references of a table, by name.
pub(super) fn references(texts: BTreeMap<String, ReferenceText>) -> Vec<Reference> {
    texts
        .into_iter()
        .map(|(name, text)| Reference {
            name: name.into(),
            snapshot_id: text.snapshot_id,
            kind: match text.r#type.as_str() {
                Some("branch") => ReferenceKind::Branch,
                Some("tag") => ReferenceKind::Tag,
                _ => ReferenceKind::Other,
            },
        })
        .collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct StatisticsText {
    snapshot_id: i64,
    statistics_path: Box<str>,
    #[serde(default)]
    file_size_in_bytes: Value,
    #[serde(default)]
    file_footer_size_in_bytes: Value,
}

impl<'de> Deserialize<'de> for StatisticsFile {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<StatisticsFile, D::Error> {
        let text = StatisticsText::deserialize(from)?;
        Ok(StatisticsFile {
            snapshot_id: text.snapshot_id,
            path: text.statistics_path.into(),
            size: text.file_size_in_bytes.as_u64().unwrap_or(0),
            footer_size: text.file_footer_size_in_bytes.as_u64().unwrap_or(0),
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct MetadataLogText {
    #[serde(default)]
    timestamp_ms: Value,
    metadata_file: Box<str>,
}

impl<'de> Deserialize<'de> for MetadataLogEntry {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<MetadataLogEntry, D::Error> {
        let text = MetadataLogText::deserialize(from)?;
        let timestamp_ms = text.timestamp_ms.as_i64().unwrap_or(0);
        Ok(MetadataLogEntry { timestamp_ms, path: text.metadata_file.into() })
    }
}

//! A table's metadata.json, of format 1 to 3, plain or gzip-compressed: only what a cache needs, and
//! nothing refused for what it does not know. A bad element of a list becomes a fault and is left out.
//! → `document` for the JSON, `field` for schemas, `snapshot`; manifests are read in `manifest`.

mod document;
mod field;
mod inflate;
mod snapshot;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::fault::{Fault, Faults};

pub use field::{Field, PartitionField, PartitionSpec};
pub use snapshot::{
    MetadataLogEntry, Operation, Reference, ReferenceKind, Snapshot, StatisticsFile, Summary,
};

/// Bytes of one metadata.json, inflated. Documents of 100 MiB have been seen in the field.
pub const METADATA_BYTES_MAX: u64 = 256 << 20;
/// Elements of one list of the document.
pub const ELEMENTS_MAX: usize = 1 << 20;
/// Bytes of one element, such as a schema or a snapshot.
pub const ELEMENT_BYTES_MAX: usize = 4 << 20;
/// Bytes of the names and types of all columns.
pub const FIELD_TEXT_BYTES_MAX: usize = 64 << 20;
/// The latest format that is read.
pub const FORMAT_VERSION_MAX: u32 = 3;

/// What a metadata.json says.
#[derive(Clone, Debug, PartialEq)]
pub struct TableMetadata {
    /// The document's own location.
    pub path: Arc<str>,
    /// 1 to 3.
    pub format_version: u32,
    /// Absent from some tables of format 1. Another uuid under the same name is another table.
    pub uuid: Option<Box<str>>,
    /// The table's root.
    pub location: Box<str>,
    /// 0 in format 1.
    pub last_sequence_number: i64,
    /// When the document was written, in milliseconds since 1970.
    pub last_updated_ms: i64,
    /// The schema that readers of the current snapshot use.
    pub current_schema_id: i64,
    /// Every column that any schema of the table has had, by ascending id, under its latest name.
    pub fields: Vec<Field>,
    /// Partition specs, the default among them.
    pub specs: Vec<PartitionSpec>,
    /// The spec that writers use.
    pub default_spec_id: i32,
    /// All snapshots, in the document's order; ids are distinct.
    pub snapshots: Vec<Snapshot>,
    /// Branches and tags. `main` is here whenever there is a current snapshot.
    pub references: Vec<Reference>,
    /// The snapshot of `main`.
    pub current_snapshot_id: Option<i64>,
    /// Puffin files with statistics.
    pub statistics: Vec<StatisticsFile>,
    /// Files with statistics of partitions.
    pub partition_statistics: Vec<StatisticsFile>,
    /// Earlier documents.
    pub metadata_log: Vec<MetadataLogEntry>,
    /// Those properties that bear on a cache: see [`PROPERTIES_USED`].
    pub properties: Vec<(Box<str>, Box<str>)>,
    /// What was left out, and why.
    pub faults: Faults,
}

/// Properties that are kept.
pub const PROPERTIES_USED: &[&str] = &[
    "history.expire.max-snapshot-age-ms",
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
];

impl TableMetadata {
    /// Reads the bytes at `path`. Gzip is told by its magic, whatever the name says.
    pub fn parse(path: &str, bytes: &[u8]) -> Result<TableMetadata, Fault> {
        let inflated = inflate::inflate(path, bytes)?;
        document::read(path, &inflated)
    }

    /// What it has on the heap, about.
    pub fn memory_bytes(&self) -> usize {
        let snapshot = |snapshot: &Snapshot| {
            let paths = snapshot.manifests.iter().chain(snapshot.manifest_list.as_ref());
            size_of::<Snapshot>() + paths.map(|path| path.len()).sum::<usize>()
        };
        let field = |field: &Field| size_of::<Field>() + field.path.len() + field.type_text.len();
        let logged = self.metadata_log.iter().map(|it| size_of_val(it) + it.path.len());
        self.snapshots.iter().map(snapshot).sum::<usize>()
            + self.fields.iter().map(field).sum::<usize>()
            + logged.sum::<usize>()
    }

    /// The snapshot of that id, if the table still has it.
    pub fn snapshot(&self, id: i64) -> Option<&Snapshot> {
        self.snapshots.iter().find(|snapshot| snapshot.id == id)
    }

    /// The snapshot of `main`.
    pub fn current(&self) -> Option<&Snapshot> {
        self.snapshot(self.current_snapshot_id?)
    }

    /// The column of that id.
    pub fn field(&self, id: i32) -> Option<&Field> {
        let place = self.fields.binary_search_by_key(&id, |field| field.id).ok()?;
        Some(&self.fields[place])
    }

    /// The folders that the table's files lie in, as a rule: its root, and those that its properties name.
    pub fn folders(&self) -> impl Iterator<Item = &str> {
        let named = self.properties.iter().filter(|(name, _)| name.ends_with(".path"));
        std::iter::once(&*self.location).chain(named.map(|(_, folder)| &**folder))
    }

    /// A property among [`PROPERTIES_USED`].
    pub fn property(&self, name: &str) -> Option<&str> {
        let mut properties = self.properties.iter();
        properties.find(|(known, _)| &**known == name).map(|(_, value)| &**value)
    }
}

//! What is known of a file, in the words that `engine` is answered with.

/// A table's number: given by the builder, never another's while the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableNumber(pub u32);

/// A partition's number, of whichever table: given by the builder, not reused before all were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionNumber(pub u32);

/// What a file is to its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// Rows.
    Data,
    /// Rows taken away, by their positions.
    PositionDeletes,
    /// Rows taken away, by their values.
    EqualityDeletes,
    /// Rows taken away, by a bitmap in a Puffin file.
    DeletionVector,
    /// A list of files.
    Manifest,
    /// A list of manifests: a snapshot.
    ManifestList,
    /// The table's `metadata.json`.
    Metadata,
    /// Statistics of a snapshot or of its partitions.
    Statistics,
    /// Of a later kind.
    Other,
}

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileFormat {
    /// Apache Parquet.
    Parquet,
    /// Apache Avro.
    Avro,
    /// Apache ORC.
    Orc,
    /// Iceberg's Puffin.
    Puffin,
    /// JSON, compressed or not.
    Json,
    /// None that is known.
    Other,
}

/// A file as its table lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedFile {
    /// Its partition; a file that lies in no partition has the table's unnamed one.
    pub partition: PartitionNumber,
    /// What it is.
    pub kind: FileKind,
    /// How it is written.
    pub format: FileFormat,
    /// Its size; from 2⁴⁸ bytes on, one less than that is kept.
    pub bytes: u64,
    /// Its records; from 2³² on, one less than that is kept.
    pub rows: u64,
}

/// What the index says of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFact {
    /// The table that lists it. Where several do, the one with the lowest number.
    pub table: TableNumber,
    /// As listed.
    pub file: ListedFile,
}

/// What the files of a table or partition come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Files of any kind.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Records of the data files.
    pub rows: u64,
}

impl Sums {
    pub(super) fn add(&mut self, file: &ListedFile) {
        self.files += 1;
        self.bytes += file.bytes;
        if file.kind == FileKind::Data {
            self.rows += file.rows;
        }
    }

    pub(super) fn merge(&mut self, other: Sums) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.rows += other.rows;
    }
}

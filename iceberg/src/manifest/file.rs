//! The files that one manifest lists, kept compactly: a table may have a million of them, and each
//! state of it holds them all. Folders, tuples and commits are kept once a manifest; what few files
//! have lies beside.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::list::ManifestContent;
use super::partition::Partition;

/// What a manifest says.
#[derive(Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Where it is.
    pub path: Arc<str>,
    /// Its own bytes.
    pub length: u64,
    /// Data or deletes, as its header says; data where it does not say.
    pub content: ManifestContent,
    pub(super) files: Box<[Packed]>,
    /// Names of files, one after another, and the folders among them.
    pub(super) text: Box<str>,
    pub(super) folders: Box<[Span]>,
    pub(super) partitions: Box<[Partition]>,
    pub(super) commits: Box<[Commit]>,
    /// Ordered by file.
    pub(super) vectors: Box<[PackedVector]>,
}

/// A run of `Manifest::text`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) length: u32,
}

/// A path: its folder's number, and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PackedPath {
    pub(super) folder: u32,
    pub(super) name_start: u32,
    pub(super) name_length: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packed {
    pub(super) size: u64,
    pub(super) records: u64,
    pub(super) folder: u32,
    pub(super) name_start: u32,
    pub(super) partition: u32,
    pub(super) commit: u32,
    pub(super) name_length: u16,
    pub(super) status: FileStatus,
    pub(super) content: Content,
    pub(super) format: Format,
    pub(super) encrypted: bool,
}

/// What the entries of one commit share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Commit {
    pub(super) snapshot_id: Option<i64>,
    pub(super) sequence_number: Option<i64>,
    pub(super) file_sequence_number: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PackedVector {
    pub(super) file: u32,
    pub(super) referenced: Option<PackedPath>,
    pub(super) offset: Option<u64>,
    pub(super) size: Option<u64>,
}

/// What an entry says of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileStatus {
    /// It was there before.
    Existing,
    /// The commit added it.
    Added,
    /// The commit removed it: the entry alone remembers it, the snapshot has it no more.
    Deleted,
}

impl FileStatus {
    /// Whether the snapshot has the file.
    pub fn is_live(self) -> bool {
        self != FileStatus::Deleted
    }
}

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// Rows.
    Data,
    /// Places of rows that are deleted.
    PositionDeletes,
    /// Values of rows that are deleted.
    EqualityDeletes,
    /// Places of deleted rows of one data file, as a blob within a Puffin file.
    DeletionVector,
    /// A later kind.
    Other,
}

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Parquet.
    Parquet,
    /// Avro.
    Avro,
    /// ORC.
    Orc,
    /// Puffin.
    Puffin,
    /// A later kind.
    Other,
}

/// A path in two parts, which is the same as another exactly when both parts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilePath<'a> {
    /// Up to the last `/`, which belongs to it.
    pub folder: &'a str,
    /// What follows.
    pub name: &'a str,
}

impl<'a> FilePath<'a> {
    /// Parts a path.
    pub fn new(path: &'a str) -> FilePath<'a> {
        let (folder, name) = path.split_at(path.rfind('/').map_or(0, |slash| slash + 1));
        FilePath { folder, name }
    }
}

impl fmt::Display for FilePath<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.folder)?;
        out.write_str(self.name)
    }
}

impl Hash for FilePath<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The name first: it alone tells most files apart.
        state.write(self.name.as_bytes());
        state.write(self.folder.as_bytes());
    }
}

/// One entry of a manifest. Numbers that are null there are inherited from the manifest's own entry
/// in the list: see `ManifestFile`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File<'a> {
    /// Where it is, verbatim.
    pub path: FilePath<'a>,
    /// Its size; 0 where the entry does not say.
    pub size: u64,
    /// Its rows, or deletes.
    pub records: u64,
    /// What the entry says of it.
    pub status: FileStatus,
    /// What it holds.
    pub content: Content,
    /// How it is written.
    pub format: Format,
    /// It is encrypted with a key of its own, so that its footer cannot be read.
    pub encrypted: bool,
    /// Its partition.
    pub partition: &'a Partition,
    /// The snapshot that added or removed it; null is the one that added the manifest.
    pub snapshot_id: Option<i64>,
    /// The age of its rows; null is the manifest's.
    pub sequence_number: Option<i64>,
    /// The age of the file; null is the manifest's.
    pub file_sequence_number: Option<i64>,
    /// Of a deletion vector, and of position deletes of one data file.
    pub vector: Option<Vector<'a>>,
}

/// Where in a Puffin file a deletion vector lies, and whose rows it deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vector<'a> {
    /// The blob's first byte.
    pub offset: Option<u64>,
    /// The blob's bytes.
    pub size: Option<u64>,
    /// The data file.
    pub referenced: Option<FilePath<'a>>,
}

/// What makes a file the same in two manifests: several deletion vectors share a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileKey<'a> {
    /// Where it is.
    pub path: FilePath<'a>,
    /// Where in it, for a deletion vector.
    pub offset: Option<u64>,
}

impl<'a> File<'a> {
    /// What it is known by.
    pub fn key(&self) -> FileKey<'a> {
        let is_vector = self.content == Content::DeletionVector;
        let offset = self.vector.filter(|_| is_vector).and_then(|vector| vector.offset);
        FileKey { path: self.path, offset }
    }
}

impl Manifest {
    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The entries, in the manifest's order.
    pub fn files(&self) -> impl Iterator<Item = File<'_>> {
        (0..self.files.len()).map(|index| self.file(index))
    }

    /// The entries whose files the snapshot has, with their numbers.
    pub fn live_files(&self) -> impl Iterator<Item = (usize, File<'_>)> {
        let live = self.files.iter().enumerate().filter(|(_, packed)| packed.status.is_live());
        live.map(|(index, _)| (index, self.file(index)))
    }

    /// The entry of that number, below [`Manifest::len`].
    pub fn file(&self, index: usize) -> File<'_> {
        let packed = &self.files[index];
        let commit = &self.commits[packed.commit as usize];
        let Packed { folder, name_start, name_length, .. } = *packed;
        File {
            path: self.path_of(PackedPath { folder, name_start, name_length }),
            size: packed.size,
            records: packed.records,
            status: packed.status,
            content: packed.content,
            format: packed.format,
            encrypted: packed.encrypted,
            partition: &self.partitions[packed.partition as usize],
            snapshot_id: commit.snapshot_id,
            sequence_number: commit.sequence_number,
            file_sequence_number: commit.file_sequence_number,
            vector: self.vector_of(index),
        }
    }

    /// How many entries have each status: existing, added, deleted.
    pub fn status_counts(&self) -> [u64; 3] {
        let mut counts = [0; 3];
        for packed in &self.files {
            counts[packed.status as usize] += 1;
        }
        counts
    }

    /// Bytes of memory, the parts of it included, as far as they grow with the number of files.
    pub fn memory_bytes(&self) -> usize {
        let partitions: usize = self
            .partitions
            .iter()
            .map(|partition| {
                size_of::<Partition>() + partition.text.len() + size_of_val(&*partition.values)
            })
            .sum();
        size_of::<Manifest>()
            + self.path.len()
            + self.text.len()
            + size_of_val(&*self.files)
            + size_of_val(&*self.folders)
            + size_of_val(&*self.commits)
            + size_of_val(&*self.vectors)
            + partitions
    }

    fn vector_of(&self, index: usize) -> Option<Vector<'_>> {
        if self.vectors.is_empty() {
            return None;
        }
        let place =
            self.vectors.binary_search_by_key(&index, |vector| vector.file as usize).ok()?;
        let PackedVector { referenced, offset, size, .. } = self.vectors[place];
        let referenced = referenced.map(|path| self.path_of(path));
        Some(Vector { offset, size, referenced })
    }

    fn path_of(&self, path: PackedPath) -> FilePath<'_> {
        let folder = self.folders[path.folder as usize];
        let name = Span { start: path.name_start, length: path.name_length.into() };
        FilePath { folder: self.span(folder), name: self.span(name) }
    }

    fn span(&self, span: Span) -> &str {
        &self.text[span.start as usize..][..span.length as usize]
    }
}

//! All files, sorted by hash: 32 bytes each, and room for a third more of them. A file that several tables list
//! stands once for each, side by side, so that one of them may let go of it.

use super::fact::{FileFact, FileFormat, FileKind, ListedFile};
use super::names::Names;
use super::path_hash::FileId;
use super::slots::{Known, Slots};

/// A file of one table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) id: FileId,
    bytes_low: u32,
    bytes_high: u16,
    kind: FileKind,
    format: FileFormat,
    /// Where its partition stands in [`Names`].
    pub(super) owner: u32,
    rows: u32,
}

const _: () = assert!(size_of::<Option<Entry>>() == 32, "two in a cache line");

impl Known for Entry {
    fn id(&self) -> FileId {
        self.id
    }
}

impl Entry {
    pub(super) fn new(id: FileId, file: &ListedFile, owner: u32) -> Entry {
        let bytes = file.bytes.min((1 << 48) - 1);
        Entry {
            id,
            bytes_low: bytes as u32,
            bytes_high: (bytes >> 32) as u16,
            kind: file.kind,
            format: file.format,
            owner,
            rows: u32::try_from(file.rows).unwrap_or(u32::MAX),
        }
    }

    pub(super) fn fact(&self, names: &Names) -> FileFact {
        let owner = names.owner(self.owner);
        let file = ListedFile {
            partition: owner.partition,
            kind: self.kind,
            format: self.format,
            bytes: u64::from(self.bytes_high) << 32 | u64::from(self.bytes_low),
            rows: u64::from(self.rows),
        };
        FileFact { table: owner.table, file }
    }
}

/// The numbers that the next new table and partition are given.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbers {
    pub(super) table: u32,
    pub(super) partition: u32,
}

/// The files and the names of what they belong to.
pub(super) struct FileTable {
    entries: Slots<Entry>,
    pub(super) names: Names,
    pub(super) next: Numbers,
}

impl FileTable {
    /// `entries` ascend by hash, then by table.
    pub(super) fn new(entries: Vec<Entry>, names: Names, next: Numbers) -> FileTable {
        FileTable { entries: Slots::new(entries.into_iter()), names, next }
    }

    pub(super) fn find(&self, id: FileId) -> Option<&Entry> {
        self.entries.find(id)
    }

    pub(super) fn entries(&self) -> &Slots<Entry> {
        &self.entries
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let own = super::SHARED_BYTES + size_of::<FileTable>();
        own + self.entries.memory_bytes() + self.names.memory_bytes()
    }
}

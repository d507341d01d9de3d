//! The footers of an index, sorted by hash, and which of them were used: a flag each, set by lookups and
//! taken by the cache, so that a lookup keeps no order and takes no lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nilas_base::HashSet;

use super::directory::Directory;
use super::packed::PackedFooter;
use super::path_hash::FileId;

pub(super) struct FooterTable {
    directory: Directory,
    ids: Box<[FileId]>,
    footers: Box<[PackedFooter]>,
    used: Box<[AtomicBool]>,
    shared_bytes: usize,
}

impl FooterTable {
    /// `footers` ascend by hash.
    pub(super) fn new(footers: Vec<(FileId, PackedFooter)>) -> FooterTable {
        let ids: Box<[FileId]> = footers.iter().map(|(id, _)| *id).collect();
        let shared_bytes = shared_bytes(&footers);
        FooterTable {
            directory: Directory::new(ids.iter().copied()),
            used: ids.iter().map(|_| AtomicBool::new(false)).collect(),
            ids,
            footers: footers.into_iter().map(|(_, footer)| footer).collect(),
            shared_bytes,
        }
    }

    pub(super) fn find(&self, id: FileId) -> Option<&PackedFooter> {
        let bucket = self.directory.bucket(id);
        let at = bucket.start + self.ids[bucket].iter().position(|other| *other == id)?;
        // Looked at first: a flag that is set already stays in every core's cache.
        if !self.used[at].load(Ordering::Relaxed) {
            self.used[at].store(true, Ordering::Relaxed);
        }
        Some(&self.footers[at])
    }

    /// Those that were used since this was last asked.
    pub(super) fn take_used(&self) -> impl Iterator<Item = FileId> {
        let used = self.ids.iter().zip(&self.used);
        used.filter(|(_, used)| used.swap(false, Ordering::Relaxed)).map(|(id, _)| *id)
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.directory.memory_bytes()
            + size_of_val::<[FileId]>(&self.ids)
            + size_of_val::<[PackedFooter]>(&self.footers)
            + size_of_val::<[AtomicBool]>(&self.used)
            + self.shared_bytes
    }
}

/// What the footers hold on the heap, columns that several share counted once.
fn shared_bytes(footers: &[(FileId, PackedFooter)]) -> usize {
    let mut seen = HashSet::default();
    let columns = footers.iter().map(|(_, footer)| footer.columns());
    let columns = columns.filter(|columns| seen.insert(Arc::as_ptr(columns)));
    let columns_bytes: usize = columns.map(|columns| columns.memory_bytes()).sum();
    columns_bytes + footers.iter().map(|(_, footer)| footer.memory_bytes()).sum::<usize>()
}

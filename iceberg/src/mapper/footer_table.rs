//! The footers of an index, sorted by hash, and which of them were used: a flag each, set by lookups and
//! taken by the cache, so that a lookup keeps no order and takes no lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nilas_base::HashSet;

use super::packed::PackedFooter;
use super::path_hash::FileId;
use super::slots::{Known, Slots};

pub(super) struct FooterTable {
    footers: Slots<Placed>,
    shared_bytes: usize,
}

struct Placed {
    id: FileId,
    footer: PackedFooter,
    used: AtomicBool,
}

impl Known for Placed {
    fn id(&self) -> FileId {
        self.id
    }
}

impl FooterTable {
    /// `footers` ascend by hash.
    pub(super) fn new(footers: Vec<(FileId, PackedFooter)>) -> FooterTable {
        let shared_bytes = shared_bytes(&footers);
        let placed = footers.into_iter().map(|(id, footer)| {
            let used = AtomicBool::new(false);
            Placed { id, footer, used }
        });
        FooterTable { footers: Slots::new(placed), shared_bytes }
    }

    pub(super) fn find(&self, id: FileId) -> Option<&PackedFooter> {
        let placed = self.footers.find(id)?;
        // Looked at first: a flag that is set already stays in every core's cache.
        if !placed.used.load(Ordering::Relaxed) {
            placed.used.store(true, Ordering::Relaxed);
        }
        Some(&placed.footer)
    }

    /// Those that were used since this was last asked.
    pub(super) fn take_used(&self) -> impl Iterator<Item = FileId> {
        let used = self.footers.iter().filter(|it| it.used.swap(false, Ordering::Relaxed));
        used.map(|placed| placed.id)
    }

    pub(super) fn len(&self) -> usize {
        self.footers.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.footers.memory_bytes() + self.shared_bytes
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

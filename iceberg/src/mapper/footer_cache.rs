//! The parsed footers that a budget has room for: the one that was not used for the longest time leaves.
//! Uses are told by the indexes' flags, off the serving path, so their order is as fine as
//! [`FooterCache::note_uses`] is called often.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use nilas_base::HashMap;

use super::Mapper;
use super::columns::ColumnSet;
use super::packed::PackedFooter;
use super::path_hash::{FileId, PathHash};
use crate::footer::Footer;

/// What a footer takes beside its ranges and columns: its places in the map and the queue here, each of
/// which may be half empty, and in the index. What the budget charges for it.
const PLACE_BYTES: usize = 256;
/// Outdated entries that the queue may have beside as many as there are footers.
const OUTDATED_MAX: usize = 64;

/// Footers under a budget.
pub struct FooterCache {
    hash: Arc<PathHash>,
    budget_bytes: usize,
    charged_bytes: usize,
    kept: HashMap<FileId, Kept>,
    /// The next to leave first, by stamps that may be outdated: a footer that was used since is put back.
    queue: BinaryHeap<Reverse<(u64, FileId)>>,
    /// Columns, and how many of the footers have them.
    columns: HashMap<Arc<ColumnSet>, usize>,
    now: u64,
    evicted: u64,
}

struct Kept {
    footer: PackedFooter,
    stamp: u64,
}

impl FooterCache {
    /// An empty cache; `hash` must be the builder's.
    pub fn new(hash: Arc<PathHash>, budget_bytes: usize) -> FooterCache {
        FooterCache {
            hash,
            budget_bytes,
            charged_bytes: 0,
            kept: HashMap::default(),
            queue: BinaryHeap::new(),
            columns: HashMap::default(),
            now: 0,
            evicted: 0,
        }
    }

    /// Keeps the footer of a file, as the one used last; others may leave for it. False where the budget
    /// is too small for this one alone.
    pub fn insert(&mut self, bucket: &[u8], key: &[u8], footer: &Footer) -> bool {
        let id = self.hash.file_id(bucket, key);
        self.remove(id);
        let columns = self.share(ColumnSet::new(&footer.columns));
        let footer = PackedFooter::new(footer, columns);
        self.charged_bytes += charge(&footer);
        self.now += 1;
        let stamp = self.now;
        self.kept.insert(id, Kept { footer, stamp });
        self.queue.push(Reverse((stamp, id)));
        while self.charged_bytes > self.budget_bytes && self.evict() {
            self.evicted += 1;
        }
        self.tidy_queue();
        self.kept.contains_key(&id)
    }

    /// Whether the footer of a file is kept.
    pub fn contains(&self, bucket: &[u8], key: &[u8]) -> bool {
        self.kept.contains_key(&self.hash.file_id(bucket, key))
    }

    /// Takes from an index which footers were used since it was last asked. To be called before a new index
    /// takes its place, and now and then between.
    pub fn note_uses(&mut self, mapper: &Mapper) {
        self.now += 1;
        for id in mapper.footers.take_used() {
            if let Some(kept) = self.kept.get_mut(&id) {
                kept.stamp = self.now;
            }
        }
    }

    /// Footers that are kept.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Footers that have left for others.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// What the budget is compared with: footers, columns and their places here and in an index.
    pub fn charged_bytes(&self) -> usize {
        self.charged_bytes
    }

    /// What it has on the heap. Footers that indexes hold, too, are counted here and there.
    pub fn memory_bytes(&self) -> usize {
        let footers: usize = self.kept.values().map(|kept| kept.footer.memory_bytes()).sum();
        let columns: usize = self.columns.keys().map(|columns| columns.memory_bytes()).sum();
        let queue = self.queue.capacity() * size_of::<Reverse<(u64, FileId)>>();
        let maps = self.kept.allocation_size() + self.columns.allocation_size();
        footers + columns + queue + maps
    }

    pub(super) fn hash(&self) -> &Arc<PathHash> {
        &self.hash
    }

    /// Lets go of the footers of files that `listed` does not know.
    pub(super) fn retain(&mut self, listed: impl Fn(FileId) -> bool) {
        let gone: Vec<FileId> = self.kept.keys().copied().filter(|id| !listed(*id)).collect();
        gone.into_iter().for_each(|id| self.remove(id));
        self.tidy_queue();
    }

    /// All footers, ascending by hash.
    pub(super) fn sorted(&self) -> Vec<(FileId, PackedFooter)> {
        let mut footers: Vec<(FileId, PackedFooter)> =
            self.kept.iter().map(|(id, kept)| (*id, kept.footer.clone())).collect();
        footers.sort_unstable_by_key(|(id, _)| *id);
        footers
    }

    /// The one that was not used for the longest time leaves. False where there is none.
    ///
    /// Stamps only grow, so one that is not outdated and first in the queue is the least of all.
    fn evict(&mut self) -> bool {
        while let Some(Reverse((stamp, id))) = self.queue.pop() {
            match self.kept.get(&id) {
                Some(kept) if kept.stamp == stamp => {
                    self.remove(id);
                    return true;
                }
                Some(kept) => self.queue.push(Reverse((kept.stamp, id))),
                None => {}
            }
        }
        false
    }

    fn remove(&mut self, id: FileId) {
        let Some(Kept { footer, .. }) = self.kept.remove(&id) else { return };
        self.charged_bytes -= charge(&footer);
        let columns = footer.columns();
        let users = self.columns.get_mut(columns).expect("a kept footer's columns are counted");
        *users -= 1;
        if *users == 0 {
            self.charged_bytes -= columns.memory_bytes();
            self.columns.remove(columns);
        }
    }

    /// The same columns as other footers have, if they are equal.
    fn share(&mut self, columns: ColumnSet) -> Arc<ColumnSet> {
        let columns = Arc::new(columns);
        if let Some((shared, _)) = self.columns.get_key_value(&columns) {
            let shared = Arc::clone(shared);
            *self.columns.entry(Arc::clone(&shared)).or_default() += 1;
            return shared;
        }
        self.charged_bytes += columns.memory_bytes();
        self.columns.insert(Arc::clone(&columns), 1);
        columns
    }

    /// Entries of footers that have been replaced or removed are few.
    fn tidy_queue(&mut self) {
        if self.queue.len() > 2 * self.kept.len() + OUTDATED_MAX {
            let entries = self.kept.iter().map(|(id, kept)| Reverse((kept.stamp, *id)));
            self.queue = entries.collect();
        }
    }
}

fn charge(footer: &PackedFooter) -> usize {
    PLACE_BYTES + footer.memory_bytes()
}

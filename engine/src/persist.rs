//! What of a shard's knowledge outlives it: the mappings of immutable objects, that writes have begun,
//! and what was purged, as entries of the shard's journal. An entry is soon on the disk; before a write
//! is relayed to a key that has a mapping there, or may have, it is durable that it begins, so that no
//! mapping rises again that the write has made untrue. Begin here; then `recover` for the start,
//! `checkpoint` for what keeps the journal short, `entry` and `outline` for what it says.

mod checkpoint;
mod entry;
mod kept;
mod outline;
mod recover;
mod report;
mod writes;

#[cfg(test)]
mod tests;

pub use entry::{End, WriteId};
pub use recover::{Recovered, recover};
pub use report::report;
pub use writes::Written;

use std::cell::{Cell, OnceCell, RefCell};
use std::time::Duration;

use nilas_base::{HashSet, Monotonic};
use nilas_shards::Reactor;
use nilas_shards::journal::{ENTRY_BYTES_MAX, Journal, JournalUsage};
use sha2::{Digest, Sha256};
use tokio::sync::Notify;

use crate::freshness::Voucher;
use crate::identity::{Digest16, Geometry, HomeHash};
use crate::mapping::{CheckpointNumber, Entry as Known, Freshness};
use crate::purge::{Era, PurgeLog, Purged};
use crate::shard::Shard;
use entry::{ENTRY_VERSION, Entry, Learnt};
use kept::KeptKeys;
use outline::Outline;
use writes::OpenWrites;

/// How long a write waits for the disk, or for the journal to be read, before it is refused.
const DURABLE_WAIT_MAX: Duration = Duration::from_secs(10);
/// Keys of which something is learnt before the journal is read, at most: more, and none of its mappings
/// is believed.
const OVERTAKEN_MAX: usize = 1 << 16;
/// Purges that an era has room for before the next node's may begin: in one millisecond of wall time.
const PURGES_A_MILLISECOND: u64 = 1 << 20;

/// It cannot be made durable, and what is on the disk cannot be taken back either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "The node's disk cannot be written, and holds what this request would make untrue. Try again; if that \
     does not help, the node must be started without that disk, or with an empty one."
)]
pub struct NotDurable;

/// The door of one shard to its journal.
pub struct Persist {
    reactor: Reactor,
    /// Set when it was read and everything is known that it takes back.
    journal: OnceCell<Journal>,
    recovered: Cell<Option<Recovered>>,
    /// Entries that it held.
    replayed: Cell<u64>,
    is_damaged: Cell<bool>,
    is_known: Notify,
    /// What it said, while its mappings are being installed.
    outline: RefCell<Option<Outline>>,
    /// Of which something was learnt before that.
    overtaken: RefCell<HashSet<u64>>,
    kept: RefCell<KeptKeys>,
    writes: RefCell<OpenWrites>,
    /// Bytes of mappings that were appended since the last checkpoint came to them.
    kept_bytes: Cell<u64>,
    /// Counts the checkpoints, from one.
    checkpoint: Cell<CheckpointNumber>,
    /// Whether one is due for what the journal holds, not for its length.
    wants_checkpoint: Cell<bool>,
    /// Until when keys are held that were held in the journal at the start: then one is due, too.
    holds_until: Cell<Option<Monotonic>>,
    /// How often it was not waited for any longer.
    timeouts: Cell<u64>,
}

/// Whose entries a journal holds: of this origin, placed in this way, in these words. Others are not
/// understood, and forgotten.
pub fn owner(geometry: &Geometry) -> Digest16 {
    let mut hash = Sha256::new();
    hash.update(geometry.origin_id);
    hash.update(geometry.shards.to_le_bytes());
    hash.update([ENTRY_VERSION]);
    let mut owner = Digest16::default();
    owner.copy_from_slice(&hash.finalize()[..16]);
    owner
}

/// What of the memory for mappings is for the mappings themselves.
pub fn mapping_bytes(persist: Option<&Persist>, budget_bytes: u64) -> u64 {
    let kept_bytes = persist.map_or(0, |_| KeptKeys::bytes_max(budget_bytes));
    budget_bytes.saturating_sub(kept_bytes)
}

/// The purges that a shard begins with. Where it does not know yet which there were before it, it is in
/// an era that no other run of the node has, so that no block of theirs is found.
pub fn purges(persist: Option<&Persist>) -> PurgeLog {
    let Some(persist) = persist else { return PurgeLog::default() };
    let wall_ms = persist.reactor.clock().wall().0;
    PurgeLog::beginning_at(Era(wall_ms.saturating_mul(PURGES_A_MILLISECOND).max(1)))
}

/// Keeps what is known of an immutable object, where that is not done already.
pub fn keep(shard: &Shard, known: &mut Known) {
    if let Some(persist) = &shard.persist {
        persist.keep(shard, known);
    }
}

/// Waits until everything that was to be kept is durable, for a clean stop.
pub async fn flush(shard: &Shard) {
    if let Some(persist) = &shard.persist {
        persist.known().await;
        persist.journal().flush().await;
    }
}

/// How often is looked whether all mappings are back.
const TAKEN_BACK_LOOK: Duration = Duration::from_millis(10);

impl Persist {
    /// One whose journal is not read yet; see [`recover`].
    pub fn new(reactor: &Reactor, mapping_bytes: u64) -> Persist {
        Persist {
            reactor: reactor.clone(),
            journal: OnceCell::new(),
            recovered: Cell::default(),
            replayed: Cell::new(0),
            is_damaged: Cell::new(false),
            is_known: Notify::new(),
            outline: RefCell::default(),
            overtaken: RefCell::default(),
            kept: RefCell::new(KeptKeys::new(mapping_bytes)),
            writes: RefCell::default(),
            kept_bytes: Cell::new(0),
            checkpoint: Cell::new(CheckpointNumber(1)),
            wants_checkpoint: Cell::new(false),
            holds_until: Cell::default(),
            timeouts: Cell::new(0),
        }
    }

    /// Waits until it is known what the journal takes back, and says what it was worth. Its mappings
    /// follow one by one.
    pub async fn known(&self) -> Recovered {
        loop {
            let told = self.is_known.notified();
            if let Some(recovered) = self.recovered.get() {
                return recovered;
            }
            told.await;
        }
    }

    /// Waits until every mapping that the journal takes back is there.
    pub async fn taken_back(&self) {
        self.known().await;
        while self.outline.borrow().is_some() {
            self.reactor.sleep(TAKEN_BACK_LOOK).await;
        }
    }

    /// What the journal takes and has done, once it was read.
    pub fn usage(&self) -> JournalUsage {
        self.journal.get().map(Journal::usage).unwrap_or_default()
    }

    /// The journal, once it is known.
    fn journal(&self) -> &Journal {
        self.journal.get().expect("whoever asks has waited until it is known")
    }

    /// Says whether there was room for it, if it was to be kept.
    fn keep(&self, shard: &Shard, known: &mut Known) -> bool {
        let (mapping, now) = (&known.mapping, self.checkpoint.get());
        let (name, hash) = (mapping.name.as_ref().as_ref(), mapping.home_hash);
        self.overtake(hash);
        let Some(journal) = self.journal.get() else { return true };
        if known.journaled == Some(now)
            || known.freshness != Freshness::Immutable
            || self.writes.borrow().concern(hash, name.bucket)
            || shard.is_held(name, hash)
        {
            return true;
        }
        let voucher = match known.is_hearsay {
            true => Voucher::Catalog,
            false => shard.judge.borrow().voucher(name),
        };
        let bytes = Entry::Learnt(Learnt::of(mapping, voucher)).encode();
        // One with longer headers than an entry may have is asked for again after a start.
        let Some(bytes) = bytes.filter(|bytes| bytes.len() <= ENTRY_BYTES_MAX) else { return true };
        let is_appended = journal.append(&bytes);
        if is_appended {
            self.kept.borrow_mut().add(hash, name.bucket);
            self.kept_bytes.set(self.kept_bytes.get() + bytes.len() as u64);
            known.journaled = Some(now);
        }
        is_appended
    }

    /// A write begins: from now on no mapping that it concerns is kept. Says whether it may be relayed
    /// at once; else see [`Persist::have_begun`].
    pub fn begin(&self, write: WriteId, written: Written) -> bool {
        let may_be_kept = self.journal.get().is_none() || self.may_be_kept(&written);
        self.writes.borrow_mut().begin(write, written);
        if !may_be_kept {
            self.overtake_all(write);
            // For the sake of the hold that a crash would leave behind; nothing relies on it.
            let journal = self.journal();
            self.beginnings(write).iter().for_each(|entry| {
                journal.append(entry);
            });
        }
        !may_be_kept
    }

    /// Waits until it is durable that a write has begun.
    ///
    /// # Errors
    /// Where that cannot be: the write must not be relayed.
    pub async fn have_begun(&self, write: WriteId) -> Result<(), NotDurable> {
        let durable = async {
            self.known().await;
            self.overtake_all(write);
            self.append(&self.beginnings(write)).await
        };
        self.in_time(durable).await
    }

    /// A write has ended; says whether it was under way.
    pub fn end(&self, write: WriteId, end: End) -> bool {
        let is_open = self.writes.borrow_mut().end(write).is_some();
        if let Some(journal) = self.journal.get().filter(|_| is_open)
            && let Some(bytes) = Entry::Ended(write, end).encode()
        {
            // One that is lost is taken for unknown at the next start.
            journal.append(&bytes);
        }
        is_open
    }

    /// Whether [`Persist::gone`] has anything to do for one of these.
    pub fn must_know_gone(&self, hashes: &[HomeHash]) -> bool {
        let kept = self.kept.borrow();
        self.journal.get().is_none() || hashes.iter().any(|hash| kept.may_have(*hash))
    }

    /// Objects are not to be had any more, or not to be shown: waits until they are not believed at the
    /// next start either, as far as that can be.
    pub async fn gone(&self, hashes: &[HomeHash]) {
        hashes.iter().for_each(|hash| self.overtake(*hash));
        if self.journal.get().is_some() {
            let entries: Vec<_> =
                hashes.iter().filter_map(|hash| Entry::Gone(*hash).encode()).collect();
            let durable = self.append(&entries);
            // There is nothing to refuse: the origin has spoken already.
            let _ = self.in_time(durable).await;
        }
    }

    /// Waits until a purge is durable.
    ///
    /// # Errors
    /// Where that cannot be: it holds until the node ends.
    pub async fn purge(&self, era: Era, purged: Purged<'_>) -> Result<(), NotDurable> {
        self.known().await;
        if let Purged::Key(hash) = purged {
            self.overtake(hash);
        }
        let entries = [Entry::Purged(era, purged).encode().ok_or(NotDurable)?];
        let durable = self.append(&entries);
        self.in_time(durable).await
    }

    /// How often the journal was not waited for any longer.
    pub fn timeouts(&self) -> u64 {
        self.timeouts.get()
    }

    /// Waits for the journal, but not for a device that stalls.
    async fn in_time(
        &self,
        durable: impl Future<Output = Result<(), NotDurable>>,
    ) -> Result<(), NotDurable> {
        self.reactor.timeout(DURABLE_WAIT_MAX, durable).await.unwrap_or_else(|_| {
            self.timeouts.set(self.timeouts.get() + 1);
            Err(NotDurable)
        })
    }

    /// Appends durably. Where the journal has failed and nothing of it will be believed any more, there
    /// is nothing that would have to be taken back.
    async fn append(&self, entries: &[Vec<u8>]) -> Result<(), NotDurable> {
        let journal = self.journal();
        let entries: Vec<&[u8]> = entries.iter().map(Vec::as_slice).collect();
        match journal.append_durably(&entries).await {
            Err(_) if !journal.usage().is_void => Err(NotDurable),
            _ => Ok(()),
        }
    }

    fn beginnings(&self, write: WriteId) -> Vec<Vec<u8>> {
        let writes = self.writes.borrow();
        let Some(written) = writes.get(write) else { return Vec::new() };
        let reaches = written.reaches().into_iter();
        reaches.filter_map(|reach| Entry::Began(write, reach).encode()).collect()
    }

    fn may_be_kept(&self, written: &Written) -> bool {
        let kept = self.kept.borrow();
        match written {
            Written::Keys(hashes) => hashes.iter().any(|hash| kept.may_have(*hash)),
            Written::Bucket(bucket) => kept.may_have_any(bucket),
        }
    }

    /// Something newer is known of a key than what the journal says that is being read.
    fn overtake(&self, hash: HomeHash) {
        if let Some(outline) = &mut *self.outline.borrow_mut() {
            outline.overtake(hash);
        }
        let mut overtaken = self.overtaken.borrow_mut();
        if self.journal.get().is_none() && overtaken.len() <= OVERTAKEN_MAX {
            overtaken.insert(hash.0);
        }
    }

    fn overtake_all(&self, write: WriteId) {
        let writes = self.writes.borrow();
        if let (Some(outline), Some(written)) = (&mut *self.outline.borrow_mut(), writes.get(write))
        {
            written.overtake(outline);
        }
    }
}

//! Keeps the journal short: now and then everything that is live is appended anew, and what came before
//! is forgotten. It goes on in steps beside the shard's work, and each step looks at what is true then:
//! what is taken back afterwards says so behind it.

use std::rc::{Rc, Weak};
use std::time::Duration;

use nilas_base::Monotonic;
use nilas_shards::journal::{ENTRY_BYTES_MAX, Journal, JournalFailed};

use super::entry::{Entry, Reach};
use super::{Persist, writes};
use crate::mapping::{CheckpointNumber, Walk};
use crate::open;
use crate::shard::Shard;

/// How often it is looked whether one is due.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Mappings that are looked at before others have a turn.
const MAPPINGS_A_STEP: usize = 128;
const PAUSE: Duration = Duration::from_micros(200);
/// The mappings of a checkpoint take this part of the journal at most, so that what is appended
/// meanwhile, and the log that it takes the place of, have room beside them.
const LIVE_DIVISOR: u64 = 4;

/// Makes a checkpoint whenever one is due, as long as there are a shard and a journal.
pub async fn keep_short(shard: Weak<Shard>) {
    while let Some(shard) = shard.upgrade() {
        let Some(persist) = &shard.persist else { return };
        let journal = persist.journal().clone();
        if journal.has_failed() {
            return tell_if_full(&shard, &journal);
        }
        let now = shard.reactor.clock().now();
        let are_holds_over = persist.holds_until.get().is_some_and(|until| until <= now);
        if journal.wants_checkpoint() || persist.wants_checkpoint.get() || are_holds_over {
            // One that fails is told by the journal's failure.
            let _ = checkpoint(&shard, persist, &journal).await;
        }
        let pause = shard.reactor.sleep(LOOK_INTERVAL);
        drop(shard);
        pause.await;
    }
}

/// That a device cannot be written is told for all shards at once, by `disk::watch`.
fn tell_if_full(shard: &Shard, journal: &Journal) {
    if journal.usage().is_full {
        tracing::error!(
            shard = shard.id.0,
            "the journal of mappings is full: it needs more room on the disk, or less memory for mappings. None is \
             kept beyond the node's end any more; reads go on"
        );
    }
}

/// Appends all that is live, and has the rest forgotten.
pub(super) async fn checkpoint(
    shard: &Rc<Shard>,
    persist: &Persist,
    journal: &Journal,
) -> Result<(), JournalFailed> {
    let checkpoint = journal.begin_checkpoint();
    persist.wants_checkpoint.set(false);
    let are_holds_over = |until: &Monotonic| *until <= shard.reactor.clock().now();
    persist.holds_until.set(persist.holds_until.get().filter(|until| !are_holds_over(until)));
    persist.kept.borrow_mut().begin();
    persist.checkpoint.set(CheckpointNumber(persist.checkpoint.get().0 + 1));
    purges(shard, journal).await?;
    writes(persist, journal).await?;
    holds(shard, journal).await?;
    mappings(shard, persist, journal).await?;
    checkpoint.finish().await?;
    persist.kept.borrow_mut().finish();
    Ok(())
}

async fn purges(shard: &Shard, journal: &Journal) -> Result<(), JournalFailed> {
    let mut entries = Vec::new();
    // In whatever order they stand with later ones, the outcome is the same.
    shard.purges.borrow().each(|era, purged| entries.extend(Entry::Purged(era, purged).encode()));
    for entry in entries {
        put(journal, || Some(entry.clone())).await?;
    }
    Ok(())
}

/// The writes under way. One that ends before its turn has no more to be told of.
async fn writes(persist: &Persist, journal: &Journal) -> Result<(), JournalFailed> {
    let open: Vec<_> = persist.writes.borrow().iter().map(|(write, _)| write).collect();
    for write in open {
        for number in 0.. {
            if number >= persist.beginnings(write).len() {
                break;
            }
            put(journal, || persist.beginnings(write).into_iter().nth(number)).await?;
        }
    }
    Ok(())
}

async fn holds(shard: &Shard, journal: &Journal) -> Result<(), JournalFailed> {
    let now = shard.reactor.clock().now();
    let mut entries = Vec::new();
    {
        let holds = shard.holds.borrow();
        let keys = holds.keys_at(now);
        entries.extend(writes::reaches(&keys).into_iter().map(|reach| Entry::Held(reach).encode()));
        let of_bucket =
            |bucket: Box<str>| Entry::Held(Reach::Bucket(bucket.into_string().into())).encode();
        entries.extend(holds.buckets_at(now).into_iter().map(of_bucket));
        entries.extend(holds.holds_all_at(now).then(|| Entry::Held(Reach::All).encode()));
    }
    for entry in entries.into_iter().flatten() {
        put(journal, || Some(entry.clone())).await?;
    }
    Ok(())
}

/// All mappings, or as many as leave room for what comes until the next checkpoint has ended: without
/// one, the rest is asked for again after a start.
pub(super) async fn mappings(
    shard: &Rc<Shard>,
    persist: &Persist,
    journal: &Journal,
) -> Result<(), JournalFailed> {
    let bytes_max = journal.usage().area_bytes / LIVE_DIVISOR;
    persist.kept_bytes.set(0);
    shard.mappings.borrow_mut().begin_walk(Walk::Checkpoint);
    loop {
        journal.room(ENTRY_BYTES_MAX).await?;
        if step(shard, persist) || persist.kept_bytes.get() > bytes_max {
            return Ok(());
        }
        shard.reactor.sleep(PAUSE).await;
    }
}

/// Whether all were visited. Each is appended as it is now, at once: between a look at it and its place
/// in the journal nothing can take it back.
fn step(shard: &Shard, persist: &Persist) -> bool {
    let mut mappings = shard.mappings.borrow_mut();
    mappings.walk(Walk::Checkpoint, MAPPINGS_A_STEP, |known| {
        open::is_void(shard, known) || persist.keep(shard, known)
    })
}

/// Appends an entry, as it is when there is room for it; nothing where there is none any more.
async fn put(journal: &Journal, entry: impl Fn() -> Option<Vec<u8>>) -> Result<(), JournalFailed> {
    loop {
        journal.room(ENTRY_BYTES_MAX).await?;
        if entry().is_none_or(|bytes| journal.append(&bytes)) {
            return Ok(());
        }
    }
}

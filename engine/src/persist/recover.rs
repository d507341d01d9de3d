//! The start: what the journal holds is read, in the order in which it was appended, until everything is
//! known that it takes back; then purges and holds are in force, and its mappings are installed, the
//! newest first, while the node serves. Until then what is learnt is learnt in an era of its own, and
//! writes wait.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use nilas_shards::journal::{Journal, JournalConfig, Replay};

use super::entry::{Entry, Learnt};
use super::outline::{Holds, Outline, Place};
use super::{OVERTAKEN_MAX, Persist, checkpoint};
use crate::identity::HomeHash;
use crate::mapping::{Entry as Known, Freshness, Mapping};
use crate::shard::Shard;

/// Entries that are looked at, or mappings that are made, before others have a turn.
const ENTRIES_A_STEP: usize = 4096;
const MAPPINGS_A_STEP: usize = 256;
const PAUSE: Duration = Duration::from_micros(200);

/// What a journal was worth when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// All that is to be believed of it is known.
    Whole,
    /// Nothing is, and of purges nothing is known either. Blocks from before the start are not found
    /// again, for versions are learnt in a new era: they may as well be forgotten.
    BlocksMayBePurged,
}

/// Reads the journal of a shard, then keeps it short.
pub async fn recover(shard: Rc<Shard>, config: JournalConfig) {
    let (journal, replay) = Journal::open(config).await;
    let Some(persist) = &shard.persist else { return };
    let (mut entries, outline) = match replay {
        Replay::Whole(entries) => match read_through(&shard, &entries).await {
            Some(outline) => (entries, Some(outline)),
            None => (Vec::new(), None),
        },
        Replay::Fresh => (Vec::new(), None),
        Replay::Damaged(damage) => {
            tracing::warn!(
                shard = shard.id.0,
                "nothing is believed of the mappings on the disk: {damage}"
            );
            (Vec::new(), None)
        }
    };
    if journal.has_failed() {
        // What is on the disk may be believed at a later start, when it can be written.
        persist.kept.borrow_mut().set_unknown();
    }
    let read = entries.len();
    begin(&shard, persist, journal, outline);
    let worth = persist.recovered.get();
    tracing::info!(shard = shard.id.0, read, ?worth, "the journal of mappings was read");
    // What was learnt meanwhile, and is of this era still, had nowhere to be kept.
    let _ = checkpoint::mappings(&shard, persist, persist.journal()).await;
    install(&shard, persist, &mut entries).await;
    *persist.outline.borrow_mut() = None;
    checkpoint::keep_short(Rc::downgrade(&shard)).await;
}

/// What the entries come to; nothing where they are not what this node writes.
async fn read_through(shard: &Shard, entries: &[Box<[u8]>]) -> Option<Outline> {
    let persist = shard.persist.as_ref()?;
    let mut outline = Outline::default();
    let mut place: Place = 0;
    for step in entries.chunks(ENTRIES_A_STEP) {
        for bytes in step {
            let Ok(entry) = Entry::decode(bytes) else {
                tracing::error!(
                    shard = shard.id.0,
                    "the journal holds what this node never writes"
                );
                persist.kept.borrow_mut().set_unknown();
                persist.wants_checkpoint.set(true);
                return None;
            };
            if let Entry::Learnt(learnt) = &entry {
                let hash = shard.geometry.home_hash(learnt.name());
                persist.kept.borrow_mut().add(hash, learnt.bucket);
            }
            outline.pass(place, entry, &shard.geometry);
            place += 1;
        }
        shard.reactor.sleep(PAUSE).await;
    }
    // The first thing that is ever appended says in which era its purges begin.
    (!outline.purges.is_empty()).then_some(outline)
}

/// From here on everything is known that was taken back.
fn begin(shard: &Shard, persist: &Persist, journal: Journal, outline: Option<Outline>) {
    let recovered = match outline {
        Some(mut outline) => {
            *shard.purges.borrow_mut() = std::mem::take(&mut outline.purges);
            hold(shard, persist, &outline.end());
            overtake(persist, &journal, &mut outline);
            *persist.outline.borrow_mut() = Some(outline);
            Recovered::Whole
        }
        None => {
            shard.purges.borrow().each(|era, purged| {
                append(persist, &journal, &Entry::Purged(era, purged));
            });
            Recovered::BlocksMayBePurged
        }
    };
    append(persist, &journal, &Entry::Started);
    let _ = persist.journal.set(journal);
    persist.recovered.set(Some(recovered));
    persist.is_known.notify_waiters();
}

fn append(persist: &Persist, journal: &Journal, entry: &Entry<'_>) {
    if !entry.encode().is_some_and(|bytes| journal.append(&bytes)) {
        // A checkpoint leaves behind what should have been taken back.
        persist.wants_checkpoint.set(true);
    }
}

/// What has ended without a word is unknown once more.
fn hold(shard: &Shard, persist: &Persist, lost: &Holds) {
    if *lost == Holds::default() {
        return;
    }
    let now = shard.reactor.clock().now();
    let until = now.after(shard.settings.ambiguous_write_hold);
    let mut holds = shard.holds.borrow_mut();
    lost.keys.iter().for_each(|hash| holds.hold_hash(HomeHash(*hash), until));
    lost.buckets.iter().for_each(|bucket| holds.hold_bucket(bucket, now, until));
    if lost.all {
        holds.hold_all(until);
    }
    // Only a checkpoint tells that a hold is over.
    persist.holds_until.set(Some(until));
}

/// Of what was learnt, found gone or is about to be written since the start, the mappings of before
/// tell nothing any more.
fn overtake(persist: &Persist, journal: &Journal, outline: &mut Outline) {
    // Their beginnings follow, and are waited for.
    persist.writes.borrow().iter().for_each(|(_, written)| written.overtake(outline));
    let overtaken = std::mem::take(&mut *persist.overtaken.borrow_mut());
    if overtaken.len() > OVERTAKEN_MAX {
        outline.overtake_everything();
        persist.wants_checkpoint.set(true);
    }
    for hash in overtaken.into_iter().map(HomeHash) {
        if outline.believes_any(hash) {
            outline.overtake(hash);
            append(persist, journal, &Entry::Gone(hash));
        }
    }
}

/// Installs the mappings, the newest first, as far as there is room.
async fn install(shard: &Rc<Shard>, persist: &Persist, entries: &mut Vec<Box<[u8]>>) {
    while let Some(bytes) = entries.pop() {
        let place = entries.len();
        if let Ok(Entry::Learnt(learnt)) = Entry::decode(&bytes)
            && !install_one(shard, persist, place as Place, &learnt)
        {
            return;
        }
        if place.is_multiple_of(MAPPINGS_A_STEP) {
            shard.reactor.sleep(PAUSE).await;
        }
    }
}

/// Installs a mapping where it is still to be believed; false where there is no more room.
fn install_one(shard: &Shard, persist: &Persist, place: Place, learnt: &Learnt<'_>) -> bool {
    let (name, hash) = (learnt.name(), shard.geometry.home_hash(learnt.name()));
    let outline = persist.outline.borrow();
    let is_believed = outline.as_ref().is_some_and(|it| it.believes(place, name, hash))
        && shard.geometry.home(hash) == shard.id
        && !shard.purges.borrow().is_purged(name, learnt.era);
    let mut mappings = shard.mappings.borrow_mut();
    if !is_believed || mappings.peek(name).is_some() {
        return true;
    }
    if !shard.judge.borrow().still_believes(name, learnt.voucher) {
        // Nor is it to be believed when the rules are what they were.
        append(persist, persist.journal(), &Entry::Gone(hash));
        return true;
    }
    let mapping = mapping(shard, learnt, hash);
    if !mappings.has_room(&mapping) {
        return false;
    }
    let generation = shard.epochs.borrow().bucket_generation(name.bucket);
    let mut known = Known::new(Arc::new(mapping), Freshness::Immutable, generation);
    known.journaled = Some(persist.checkpoint.get());
    mappings.install(known);
    true
}

fn mapping(shard: &Shard, learnt: &Learnt<'_>, home_hash: HomeHash) -> Mapping {
    let name = learnt.name();
    Mapping {
        name: name.to_name(),
        home_hash,
        version: shard.geometry.version(name, learnt.etag, learnt.length, learnt.era),
        etag: learnt.etag.into(),
        length: learnt.length,
        last_modified: learnt.last_modified.map(Into::into),
        headers: learnt.headers.into(),
        checksums: learnt.checksums.map(Into::into),
        era: learnt.era,
        class: learnt.class,
    }
}

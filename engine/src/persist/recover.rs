//! The start: the journal is read, in the order in which it was written, until everything is known that
//! it takes back; then purges and holds are in force, and it is read once more, for its mappings, while
//! the node serves: as many of the newest as there is room for. Until then what is learnt is learnt in an
//! era of its own, and writes wait. No entry is kept in between: what all come to has its share of the
//! memory for mappings, and what is read is a few pieces.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use nilas_base::ShardId;
use nilas_shards::journal::{Journal, JournalConfig, Replay, Span};

use super::entry::{Entry, Learnt};
use super::outline::{Holds, Outline, Place};
use super::{OVERTAKEN_MAX, Persist, checkpoint};
use crate::freshness::Voucher;
use crate::identity::HomeHash;
use crate::mapping::{Entry as Known, Freshness, Mapping};
use crate::shard::Shard;

/// Mappings that are made before others have a turn: those of a batch or two.
const MAPPINGS_A_STEP: usize = 256;
const PAUSE: Duration = Duration::from_micros(200);
/// The part of the memory for mappings that is lent to what the journal comes to. A mapping takes several
/// times as much in the table, so that the keys of all for which there is room have theirs here.
const OUTLINE_DIVISOR: u64 = 8;

/// What a journal was worth when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// All that is to be believed of it is known.
    Whole,
    /// Nothing is, and of purges nothing is known either. Blocks from before the start are not found
    /// again, for versions are learnt in a new era: they may as well be forgotten.
    BlocksMayBePurged,
}

/// What a journal held.
enum Found {
    Whole(Box<Outline>, Span),
    /// Nothing ever.
    Nothing,
    /// What it holds cannot be believed.
    Lost,
}

/// Reads the journal of a shard, then keeps it short.
pub async fn recover(shard: Rc<Shard>, config: JournalConfig) {
    let Some(persist) = &shard.persist else { return };
    let lent = shard.mappings.borrow().room_bytes() / OUTLINE_DIVISOR;
    shard.mappings.borrow_mut().lend(lent);
    let mut reading = Reading { shard: &shard, outline: Outline::new(lent), is_understood: true };
    let (journal, replay) = Journal::open(config, |bytes| reading.look_at(bytes)).await;
    let found = match replay {
        Replay::Whole(span) => reading.end(persist, span),
        Replay::Fresh => Found::Nothing,
        Replay::Another => {
            // What is true of one shard's journal is true of all.
            if shard.id == ShardId(0) {
                tracing::warn!(
                    "what is on the cache device is of another origin, or of other rules for its mappings: none of it \
                     is used, and its place is taken as it is needed"
                );
            }
            Found::Nothing
        }
        Replay::Damaged(damage) => {
            tracing::warn!(
                shard = shard.id.0,
                "nothing is believed of the mappings on the disk: {damage}"
            );
            persist.kept.borrow_mut().clear();
            persist.is_damaged.set(true);
            Found::Lost
        }
    };
    if journal.has_failed() {
        // What is on the disk may be believed at a later start, when it can be written.
        persist.kept.borrow_mut().set_unknown();
    }
    let span = begin(&shard, persist, journal, found);
    persist.replayed.set(span.map_or(0, |span| span.entries()));
    let (read, worth) = (persist.replayed.get(), persist.recovered.get());
    tracing::info!(shard = shard.id.0, read, ?worth, "the journal of mappings was read");
    // What was learnt meanwhile, and is of this era still, had nowhere to be kept.
    let _ = checkpoint::mappings(&shard, persist, persist.journal()).await;
    if let Some(span) = span {
        install(&shard, persist, span).await;
    }
    *persist.outline.borrow_mut() = None;
    shard.mappings.borrow_mut().lend(0);
    checkpoint::keep_short(Rc::downgrade(&shard)).await;
}

/// A journal that is being read for the first time. Nothing of it is believed yet.
struct Reading<'a> {
    shard: &'a Shard,
    outline: Outline,
    /// Whether all that was read so far is what this node writes.
    is_understood: bool,
}

impl Reading<'_> {
    fn look_at(&mut self, bytes: &[u8]) {
        let Ok(entry) = Entry::decode(bytes) else {
            self.is_understood = false;
            return;
        };
        let geometry = &self.shard.geometry;
        if let (Entry::Learnt(learnt), Some(persist)) = (&entry, &self.shard.persist) {
            let hash = geometry.home_hash(learnt.name());
            persist.kept.borrow_mut().add(hash, learnt.bucket);
        }
        self.outline.pass(bytes.len(), entry, geometry);
    }

    /// What the entries come to; lost where they are not what this node writes.
    fn end(self, persist: &Persist, span: Span) -> Found {
        if !self.is_understood {
            tracing::error!(
                shard = self.shard.id.0,
                "the journal holds what this node never writes"
            );
            persist.kept.borrow_mut().set_unknown();
            persist.wants_checkpoint.set(true);
            return Found::Lost;
        }
        // The first thing that is ever appended says in which era its purges begin.
        match self.outline.purges.is_empty() {
            true => Found::Nothing,
            false => Found::Whole(Box::new(self.outline), span),
        }
    }
}

/// From here on everything is known that was taken back; gives where the mappings are that may be believed.
fn begin(shard: &Shard, persist: &Persist, journal: Journal, found: Found) -> Option<Span> {
    let (recovered, span) = match found {
        Found::Whole(mut outline, span) => {
            *shard.purges.borrow_mut() = std::mem::take(&mut outline.purges);
            hold(shard, persist, &outline.end());
            overtake(persist, &journal, &mut outline);
            shard.mappings.borrow_mut().lend(outline.shrink());
            *persist.outline.borrow_mut() = Some(*outline);
            (Recovered::Whole, Some(span))
        }
        Found::Nothing | Found::Lost => {
            // Whatever was being written may be so still.
            let all = matches!(found, Found::Lost);
            if all {
                // A version that was learnt meanwhile may be overwritten by one of these writes, when it is not held
                // any more.
                shard.purges.borrow_mut().begin_anew();
            }
            hold(shard, persist, &Holds { all, ..Holds::default() });
            shard.purges.borrow().each(|era, purged| {
                append(persist, &journal, &Entry::Purged(era, purged));
            });
            (Recovered::BlocksMayBePurged, None)
        }
    };
    append(persist, &journal, &Entry::Started);
    let _ = persist.journal.set(journal);
    persist.recovered.set(Some(recovered));
    persist.is_known.notify_waiters();
    span
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

/// Installs the mappings, as many of the newest as there is room for.
async fn install(shard: &Rc<Shard>, persist: &Persist, span: Span) {
    let room = shard.mappings.borrow().room_bytes();
    let first = persist
        .outline
        .borrow()
        .as_ref()
        .map_or(0, |outline| outline.first_with_room(room, Mapping::FIXED_BYTES as u64));
    let mut reread = persist.journal().reread(span);
    let (mut place, mut made) = (0, 0);
    let mut install_next = |bytes: &[u8]| {
        if place >= first
            && let Ok(Entry::Learnt(learnt)) = Entry::decode(bytes)
        {
            install_one(shard, persist, place, &learnt);
            made += 1;
        }
        place += 1;
        made
    };
    let mut paused_at = 0;
    loop {
        let mut made = paused_at;
        if !reread.batch(|bytes| made = install_next(bytes)).await {
            return;
        }
        if made - paused_at >= MAPPINGS_A_STEP {
            paused_at = made;
            shard.reactor.sleep(PAUSE).await;
        }
    }
}

/// Installs a mapping where it is still to be believed and there is room for it.
fn install_one(shard: &Shard, persist: &Persist, place: Place, learnt: &Learnt<'_>) {
    let (name, hash) = (learnt.name(), shard.geometry.home_hash(learnt.name()));
    let outline = persist.outline.borrow();
    let is_believed = outline.as_ref().is_some_and(|it| it.believes(place, name, hash))
        && shard.geometry.home(hash) == shard.id
        && !shard.purges.borrow().is_purged(name, learnt.era);
    let mut mappings = shard.mappings.borrow_mut();
    if !is_believed || mappings.peek(name).is_some() {
        return;
    }
    if !shard.judge.borrow().still_believes(name, learnt.voucher) {
        // Nor is it to be believed when the rules are what they were.
        append(persist, persist.journal(), &Entry::Gone(hash));
        return;
    }
    let mapping = mapping(shard, learnt, hash);
    if !mappings.has_room(&mapping) {
        return;
    }
    let generation = shard.epochs.borrow().bucket_generation(name.bucket);
    let mut known = Known::new(Arc::new(mapping), Freshness::Immutable, generation);
    known.journaled = Some(persist.checkpoint.get());
    known.is_hearsay = learnt.voucher == Voucher::Catalog;
    mappings.install(known);
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
        tail_start: learnt.tail_start,
    }
}

//! What a journal holds when it is opened: the latest ledger, and the chain of batches that it names. A batch is taken
//! if it is the next of the chain, and nothing is if one is missing that must be there; see `disk::Ledger`.

use super::log::Log;
use super::pages::AreaPages;
use super::reread::InSequence;
use super::stream::PageStream;
use super::{Damage, Replay, Span};
use crate::disk::{Batch, Generation, Ledger};

/// Openings that may have left no batch to know them by, at most, where no ledger tells of them.
const OPENINGS_UNSEEN_MAX: u64 = 1 << 32;
/// Copies of a ledger.
const COPIES: u32 = 2;

/// What was found, and where to go on.
pub(super) struct Found {
    pub(super) replay: Replay,
    pub(super) log: Log,
    /// Later than that of anything in the area.
    pub(super) generation: Generation,
    /// The next ledger's.
    pub(super) sequence: u64,
}

/// Reads the journal of `owner`, who looks at its entries.
pub(super) async fn read(area: &AreaPages, owner: [u8; 16], look: impl FnMut(&[u8])) -> Found {
    let Ledgers { latest, is_missing } = read_ledgers(area).await;
    let is_anothers = latest.is_some_and(|ledger| ledger.owner != owner);
    let whole = match &latest {
        None => Err(None),
        Some(_) if is_missing => Err(Some(Damage::NoLedger)),
        Some(_) if is_anothers => Err(None),
        Some(ledger) if ledger.is_void => Err(Some(Damage::Void)),
        Some(ledger) => walk(area, ledger, look).await.map_err(Some),
    };
    let known = latest.map_or(Generation(0), |ledger| ledger.generation);
    let sequence = latest.map_or(0, |ledger| ledger.sequence + 1);
    let damage = match whole {
        Ok((span, log)) => {
            let generation = Generation(known.0 + 1);
            return Found { replay: Replay::Whole(span), log, generation, sequence };
        }
        Err(damage) => damage,
    };
    let remains = scan(area).await;
    let is_blank = !remains.has_any && !remains.is_incomplete;
    let replay = match damage {
        Some(damage) => Replay::Damaged(damage),
        None if latest.is_none() && !is_blank => Replay::Damaged(Damage::NoLedger),
        None if is_anothers => Replay::Another,
        None => Replay::Fresh,
    };
    let unseen = if latest.is_some() || is_blank { 0 } else { OPENINGS_UNSEEN_MAX };
    let generation = Generation(known.max(remains.generation).0.saturating_add(1 + unseen));
    let log = Log::empty(area.shape, 1, area.shape.ring_start(), 0);
    Found { replay, log, generation, sequence }
}

/// What the places of ledgers have.
struct Ledgers {
    /// The latest that can be read.
    latest: Option<Ledger>,
    /// Whether neither copy can be read of one that may be later. A crash does not do that, for no device tears what
    /// a ledger says.
    is_missing: bool,
}

async fn read_ledgers(area: &AreaPages) -> Ledgers {
    let (shape, place) = (area.shape, area.place);
    let mut latest: Option<Ledger> = None;
    let mut unreadable = [0; 2];
    for end in [0..shape.ring_start(), shape.ring_end()..shape.area_pages()] {
        let mut stream = PageStream::new(area, std::iter::once(end.clone()));
        for (which, page) in end.enumerate() {
            let bytes = stream.pages(page, 1).await.expect("this end is asked for");
            let is_zeros = bytes.iter().all(|byte| *byte == 0);
            match Ledger::decode(bytes, place.device, place.number, page) {
                Ok(ledger) if latest.is_none_or(|latest| latest.age() < ledger.age()) => {
                    latest = Some(ledger);
                }
                Ok(_) => {}
                Err(_) => unreadable[which] += u32::from(!is_zeros || stream.is_incomplete),
            }
        }
    }
    Ledgers { latest, is_missing: unreadable.contains(&COPIES) }
}

/// What a look at every page of the area has found.
struct Remains {
    /// The highest that any batch has.
    generation: Generation,
    /// Whether a journal of this device was ever here.
    has_any: bool,
    is_incomplete: bool,
}

async fn scan(area: &AreaPages) -> Remains {
    let device = area.place.device;
    let mut stream = PageStream::new(area, std::iter::once(0..area.shape.area_pages()));
    let (mut generation, mut has_any) = (Generation(0), false);
    for page in 0..area.shape.area_pages() {
        let bytes = stream.pages(page, 1).await.expect("the whole area is asked for");
        let is_batch = Batch::is_begun(bytes, device);
        has_any |= is_batch || Ledger::is_begun(bytes, device);
        if is_batch && let Ok(batch) = stream.batch(page).await {
            generation = generation.max(batch.header.generation);
        }
    }
    Remains { generation, has_any, is_incomplete: stream.is_incomplete }
}

/// Follows the chain that a ledger names.
async fn walk(
    area: &AreaPages,
    ledger: &Ledger,
    mut look: impl FnMut(&[u8]),
) -> Result<(Span, Log), Damage> {
    let shape = area.shape;
    if !shape.may_begin(ledger.first_page) {
        return Err(Damage::NoLedger);
    }
    let mut chain = Chain::begin(area, ledger);
    let mut sequence = InSequence::default();
    let mut stream = PageStream::new(area, shape.lap(ledger.first_page));
    loop {
        let page = chain.log.head;
        let batch = stream.batch(page).await.ok().filter(|it| chain.log.has_room(it.pages));
        if !chain.take(batch, &mut |entry| sequence.pass(entry, &mut look))? {
            sequence.end(&mut look);
            return Ok((chain.span(), chain.log));
        }
    }
}

/// The batches so far.
struct Chain<'a> {
    ledger: &'a Ledger,
    log: Log,
    generation: Generation,
    /// The checksum of the last batch, where it is known.
    previous: Option<u32>,
    entries: u64,
}

impl<'a> Chain<'a> {
    fn begin(area: &AreaPages, ledger: &'a Ledger) -> Chain<'a> {
        let log = Log::empty(area.shape, ledger.first, ledger.first_page, ledger.durable_checksum);
        let previous = (ledger.first > ledger.durable).then_some(ledger.durable_checksum);
        Chain { ledger, log, generation: Generation(0), previous, entries: 0 }
    }

    fn span(&self) -> Span {
        let Ledger { first, first_page, .. } = *self.ledger;
        Span { first, first_page, last: self.log.last, entries: self.entries }
    }

    /// Takes the batch that lies where the next one should, if it is that; whether it was.
    fn take(
        &mut self,
        batch: Option<Batch<'_>>,
        look: &mut impl FnMut(&[u8]),
    ) -> Result<bool, Damage> {
        let is_next = if self.log.last < self.ledger.durable {
            self.must_be_next(batch)?
        } else {
            self.may_be_next(batch)?
        };
        let Some(batch) = batch.filter(|_| is_next) else { return Ok(false) };
        self.entries += batch.entries().inspect(|entry| look(entry)).count() as u64;
        self.generation = batch.header.generation;
        self.previous = Some(batch.checksum);
        self.log.push(batch.pages, batch.checksum);
        Ok(true)
    }

    /// Of a batch that the ledger vouches for: it is the next, or something is missing.
    fn must_be_next(&self, batch: Option<Batch<'_>>) -> Result<bool, Damage> {
        let ledger = self.ledger;
        let is_it = |batch: &Batch<'_>| {
            let is_last = batch.header.number == ledger.durable;
            self.is_following(batch)
                && batch.header.generation <= ledger.generation
                && (!is_last || batch.checksum == ledger.durable_checksum)
        };
        if batch.as_ref().is_some_and(is_it) {
            return Ok(true);
        }
        #[cfg(feature = "mutations")]
        if crate::mutation::journal_has(crate::mutation::JournalMutation::GapsIgnored) {
            return Ok(false);
        }
        Err(Damage::Gap { number: self.log.last + 1 })
    }

    /// Of what lies behind the last durable batch. It may be anything that is older than the ledger; what is of the
    /// ledger's own generation was written behind it, and a later generation has a later ledger.
    fn may_be_next(&self, batch: Option<Batch<'_>>) -> Result<bool, Damage> {
        let Some(batch) = batch else { return Ok(false) };
        let (header, ledger) = (batch.header, self.ledger);
        let is_of_earlier_lap = header.number <= self.log.last;
        if header.generation < ledger.generation {
            Ok(false)
        } else if header.generation > ledger.generation {
            Err(Damage::Outdated)
        } else if self.is_following(&batch) {
            Ok(true)
        } else if is_of_earlier_lap {
            Ok(false)
        } else {
            Err(Damage::Outdated)
        }
    }

    fn is_following(&self, batch: &Batch<'_>) -> bool {
        let header = batch.header;
        header.owner == self.ledger.owner
            && header.number == self.log.last + 1
            && header.generation >= self.generation
            && self.previous.is_none_or(|previous| previous == header.previous)
    }
}

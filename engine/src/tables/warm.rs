//! The warmer: after each commit, and at the start, it has read what engines plan with, so that they find
//! it at hand. Current snapshots of all tables come first, history after; it stops at the store's budget.
//! What it reads it reads as a client would, within the bounds of `reader`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nilas_base::{ByteRange, Clock, HashMap, Monotonic};
use nilas_iceberg::change::Change;
use nilas_iceberg::footer::{self, Footer, FooterRead};
use nilas_iceberg::mapper::FooterCache;
use nilas_iceberg::state::{TableState, Tier};
use tokio::task::JoinSet;

use super::jobs::Jobs;
use super::plan::{self, Item, Plan};
use super::read::{blocking, ended_in};
use super::reader::{Extent, Piece, ReadTrouble, Reader};
use super::shelf::{FAILURES_SHOWN_MAX, Generation, Shelf, TableId, Warmth};
use crate::source::doubled;

/// How long the warmer rests before it tries again what could not be had; doubled each time, up to the longest.
const RETRY_WAIT: Duration = Duration::from_secs(5);
const RETRY_WAIT_MAX: Duration = Duration::from_secs(300);
/// Reads that are begun and not ended, for one table; how many run is the reader's to say.
const READS_BEGUN_MAX: usize = 64;

/// Reads in a row that may be had later: then the rest of the table is not tried before that.
const LATER_IN_A_ROW_MAX: u32 = 16;

/// What the warmer knows of a table.
#[derive(Default)]
struct Kept {
    generation: Generation,
    state: Option<Arc<TableState>>,
    /// What is at hand, by hash, with what it takes.
    at_hand: HashMap<u64, u64>,
    /// All of it together, as the last fetch left it.
    at_hand_bytes: u64,
    /// Room for page indexes beside what is planned.
    spare_bytes: Arc<AtomicU64>,
    /// What of the plan is left for history.
    rest: Vec<Item>,
    /// When it is tried again, and how often it was.
    retry_at: Option<Monotonic>,
    retries: u32,
}

/// Warms tables.
pub(super) struct Warmer {
    pub(super) shelf: Shelf,
    pub(super) reader: Arc<Reader>,
    pub(super) footers: Arc<Mutex<FooterCache>>,
    pub(super) jobs: Jobs,
    /// What of the metadata store may be used.
    pub(super) room_bytes: u64,
    /// Whether anything is fetched.
    pub(super) is_on: bool,
    /// Whether the page indexes of Parquet files are.
    pub(super) page_indexes: bool,
    pub(super) clock: Clock,
}

impl Warmer {
    /// Warms whatever there is to warm, again and again.
    pub(super) async fn run(self) {
        let mut kept: BTreeMap<TableId, Kept> = BTreeMap::new();
        loop {
            while let Some((id, generation, state)) = self.next(&mut kept) {
                let is_done = self.warm_current(&mut kept, &id, generation, state).await;
                self.plan_retry(&mut kept, &id, is_done);
            }
            let history = kept.iter_mut().find(|(_, it)| !it.rest.is_empty());
            if let Some((id, one)) = history {
                let id = id.clone();
                let is_done = self.warm_history(&id, one).await;
                self.plan_retry(&mut kept, &id, is_done);
                continue;
            }
            let retry_at = kept.values().filter_map(|it| it.retry_at).min();
            let retry = async {
                match retry_at {
                    Some(at) => tokio::time::sleep(at.since(self.clock.now())).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.shelf.indexed() => {}
                () = retry => {}
            }
        }
    }

    /// Has a table tried again of which something may be had later; each time it waits longer.
    fn plan_retry(&self, kept: &mut BTreeMap<TableId, Kept>, id: &TableId, is_done: bool) {
        let Some(own) = kept.get_mut(id) else { return };
        if is_done {
            (own.retry_at, own.retries) = (None, 0);
            return;
        }
        let wait = doubled(RETRY_WAIT, own.retries, RETRY_WAIT_MAX);
        own.retries += 1;
        own.retry_at = Some(self.clock.now().after(wait));
    }

    /// The next table whose state the shards know and the warmer does not.
    fn next(
        &self,
        kept: &mut BTreeMap<TableId, Kept>,
    ) -> Option<(TableId, Generation, Arc<TableState>)> {
        if !self.is_on {
            return None;
        }
        let tables = self.shelf.tables();
        kept.retain(|id, _| tables.contains_key(id));
        let now = self.clock.now();
        let mut new = tables.iter().filter(|(id, table)| {
            let is_known = table.warmth.generation == table.generation
                && kept.get(id).is_some_and(|it| {
                    it.generation == table.generation && it.retry_at.is_none_or(|at| at > now)
                });
            table.indexed == table.generation && table.state.is_some() && !is_known
        });
        let (id, table) = new.next()?;
        Some((id.clone(), table.generation, Arc::clone(table.state.as_ref()?)))
    }

    /// Reads what a state's current snapshot, branches and tags need; false where some may be had later.
    async fn warm_current(
        &self,
        kept: &mut BTreeMap<TableId, Kept>,
        id: &TableId,
        generation: Generation,
        state: Arc<TableState>,
    ) -> bool {
        let others = kept.iter().filter(|(other, _)| *other != id);
        let used: u64 = others.map(|(_, it)| it.at_hand_bytes).sum();
        let room_bytes = self.room_bytes.saturating_sub(used);
        let own = kept.entry(id.clone()).or_default();
        let is_purged = self.shelf.with(id, |it| it.warmth.generation == 0).unwrap_or(false);
        let at_hand = if is_purged { HashMap::default() } else { std::mem::take(&mut own.at_hand) };
        let old = own.state.replace(Arc::clone(&state));
        let (plan, mut at_hand) = blocking(move || {
            // One that is tried again has not changed.
            let old = old.filter(|old| !Arc::ptr_eq(old, &state));
            let change = old.as_ref().map(|old| Change::between(old, &state));
            (plan::metadata(&state, change.as_ref(), room_bytes, &at_hand), at_hand)
        })
        .await;
        let Plan { items, kept: planned, left_out } = plan;
        let planned_bytes: u64 = planned.values().sum();
        own.spare_bytes = Arc::new(AtomicU64::new(match self.page_indexes {
            true => room_bytes.saturating_sub(planned_bytes),
            false => 0,
        }));
        at_hand.retain(|hash, _| planned.contains_key(hash));
        self.shelf.with(id, |table| {
            table.warmth = Warmth {
                generation,
                planned: planned.len() as u64,
                planned_bytes,
                done: at_hand.len() as u64,
                done_bytes: at_hand.values().sum(),
                left_out,
                ..Warmth::default()
            };
        });
        let is_new = own.generation != generation;
        if is_new {
            own.retries = 0;
        }
        own.generation = generation;
        own.at_hand = at_hand;
        let (current, rest) = items.into_iter().partition(|item| item.tier != Tier::History);
        own.rest = rest;
        let is_done = self.fetch(id, own, current).await;
        let is_over = own.rest.is_empty();
        self.shelf.with(id, |table| {
            // A purge in between has said that nothing is at hand.
            if table.warmth.generation == generation {
                table.warmth.is_warm = is_done;
                table.warmth.is_over = is_done && is_over;
            }
        });
        self.shelf.tell_changed();
        if is_new || is_purged {
            self.jobs.begin_rules(id);
        }
        is_done
    }

    async fn warm_history(&self, id: &TableId, own: &mut Kept) -> bool {
        let rest = std::mem::take(&mut own.rest);
        let is_done = self.fetch(id, own, rest).await;
        self.shelf.with(id, |table| table.warmth.is_over = is_done);
        is_done
    }

    /// Reads some items, and notes what came of each; false where some may be had later.
    async fn fetch(&self, id: &TableId, own: &mut Kept, items: Vec<Item>) -> bool {
        let mut reads = JoinSet::new();
        let mut items = items.into_iter();
        let (mut is_done, mut later_in_a_row) = (true, 0);
        loop {
            while reads.len() < READS_BEGUN_MAX
                && later_in_a_row < LATER_IN_A_ROW_MAX
                && let Some(item) = items.next()
            {
                let (reader, footers) = (Arc::clone(&self.reader), Arc::clone(&self.footers));
                reads.spawn(warm_one(reader, footers, item, Arc::clone(&own.spare_bytes)));
            }
            let Some(ended) = reads.join_next().await else { break };
            let (item, ended) = match ended {
                Ok(ended) => ended,
                Err(error) => ended_in(error).await,
            };
            let is_later = matches!(ended, Err(ReadTrouble::Later(_)));
            is_done &= !is_later;
            later_in_a_row = if is_later { later_in_a_row + 1 } else { 0 };
            if ended.is_ok() {
                own.at_hand.insert(item.hash, item.bytes);
            }
            self.shelf.with(id, |table| note(&mut table.warmth, &item, ended));
        }
        own.at_hand_bytes = own.at_hand.values().sum();
        is_done
    }
}

fn note(warmth: &mut Warmth, item: &Item, ended: Result<u64, ReadTrouble>) {
    match ended {
        Ok(origin_bytes) => {
            warmth.done += 1;
            warmth.done_bytes += item.bytes;
            warmth.origin_bytes += origin_bytes;
        }
        Err(trouble) => {
            warmth.failed += 1;
            if warmth.failures.len() < FAILURES_SHOWN_MAX {
                warmth.failures.push(format!("{}: {}", item.location, trouble.cause()));
            }
        }
    }
}

/// Reads one item; gives the bytes that the origin was asked for.
async fn warm_one(
    reader: Arc<Reader>,
    footers: Arc<Mutex<FooterCache>>,
    mut item: Item,
    spare_bytes: Arc<AtomicU64>,
) -> (Item, Result<u64, ReadTrouble>) {
    let read = match item.footer_of {
        Some(file_bytes) => {
            warm_footer(&reader, &footers, &mut item, file_bytes, &spare_bytes).await
        }
        None => reader.read(&item.location, item.piece).await.map(|read| read.origin_bytes()),
    };
    (item, read)
}

/// Reads a footer, and the page indexes before it as far as there is room for them.
async fn warm_footer(
    reader: &Reader,
    footers: &Mutex<FooterCache>,
    item: &mut Item,
    file_bytes: u64,
    spare_bytes: &AtomicU64,
) -> Result<u64, ReadTrouble> {
    let (footer, mut origin_bytes) = read_footer(reader, &item.location, file_bytes).await?;
    let Some(footer) = footer else { return Ok(origin_bytes) };
    if let Some((bucket, key)) = reader.places().object(&item.location) {
        let mut footers = footers.lock().unwrap_or_else(PoisonError::into_inner);
        footers.insert(bucket.as_bytes(), key.as_bytes(), &footer);
    }
    let read_from = footer.start.min(file_bytes.saturating_sub(footer::WINDOW_BYTES));
    let indexes = footer.indexes_start().map(|start| ByteRange { start, end: read_from });
    if let Some(indexes) = indexes.filter(|it| it.start < it.end) {
        let bytes = plan::sectors(indexes.len());
        let take = |spare: u64| spare.checked_sub(bytes);
        if spare_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
            let (extent, tail_start) = (Extent::Range(indexes), Some(indexes.start));
            let piece = Piece { extent, tail_start, gives_bytes: false };
            origin_bytes += reader.read(&item.location, piece).await?.origin_bytes();
            item.bytes += bytes;
        }
    }
    Ok(origin_bytes)
}

/// A file's footer, where it has one that can be read: the window at its end, and once more of it where
/// the footer is larger. Also gives the bytes that the origin was asked for.
pub(super) async fn read_footer(
    reader: &Reader,
    location: &str,
    file_bytes: u64,
) -> Result<(Option<Footer>, u64), ReadTrouble> {
    let mut wanted = footer::WINDOW_BYTES;
    let mut origin_bytes = 0;
    for _ in 0..2 {
        let range = ByteRange::new(file_bytes.saturating_sub(wanted), file_bytes);
        let extent = Extent::Range(range);
        let piece = Piece { extent, tail_start: Some(range.start), gives_bytes: true };
        let read = reader.read(location, piece).await?;
        origin_bytes += read.origin_bytes();
        match footer::read_footer(&read.bytes, file_bytes, None) {
            Ok(FooterRead::Whole(footer)) => return Ok((Some(footer), origin_bytes)),
            Ok(FooterRead::Needs(bytes)) => wanted = bytes,
            // Puffin, encrypted or damaged: its bytes are at hand all the same.
            Err(_) => break,
        }
    }
    Ok((None, origin_bytes))
}

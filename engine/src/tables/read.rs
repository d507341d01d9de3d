//! The story of one table: whenever there are news of it, its metadata, manifest lists and manifests are
//! read as far as they are not known, and the state that comes of it is put on the shelf. What cannot be
//! had is a fault of this table and of no other; what may be had later is tried again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nilas_base::Clock;
use nilas_iceberg::change::is_another_table;
use nilas_iceberg::fault::Fault;
use nilas_iceberg::metadata::TableMetadata;
use nilas_iceberg::state::{Missing, TableState};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinError, JoinSet};

use super::index::Latest;
use super::reader::{Piece, ReadTrouble, Reader};
use super::shelf::{News, Shelf, TableId, Waiting};
use crate::source::doubled;

/// Objects that are fetched before they are parsed together.
const MISSING_A_STEP: usize = 32;
/// How long is waited before what may be had later is tried again; doubled each time, up to the longest.
const RETRY_WAIT: Duration = Duration::from_secs(2);
const RETRY_WAIT_MAX: Duration = Duration::from_secs(300);

/// What reading tables takes.
pub(super) struct Reading {
    pub(super) reader: Arc<Reader>,
    pub(super) shelf: Shelf,
    pub(super) clock: Clock,
    /// How many tables are read at a time.
    pub(super) turns: Semaphore,
    /// Memory for all states and the index together.
    pub(super) memory_bytes: u64,
    pub(super) latest: Latest,
}

/// Where a table's news come from. A table that went and came again has another.
type Channel = watch::Receiver<Option<News>>;

/// How a reading ended.
enum End {
    /// All that can be had is there.
    Whole(TableState),
    /// Some of it may be had later: why.
    Part(TableState, String),
    /// There is no room for what it says.
    TooLarge,
}

/// Reads a table until the shelf has it no more.
pub(super) async fn follow(reading: Arc<Reading>, id: TableId, mut news: Channel) {
    let mut retries = 0;
    loop {
        // What is taken in hand is no longer waiting; later news are seen as such.
        let Some(latest) = news.borrow_and_update().clone() else { return };
        let is_done = read_once(&reading, &id, latest, &news).await;
        retries = if is_done { 0 } else { retries + 1 };
        let wait = doubled(RETRY_WAIT, retries, RETRY_WAIT_MAX);
        tokio::select! {
            changed = news.changed() => match changed {
                Ok(()) => retries = 0,
                Err(_) => return,
            },
            () = tokio::time::sleep(wait), if !is_done => {}
        }
    }
}

/// Reads what the news say; false where it is to be tried again.
async fn read_once(reading: &Reading, id: &TableId, news: News, channel: &Channel) -> bool {
    let _turn = reading.turns.acquire().await.expect("it is never closed");
    let News { location, metadata } = news;
    let old = reading.shelf.with_own(id, channel, |table| {
        // The bytes are here now.
        table.news.send_if_modified(|waiting| {
            let is_this = waiting.as_ref().is_some_and(|it| it.location == location);
            if let Some(waiting) = waiting.as_mut().filter(|_| is_this) {
                waiting.metadata = None;
            }
            false
        });
        table.is_read = false;
        table.state.clone()
    });
    let Some(old) = old else { return true };
    let metadata = match metadata_of(reading, &location, metadata).await {
        Ok(metadata) => metadata,
        Err(trouble) => {
            let is_lasting = !matches!(trouble, ReadTrouble::Later(_));
            // What is wrong with the document names it itself.
            let cause = match trouble.cause() {
                cause if cause.starts_with(&*location) => cause.to_owned(),
                cause => format!("{location}: {cause}"),
            };
            reading.shelf.with_own(id, channel, |table| table.trouble = Some(cause));
            reading.shelf.tell_changed();
            return is_lasting;
        }
    };
    // Nothing of another table is of use, whatever its paths are called.
    let state = match old.filter(|old| !is_another_table(old.metadata(), &metadata)) {
        Some(old) => TableState::after(&old, metadata),
        None => TableState::new(metadata),
    };
    let others = reading.shelf.memory_bytes();
    let own = reading.shelf.with_own(id, channel, |table| table.memory_bytes).unwrap_or(0);
    // There are two indexes while one is built.
    let index = 2 * reading.latest.get().memory_bytes() as u64;
    let room = reading.memory_bytes.saturating_sub(others.saturating_sub(own) + index);
    let end = complete(reading, state, room).await;
    put(reading, id, channel, end)
}

fn put(reading: &Reading, id: &TableId, channel: &Channel, end: End) -> bool {
    let (state, trouble, is_done) = match end {
        End::Whole(state) => (Some(state), None, true),
        End::Part(state, cause) => (Some(state), Some(cause), false),
        End::TooLarge => {
            let cause = "its manifests need more memory than tables.memory_bytes leaves: raise that, or \
                         watch fewer tables";
            (None, Some(cause.to_owned()), true)
        }
    };
    let memory_bytes = state.as_ref().map_or(0, TableState::memory_bytes) as u64;
    let generation = reading.shelf.next_generation();
    reading.shelf.with_own(id, channel, |table| {
        table.state = state.map(Arc::new);
        table.generation = generation;
        table.is_read = is_done;
        table.trouble = trouble;
        table.memory_bytes = memory_bytes;
        table.read_at = Some(reading.clock.wall());
    });
    reading.shelf.tell_changed();
    is_done
}

/// The table's metadata: as the catalog told it, or from where it lies.
async fn metadata_of(
    reading: &Reading,
    location: &Arc<str>,
    told: Option<Waiting>,
) -> Result<Arc<TableMetadata>, ReadTrouble> {
    let bytes = match told {
        Some(waiting) => waiting.bytes,
        None => reading.reader.read(location, Piece::METADATA).await?.bytes,
    };
    let path = Arc::clone(location);
    let parsed = blocking(move || TableMetadata::parse(&path, &bytes)).await;
    parsed.map(Arc::new).map_err(|fault| ReadTrouble::Refused(fault.to_string()))
}

/// Fetches what a state lacks until it lacks nothing that can be had.
async fn complete(reading: &Reading, mut state: TableState, room_bytes: u64) -> End {
    loop {
        if state.memory_bytes() as u64 > room_bytes {
            return End::TooLarge;
        }
        let missing = state.missing(MISSING_A_STEP);
        if missing.is_empty() {
            return End::Whole(state);
        }
        let count = missing.len();
        let read = fetch(&reading.reader, missing).await;
        let later: Vec<String> = read.iter().filter_map(cause_of_later).collect();
        state = blocking(move || supply(state, read)).await;
        // Others may be had now, unless these were all.
        let is_over = later.len() == count || count < MISSING_A_STEP;
        if let Some(cause) = later.into_iter().next().filter(|_| is_over) {
            return End::Part(state, cause);
        }
    }
}

type Read = (Arc<str>, Result<Bytes, ReadTrouble>);

fn cause_of_later((path, read): &Read) -> Option<String> {
    match read {
        Err(ReadTrouble::Later(cause)) => Some(format!("{path}: {cause}")),
        _ => None,
    }
}

async fn fetch(reader: &Arc<Reader>, missing: Vec<Missing>) -> Vec<Read> {
    let mut reads = JoinSet::new();
    for Missing { path, .. } in missing {
        let reader = Arc::clone(reader);
        reads.spawn(async move {
            let read = reader.read(&path, Piece::METADATA).await;
            (path, read.map(|read| read.bytes))
        });
    }
    let mut read = Vec::with_capacity(reads.len());
    while let Some(ended) = reads.join_next().await {
        read.push(match ended {
            Ok(ended) => ended,
            Err(error) => ended_in(error).await,
        });
    }
    read
}

fn supply(mut state: TableState, read: Vec<Read>) -> TableState {
    for (path, bytes) in read {
        match bytes {
            // A fault is the state's own from here on.
            Ok(bytes) => drop(state.supply(&path, &bytes)),
            Err(ReadTrouble::Later(_)) => {}
            Err(trouble) => state.refuse(Fault::unreadable(&path, trouble.cause())),
        }
    }
    state
}

/// Runs what takes a processor for a while beside the other tasks.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => ended_in(error).await,
    }
}

/// A task that ended otherwise than with a result: its panic is everybody's, and one that was cancelled is so because
/// the runtime ends, and the rest with it.
pub(super) async fn ended_in<T>(error: JoinError) -> T {
    match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => std::future::pending().await,
    }
}

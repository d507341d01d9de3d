//! What is known of each table, for all who work on it: the watchers' news come in, states are put here by
//! `read`, taken by `index` and `warm`, and shown on the pages. Held for moments, never while waiting.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use nilas_base::UnixMillis;
use nilas_iceberg::catalog::TableName;
use nilas_iceberg::fault::Fault;
use nilas_iceberg::state::TableState;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Memory for metadata that waits on the shelf, in KiB; what comes above that is read from where it lies.
const WAITING_KIB_MAX: usize = 64 << 10;
/// Failures of one table that are shown one by one.
pub const FAILURES_SHOWN_MAX: usize = 16;

/// A table of a catalog.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId {
    /// The catalog's name.
    pub catalog: Arc<str>,
    /// The table's there.
    pub name: TableName,
}

/// With dots; a level that has a dot of its own in backquotes, so that no two tables are written alike.
impl std::fmt::Display for TableId {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}", self.catalog)?;
        let levels = self.name.namespace.0.iter().chain([&self.name.name]);
        levels.into_iter().try_for_each(|level| match level.contains(['.', '`']) {
            true => write!(out, ".`{}`", level.replace('`', "``")),
            false => write!(out, ".{level}"),
        })
    }
}

impl TableId {
    /// A catalog's table.
    pub fn of(catalog: &Arc<str>, table: &TableName) -> TableId {
        TableId { catalog: Arc::clone(catalog), name: table.clone() }
    }

    /// Whether somebody who writes no quotes may mean it.
    pub fn is_called(&self, text: &str) -> bool {
        let without = self.name.to_string();
        let of_catalog = text.strip_prefix(&*self.catalog).and_then(|rest| rest.strip_prefix('.'));
        text == without || of_catalog == Some(without.as_str())
    }
}

/// What the catalog says of a table, not yet read.
#[derive(Clone, Debug)]
pub struct News {
    /// Where its metadata lies.
    pub location: Arc<str>,
    /// The metadata itself, if it came along and there was room for it.
    pub metadata: Option<Waiting>,
}

/// Bytes that wait, with the room that they take.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The bytes.
    pub bytes: Bytes,
    _room: Arc<OwnedSemaphorePermit>,
}

/// Counts the states of all tables: each that is read has the next number, from one.
pub type Generation = u64;

/// How far a table has been warmed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Warmth {
    /// The state that this is about; zero before any was begun.
    pub generation: Generation,
    /// Objects and ranges that are worth keeping, as far as the budget goes.
    pub planned: u64,
    /// Their bytes.
    pub planned_bytes: u64,
    /// How many are at hand.
    pub done: u64,
    /// Their bytes.
    pub done_bytes: u64,
    /// Bytes that the origin was asked for.
    pub origin_bytes: u64,
    /// How many there was no room for.
    pub left_out: u64,
    /// How many cannot be had.
    pub failed: u64,
    /// Whether all that readers of the current snapshot, of branches and of tags plan with is at hand, as
    /// far as it can be had and there is room.
    pub is_warm: bool,
    /// The same of history.
    pub is_over: bool,
    /// What could not be had, and why.
    pub failures: Vec<String>,
}

/// A table on the shelf.
#[derive(Debug)]
pub struct Shelved {
    /// Tells whoever reads it that there are news.
    pub news: watch::Sender<Option<News>>,
    /// Its latest state that was read.
    pub state: Option<Arc<TableState>>,
    /// Which that is.
    pub generation: Generation,
    /// The state that the shards know of.
    pub indexed: Generation,
    /// Whether everything of it was read that can be.
    pub is_read: bool,
    /// Why nothing of it is known.
    pub trouble: Option<String>,
    /// Memory that its state takes.
    pub memory_bytes: u64,
    /// When it was read.
    pub read_at: Option<UnixMillis>,
    /// How far it has been warmed.
    pub warmth: Warmth,
}

impl Shelved {
    /// Whether nothing that engines plan with was left out or could not be had.
    pub fn is_wholly_warm(&self) -> bool {
        let has_all = self.state.as_ref().is_some_and(|state| {
            !state.faults().iter().any(|fault| !matches!(fault, Fault::Contradicted { .. }))
        });
        let Warmth { is_warm, left_out, failed, .. } = self.warmth;
        has_all && is_warm && left_out == 0 && failed == 0
    }

    /// What is wrong with its pieces.
    pub fn faults(&self) -> Vec<Fault> {
        self.state.as_ref().map_or_else(Vec::new, |it| it.faults().iter().cloned().collect())
    }
}

type Tables = BTreeMap<TableId, Shelved>;

/// All tables; clones are the same shelf.
#[derive(Clone, Debug)]
pub struct Shelf {
    tables: Arc<Mutex<Tables>>,
    waiting_room: Arc<Semaphore>,
    generations: Arc<AtomicU64>,
    changed: Arc<tokio::sync::Notify>,
    indexed: Arc<tokio::sync::Notify>,
}

impl Default for Shelf {
    fn default() -> Shelf {
        Shelf {
            tables: Arc::default(),
            waiting_room: Arc::new(Semaphore::new(WAITING_KIB_MAX)),
            generations: Arc::default(),
            changed: Arc::default(),
            indexed: Arc::default(),
        }
    }
}

impl Shelf {
    /// All tables, for a moment.
    pub fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts news of a table down; gives what tells of them where the table is new.
    pub fn put_news(
        &self,
        id: &TableId,
        location: &str,
        metadata: &Bytes,
    ) -> Option<watch::Receiver<Option<News>>> {
        let news = News { location: location.into(), metadata: self.waiting(metadata) };
        let mut tables = self.tables();
        if let Some(known) = tables.get(id) {
            known.news.send_replace(Some(news));
            return None;
        }
        let (sender, receiver) = watch::channel(Some(news));
        tables.insert(id.clone(), Shelved::new(sender));
        Some(receiver)
    }

    fn waiting(&self, metadata: &Bytes) -> Option<Waiting> {
        let kib = u32::try_from(metadata.len().div_ceil(1 << 10)).ok().filter(|kib| *kib > 0)?;
        let room = Arc::clone(&self.waiting_room).try_acquire_many_owned(kib).ok()?;
        Some(Waiting { bytes: metadata.clone(), _room: Arc::new(room) })
    }

    /// Takes a table off; whoever reads it hears that there will be no more news.
    pub fn remove(&self, id: &TableId) {
        self.tables().remove(id);
        self.changed.notify_one();
    }

    /// Changes what is known of a table, if it is still there.
    pub fn with<T>(&self, id: &TableId, change: impl FnOnce(&mut Shelved) -> T) -> Option<T> {
        self.tables().get_mut(id).map(change)
    }

    /// The same, if it is still the table whose news come this way, and not another of its name.
    pub fn with_own<T>(
        &self,
        id: &TableId,
        news: &watch::Receiver<Option<News>>,
        change: impl FnOnce(&mut Shelved) -> T,
    ) -> Option<T> {
        let mut tables = self.tables();
        let own = tables.get_mut(id).filter(|it| it.news.subscribe().same_channel(news));
        own.map(change)
    }

    /// The number of a state that was just read.
    pub fn next_generation(&self) -> Generation {
        self.generations.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Says that states came or went.
    pub fn tell_changed(&self) {
        self.changed.notify_one();
    }

    /// Waits until states came or went.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Says that the shards have heard of states.
    pub fn tell_indexed(&self) {
        self.indexed.notify_one();
    }

    /// Waits until the shards have heard of states.
    pub async fn indexed(&self) {
        self.indexed.notified().await;
    }

    /// The memory that all states take.
    pub fn memory_bytes(&self) -> u64 {
        self.tables().values().map(|it| it.memory_bytes).sum()
    }
}

impl Shelved {
    fn new(news: watch::Sender<Option<News>>) -> Shelved {
        Shelved {
            news,
            state: None,
            generation: 0,
            indexed: 0,
            is_read: false,
            trouble: None,
            memory_bytes: 0,
            read_at: None,
            warmth: Warmth::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> TableId {
        let name = TableName::from_dotted(name).expect("a full name");
        TableId { catalog: "lake".into(), name }
    }

    #[test]
    fn what_waits_is_the_latest_and_its_bytes_have_a_bound() {
        let shelf = Shelf::default();
        let large = Bytes::from(vec![0; (WAITING_KIB_MAX << 10) / 2 + 1]);
        let news = shelf.put_news(&id("a.b"), "one", &large).expect("it is new");
        assert!(shelf.put_news(&id("a.b"), "two", &Bytes::from_static(b"{}")).is_none());
        let latest = news.borrow().clone().expect("there are news");
        assert_eq!((&*latest.location, latest.metadata.expect("it fits").bytes.len()), ("two", 2));
        let held = shelf.put_news(&id("a.c"), "one", &large).expect("the first has left");
        let without = shelf.put_news(&id("a.d"), "one", &large).expect("it is new");
        assert!(held.borrow().as_ref().is_some_and(|news| news.metadata.is_some()));
        assert!(without.borrow().as_ref().is_some_and(|news| news.metadata.is_none()));
        shelf.remove(&id("a.d"));
        assert!(without.has_changed().is_err(), "whoever reads it hears that it is over");
    }

    #[test]
    fn a_table_that_went_and_came_again_is_another() {
        let shelf = Shelf::default();
        let old = shelf.put_news(&id("a.b"), "one", &Bytes::new()).expect("it is new");
        assert!(shelf.with_own(&id("a.b"), &old, |_| ()).is_some());
        shelf.remove(&id("a.b"));
        let new = shelf.put_news(&id("a.b"), "one", &Bytes::new()).expect("it is new");
        assert!(shelf.with_own(&id("a.b"), &old, |_| ()).is_none());
        assert!(shelf.with_own(&id("a.b"), &new, |_| ()).is_some());
        assert!(shelf.next_generation() < shelf.next_generation());
    }
}

//! The tables of the watched catalogs, and what is done for them: `read` keeps the state of each, `index`
//! tells the shards which files those vouch for, `warm` has read what engines plan with, `jobs` what else
//! somebody wants at hand, `lender` hands on what catalogs lend to read with. All of it runs beside the serving
//! path and reads through it, by `reader`. `shelf` is where these meet; `nilas-iceberg` says what the bytes mean.

mod index;
mod jobs;
mod lender;
mod places;
mod plan;
mod read;
mod reader;
mod settings;
mod shelf;
mod warm;

use std::sync::{Arc, Mutex, PoisonError};

use nilas_base::{Clock, HashSet};
use nilas_iceberg::mapper::{FooterCache, Mapper, PathHash, SECRET_BYTES};
use nilas_iceberg::state::TableState;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

pub use jobs::{Job, Jobs, OrderError, WarmOrder};
pub use lender::Lender;
pub use places::Places;
pub use settings::{TablesSettings, WarmRule};
pub use shelf::{Shelf, Shelved, TableId, Warmth};

use crate::authority::AuthorityPort;
use crate::catalog::{CatalogEvent, Catalogs};
use crate::inner::InnerReadPort;
use crate::purge::{Purge, PurgeScope};
use index::{Indexer, Latest};
use read::Reading;
use reader::Reader;
use warm::Warmer;

/// Tables that are read at a time.
const TABLES_READ_AT_ONCE: usize = 4;
/// Of a store, in percent, what is filled before anybody asks: its shards are never filled quite alike.
const STORE_PERCENT: u64 = 80;
/// Files outside of a table's own folders that are purged one by one.
const STRAYS_MAX: usize = 10_000;
/// The tables; clones are the same.
#[derive(Clone)]
pub struct Tables {
    shelf: Shelf,
    latest: Latest,
    footers: Arc<Mutex<FooterCache>>,
    jobs: Jobs,
    places: Places,
    reading: Arc<Reading>,
    room_bytes: u64,
}

/// The doors that tables are worked on through.
pub struct TablesPorts {
    /// Reads.
    pub reads: InnerReadPort,
    /// Tells the shards.
    pub authority: AuthorityPort,
}

/// What a table was called that there is not, or not one of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoTable {
    /// None.
    #[error("no watched catalog has a table {0:?}; /admin/tables lists those there are")]
    Unknown(String),
    /// Several are called so.
    #[error("{0:?} may be several tables; write one of {1}")]
    Several(String, String),
}

impl Tables {
    /// Tables of which nothing is known yet; see [`Tables::take`] and [`Tables::start`].
    pub fn new(
        settings: &TablesSettings,
        places: Places,
        ports: &TablesPorts,
        (clock, secret): (&Clock, &[u8; SECRET_BYTES]),
        runtime: &Handle,
    ) -> Tables {
        let limits = (settings.requests_max, settings.bytes_per_second);
        let reader =
            Arc::new(Reader::new(ports.reads.clone(), places.clone(), limits, clock.clone()));
        let hash = Arc::new(PathHash::new(secret));
        let footer_bytes = usize::try_from(settings.footer_bytes).unwrap_or(usize::MAX);
        let mut footers = FooterCache::new(Arc::clone(&hash), footer_bytes);
        let latest = Latest::new(&hash, &mut footers);
        let shelf = Shelf::default();
        let reading = Reading {
            reader: Arc::clone(&reader),
            shelf: shelf.clone(),
            clock: clock.clone(),
            turns: Semaphore::new(TABLES_READ_AT_ONCE),
            memory_bytes: settings.memory_bytes,
            latest: latest.clone(),
        };
        let of_store = |bytes: u64| bytes / 100 * STORE_PERCENT;
        let rules = (settings.rules.clone(), of_store(settings.data_bytes));
        let jobs = Jobs::new(shelf.clone(), reader, (clock.clone(), runtime.clone()), rules);
        Tables {
            shelf,
            latest,
            footers: Arc::new(Mutex::new(footers)),
            jobs,
            places,
            reading: Arc::new(reading),
            room_bytes: of_store(settings.metadata_bytes),
        }
    }

    /// The tables of a node that watches no catalog.
    #[cfg(test)]
    pub(crate) fn none() -> Tables {
        let settings = TablesSettings {
            warms: false,
            page_indexes: false,
            requests_max: 1,
            bytes_per_second: 1,
            memory_bytes: 0,
            footer_bytes: 0,
            metadata_bytes: 0,
            data_bytes: 0,
            rules: Vec::new(),
        };
        let ports =
            TablesPorts { reads: InnerReadPort::pair().0, authority: AuthorityPort::pair().0 };
        let places = Places { buckets: Vec::new(), directory: None };
        let chance = (&Clock::system(), &[0; SECRET_BYTES]);
        Tables::new(&settings, places, &ports, chance, &Handle::current())
    }

    /// Begins to tell the shards of what is read, and to warm it. Inside the runtime that all of it runs on.
    pub fn start(&self, settings: &TablesSettings, ports: TablesPorts, catalogs: Catalogs) {
        let indexer = Indexer {
            shelf: self.shelf.clone(),
            places: self.places.clone(),
            catalogs,
            authority: ports.authority,
            footers: Arc::clone(&self.footers),
            latest: self.latest.clone(),
        };
        let warmer = Warmer {
            shelf: self.shelf.clone(),
            reader: Arc::clone(&self.reading.reader),
            footers: Arc::clone(&self.footers),
            jobs: self.jobs.clone(),
            room_bytes: self.room_bytes,
            is_on: settings.warms,
            page_indexes: settings.page_indexes,
            clock: self.reading.clock.clone(),
        };
        tokio::spawn(indexer.run());
        tokio::spawn(warmer.run());
    }

    /// Takes note of what a catalog says; never waits.
    pub fn take(&self, event: &CatalogEvent) {
        match event {
            CatalogEvent::TableSeen(seen) => {
                // A table that was only staged has no file yet.
                let Some(location) = &seen.metadata_location else { return };
                let id = TableId::of(&seen.catalog, &seen.table);
                if let Some(news) = self.shelf.put_news(&id, location, &seen.metadata) {
                    tokio::spawn(read::follow(Arc::clone(&self.reading), id, news));
                }
            }
            CatalogEvent::TableGone { catalog, table } => {
                self.shelf.remove(&TableId::of(catalog, table));
            }
            CatalogEvent::CredentialsRenewed { .. } | CatalogEvent::CatalogTrouble { .. } => {}
        }
    }

    /// What is known of each.
    pub fn shelf(&self) -> &Shelf {
        &self.shelf
    }

    /// The index that the shards have.
    pub fn index(&self) -> Arc<Mapper> {
        self.latest.get()
    }

    /// Footers that are known, and the memory that they take, in bytes.
    pub fn footers(&self) -> (usize, usize) {
        let footers = self.footers.lock().unwrap_or_else(PoisonError::into_inner);
        (footers.len(), footers.charged_bytes())
    }

    /// Data that is read because somebody said so.
    pub fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// What of the metadata store may be filled, in bytes.
    pub fn room_bytes(&self) -> u64 {
        self.room_bytes
    }

    /// The table of that name: `catalog.namespace.table`, or without the catalog where one alone has it.
    pub fn find(&self, text: &str) -> Result<TableId, NoTable> {
        let tables = self.shelf.tables();
        if let Some(id) = tables.keys().find(|id| id.to_string() == text) {
            return Ok(id.clone());
        }
        let named: Vec<&TableId> = tables.keys().filter(|id| id.is_called(text)).collect();
        match named[..] {
            [] => Err(NoTable::Unknown(text.to_owned())),
            [id] => Ok(id.clone()),
            _ => {
                let texts: Vec<String> = named.iter().map(|id| id.to_string()).collect();
                Err(NoTable::Several(text.to_owned(), texts.join(", ")))
            }
        }
    }

    /// All that must be purged so that nothing of a table is at hand. `None` where too many of its files
    /// lie elsewhere than in its folders.
    pub fn purges(&self, id: &TableId) -> Option<Vec<Purge>> {
        let state = self.shelf.with(id, |table| table.state.clone())??;
        let folders = state.metadata().folders().filter_map(|folder| self.places.folder(folder));
        let folders: Vec<(Box<str>, Box<str>)> = folders.collect();
        let mut strays: HashSet<(Box<str>, Box<str>)> = HashSet::default();
        let files = state.live_files().map(|file| file.path.to_string());
        for path in files.chain(state.objects().into_iter().map(|path| path.to_string())) {
            let Some((bucket, key)) = self.places.object(&path) else { continue };
            let is_within =
                |(of, folder): &(Box<str>, Box<str>)| **of == *bucket && key.starts_with(&**folder);
            if !folders.iter().any(is_within) {
                strays.insert((bucket.into(), key.into()));
                if strays.len() > STRAYS_MAX {
                    return None;
                }
            }
        }
        let folder = |(bucket, folder): (Box<str>, Box<str>)| match folder.is_empty() {
            true => Purge { bucket: bucket.into(), scope: PurgeScope::Bucket },
            false => Purge { bucket: bucket.into(), scope: PurgeScope::Prefix(folder.into()) },
        };
        let stray = |(bucket, key): (Box<str>, Box<str>)| Purge {
            bucket: bucket.into(),
            scope: PurgeScope::Key(key.into()),
        };
        Some(folders.into_iter().map(folder).chain(strays.into_iter().map(stray)).collect())
    }

    /// Something of a bucket was purged: what lies there is no longer believed to be at hand.
    pub fn purged(&self, bucket: &str) {
        let tables = self.shelf.tables();
        let states = tables.iter().filter_map(|(id, it)| Some((id.clone(), it.state.clone()?)));
        let states: Vec<_> = states.collect();
        drop(tables);
        for (id, _) in states.into_iter().filter(|(_, state)| self.lies_in(state, bucket)) {
            self.shelf.with(&id, |table| table.warmth = Warmth::default());
        }
        self.shelf.tell_indexed();
    }

    /// Whether anything of a table lies in a bucket.
    fn lies_in(&self, state: &TableState, bucket: &str) -> bool {
        let is_there = |path: &str| self.places.object(path).is_some_and(|(of, _)| of == bucket);
        let root = self.places.folder(&state.metadata().location);
        root.is_some_and(|(of, _)| *of == *bucket)
            || state.objects().into_iter().any(|path| is_there(path))
            || state.live_files().any(|file| is_there(&file.path.to_string()))
    }
}

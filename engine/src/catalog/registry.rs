//! The catalogs of a node: their watchers are started here, and this is what pages, metrics and hints hold of
//! them.

use std::sync::Arc;

use nilas_base::{Clock, Rng};
use nilas_iceberg::catalog::TableName;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::client::Client;
use super::event::CatalogEvent;
use super::hint::{HintEnd, HintPort};
use super::latest::{Latest, TableFacts};
use super::settings::CatalogSettings;
use super::status::{CatalogSnapshot, CatalogStatus};
use super::watcher::{Watcher, WatcherParts};
use crate::config::Secret;

/// Events that wait for whoever acts on them. Few: each may hold a table's whole metadata.
pub const EVENTS_WAITING_MAX: usize = 4;

/// The catalogs that are watched; clones are the same. Watching ends with the last of them.
#[derive(Clone, Default)]
pub struct Catalogs {
    watched: Arc<[Watched]>,
    latest: Latest,
}

struct Watched {
    settings: Arc<CatalogSettings>,
    status: Arc<CatalogStatus>,
    hints: HintPort,
}

impl Catalogs {
    /// Starts to watch, keeps the latest facts of each table, and tells every event on, to one who does not wait. The error says which settings cannot be used;
    /// whether a catalog answers is seen later.
    pub fn start(
        settings: &[CatalogSettings],
        runtime: &Handle,
        clock: &Clock,
        rng: Rng,
        tell: impl FnMut(&CatalogEvent) + Send + 'static,
    ) -> Result<Catalogs, String> {
        let (sender, receiver) = mpsc::channel(EVENTS_WAITING_MAX);
        let catalogs = Catalogs::start_telling(settings, runtime, (clock, rng), sender)?;
        runtime.spawn(catalogs.latest.clone().follow(receiver, clock.clone(), tell));
        Ok(catalogs)
    }

    /// The same, telling the events to somebody else.
    pub fn start_telling(
        settings: &[CatalogSettings],
        runtime: &Handle,
        (clock, mut rng): (&Clock, Rng),
        events: mpsc::Sender<CatalogEvent>,
    ) -> Result<Catalogs, String> {
        let mut watched = Vec::with_capacity(settings.len());
        for settings in settings {
            let settings = Arc::new(settings.clone());
            let status = Arc::new(CatalogStatus::new(&settings.name, &settings.url));
            let client = Client::new(&settings, Arc::clone(&status), clock.clone())
                .map_err(|cause| format!("the catalog {:?}: {cause}", settings.name))?;
            let (hints, queue) = HintPort::pair();
            let watcher = Watcher::new(WatcherParts {
                settings: Arc::clone(&settings),
                client,
                status: Arc::clone(&status),
                hints: queue,
                events: events.clone(),
                clock: clock.clone(),
                rng: Rng::from_seed(rng.next_u64()),
            });
            runtime.spawn(watcher.run());
            watched.push(Watched { settings, status, hints });
        }
        Ok(Catalogs { watched: watched.into(), latest: Latest::default() })
    }

    /// What is shown of each, in the order of the configuration.
    pub fn snapshots(&self) -> Vec<CatalogSnapshot> {
        self.watched.iter().map(|one| one.status.snapshot()).collect()
    }

    /// What a catalog last said of a table, where the facts are kept here.
    pub fn facts(&self, catalog: &Arc<str>, table: &TableName) -> Option<TableFacts> {
        self.latest.of(catalog, table)
    }

    /// Has a table asked for at once. `None` where there is no such catalog.
    pub fn hint(&self, catalog: &str, table: TableName) -> Option<HintEnd> {
        let watched = self.watched.iter().find(|one| one.settings.name == catalog)?;
        if !watched.settings.wants(&table) {
            return Some(HintEnd::Unwatched);
        }
        Some(watched.hints.hint(table, &watched.status))
    }

    /// The catalogs that take hints, each with the secret that these are signed with.
    pub fn hint_secrets(&self) -> impl Iterator<Item = (&str, &Secret)> {
        self.watched.iter().filter_map(|one| {
            Some((one.settings.name.as_str(), one.settings.hint_secret.as_ref()?))
        })
    }
}

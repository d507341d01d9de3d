//! The latest facts of each table, kept from the watchers' events for the pages. What follows from them is
//! others' to find.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use nilas_base::{Clock, UnixMillis};
use nilas_iceberg::catalog::{StorageCredentials, TableName};
use tokio::sync::mpsc;

use super::event::{CatalogEvent, TableSeen};

/// What a catalog last said of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFacts {
    /// The answer's ETag.
    pub etag: Option<String>,
    /// Where its metadata lies.
    pub metadata_location: Option<String>,
    /// How long that is.
    pub metadata_bytes: usize,
    /// When it was seen.
    pub seen_at: UnixMillis,
    /// How often it was seen with new metadata.
    pub changes: u64,
    /// What is lent for its files; secrets are never shown.
    pub credentials: StorageCredentials,
}

type Facts = BTreeMap<(Arc<str>, TableName), TableFacts>;

/// The facts of all catalogs; clones share them.
#[derive(Clone, Default)]
pub(super) struct Latest(Arc<Mutex<Facts>>);

impl Latest {
    /// Takes events until there are no more watchers, and tells them on.
    pub(super) async fn follow(
        self,
        mut events: mpsc::Receiver<CatalogEvent>,
        clock: Clock,
        mut tell: impl FnMut(&CatalogEvent),
    ) {
        while let Some(event) = events.recv().await {
            tell(&event);
            self.take(event, clock.wall());
        }
    }

    fn take(&self, event: CatalogEvent, now: UnixMillis) {
        let mut facts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            CatalogEvent::TableSeen(seen) => {
                let TableSeen { catalog, table, etag, metadata_location, metadata, credentials } =
                    *seen;
                let key = (catalog, table);
                let changes = facts.get(&key).map_or(0, |known| known.changes) + 1;
                let metadata_bytes = metadata.len();
                let seen_at = now;
                facts.insert(
                    key,
                    TableFacts {
                        etag,
                        metadata_location,
                        metadata_bytes,
                        seen_at,
                        changes,
                        credentials,
                    },
                );
            }
            CatalogEvent::CredentialsRenewed { catalog, table, credentials } => {
                if let Some(known) = facts.get_mut(&(catalog, table)) {
                    known.credentials = credentials;
                }
            }
            CatalogEvent::TableGone { catalog, table } => {
                facts.remove(&(catalog, table));
            }
            CatalogEvent::CatalogTrouble { .. } => {}
        }
    }

    /// What is known of a table.
    pub(super) fn of(&self, catalog: &Arc<str>, table: &TableName) -> Option<TableFacts> {
        let facts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        facts.get(&(Arc::clone(catalog), table.clone())).cloned()
    }
}

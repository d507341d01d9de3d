//! Iceberg catalogs, watched: which tables there are and what each is now, told as [`CatalogEvent`]s. What the
//! protocol says is `nilas-iceberg`'s; here are the configuration, the connections, the proofs and the time.
//! A catalog that is down, slow or wrong costs freshness: nothing that serves waits for anything here.
//! `catalog/watcher` is the story, `catalog/schedule` says what is asked when, `catalog/status` what is shown.

mod client;
mod event;
mod hint;
mod latest;
mod proof;
mod registry;
mod schedule;
mod settings;
mod sigv4;
mod status;
#[cfg(test)]
mod stub;
#[cfg(test)]
mod tests;
mod transport;
mod trouble;
mod watcher;

pub use event::{CatalogEvent, TableSeen};
pub use hint::HintEnd;
pub use latest::TableFacts;
pub use registry::{Catalogs, EVENTS_WAITING_MAX};
pub use settings::{CatalogSettings, OAuth2Settings, ProofSource, SigV4Settings};
pub use status::{CatalogCount, CatalogSnapshot, TableStatus};

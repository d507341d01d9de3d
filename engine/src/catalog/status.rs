//! What is shown of a catalog: counts, the last success and the last error, and the same of each table. Written
//! by its watcher, read by whoever asks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nilas_base::UnixMillis;
use nilas_iceberg::catalog::TableName;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatalogCount {
    /// Requests to the catalog, those for tokens not among them.
    Requests,
    /// Requests for tokens.
    TokenRequests,
    /// Tables asked for.
    Polls,
    /// Answers that a table is what it was.
    PollsUnchanged,
    /// Questions in vain: of lists, of tables, of credentials.
    Failures,
    /// Listings of all tables that came to an end.
    Listings,
    /// Tables seen with new metadata.
    TablesSeen,
    /// Tables that went.
    TablesGone,
    /// Credentials that were lent anew.
    CredentialsRenewed,
    /// Hints that made a table be asked for.
    HintsTaken,
    /// Hints that waited already.
    HintsRepeated,
    /// Hints that were one too many.
    HintsDropped,
}

impl CatalogCount {
    /// Each of them, in order.
    pub const ALL: [CatalogCount; 12] = [
        CatalogCount::Requests,
        CatalogCount::TokenRequests,
        CatalogCount::Polls,
        CatalogCount::PollsUnchanged,
        CatalogCount::Failures,
        CatalogCount::Listings,
        CatalogCount::TablesSeen,
        CatalogCount::TablesGone,
        CatalogCount::CredentialsRenewed,
        CatalogCount::HintsTaken,
        CatalogCount::HintsRepeated,
        CatalogCount::HintsDropped,
    ];

    /// Its name on the pages.
    pub fn label(self) -> &'static str {
        match self {
            CatalogCount::Requests => "requests",
            CatalogCount::TokenRequests => "token_requests",
            CatalogCount::Polls => "polls",
            CatalogCount::PollsUnchanged => "polls_unchanged",
            CatalogCount::Failures => "failures",
            CatalogCount::Listings => "listings",
            CatalogCount::TablesSeen => "tables_seen",
            CatalogCount::TablesGone => "tables_gone",
            CatalogCount::CredentialsRenewed => "credentials_renewed",
            CatalogCount::HintsTaken => "hints_taken",
            CatalogCount::HintsRepeated => "hints_repeated",
            CatalogCount::HintsDropped => "hints_dropped",
        }
    }
}

/// What went wrong last, and when.
pub type LastError = Option<(UnixMillis, String)>;

/// What is shown of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableStatus {
    /// When it was last asked for well.
    pub last_success: Option<UnixMillis>,
    /// What went wrong since then.
    pub last_error: LastError,
    /// How often in a row.
    pub failures: u64,
}

/// What is shown of a catalog, at one moment.
#[derive(Clone, Debug, Default)]
pub struct CatalogSnapshot {
    /// Its name.
    pub name: Arc<str>,
    /// Its address.
    pub url: Arc<str>,
    pub(crate) counts: [u64; CatalogCount::ALL.len()],
    /// When it last answered well.
    pub last_success: Option<UnixMillis>,
    /// What went wrong since then.
    pub last_error: LastError,
    /// When its tables were last listed, whole or in part.
    pub listed_at: Option<UnixMillis>,
    /// Namespaces that were found then.
    pub namespaces: usize,
    /// Views that were found then.
    pub views: usize,
    /// What could not be listed then.
    pub listing_troubles: Vec<String>,
    /// Each table that is watched.
    pub tables: BTreeMap<TableName, TableStatus>,
}

impl CatalogSnapshot {
    /// One of the counts.
    pub fn count(&self, what: CatalogCount) -> u64 {
        self.counts[what as usize]
    }
}

/// The status of one catalog.
pub(super) struct CatalogStatus {
    counts: [AtomicU64; CatalogCount::ALL.len()],
    shown: Mutex<CatalogSnapshot>,
}

impl CatalogStatus {
    pub(super) fn new(name: &str, url: &str) -> CatalogStatus {
        let (name, url) = (name.into(), url.into());
        let shown = CatalogSnapshot { name, url, ..CatalogSnapshot::default() };
        CatalogStatus { counts: Default::default(), shown: Mutex::new(shown) }
    }

    pub(super) fn count(&self, what: CatalogCount) {
        self.counts[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// What is shown, to be changed.
    pub(super) fn shown(&self) -> MutexGuard<'_, CatalogSnapshot> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The catalog answered well.
    pub(super) fn succeeded(&self, table: Option<&TableName>, now: UnixMillis) {
        let mut shown = self.shown();
        (shown.last_success, shown.last_error) = (Some(now), None);
        if let Some(status) = table.and_then(|table| shown.tables.get_mut(table)) {
            *status = TableStatus { last_success: Some(now), ..TableStatus::default() };
        }
    }

    /// It was asked in vain. True where the question before, of the same kind, was not.
    pub(super) fn failed(&self, table: Option<&TableName>, cause: &str, now: UnixMillis) -> bool {
        self.count(CatalogCount::Failures);
        let mut shown = self.shown();
        let mut is_first = shown.last_error.is_none();
        shown.last_error = Some((now, cause.to_owned()));
        if let Some(status) = table.and_then(|table| shown.tables.get_mut(table)) {
            is_first &= status.failures == 0;
            status.last_error = Some((now, cause.to_owned()));
            status.failures += 1;
        }
        is_first
    }

    /// Everything, now.
    pub(super) fn snapshot(&self) -> CatalogSnapshot {
        let mut snapshot = self.shown().clone();
        for (number, count) in self.counts.iter().enumerate() {
            snapshot.counts[number] = count.load(Ordering::Relaxed);
        }
        snapshot
    }
}

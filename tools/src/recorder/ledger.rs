//! The ledger: one record a request, in the order in which requests arrived, complete when its body
//! has ended. Whoever reads it waits first until nothing is under way, so that no request is
//! missed because its last byte was quicker than its record.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nilas_base::{Clock, Monotonic};
use serde::Serialize;
use tokio::sync::watch;

/// A reader of the ledger waits this long at most for requests under way.
const QUIET_WAIT_MAX: Duration = Duration::from_secs(5);

/// What one request asked and what the origin answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Record {
    /// The method.
    pub method: String,
    /// As sent, percent-encoded.
    pub path: String,
    /// As sent, without its `?`; empty when there is none.
    pub query: String,
    /// The `Range` header.
    pub range: Option<String>,
    /// The origin's status; 0 when it gave none.
    pub status: u16,
    /// Body bytes from the client.
    pub bytes_received: u64,
    /// Body bytes to the client.
    pub bytes_sent: u64,
    /// Since the recorder's start.
    pub start_ms: u64,
    /// Whether the answer's body was passed on to its end.
    pub complete: bool,
    /// The fault that met it.
    pub fault: Option<&'static str>,
}

/// All records since the start, and the latency that is added.
pub struct Ledger {
    clock: Clock,
    start: Monotonic,
    records: Mutex<Vec<Record>>,
    under_way: watch::Sender<usize>,
    latency_ms: AtomicU64,
}

impl Ledger {
    /// An empty ledger.
    pub fn new(latency: Duration) -> Ledger {
        let clock = Clock::system();
        Ledger {
            start: clock.now(),
            clock,
            records: Mutex::default(),
            under_way: watch::Sender::new(0),
            latency_ms: AtomicU64::new(latency.as_millis() as u64),
        }
    }

    /// Added before each request is passed on.
    pub fn latency(&self) -> Duration {
        Duration::from_millis(self.latency_ms.load(Ordering::Relaxed))
    }

    /// Changes the latency of requests that arrive from now on.
    pub fn set_latency_ms(&self, latency_ms: u64) {
        self.latency_ms.store(latency_ms, Ordering::Relaxed);
    }

    /// A place for a request that has arrived.
    pub(super) fn open(&self, mut record: Record) -> usize {
        record.start_ms = self.clock.now().since(self.start).as_millis() as u64;
        self.under_way.send_modify(|count| *count += 1);
        let mut records = self.records.lock().expect("no holder panics");
        records.push(record);
        records.len() - 1
    }

    /// Writes what has become known of a request.
    pub(super) fn amend(&self, place: usize, change: impl FnOnce(&mut Record)) {
        change(&mut self.records.lock().expect("no holder panics")[place]);
    }

    /// The request is over.
    pub(super) fn close(&self) {
        self.under_way.send_modify(|count| *count -= 1);
    }

    /// The records from place `from` on, once nothing is under way.
    pub async fn since(&self, from: usize) -> Vec<Record> {
        let mut under_way = self.under_way.subscribe();
        let quiet = under_way.wait_for(|count| *count == 0);
        // A request that never ends is shown as it stands.
        let _ = tokio::time::timeout(QUIET_WAIT_MAX, quiet).await;
        let records = self.records.lock().expect("no holder panics");
        records.get(from..).map(<[Record]>::to_vec).unwrap_or_default()
    }
}

//! What is counted of the requests to an origin. Plain atomics, written by `observed` and read by
//! the metrics page; a snapshot is not a cut through time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::Method;

use super::OriginRequest;

/// Upper bounds of the latency histogram, in microseconds; what is slower falls in one more bucket.
pub const LATENCY_BOUNDS_MICROS: [u64; 14] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000,
];
const BUCKETS: usize = LATENCY_BOUNDS_MICROS.len() + 1;

/// The kinds of request that are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginOperation {
    /// A GET of an object's bytes.
    GetObject,
    /// A HEAD of an object.
    HeadObject,
    /// A GET of a bucket or of the service.
    List,
    /// A PUT of an object, copies among them.
    PutObject,
    /// Any step of a multipart upload.
    Multipart,
    /// A DELETE of an object, or of many.
    Delete,
    /// All else.
    Other,
}

/// Every operation, in the order of its number.
pub const OPERATIONS: [OriginOperation; 7] = [
    OriginOperation::GetObject,
    OriginOperation::HeadObject,
    OriginOperation::List,
    OriginOperation::PutObject,
    OriginOperation::Multipart,
    OriginOperation::Delete,
    OriginOperation::Other,
];

impl OriginOperation {
    /// What this request is counted as.
    pub fn of(request: &OriginRequest) -> OriginOperation {
        let names = |name: &str| {
            request.query_raw.split('&').any(|pair| pair.split('=').next() == Some(name))
        };
        if request.key.is_some() && (names("uploadId") || names("uploads")) {
            return OriginOperation::Multipart;
        }
        match (&request.method, request.key.is_some()) {
            (&Method::GET, true) => OriginOperation::GetObject,
            (&Method::HEAD, true) => OriginOperation::HeadObject,
            (&Method::PUT, true) => OriginOperation::PutObject,
            (&Method::DELETE, true) => OriginOperation::Delete,
            (&Method::GET, false) => OriginOperation::List,
            (&Method::POST, false) if names("delete") => OriginOperation::Delete,
            _ => OriginOperation::Other,
        }
    }

    /// Its label in the metrics.
    pub fn label(self) -> &'static str {
        match self {
            OriginOperation::GetObject => "get_object",
            OriginOperation::HeadObject => "head_object",
            OriginOperation::List => "list",
            OriginOperation::PutObject => "put_object",
            OriginOperation::Multipart => "multipart",
            OriginOperation::Delete => "delete",
            OriginOperation::Other => "other",
        }
    }
}

#[derive(Debug, Default)]
struct OperationCounters {
    requests: AtomicU64,
    failures: AtomicU64,
    answers_4xx: AtomicU64,
    answers_5xx: AtomicU64,
    bytes_received: AtomicU64,
    bytes_sent: AtomicU64,
    first_byte: [AtomicU64; BUCKETS],
    first_byte_micros_total: AtomicU64,
}

/// The counters of one origin.
#[derive(Debug, Default)]
pub struct OriginCounters {
    operations: [OperationCounters; OPERATIONS.len()],
    in_flight: AtomicU64,
}

/// One operation's counters at some moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationSnapshot {
    /// Which.
    pub operation: OriginOperation,
    /// Requests begun.
    pub requests: u64,
    /// Requests that got no answer, and bodies that broke off.
    pub failures: u64,
    /// Answers of 400 to 499.
    pub answers_4xx: u64,
    /// Answers of 500 and above.
    pub answers_5xx: u64,
    /// Bytes of answers' bodies.
    pub bytes_received: u64,
    /// Bytes of requests' bodies, decoded.
    pub bytes_sent: u64,
    /// Answers by time to their head: a count for each of [`LATENCY_BOUNDS_MICROS`] (not
    /// cumulative) and one for the slower ones.
    pub first_byte: [u64; BUCKETS],
    /// The sum of those times, in microseconds.
    pub first_byte_micros_total: u64,
}

/// All counters at some moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginSnapshot {
    /// One for each of [`OPERATIONS`].
    pub operations: Vec<OperationSnapshot>,
    /// Requests whose answer's body has not ended yet.
    pub in_flight: u64,
}

impl OriginSnapshot {
    /// Requests of every kind.
    pub fn requests(&self) -> u64 {
        self.operations.iter().map(|operation| operation.requests).sum()
    }

    /// Bytes of answers' bodies, of every kind.
    pub fn bytes_received(&self) -> u64 {
        self.operations.iter().map(|operation| operation.bytes_received).sum()
    }

    /// One operation's counters.
    pub fn of(&self, operation: OriginOperation) -> &OperationSnapshot {
        &self.operations[operation as usize]
    }
}

impl OriginCounters {
    /// Everything as it stands.
    pub fn snapshot(&self) -> OriginSnapshot {
        let read = |operation: OriginOperation| self.of(operation).snapshot(operation);
        OriginSnapshot {
            operations: OPERATIONS.into_iter().map(read).collect(),
            in_flight: self.in_flight.load(Ordering::Relaxed),
        }
    }

    fn of(&self, operation: OriginOperation) -> &OperationCounters {
        &self.operations[operation as usize]
    }

    pub(super) fn begin(&self, operation: OriginOperation) {
        self.of(operation).requests.fetch_add(1, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn finish(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn answered(&self, operation: OriginOperation, status: u16, waited: Duration) {
        let counters = self.of(operation);
        let micros = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        let bucket = LATENCY_BOUNDS_MICROS.partition_point(|bound| *bound < micros);
        counters.first_byte[bucket].fetch_add(1, Ordering::Relaxed);
        counters.first_byte_micros_total.fetch_add(micros, Ordering::Relaxed);
        match status {
            400..=499 => counters.answers_4xx.fetch_add(1, Ordering::Relaxed),
            500.. => counters.answers_5xx.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
    }

    pub(super) fn failed(&self, operation: OriginOperation) {
        self.of(operation).failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn received(&self, operation: OriginOperation, bytes: usize) {
        self.of(operation).bytes_received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn sent(&self, operation: OriginOperation, bytes: usize) {
        self.of(operation).bytes_sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl OperationCounters {
    fn snapshot(&self, operation: OriginOperation) -> OperationSnapshot {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        OperationSnapshot {
            operation,
            requests: read(&self.requests),
            failures: read(&self.failures),
            answers_4xx: read(&self.answers_4xx),
            answers_5xx: read(&self.answers_5xx),
            bytes_received: read(&self.bytes_received),
            bytes_sent: read(&self.bytes_sent),
            first_byte: std::array::from_fn(|bucket| read(&self.first_byte[bucket])),
            first_byte_micros_total: read(&self.first_byte_micros_total),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::question::ask;
    use super::*;

    #[test]
    fn requests_are_counted_by_what_they_are() {
        for (method, target, expected) in [
            ("GET", "/b/k", OriginOperation::GetObject),
            ("HEAD", "/b/k", OriginOperation::HeadObject),
            ("PUT", "/b/k", OriginOperation::PutObject),
            ("DELETE", "/b/k", OriginOperation::Delete),
            ("POST", "/b/k?uploads", OriginOperation::Multipart),
            ("PUT", "/b/k?partNumber=1&uploadId=x", OriginOperation::Multipart),
            ("GET", "/b?list-type=2", OriginOperation::List),
            ("GET", "/", OriginOperation::List),
            ("POST", "/b?delete", OriginOperation::Delete),
            ("HEAD", "/b", OriginOperation::Other),
            ("PUT", "/b", OriginOperation::Other),
        ] {
            let request = ask(method, target).into_request();
            assert_eq!(OriginOperation::of(&request), expected, "{method} {target}");
        }
        for (number, operation) in OPERATIONS.into_iter().enumerate() {
            assert_eq!(operation as usize, number, "{} is in its place", operation.label());
        }
    }

    #[test]
    fn a_latency_falls_in_the_first_bucket_that_holds_it() {
        let counters = OriginCounters::default();
        for micros in [500, 501, 30_000, 60_000_000] {
            counters.answered(OriginOperation::Other, 503, Duration::from_micros(micros));
        }
        let snapshot = counters.snapshot();
        let other = snapshot.of(OriginOperation::Other);
        assert_eq!((other.first_byte[0], other.first_byte[1], other.first_byte[6]), (1, 1, 1));
        assert_eq!((other.first_byte[BUCKETS - 1], other.answers_5xx), (1, 4));
    }
}

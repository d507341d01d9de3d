//! What clients read, for whoever records it; nothing is noted for anybody else. A shard hands a read to a bounded
//! queue and goes on, and one that finds it full is lost and counted: no read waits. Names stay here: an object is a
//! number, and another one as soon as it has another version.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crossbeam_queue::ArrayQueue;
use nilas_base::{ByteRange, Clock, Monotonic};

use crate::mapping::Mapping;

/// The first line of what is recorded; then a line a read.
pub const COLUMNS: &str = "object,length,start,end";
/// Reads that wait to be fetched; the next one is lost.
pub const READS_WAITING_MAX: usize = 64 << 10;
/// A recording ends when nobody has fetched of it for so long.
pub const UNFETCHED_TIME_MAX: Duration = Duration::from_secs(10);

/// One read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TracedRead {
    object: u64,
    length: u64,
    range: ByteRange,
}

/// Where reads go; clones lead to the same place.
#[derive(Clone, Debug, Default)]
pub struct Tracer(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    is_on: AtomicBool,
    /// Made when the first recording begins.
    reads: OnceLock<ArrayQueue<TracedRead>>,
    lost: AtomicU64,
    recording: Mutex<Option<Recording>>,
}

/// The recording under way.
#[derive(Clone, Copy, Debug)]
struct Recording {
    recorder: u64,
    fetched: Monotonic,
}

/// What was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The reads since the last time, a line each.
    pub lines: String,
    /// How many more there were.
    pub lost: u64,
}

/// Another one records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another recording is under way; it ends ten seconds after it was last fetched of")]
pub struct Recorded;

impl Tracer {
    /// Notes a read of a version, where somebody records.
    pub fn note(&self, mapping: &Mapping, range: ByteRange) {
        // A read that is noted too early or too late does no harm.
        if !self.0.is_on.load(Ordering::Relaxed) || range.is_empty() {
            return;
        }
        let [a, b, c, d, e, f, g, h, ..] = mapping.version;
        let object = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        self.push(TracedRead { object, length: mapping.length, range });
    }

    fn push(&self, read: TracedRead) {
        let Some(reads) = self.0.reads.get() else { return };
        if reads.push(read).is_err() {
            self.0.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The reads since `recorder` fetched last; its first call begins the recording.
    ///
    /// # Errors
    /// While another one records.
    pub fn fetch(&self, recorder: u64, clock: &Clock) -> Result<Fetched, Recorded> {
        let now = clock.now();
        let is_new = {
            let mut recording = self.0.recording.lock().unwrap_or_else(PoisonError::into_inner);
            let known = recording.filter(|it| now.since(it.fetched) < UNFETCHED_TIME_MAX);
            if known.is_some_and(|it| it.recorder != recorder) {
                return Err(Recorded);
            }
            *recording = Some(Recording { recorder, fetched: now });
            known.is_none()
        };
        let reads = self.0.reads.get_or_init(|| ArrayQueue::new(READS_WAITING_MAX));
        if is_new {
            // What is left of another recording is not of this one.
            while reads.pop().is_some() {}
            self.0.lost.store(0, Ordering::Relaxed);
            self.0.is_on.store(true, Ordering::Relaxed);
        }
        Ok(Fetched { lines: self.lines(reads), lost: self.0.lost.swap(0, Ordering::Relaxed) })
    }

    /// At most as many as fit at one time, so that a fetch ends.
    fn lines(&self, reads: &ArrayQueue<TracedRead>) -> String {
        let mut lines = String::new();
        for _ in 0..READS_WAITING_MAX {
            let Some(TracedRead { object, length, range }) = reads.pop() else { break };
            let _ = writeln!(lines, "{object},{length},{},{}", range.start, range.end);
        }
        lines
    }

    /// Ends a recording that nobody fetches of.
    pub fn look(&self, clock: &Clock) {
        let mut recording = self.0.recording.lock().unwrap_or_else(PoisonError::into_inner);
        if recording.is_some_and(|it| clock.now().since(it.fetched) >= UNFETCHED_TIME_MAX) {
            self.0.is_on.store(false, Ordering::Relaxed);
            *recording = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(object: u64) -> TracedRead {
        TracedRead { object, length: 100, range: ByteRange::new(10, 20) }
    }

    #[test]
    fn what_was_read_since_the_last_fetch_is_fetched_once() {
        let (tracer, clock) = (Tracer::default(), Clock::system());
        tracer.push(read(1));
        assert_eq!(tracer.fetch(7, &clock), Ok(Fetched { lines: String::new(), lost: 0 }));
        tracer.push(read(2));
        tracer.push(read(3));
        let lines = "2,100,10,20\n3,100,10,20\n".to_owned();
        assert_eq!(tracer.fetch(7, &clock), Ok(Fetched { lines, lost: 0 }));
        assert_eq!(tracer.fetch(7, &clock).map(|it| it.lines), Ok(String::new()));
        assert_eq!(tracer.fetch(8, &clock), Err(Recorded));
    }

    #[test]
    fn a_full_queue_loses_reads_and_counts_them() {
        let (tracer, clock) = (Tracer::default(), Clock::system());
        tracer.fetch(7, &clock).expect("nobody else records");
        for object in 0..READS_WAITING_MAX as u64 + 5 {
            tracer.push(read(object));
        }
        let fetched = tracer.fetch(7, &clock).expect("it is its own");
        assert_eq!((fetched.lines.lines().count(), fetched.lost), (READS_WAITING_MAX, 5));
    }
}

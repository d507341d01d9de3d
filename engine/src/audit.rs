//! The audit file: who was refused, and who changed what is not an object. A shard hands a record to
//! a bounded queue and goes on; one thread writes. A record that finds the queue full, or the file
//! unwritable, is lost and counted: no request waits for the file.
//! What a record tells is `record`; which requests leave one, `note`; the file itself, `writer`.

mod note;
mod record;
mod writer;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nilas_base::Clock;

pub use note::{Notes, note_answered, note_refused};
pub use record::{Outcome, Record};
use writer::Writer;

/// Records that wait to be written; the next one is lost.
pub const RECORDS_WAITING_MAX: usize = 1024;
/// How long the end waits for records to be written.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(2);

/// Where records go; clones lead to the same file. The default one leads nowhere.
#[derive(Clone, Debug, Default)]
pub struct AuditLog(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    records: SyncSender<Message>,
    clock: Clock,
    tally: Arc<Tally>,
}

/// What the writer is sent.
#[derive(Debug)]
enum Message {
    Record(Box<Record>),
    /// The file is wanted no more.
    End,
}

/// What became of the records.
#[derive(Debug, Default)]
struct Tally {
    written: AtomicU64,
    /// Those that found the queue full.
    dropped: AtomicU64,
    /// Those that could not be written.
    failed: AtomicU64,
    /// No more are to come.
    is_ending: AtomicBool,
}

/// What became of the records so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditCounts {
    /// Written.
    pub written: u64,
    /// Lost, as too many waited.
    pub dropped: u64,
    /// Lost, as the file could not be written.
    pub failed: u64,
}

/// The thread that writes. What waits is written when it is dropped.
#[derive(Debug)]
pub struct AuditThread {
    log: AuditLog,
    /// Shut when the thread has ended.
    ended: Mutex<Receiver<()>>,
}

impl AuditThread {
    /// Opens the file at `path` to append to it, and starts its thread.
    pub fn start(path: &Path, clock: Clock) -> io::Result<AuditThread> {
        let (records, queue) = mpsc::sync_channel(RECORDS_WAITING_MAX);
        let tally = Arc::new(Tally::default());
        let writer = Writer::open(path, clock.clone(), Arc::clone(&tally))?;
        let (ending, ended) = mpsc::channel();
        std::thread::Builder::new().name("nilas-audit".to_owned()).spawn(move || {
            writer.run(&queue);
            drop(ending);
        })?;
        let shared = Shared { records, clock, tally };
        Ok(AuditThread { log: AuditLog(Some(Arc::new(shared))), ended: Mutex::new(ended) })
    }

    /// Where records go.
    pub fn log(&self) -> &AuditLog {
        &self.log
    }
}

impl Drop for AuditThread {
    fn drop(&mut self) {
        let Some(shared) = &self.log.0 else { return };
        shared.tally.is_ending.store(true, Ordering::SeqCst);
        // Where the queue is full the thread is awake, and sees the flag.
        let _ = shared.records.try_send(Message::End);
        // A disk that hangs is not waited for.
        let ended = self.ended.get_mut().expect("nobody else takes it");
        let _ = ended.recv_timeout(CLOSE_TIME_MAX);
    }
}

impl AuditLog {
    /// Whether there is a file.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Hands a record over, or loses it; never waits.
    pub fn write(&self, record: Record) {
        let Some(shared) = &self.0 else { return };
        let record = Box::new(record.at(shared.clock.wall()));
        if shared.records.try_send(Message::Record(record)).is_err() {
            shared.tally.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What became of the records; `None` where there is no file.
    pub fn counts(&self) -> Option<AuditCounts> {
        let tally = &self.0.as_ref()?.tally;
        Some(AuditCounts {
            written: tally.written.load(Ordering::Relaxed),
            dropped: tally.dropped.load(Ordering::Relaxed),
            failed: tally.failed.load(Ordering::Relaxed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started() -> (AuditThread, tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.log");
        let thread = AuditThread::start(&path, Clock::system()).expect("the folder is writable");
        (thread, folder, path)
    }

    #[test]
    fn what_waits_is_written_at_the_end() {
        let (thread, _folder, path) = started();
        for _ in 0..100 {
            thread.log().write(Record::new("GetObject", "GET", Outcome::Refused));
        }
        drop(thread);
        assert_eq!(std::fs::read_to_string(path).expect("a file").lines().count(), 100);
    }

    #[test]
    fn a_full_queue_loses_records_and_counts_them() {
        let (records, queue) = mpsc::sync_channel(1);
        let shared = Shared { records, clock: Clock::system(), tally: Arc::default() };
        let log = AuditLog(Some(Arc::new(shared)));
        for _ in 0..3 {
            log.write(Record::new("GetObject", "GET", Outcome::Refused));
        }
        assert_eq!(log.counts().expect("it is on").dropped, 2);
        drop(queue);
        assert!(!AuditLog::default().is_on());
        AuditLog::default().write(Record::new("GetObject", "GET", Outcome::Refused));
    }

    #[test]
    fn a_file_that_cannot_be_made_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        AuditThread::start(&folder.path().join("none/audit.log"), Clock::system())
            .expect_err("there is no such folder");
    }
}

//! The audit file and its thread. Lines are appended, many at a time where many wait. The file is
//! looked at now and then: one that was moved away or removed is opened anew under its name, so that
//! whatever rotates logs may rotate this one.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use nilas_base::{Clock, Monotonic};

use super::{Message, Tally};

/// How often the file is looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Records that are written at once.
const BATCH_RECORDS_MAX: usize = 256;
/// Who may read a new file: its owner.
const FILE_MODE: u32 = 0o600;

/// The writing side.
#[derive(Debug)]
pub(super) struct Writer {
    path: PathBuf,
    file: File,
    clock: Clock,
    tally: Arc<Tally>,
    looked: Monotonic,
    told: Told,
}

/// What the log was told, so that it is told once.
#[derive(Debug, Default)]
struct Told {
    dropped: bool,
    failing: bool,
    unopened: bool,
}

impl Writer {
    pub(super) fn open(path: &Path, clock: Clock, tally: Arc<Tally>) -> io::Result<Writer> {
        let (file, looked) = (open(path)?, clock.now());
        Ok(Writer { path: path.to_owned(), file, clock, tally, looked, told: Told::default() })
    }

    /// Writes until the end is told, or nobody is left to tell it.
    pub(super) fn run(mut self, queue: &Receiver<Message>) {
        let mut lines = Vec::new();
        loop {
            let (count, is_last) = gather(queue, &mut lines);
            if self.clock.now().since(self.looked) >= LOOK_INTERVAL {
                self.look();
            }
            if count > 0 {
                self.write(&lines, count);
                lines.clear();
            }
            // A full queue has no place for the word that it is the end.
            let is_ending = count == 0 && self.tally.is_ending.load(Ordering::SeqCst);
            if is_last || is_ending {
                return;
            }
        }
    }

    fn write(&mut self, lines: &[u8], count: u64) {
        // What failed may have left half a line.
        let first: &[u8] = if self.told.failing { b"\n" } else { b"" };
        match self.file.write_all(first).and_then(|()| self.file.write_all(lines)) {
            Ok(()) => {
                self.tally.written.fetch_add(count, Ordering::Relaxed);
                if std::mem::take(&mut self.told.failing) {
                    tracing::warn!("log.audit_file {} is written again", self.path.display());
                }
            }
            Err(error) => {
                self.tally.failed.fetch_add(count, Ordering::Relaxed);
                if !std::mem::replace(&mut self.told.failing, true) {
                    tracing::warn!(
                        "log.audit_file {} cannot be written: {error}; records are lost until it can",
                        self.path.display()
                    );
                }
            }
        }
    }

    /// Opens the file anew where it is no longer the one under its name; tells what was lost.
    fn look(&mut self) {
        self.looked = self.clock.now();
        if self.tally.dropped.load(Ordering::Relaxed) > 0 && !self.told.dropped {
            self.told.dropped = true;
            tracing::warn!(
                "records for log.audit_file came faster than they could be written, and some were \
                 lost; nilas_audit_lost_total counts them"
            );
        }
        let here = self.file.metadata().map(|facts| (facts.dev(), facts.ino())).ok();
        let named = std::fs::metadata(&self.path).map(|facts| (facts.dev(), facts.ino())).ok();
        if here.is_some() && here == named {
            return;
        }
        match open(&self.path) {
            Ok(file) => (self.file, self.told.unopened) = (file, false),
            Err(error) if !std::mem::replace(&mut self.told.unopened, true) => tracing::warn!(
                "log.audit_file {} is gone and cannot be opened anew: {error}; records still go to the \
                 file that was there",
                self.path.display()
            ),
            Err(_) => {}
        }
    }
}

/// Waits for a record, and takes those that wait behind it; tells how many, and whether they are the
/// last.
fn gather(queue: &Receiver<Message>, lines: &mut Vec<u8>) -> (u64, bool) {
    let mut next = match queue.recv_timeout(LOOK_INTERVAL) {
        Ok(message) => Some(message),
        Err(RecvTimeoutError::Timeout) => return (0, false),
        Err(RecvTimeoutError::Disconnected) => return (0, true),
    };
    for count in 0..BATCH_RECORDS_MAX as u64 {
        match next.take().or_else(|| queue.try_recv().ok()) {
            Some(Message::Record(record)) => record.write_line(lines),
            Some(Message::End) => return (count, true),
            None => return (count, false),
        }
    }
    (BATCH_RECORDS_MAX as u64, false)
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(FILE_MODE).open(path)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::super::{Outcome, Record};
    use super::*;

    fn writer(path: &Path) -> Writer {
        Writer::open(path, Clock::system(), Arc::default()).expect("the folder is writable")
    }

    fn lines(path: &Path) -> usize {
        std::fs::read_to_string(path).expect("a file").lines().count()
    }

    #[test]
    fn a_file_that_was_moved_away_is_opened_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, moved) = (folder.path().join("audit"), folder.path().join("audit.1"));
        let mut writer = writer(&path);
        writer.write(b"{}\n", 1);
        std::fs::rename(&path, &moved).expect("a file");
        writer.look();
        writer.write(b"{}\n{}\n", 2);
        std::fs::remove_file(&path).expect("a file");
        writer.look();
        assert_eq!((lines(&moved), lines(&path)), (1, 0));
        writer.look();
        writer.write(b"{}\n", 1);
        assert_eq!(lines(&path), 1);
        assert_eq!(writer.tally.written.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn a_restart_appends_and_the_file_is_its_owners() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit");
        writer(&path).write(b"{}\n", 1);
        writer(&path).write(b"{}\n", 1);
        assert_eq!(lines(&path), 2);
        let mode = std::fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, FILE_MODE);
    }

    #[test]
    fn a_full_queue_is_written_before_the_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit");
        let writer = writer(&path);
        let (sender, queue) = mpsc::sync_channel(3 * BATCH_RECORDS_MAX);
        for _ in 0..3 * BATCH_RECORDS_MAX {
            let record = Record::new("GetObject", "GET", Outcome::Refused);
            sender.try_send(Message::Record(Box::new(record))).expect("there is room");
        }
        writer.tally.is_ending.store(true, Ordering::SeqCst);
        writer.run(&queue);
        assert_eq!(lines(&path), 3 * BATCH_RECORDS_MAX);
        drop(sender);
    }
}

//! Hints: somebody says that a table has changed, and it is asked for at once. A hint that waits already is
//! the same hint; one too many is dropped and counted. A lost one costs freshness alone.

use std::sync::{Arc, Mutex, PoisonError};

use nilas_base::HashSet;
use nilas_iceberg::catalog::TableName;
use tokio::sync::mpsc;

use super::status::{CatalogCount, CatalogStatus};

/// Hints that wait for one catalog's watcher.
pub(super) const HINTS_WAITING_MAX: usize = 1024;

/// What became of a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintEnd {
    /// The table is asked for at once.
    Taken,
    /// The same hint waits already.
    Repeated,
    /// The table is not watched.
    Unwatched,
    /// Too many wait.
    Dropped,
}

type Waiting = Arc<Mutex<HashSet<TableName>>>;

/// Where hints go in; clones are the same door.
#[derive(Clone)]
pub(super) struct HintPort {
    sender: mpsc::Sender<TableName>,
    waiting: Waiting,
}

/// Where they come out.
pub(super) struct HintQueue {
    receiver: mpsc::Receiver<TableName>,
    waiting: Waiting,
}

impl HintPort {
    pub(super) fn pair() -> (HintPort, HintQueue) {
        let (sender, receiver) = mpsc::channel(HINTS_WAITING_MAX);
        let waiting = Waiting::default();
        (HintPort { sender, waiting: Arc::clone(&waiting) }, HintQueue { receiver, waiting })
    }

    /// Passes a hint on.
    pub(super) fn hint(&self, table: TableName, status: &CatalogStatus) -> HintEnd {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.insert(table.clone()) {
            status.count(CatalogCount::HintsRepeated);
            return HintEnd::Repeated;
        }
        match self.sender.try_send(table.clone()) {
            Ok(()) => {
                status.count(CatalogCount::HintsTaken);
                HintEnd::Taken
            }
            Err(_) => {
                waiting.remove(&table);
                status.count(CatalogCount::HintsDropped);
                HintEnd::Dropped
            }
        }
    }
}

impl HintQueue {
    /// The next hint; `None` when there will be none.
    pub(super) async fn next(&mut self) -> Option<TableName> {
        let table = self.receiver.recv().await?;
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&table);
        Some(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(number: usize) -> TableName {
        TableName::from_dotted(&format!("n.{number}")).expect("a full name")
    }

    #[tokio::test]
    async fn hints_are_bounded_and_a_repeated_one_is_one() {
        let (port, mut queue) = HintPort::pair();
        let status = CatalogStatus::new("lake", "http://lake");
        for number in 0..HINTS_WAITING_MAX {
            assert_eq!(port.hint(table(number), &status), HintEnd::Taken);
        }
        assert_eq!(port.hint(table(0), &status), HintEnd::Repeated);
        assert_eq!(port.hint(table(HINTS_WAITING_MAX), &status), HintEnd::Dropped);
        assert_eq!(queue.next().await, Some(table(0)));
        assert_eq!(port.hint(table(0), &status), HintEnd::Taken, "it is not waiting any more");
        let count = |what| status.snapshot().count(what);
        assert_eq!(count(CatalogCount::HintsTaken), HINTS_WAITING_MAX as u64 + 1);
        assert_eq!(count(CatalogCount::HintsRepeated), 1);
        assert_eq!(count(CatalogCount::HintsDropped), 1);
    }
}

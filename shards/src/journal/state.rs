//! A journal between its writer and those who append: what is queued, written, durable and wanted. All is decided here
//! at once; who waits for it is in `journal`, and what is done about it in `writer`.

use super::log::Log;
use super::queue::{Queue, Urgency};
use super::{JournalFailed, JournalUsage};
use crate::disk::{BATCH_PAGES_MAX, ENTRY_BYTES_MAX, Entries, LogShape, PAGE_BYTES};

/// Bytes of entries that wait to be written, at most; in a small area a quarter of its ring, so that what waits when
/// a checkpoint is due still fits.
const QUEUE_BYTES_MAX: usize = 8 * BATCH_PAGES_MAX * PAGE_BYTES;
const QUEUE_SHARE: usize = 4;

/// All that is known of a journal.
pub(super) struct State {
    pub(super) queue: Queue,
    pub(super) log: Log,
    /// Number of the last batch that is known to be durable.
    pub(super) durable: u64,
    /// Number of the last batch that somebody wants to be durable.
    pub(super) wanted: u64,
    pub(super) checkpoint: Option<PendingCheckpoint>,
    /// Checkpoints that were begun.
    begun: u64,
    /// The last of them that has ended.
    finished: u64,
    /// Those who wait for room.
    pub(super) waiting: usize,
    pub(super) has_failed: bool,
    pub(super) usage: JournalUsage,
}

/// A checkpoint that was begun.
#[derive(Clone, Copy)]
pub(super) struct PendingCheckpoint {
    /// Which it is, counted from 1 on.
    pub(super) ticket: u64,
    /// Number of its first batch.
    pub(super) first: u64,
    /// Where that one lies, once it was written.
    page: Option<u32>,
    /// Number of its last batch, once all its entries were appended.
    last: Option<u64>,
}

impl State {
    pub(super) fn new(shape: LogShape, log: Log) -> State {
        let ring_bytes = shape.ring_pages() as usize * PAGE_BYTES;
        let share = (ring_bytes / QUEUE_SHARE).max(Entries::bytes_of(ENTRY_BYTES_MAX));
        let bytes_max = QUEUE_BYTES_MAX.min(share);
        State {
            queue: Queue::new(log.last + 1, bytes_max, shape.batch_pages_max()),
            durable: log.last,
            wanted: log.last,
            log,
            checkpoint: None,
            begun: 0,
            finished: 0,
            waiting: 0,
            has_failed: false,
            usage: JournalUsage { area_bytes: ring_bytes as u64, ..JournalUsage::default() },
        }
    }

    /// Appends an entry if there is room for it; nothing where it must wait.
    pub(super) fn push(
        &mut self,
        entry: &[u8],
        urgency: Urgency,
    ) -> Option<Result<(), JournalFailed>> {
        let result = self.room(entry.len(), urgency)?;
        if result.is_ok() {
            self.queue.push(entry);
            self.usage.entries += 1;
        }
        Some(result)
    }

    /// Whether there is room; nothing where not yet.
    pub(super) fn room(&self, bytes: usize, urgency: Urgency) -> Option<Result<(), JournalFailed>> {
        if self.has_failed {
            return Some(Err(JournalFailed));
        }
        self.queue.has_room(bytes, urgency).then_some(Ok(()))
    }

    /// Whether a batch and all before it are durable; nothing where not yet.
    pub(super) fn settled(&self, number: u64) -> Option<Result<(), JournalFailed>> {
        if self.durable >= number {
            return Some(Ok(()));
        }
        self.has_failed.then_some(Err(JournalFailed))
    }

    /// Whether there is anything to write.
    pub(super) fn has_work(&self) -> bool {
        !self.queue.is_empty() || self.is_urgent()
    }

    /// Whether it should be written without waiting for more.
    pub(super) fn is_urgent(&self) -> bool {
        self.queue.has_whole_batch() || self.waiting > 0 || self.wants_commit()
    }

    /// Whether what was written must be made durable.
    pub(super) fn wants_commit(&self) -> bool {
        self.wanted > self.durable || self.checkpoint.is_some_and(|it| it.last.is_some())
    }

    /// The first batch that will count once all that was written is durable, and its page.
    pub(super) fn next_first(&self) -> (u64, u32) {
        match self.checkpoint.filter(|it| it.last.is_some_and(|last| last <= self.log.last)) {
            Some(it) => (it.first, it.page.unwrap_or(self.log.head)),
            None => (self.log.first, self.log.first_page),
        }
    }

    /// Notes the batch that was written at the log's head.
    pub(super) fn note_written(&mut self, number: u64, pages: u32, checksum: u32) {
        if let Some(checkpoint) = &mut self.checkpoint
            && checkpoint.first == number
        {
            checkpoint.page = Some(self.log.head);
        }
        self.log.push(pages, checksum);
        self.usage.batches += 1;
    }

    /// Notes that the ledger that names `first` and `durable` is durable.
    pub(super) fn note_durable(&mut self, (first, page): (u64, u32), durable: u64) {
        self.durable = durable;
        if let Some(checkpoint) = self.checkpoint
            && checkpoint.first == first
            && checkpoint.last.is_some_and(|last| last <= durable)
        {
            self.log.begin_at(first, page);
            self.finished = checkpoint.ticket;
            self.usage.checkpoints += 1;
            self.checkpoint = None;
        }
    }

    /// Begins a checkpoint, in the place of one that has not ended.
    pub(super) fn begin_checkpoint(&mut self) -> u64 {
        self.begun += 1;
        let first = self.queue.seal();
        let ticket = self.begun;
        self.checkpoint = Some(PendingCheckpoint { ticket, first, page: None, last: None });
        #[cfg(feature = "mutations")]
        if crate::mutation::journal_has(crate::mutation::JournalMutation::ReusedBeforeLedger) {
            self.log.used = 0;
        }
        ticket
    }

    /// Notes that all entries of a checkpoint were appended.
    pub(super) fn finish_checkpoint(&mut self, ticket: u64) {
        let last = self.queue.last();
        if let Some(checkpoint) = self.checkpoint.as_mut().filter(|it| it.ticket == ticket) {
            checkpoint.last = Some(last);
        }
    }

    /// Forgets a checkpoint that will not be finished.
    pub(super) fn drop_checkpoint(&mut self, ticket: u64) {
        self.checkpoint = self.checkpoint.filter(|it| it.ticket != ticket || it.last.is_some());
    }

    /// Whether a checkpoint, or one that took its place, has ended; nothing where not yet.
    pub(super) fn checkpoint_settled(&self, ticket: u64) -> Option<Result<(), JournalFailed>> {
        if self.finished >= ticket {
            return Some(Ok(()));
        }
        self.has_failed.then_some(Err(JournalFailed))
    }

    /// Notes that nothing more can be written.
    pub(super) fn fail(&mut self) {
        self.has_failed = true;
        self.queue.clear();
    }

    /// What is told of it.
    pub(super) fn usage(&self) -> JournalUsage {
        JournalUsage {
            log_bytes: u64::from(self.log.used) * PAGE_BYTES as u64,
            queued_bytes: self.queue.bytes() as u64,
            has_failed: self.has_failed,
            ..self.usage
        }
    }
}

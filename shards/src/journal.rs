//! The journal of one shard: a log of entries, which are its owner's alone to understand, in an area of mappings. What
//! is told to be durable is found again at the next start, all of it and in order, or the whole is damaged and nothing
//! of it is believed. The formats are in `disk`; begin here at `writer` for what is written when, at `replay` for what
//! is believed.

mod log;
mod pages;
mod queue;
mod replay;
mod reread;
mod state;
mod stream;
#[cfg(test)]
mod tests;
mod writer;

pub use crate::disk::ENTRY_BYTES_MAX;
pub use reread::{Reread, Span};

use std::cell::RefCell;
use std::rc::Rc;

use crate::disk::AreaPlace;
use crate::file::File;
use crate::reactor::Reactor;
use crate::signal::Signal;
use pages::AreaPages;
use queue::Urgency;
use state::State;
use writer::Writer;

/// Where a journal is, and whose.
pub struct JournalConfig {
    /// The shard.
    pub reactor: Reactor,
    /// The device.
    pub file: File,
    /// Its area, which nobody else writes.
    pub place: AreaPlace,
    /// Whose entries these are: of another owner all are forgotten.
    pub owner: [u8; 16],
}

/// What a journal held when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replay {
    /// All entries since the last checkpoint began were looked at, in the order in which they were appended. All that
    /// were told to be durable are among them.
    Whole(Span),
    /// Nothing, for it is new, or of another format.
    Fresh,
    /// Nothing, for it is another owner's, whose entries are forgotten.
    Another,
    /// Something is missing that may have taken back what is there: nothing of it is to be believed. So it stays at
    /// every opening until something is made durable: what the owner does about damage it may do again, if it dies.
    Damaged(Damage),
}

/// Why nothing of a journal is to be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// No ledger can be read.
    #[error("no copy of its ledger can be read")]
    NoLedger,
    /// A batch is missing that was durable.
    #[error("batch {number} is missing")]
    Gap {
        /// Its number.
        number: u64,
    },
    /// There are batches that a later ledger must have named.
    #[error("its ledger is older than its batches")]
    Outdated,
    /// It could not be written, or was damaged, and nothing was made durable since.
    #[error("it failed, or was damaged, the last time")]
    Void,
    /// It cannot be written now; so what came after it may have been lost the same way.
    #[error("it cannot be written")]
    Unwritable,
}

/// The area cannot be written any more, or is full: nothing more is persisted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the journal cannot be written")]
pub struct JournalFailed;

/// What a journal takes, and what it has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalUsage {
    /// Bytes from the first batch that counts to the last, with what lies unused between.
    pub log_bytes: u64,
    /// Bytes that the log may have: where it would have more, the journal fails.
    pub area_bytes: u64,
    /// Bytes of entries that wait to be written.
    pub queued_bytes: u64,
    /// Entries that were appended.
    pub entries: u64,
    /// Entries that were not, for want of room in the queue.
    pub dropped_entries: u64,
    /// Batches that were written.
    pub batches: u64,
    /// Syncs of the device.
    pub syncs: u64,
    /// Whether nothing more is persisted.
    pub has_failed: bool,
    /// What the kernel said, by its number, where that is why it failed.
    pub error: Option<i32>,
    /// Checkpoints that have ended.
    pub checkpoints: u64,
    /// Whether it failed because no batch fitted beside those that count.
    pub is_full: bool,
    /// Whether, having failed, it could have that noted in the area. Until then a start would believe what it held
    /// before it failed, if the area can then be written.
    pub is_void: bool,
}

/// One shard's journal; clones are the same one.
///
/// **What it withstands.** The death of the process and loss of power at any moment, with any part of what was not
/// synced lost; and, of the area's segments, any that are changed, cut off, exchanged or put back to what they held
/// before, as long as one copy of the latest ledger stays: there is one in the first page or two of the area, and one
/// in the last. Not an area that is put back to an older state as a whole, or by several such faults between two
/// openings, which looks as it did then. Nor can it know what a node did that ran without it.
///
/// **What it needs.** What is live, as the owner appends it in a checkpoint, takes a third of [`JournalUsage`]'s
/// `area_bytes` at most; else the log may be full before a checkpoint has ended.
///
/// Its task ends with the reactor. What was not flushed then may be missing at the next start.
#[derive(Clone)]
pub struct Journal(Rc<Core>);

struct Core {
    area: AreaPages,
    owner: [u8; 16],
    state: RefCell<State>,
    /// Raised when the writer may have something to do.
    work: Signal,
    /// Raised when the writer has done something, or has failed.
    settled: Signal,
}

impl Journal {
    /// Reads the area, and has its owner look at each entry as it is read: of what it was shown it may believe nothing
    /// before it knows that the journal is [`Replay::Whole`]. Then the journal takes entries. One that cannot be written
    /// has failed from the beginning.
    ///
    /// # Panics
    /// Where the area is shorter than any that is laid out.
    pub async fn open(config: JournalConfig, look: impl FnMut(&[u8])) -> (Journal, Replay) {
        let JournalConfig { reactor, file, place, owner } = config;
        let area = AreaPages::new(reactor.clone(), file, place);
        let found = replay::read(&area, owner, look).await;
        let state = RefCell::new(State::new(area.shape, found.log));
        let (work, settled) = (Signal::default(), Signal::default());
        let core = Rc::new(Core { area, owner, state, work, settled });
        let mut writer = Writer::new(Rc::clone(&core), found.generation, found.sequence);
        let is_damaged = matches!(found.replay, Replay::Damaged(_));
        let replay = match writer.begin(is_damaged).await {
            Ok(()) => {
                reactor.spawn(writer.run());
                found.replay
            }
            Err(stop) => {
                reactor.spawn(writer.give_up(stop));
                core.settled.until(|| core.state.borrow().has_failed.then_some(())).await;
                Replay::Damaged(Damage::Unwritable)
            }
        };
        (Journal(core), replay)
    }

    /// Reads once more what was found, as long as no checkpoint was begun. What cannot be read any more ends it.
    pub fn reread(&self, span: Span) -> Reread<'_> {
        Reread::new(&self.0.area, self.0.owner, span)
    }

    /// Appends soon, without waiting and without durability. Whether it did: not where too much waits already, the
    /// journal has failed, or the entry is longer than [`ENTRY_BYTES_MAX`].
    pub fn append(&self, entry: &[u8]) -> bool {
        let mut state = self.0.state.borrow_mut();
        let had_work = state.has_work();
        let is_appended =
            entry.len() <= ENTRY_BYTES_MAX && state.push(entry, Urgency::Soon) == Some(Ok(()));
        state.usage.dropped_entries += u64::from(!is_appended);
        let is_work = !had_work || state.is_urgent();
        drop(state);
        if is_appended && is_work {
            self.0.work.raise();
        }
        is_appended
    }

    /// Appends all, and returns when they are durable; all that come meanwhile go together. Where it is dropped, or
    /// fails, any first part of them may be found again.
    ///
    /// # Errors
    /// Where that cannot be.
    ///
    /// # Panics
    /// Where one is longer than [`ENTRY_BYTES_MAX`].
    pub async fn append_durably(&self, entries: &[&[u8]]) -> Result<(), JournalFailed> {
        for entry in entries {
            self.with_room(|state| state.push(entry, Urgency::Durable)).await?;
        }
        let last = self.0.state.borrow().queue.last();
        self.settle(last).await
    }

    /// Whether a checkpoint is due: more than half of the area counts.
    pub fn wants_checkpoint(&self) -> bool {
        let state = self.0.state.borrow();
        state.checkpoint.is_none() && !state.has_failed && state.log.wants_checkpoint()
    }

    /// Begins a checkpoint: what is appended from here on is enough to rebuild everything, once
    /// [`Checkpoint::finish`] has returned. There is one at a time: a new one takes the place of one that has not
    /// ended. One that is dropped is forgotten.
    pub fn begin_checkpoint(&self) -> Checkpoint {
        let ticket = self.0.state.borrow_mut().begin_checkpoint();
        Checkpoint { journal: self.clone(), ticket }
    }

    /// Waits until the queue has room for an entry of so many bytes, for [`Journal::append`] to take at once.
    ///
    /// # Errors
    /// Where the journal has failed.
    pub async fn room(&self, bytes: usize) -> Result<(), JournalFailed> {
        self.with_room(|state| state.room(bytes, Urgency::Soon)).await
    }

    /// Waits until all that was appended is durable, or the journal has failed: for a clean stop, after which damage
    /// to any entry is seen.
    pub async fn flush(&self) {
        let last = self.0.state.borrow().queue.last();
        // Who stops does not care which.
        let _ = self.settle(last).await;
    }

    /// Whether nothing more is persisted.
    pub fn has_failed(&self) -> bool {
        self.0.state.borrow().has_failed
    }

    /// What it takes, and what it has done.
    pub fn usage(&self) -> JournalUsage {
        self.0.state.borrow().usage()
    }

    /// Waits for room, and has the writer make some.
    async fn with_room(
        &self,
        mut look: impl FnMut(&mut State) -> Option<Result<(), JournalFailed>>,
    ) -> Result<(), JournalFailed> {
        let core = &self.0;
        if let Some(result) = look(&mut core.state.borrow_mut()) {
            return result;
        }
        let _waiting = Waiting::begin(core);
        core.work.raise();
        core.settled.until(|| look(&mut core.state.borrow_mut())).await
    }

    async fn settle(&self, last: u64) -> Result<(), JournalFailed> {
        let Core { state, work, settled, .. } = &*self.0;
        let wanted = state.borrow().wanted.max(last);
        state.borrow_mut().wanted = wanted;
        work.raise();
        settled.until(|| state.borrow().settled(last)).await
    }
}

/// A checkpoint that has begun.
#[must_use = "a checkpoint that is not finished is forgotten"]
pub struct Checkpoint {
    journal: Journal,
    ticket: u64,
}

impl Checkpoint {
    /// Waits until what was appended since it began is durable and alone counts. What comes before it is then
    /// forgotten, and its place used again.
    ///
    /// # Errors
    /// Where the journal has failed.
    pub async fn finish(self) -> Result<(), JournalFailed> {
        let Core { state, work, settled, .. } = &*self.journal.0;
        state.borrow_mut().finish_checkpoint(self.ticket);
        work.raise();
        settled.until(|| state.borrow().checkpoint_settled(self.ticket)).await
    }
}

impl Drop for Checkpoint {
    fn drop(&mut self) {
        self.journal.0.state.borrow_mut().drop_checkpoint(self.ticket);
    }
}

/// One who waits for room, as long as it does.
struct Waiting<'a>(&'a Core);

impl Waiting<'_> {
    fn begin(core: &Core) -> Waiting<'_> {
        core.state.borrow_mut().waiting += 1;
        Waiting(core)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.state.borrow_mut().waiting -= 1;
    }
}

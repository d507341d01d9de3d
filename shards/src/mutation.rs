//! Faults planted on purpose for tests and the simulator to find: leased memory that goes home too early, and what
//! a store or a journal on a device must not do. For the calling thread alone; see `engine::mutation` for
//! the others and for who chooses.

use std::cell::Cell;

thread_local! {
    // A simulated world lives on one thread, so runs on several threads do not disturb each other.
    static FREES_AT_SUBMIT: Cell<bool> = const { Cell::new(false) };
    static OF_DISK: Cell<Option<DiskMutation>> = const { Cell::new(None) };
    static COLLIDES: Cell<bool> = const { Cell::new(false) };
    static JOURNAL: Cell<Option<JournalMutation>> = const { Cell::new(None) };
}

/// What a store on a device does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskMutation {
    /// A page's checksum is not looked at.
    ChecksumUnread,
    /// Checksums are of bytes alone, wherever they belong and whosever they are.
    ChecksumUnbound,
    /// A summary is believed without its checksum.
    SummaryUnchecked,
    /// A segment is reused while a read of it is in flight.
    SegmentReusedEarly,
}

impl DiskMutation {
    /// All.
    pub const ALL: [DiskMutation; 4] = [
        DiskMutation::ChecksumUnread,
        DiskMutation::ChecksumUnbound,
        DiskMutation::SummaryUnchecked,
        DiskMutation::SegmentReusedEarly,
    ];

    /// Has this thread's stores do it, or nothing wrong.
    pub fn plant(mutation: Option<DiskMutation>) {
        OF_DISK.set(mutation);
    }

    pub(crate) fn is_planted(self) -> bool {
        OF_DISK.get() == Some(self)
    }
}

/// Has every second block be one of which the device holds another with the same hash: no mistake, but what hardly
/// ever happens.
pub fn collide(planted: bool) {
    COLLIDES.set(planted);
}

pub(crate) fn collides(block: crate::store::BlockId) -> bool {
    COLLIDES.get() && !block.version[0].is_multiple_of(2)
}

/// Has simulated sends give their leases back when they are submitted, and read them afterwards.
pub fn free_leases_at_submit(planted: bool) {
    FREES_AT_SUBMIT.set(planted);
}

pub(crate) fn frees_leases_at_submit() -> bool {
    FREES_AT_SUBMIT.get()
}

/// A mistake of the journal's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalMutation {
    /// A ledger is written before the batches are synced that it names.
    LedgerBeforeSync,
    /// A missing batch ends what is read, though the ledger vouches for it.
    GapsIgnored,
    /// The place of what counts is used again before the ledger of a checkpoint is durable.
    ReusedBeforeLedger,
    /// What was appended is read without regard to its order: the first word on a key counts, not the last.
    SequenceIgnored,
}

impl JournalMutation {
    /// All.
    pub const ALL: [JournalMutation; 4] = [
        JournalMutation::LedgerBeforeSync,
        JournalMutation::GapsIgnored,
        JournalMutation::ReusedBeforeLedger,
        JournalMutation::SequenceIgnored,
    ];
}

/// Has the journals of this thread make a mistake, or none.
pub fn plant_in_journal(mutation: Option<JournalMutation>) {
    JOURNAL.set(mutation);
}

pub(crate) fn journal_has(mutation: JournalMutation) -> bool {
    JOURNAL.get() == Some(mutation)
}

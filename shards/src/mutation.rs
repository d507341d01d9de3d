//! Faults planted on purpose for tests to find: leased memory that goes home too early, and mistakes of
//! the journal's. For the calling thread alone; see `engine::mutation` for the others and for who chooses.

use std::cell::Cell;

thread_local! {
    // A simulated world lives on one thread, so runs on several threads do not disturb each other.
    static FREES_AT_SUBMIT: Cell<bool> = const { Cell::new(false) };
    static JOURNAL: Cell<Option<JournalMutation>> = const { Cell::new(None) };
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
}

/// Has the journals of this thread make a mistake, or none.
pub fn plant_in_journal(mutation: Option<JournalMutation>) {
    JOURNAL.set(mutation);
}

pub(crate) fn journal_has(mutation: JournalMutation) -> bool {
    JOURNAL.get() == Some(mutation)
}

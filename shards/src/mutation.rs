//! A fault planted on purpose for the simulator to find: leased memory that goes home too early.
//! For the calling thread alone; see `engine::mutation` for the others and for who chooses.

use std::cell::Cell;

thread_local! {
    // A simulated world lives on one thread, so runs on several threads do not disturb each other.
    static FREES_AT_SUBMIT: Cell<bool> = const { Cell::new(false) };
}

/// Has simulated sends give their leases back when they are submitted, and read them afterwards.
pub fn free_leases_at_submit(planted: bool) {
    FREES_AT_SUBMIT.set(planted);
}

pub(crate) fn frees_leases_at_submit() -> bool {
    FREES_AT_SUBMIT.get()
}

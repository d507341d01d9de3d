//! Which thread this is, and data that only the thread that made it may touch.
//! Owners tell each other apart by a number that is never used twice.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};

/// A number no other thread of the process has had or will have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadNumber(u64);

impl ThreadNumber {
    /// That of the calling thread.
    pub(crate) fn current() -> ThreadNumber {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        thread_local! { static NUMBER: Cell<u64> = const { Cell::new(0) } }
        NUMBER.with(|number| {
            if number.get() == 0 {
                number.set(NEXT.fetch_add(1, Ordering::Relaxed));
            }
            ThreadNumber(number.get())
        })
    }
}

/// A value that is shared by reference with all threads, and opens for its owner only.
pub(crate) struct OwnerCell<T: Send> {
    owner: ThreadNumber,
    value: RefCell<T>,
}

// SAFETY: `with` reaches the value (and the count of borrows) on the owner's thread only, whose
// number no other thread ever has. Dropping the cell elsewhere moves `T`, which is `Send`.
unsafe impl<T: Send> Sync for OwnerCell<T> {}

impl<T: Send> OwnerCell<T> {
    /// A cell of the calling thread.
    pub(crate) fn new(value: T) -> OwnerCell<T> {
        OwnerCell { owner: ThreadNumber::current(), value: RefCell::new(value) }
    }

    /// Whether the calling thread is the owner.
    pub(crate) fn is_mine(&self) -> bool {
        ThreadNumber::current() == self.owner
    }

    /// Applies `change`. Panics on any thread but the owner's.
    pub(crate) fn with<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        assert!(self.is_mine(), "an owner's data stays on its thread");
        change(&mut self.value.borrow_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_opens_for_its_owner_only() {
        let cell = OwnerCell::new(1);
        cell.with(|value| *value += 1);
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(!cell.is_mine()));
            let elsewhere = scope.spawn(|| cell.with(|value| *value += 1));
            assert!(elsewhere.join().is_err());
        });
        assert_eq!(cell.with(|value| *value), 2);
    }
}

//! One number, written by one thread and read by any. A write is a load and a store without a
//! lock prefix: that is right only because nobody else writes, which `ShardCounters` sees to.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number with a single writer.
#[derive(Debug, Default)]
pub struct Cell(AtomicU64);

impl Cell {
    /// Adds; wraps after 2^64.
    #[inline]
    pub(super) fn add(&self, amount: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    /// Replaces the number.
    #[inline]
    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The number now.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

//! The entries that wait to be written, already divided into batches. It is bounded by bytes, and knows the number that
//! each of its batches will have.

use std::collections::VecDeque;

use crate::disk::Entries;

/// Of the queue's bytes, this part is kept for entries that somebody waits for: those that nobody waits for may come
/// at any rate, and would leave no room.
const KEPT_SHARE: usize = 4;

/// Whether somebody waits for an entry to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    Soon,
    Durable,
}

/// Batches to write, the first of them next.
pub(super) struct Queue {
    batches: VecDeque<Entries>,
    /// The number of the first of them, or of the next to be.
    first: u64,
    /// Whether the last takes no more entries.
    is_sealed: bool,
    bytes: usize,
    bytes_max: usize,
    batch_pages_max: u32,
}

impl Queue {
    /// An empty one whose first batch will have the number `first`.
    pub(super) fn new(first: u64, bytes_max: usize, batch_pages_max: u32) -> Queue {
        let batches = VecDeque::new();
        Queue { batches, first, is_sealed: false, bytes: 0, bytes_max, batch_pages_max }
    }

    /// Whether an entry of so many bytes may be pushed. The first may always.
    pub(super) fn has_room(&self, entry_bytes: usize, urgency: Urgency) -> bool {
        let kept = if urgency == Urgency::Soon { self.bytes_max / KEPT_SHARE } else { 0 };
        let bytes = self.bytes + Entries::bytes_of(entry_bytes);
        self.batches.is_empty() || bytes <= self.bytes_max - kept
    }

    /// Appends an entry. Whether there is room the caller has asked.
    pub(super) fn push(&mut self, entry: &[u8]) {
        self.bytes += Entries::bytes_of(entry.len());
        let pages_max = self.batch_pages_max;
        let open = self.batches.back_mut().filter(|_| !self.is_sealed);
        if open.is_some_and(|batch| batch.push(entry, pages_max)) {
            return;
        }
        let mut batch = Entries::default();
        assert!(batch.push(entry, pages_max), "an empty batch has room for any entry");
        self.batches.push_back(batch);
        self.is_sealed = false;
    }

    /// What is pushed from now on is not in a batch with what was pushed before. Gives the number that its first
    /// batch will have.
    pub(super) fn seal(&mut self) -> u64 {
        self.is_sealed = true;
        self.last() + 1
    }

    /// Takes the first batch and its number.
    pub(super) fn pop(&mut self) -> Option<(u64, Entries)> {
        let batch = self.batches.pop_front()?;
        self.bytes -= batch.bytes();
        self.first += 1;
        Some((self.first - 1, batch))
    }

    /// The number of the last batch that was ever pushed to.
    pub(super) fn last(&self) -> u64 {
        self.first + self.batches.len() as u64 - 1
    }

    /// Whether there is nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Whether the first batch takes no more entries.
    pub(super) fn has_whole_batch(&self) -> bool {
        self.batches.len() > 1
    }

    /// Bytes of all entries.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.batches.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Queue {
        Queue::new(5, 20_000, 5)
    }

    #[test]
    fn batches_come_out_in_order_with_their_numbers() {
        let mut queue = queue();
        queue.push(&[1; 12_000]);
        assert!(!queue.has_whole_batch());
        queue.push(&[2; 6000]);
        queue.push(&[3; 4000]);
        assert_eq!((queue.last(), queue.has_whole_batch()), (6, true));
        let counts = std::iter::from_fn(|| queue.pop());
        let counts: Vec<_> = counts.map(|(number, batch)| (number, batch.count())).collect();
        assert_eq!(counts, [(5, 2), (6, 1)]);
        assert_eq!((queue.last(), queue.bytes()), (6, 0));
    }

    #[test]
    fn what_comes_after_a_seal_is_in_another_batch() {
        let mut queue = queue();
        assert_eq!(queue.seal(), 5);
        queue.push(b"one");
        assert_eq!(queue.last(), 5);
        assert_eq!(queue.seal(), 6);
        assert_eq!(queue.seal(), 6);
        queue.push(b"two");
        queue.push(b"three");
        assert_eq!(queue.last(), 6);
        assert_eq!(queue.pop().map(|(number, batch)| (number, batch.count())), Some((5, 1)));
        assert_eq!(queue.pop().map(|(number, batch)| (number, batch.count())), Some((6, 2)));
        assert_eq!(queue.seal(), 7);
    }

    #[test]
    fn it_is_full_by_bytes_and_takes_one_entry_always() {
        let mut queue = Queue::new(1, 100, 5);
        assert!(queue.has_room(1000, Urgency::Soon));
        queue.push(&[0; 48]);
        assert!(queue.has_room(48, Urgency::Durable));
        assert!(!queue.has_room(49, Urgency::Durable));
        assert!(queue.has_room(23, Urgency::Soon));
        assert!(!queue.has_room(24, Urgency::Soon));
        queue.clear();
        assert!(queue.has_room(1000, Urgency::Soon));
    }
}

//! What a journal knows of its log: which batch was the last, where the next goes, and how much of the ring counts.

use crate::disk::LogShape;

/// The part of the ring that counts, from the first batch that does to the place of the next.
#[derive(Clone, Debug)]
pub(super) struct Log {
    shape: LogShape,
    /// Number of the first batch that counts; one more than `last` where there is none.
    pub(super) first: u64,
    /// Where it begins.
    pub(super) first_page: u32,
    /// Number of the last batch that was written.
    pub(super) last: u64,
    /// Its checksum.
    pub(super) last_checksum: u32,
    /// Where the next begins.
    pub(super) head: u32,
    /// Pages of the ring that count.
    pub(super) used: u32,
    /// The same when the last checkpoint had ended.
    used_at_checkpoint: u32,
}

impl Log {
    /// An empty one: the batch `first` will begin at `page`, behind one with this checksum.
    pub(super) fn empty(shape: LogShape, first: u64, page: u32, last_checksum: u32) -> Log {
        Log {
            shape,
            first,
            first_page: page,
            last: first - 1,
            last_checksum,
            head: page,
            used: 0,
            used_at_checkpoint: 0,
        }
    }

    /// Whether a batch of so many pages would overwrite nothing that counts.
    pub(super) fn has_room(&self, pages: u32) -> bool {
        self.used + pages <= self.shape.ring_pages()
    }

    /// Counts the batch that was written, or found, where the next was to begin.
    pub(super) fn push(&mut self, pages: u32, checksum: u32) {
        let (head, moved) = self.shape.following(self.head, pages);
        self.head = head;
        self.used += moved;
        self.last += 1;
        self.last_checksum = checksum;
    }

    /// Forgets the batches before `first`, which begins, or will, at `page`.
    pub(super) fn begin_at(&mut self, first: u64, page: u32) {
        self.first = first;
        self.first_page = page;
        let is_empty = first > self.last;
        self.used = if is_empty { 0 } else { self.shape.distance(page, self.head) };
        self.used_at_checkpoint = self.used;
    }

    /// Whether so much has come since the last checkpoint that another is due: more than half of the ring counts. One
    /// that has just ended with as much is not due again at once.
    pub(super) fn wants_checkpoint(&self) -> bool {
        let ring = self.shape.ring_pages();
        self.used > ring / 2 && self.used - self.used_at_checkpoint >= ring / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_goes_round_its_ring() {
        let shape = LogShape::new(64 * 4096);
        let mut log = Log::empty(shape, 1, shape.ring_start(), 0);
        let mut batches = 0;
        while log.has_room(3) {
            log.push(3, 7);
            batches += 1;
        }
        assert_eq!((batches, log.used, log.head), (18, 60, 2), "what is behind 18 batches is lost");
        assert!(log.wants_checkpoint());
        log.begin_at(15, 2 + 14 * 3);
        assert_eq!((log.used, log.last), (60 - 14 * 3, 18));
        log.push(2, 8);
        assert_eq!((log.used, log.last), (60 - 14 * 3 + 2, 19));
        assert!(!log.wants_checkpoint());
        log.begin_at(20, log.head);
        assert_eq!(log.used, 0);
    }

    #[test]
    fn a_checkpoint_that_fills_half_the_ring_is_not_due_again_at_once() {
        let shape = LogShape::new(64 * 4096);
        let mut log = Log::empty(shape, 1, shape.ring_start(), 0);
        (0..35).for_each(|_| log.push(1, 0));
        assert!(log.wants_checkpoint());
        log.begin_at(2, shape.ring_start() + 1);
        assert!(!log.wants_checkpoint());
        (0..8).for_each(|_| log.push(1, 0));
        assert!(log.wants_checkpoint());
    }
}

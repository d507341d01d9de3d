//! How an area of mappings is divided: ledgers in its first and its last pages, and between them a ring of pages that
//! batches fill one after the other. All follows from the area's length, so it is written nowhere and cannot be wrong.

use std::ops::Range;

use super::batch::BATCH_PAGES_MAX;
use super::page::{PAGE_BYTES, pages_of};

/// Pages of ledgers at each end of the area.
const LEDGERS: u32 = 2;
/// Pages of an area at least.
const AREA_PAGES_MIN: u64 = 48;
/// A batch takes this part of the ring at most, for as much may be lost where the ring begins anew.
const BATCH_SHARE: u32 = 8;

/// The division of an area; places are pages from its beginning.
///
/// | pages | what |
/// |---|---|
/// | 2 | ledgers: the even ones in the first page, the odd ones in the second |
/// | … | the ring |
/// | 2 | copies of the ledgers |
///
/// A ledger's two copies are in different segments where the area has more than one. It overwrites the last but one,
/// so that power that fails while it is written leaves the last. Where a batch ends, the next begins; where the rest
/// of the ring is shorter than the longest batch, it begins at the ring's first page instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogShape {
    area_pages: u32,
}

impl LogShape {
    /// That of an area of so many bytes.
    ///
    /// # Panics
    /// Where it is shorter than any area that is laid out, or longer than pages can be counted.
    pub fn new(area_bytes: u64) -> LogShape {
        let pages = area_bytes / PAGE_BYTES as u64;
        assert!((AREA_PAGES_MIN..1 << 31).contains(&pages), "an area of {area_bytes} bytes");
        LogShape { area_pages: pages as u32 }
    }

    /// Pages of the whole area.
    pub fn area_pages(self) -> u32 {
        self.area_pages
    }

    /// Where the two copies of the ledger with this number are.
    pub fn ledger_pages(self, sequence: u64) -> [u32; 2] {
        let which = (sequence % u64::from(LEDGERS)) as u32;
        [which, self.ring_end() + which]
    }

    /// The ring's first page.
    pub fn ring_start(self) -> u32 {
        LEDGERS
    }

    /// The page behind the ring's last.
    pub fn ring_end(self) -> u32 {
        self.area_pages - LEDGERS
    }

    /// Pages of the ring.
    pub fn ring_pages(self) -> u32 {
        self.ring_end() - self.ring_start()
    }

    /// The ring, from a page of it on and once round.
    pub fn lap(self, page: u32) -> [Range<u32>; 2] {
        [page..self.ring_end(), self.ring_start()..page]
    }

    /// Pages of a batch at most.
    pub fn batch_pages_max(self) -> u32 {
        let longest_entry = pages_of(super::batch::batch_bytes_min()) as u32;
        (self.ring_pages() / BATCH_SHARE).clamp(longest_entry, BATCH_PAGES_MAX as u32)
    }

    /// Whether a batch may begin at a page.
    pub fn may_begin(self, page: u32) -> bool {
        page >= self.ring_start()
            && u64::from(page) + u64::from(self.batch_pages_max()) <= u64::from(self.ring_end())
    }

    /// Where the batch begins that follows one of `pages` at `page`, where one may begin; and by how many pages of
    /// the ring that is further on.
    pub fn following(self, page: u32, pages: u32) -> (u32, u32) {
        let end = page + pages;
        if self.may_begin(end) { (end, pages) } else { (self.ring_start(), self.ring_end() - page) }
    }

    /// Pages from one place in the ring to another that is not the same, going forward.
    pub fn distance(self, from: u32, to: u32) -> u32 {
        if from < to { to - from } else { self.ring_pages() - (from - to) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_ends_have_a_copy_of_each_ledger() {
        let shape = LogShape::new(1 << 20);
        assert_eq!(shape.ledger_pages(6), [0, 254]);
        assert_eq!(shape.ledger_pages(7), [1, 255]);
        assert_eq!((shape.ring_start(), shape.ring_end()), (2, 254));
    }

    proptest! {
        #[test]
        fn batches_stay_in_the_ring_and_apart(
            area_pages in AREA_PAGES_MIN..3000,
            lengths in proptest::collection::vec(any::<u32>(), 1..400),
        ) {
            let shape = LogShape::new(area_pages * PAGE_BYTES as u64);
            let mut page = shape.ring_start();
            for length in lengths {
                let pages = 1 + length % shape.batch_pages_max();
                prop_assert!(shape.may_begin(page));
                prop_assert!(page >= shape.ring_start() && page + pages <= shape.ring_end());
                let (next, moved) = shape.following(page, pages);
                prop_assert!(moved >= pages && moved < pages + shape.batch_pages_max());
                prop_assert_eq!(shape.distance(page, next), moved);
                page = next;
            }
        }
    }
}

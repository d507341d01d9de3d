//! What is known of an area's segments: which are free, which one is open, which are sealed, from when; and who still
//! reads or writes one. No I/O, and no choice of what to keep.

use std::collections::VecDeque;

use crate::disk::{
    AreaPlace, Generation, PAGE_BYTES, SegmentHeader, Summary, SummaryEntry, pages_of,
};

/// Free segments that are left to what reclaim carries over.
const RESERVED: usize = 1;

/// What a segment is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SegmentUse {
    /// Not looked at since the start.
    Unknown,
    Free,
    /// Records of this life lie in it: it is open, sealed, or about to be free.
    Used(Generation),
}

/// The segment that records are appended to.
#[derive(Debug)]
pub(super) struct OpenSegment {
    pub(super) life: SegmentHeader,
    /// The first page that no record has.
    pub(super) next_page: u32,
    pub(super) entries: Vec<SummaryEntry>,
}

/// The segments of one area.
pub(super) struct Segments {
    place: AreaPlace,
    uses: Vec<SegmentUse>,
    /// Operations in flight on each.
    pins: Vec<u32>,
    free: VecDeque<u32>,
    /// The oldest first.
    sealed: VecDeque<u32>,
    pub(super) open: Option<OpenSegment>,
    next_generation: Generation,
}

impl OpenSegment {
    /// Whether a record of `pages` pages fits before the summary that will know it.
    fn has_room(&self, pages: u32, segment_bytes: u32) -> bool {
        let summary_pages = pages_of(Summary::bytes_of(self.entries.len() + 1)) as u32;
        self.next_page + pages + summary_pages <= segment_bytes / PAGE_BYTES as u32
    }
}

impl Segments {
    /// Segments of an area of which nothing is known yet.
    pub(super) fn new(place: AreaPlace) -> Segments {
        let count = (place.length / u64::from(place.segment_bytes)) as usize;
        Segments {
            place,
            uses: vec![SegmentUse::Unknown; count],
            pins: vec![0; count],
            free: VecDeque::new(),
            sealed: VecDeque::new(),
            open: None,
            next_generation: Generation(1),
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        self.uses.len() as u32
    }

    /// How many can be opened.
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// Where a page of a segment lies on the device.
    pub(super) fn offset(&self, segment: u32, page: u32) -> u64 {
        self.place.offset
            + u64::from(segment) * u64::from(self.place.segment_bytes)
            + u64::from(page) * PAGE_BYTES as u64
    }

    /// The life that a segment is in, if it holds records.
    pub(super) fn life(&self, segment: u32) -> Option<SegmentHeader> {
        match self.uses[segment as usize] {
            SegmentUse::Used(generation) => Some(self.life_of(segment, generation)),
            SegmentUse::Unknown | SegmentUse::Free => None,
        }
    }

    fn life_of(&self, number: u32, generation: Generation) -> SegmentHeader {
        let AreaPlace { device, number: area, .. } = self.place;
        SegmentHeader { device, area, number, generation }
    }

    /// Notes what was found in a segment at the start.
    pub(super) fn found(&mut self, segment: u32, generation: Option<Generation>) {
        self.uses[segment as usize] = match generation {
            Some(generation) => SegmentUse::Used(generation),
            None => SegmentUse::Free,
        };
    }

    /// All segments have been looked at. Lives are counted on from the highest that can have been: a segment that
    /// cannot be read may have had a later one than all that can.
    pub(super) fn all_found(&mut self) {
        let mut used: Vec<(Generation, u32)> = Vec::new();
        for (number, use_) in (0..).zip(&self.uses) {
            match use_ {
                SegmentUse::Used(generation) => used.push((*generation, number)),
                SegmentUse::Free | SegmentUse::Unknown => self.free.push_back(number),
            }
        }
        used.sort_unstable();
        let highest = used.last().map_or(0, |(generation, _)| generation.0);
        self.next_generation = Generation(highest + u64::from(self.count()) + 1);
        self.sealed = used.into_iter().map(|(_, number)| number).collect();
    }

    /// Whether the open segment has room for a record.
    pub(super) fn has_room(&self, pages: u32) -> bool {
        self.open.as_ref().is_some_and(|open| open.has_room(pages, self.place.segment_bytes))
    }

    /// Opens a free segment in a new life; `false` where none is free, but for carry-over.
    pub(super) fn open_next(&mut self, is_carry_over: bool) -> bool {
        let reserved = if is_carry_over { 0 } else { RESERVED };
        if self.free.len() <= reserved {
            return false;
        }
        let number = self.free.pop_front().expect("more than none are free");
        let generation = self.next_generation;
        self.next_generation = Generation(generation.0 + 1);
        self.uses[number as usize] = SegmentUse::Used(generation);
        let life = self.life_of(number, generation);
        self.open = Some(OpenSegment { life, next_page: 1, entries: Vec::new() });
        true
    }

    /// Ends the open segment, which becomes the youngest of the sealed.
    pub(super) fn seal(&mut self) -> Option<OpenSegment> {
        let open = self.open.take()?;
        self.sealed.push_back(open.life.number);
        Some(open)
    }

    /// Takes the oldest sealed segment out of the line, to be emptied.
    pub(super) fn take_oldest(&mut self) -> Option<u32> {
        self.sealed.pop_front()
    }

    /// An emptied segment can be opened again. Nobody reads or writes it.
    pub(super) fn release(&mut self, segment: u32) {
        assert!(!self.is_pinned(segment), "a segment is not reused under an operation");
        self.uses[segment as usize] = SegmentUse::Free;
        self.free.push_back(segment);
    }

    /// An operation on a segment begins.
    pub(super) fn pin(&mut self, segment: u32) {
        self.pins[segment as usize] += 1;
    }

    /// It has ended; whether it was the last.
    pub(super) fn unpin(&mut self, segment: u32) -> bool {
        let pins = &mut self.pins[segment as usize];
        *pins = pins.checked_sub(1).expect("each pin is taken out once");
        *pins == 0
    }

    /// Whether an operation on a segment is in flight.
    pub(super) fn is_pinned(&self, segment: u32) -> bool {
        self.pins[segment as usize] > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::DeviceId;

    fn segments(count: u64) -> Segments {
        let segment_bytes = 1 << 20;
        let length = count << 20;
        Segments::new(AreaPlace {
            device: DeviceId([1; 16]),
            number: 2,
            offset: 8 << 20,
            length,
            segment_bytes,
        })
    }

    #[test]
    fn lives_go_on_above_all_that_may_have_been() {
        let mut segments = segments(4);
        segments.found(0, Some(Generation(7)));
        segments.found(1, None);
        segments.found(2, Some(Generation(5)));
        segments.found(3, None);
        segments.all_found();
        assert_eq!((segments.take_oldest(), segments.take_oldest()), (Some(2), Some(0)));
        assert!(segments.open_next(false));
        let open = segments.open.as_ref().expect("just opened");
        assert!(open.life.generation > Generation(7 + 2), "two cannot be read");
    }

    #[test]
    fn the_last_free_segment_is_for_what_is_carried_over() {
        let mut segments = segments(2);
        segments.found(0, None);
        segments.found(1, None);
        segments.all_found();
        assert!(segments.open_next(false));
        segments.seal();
        assert!(!segments.open_next(false));
        assert!(segments.open_next(true));
        assert!(!segments.open_next(true));
        segments.seal();
        let oldest = segments.take_oldest().expect("two are sealed");
        segments.release(oldest);
        assert_eq!(segments.free(), 1);
    }

    #[test]
    fn a_segment_keeps_room_for_its_summary() {
        let mut segments = segments(1);
        segments.found(0, None);
        segments.all_found();
        assert!(!segments.has_room(1));
        assert!(segments.open_next(true));
        assert!(segments.has_room(254), "all but the head and the summary");
        assert!(!segments.has_room(255));
    }

    #[test]
    #[should_panic(expected = "not reused under an operation")]
    fn a_segment_is_not_reused_under_an_operation() {
        let mut segments = segments(1);
        segments.pin(0);
        segments.release(0);
    }
}

//! Headers of records, kept in memory as far as their budget goes, so that a read of a record needs none of its
//! header's pages. The first that came is the first that goes.

use std::collections::VecDeque;
use std::rc::Rc;

use nilas_base::HashMap;

use crate::disk::{Place, RecordHeader, SegmentHeader};

/// Tables beside a header: its place in the map and in the line.
const ENTRY_BYTES: u64 = 48;

/// The headers that are kept.
pub(super) struct Headers {
    bytes_max: u64,
    bytes: u64,
    kept: HashMap<Place, Rc<RecordHeader>>,
    line: VecDeque<Place>,
}

impl Headers {
    /// None yet; of so many bytes at most.
    pub(super) fn new(bytes_max: u64) -> Headers {
        Headers { bytes_max, bytes: 0, kept: HashMap::default(), line: VecDeque::new() }
    }

    /// The header of the record at a place, in its segment's present life.
    pub(super) fn find(&self, place: Place, life: SegmentHeader) -> Option<Rc<RecordHeader>> {
        let header = self.kept.get(&place)?;
        (header.life == life).then(|| Rc::clone(header))
    }

    /// Keeps a header, and lets the oldest go where there is no room.
    pub(super) fn keep(&mut self, place: Place, header: Rc<RecordHeader>) {
        let bytes = header.memory_bytes() + ENTRY_BYTES;
        if bytes > self.bytes_max {
            return;
        }
        self.forget(place);
        self.bytes += bytes;
        self.kept.insert(place, header);
        self.line.push_back(place);
        while self.bytes > self.bytes_max {
            let oldest = self.line.pop_front().expect("what has bytes is in the line");
            self.forget(oldest);
        }
        // Places that were forgotten and came again stand in the line more than once.
        if self.line.len() > 2 * self.kept.len() + 16 {
            let kept = &self.kept;
            let mut seen = nilas_base::HashSet::default();
            self.line.retain(|place| kept.contains_key(place) && seen.insert(*place));
        }
    }

    /// Forgets the header of a record that is no more.
    pub(super) fn forget(&mut self, place: Place) {
        if let Some(header) = self.kept.remove(&place) {
            self.bytes -= header.memory_bytes() + ENTRY_BYTES;
        }
    }

    /// What they take of memory, bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{DeviceId, Generation, PageSeed};
    use crate::store::BlockId;

    fn life(generation: u64) -> SegmentHeader {
        let (device, generation) = (DeviceId([3; 16]), Generation(generation));
        SegmentHeader { device, area: 1, number: 1, generation }
    }

    fn header(generation: u64) -> Rc<RecordHeader> {
        let block = BlockId { version: [1; 16], index: 0 };
        let seed = PageSeed { block, life: life(generation) };
        Rc::new(RecordHeader::new(seed, b"identity", 0, &[1; 5000]))
    }

    fn place(page: u32) -> Place {
        Place { segment: 1, page }
    }

    #[test]
    fn the_first_that_came_goes_first_and_the_budget_holds() {
        let one = header(1).memory_bytes() + ENTRY_BYTES;
        let mut headers = Headers::new(3 * one);
        for page in 0..100 {
            headers.keep(place(page), header(1));
            headers.keep(place(page), header(1));
            assert!(headers.memory_bytes() <= 3 * one && headers.line.len() < 32);
        }
        assert!(headers.find(place(96), life(1)).is_none());
        assert!(headers.find(place(97), life(1)).is_some());
        headers.forget(place(97));
        assert!(headers.find(place(97), life(1)).is_none());
        assert_eq!(headers.memory_bytes(), 2 * one);
    }

    #[test]
    fn a_header_of_a_former_life_is_not_found() {
        let mut headers = Headers::new(1 << 20);
        headers.keep(place(1), header(1));
        assert!(headers.find(place(1), life(2)).is_none());
    }
}

//! The index: which records hold which bytes of which block. It is rebuilt from segments and kept in memory; it
//! believes nothing and reads nothing, so what it says is where to look, not what is there.
//!
//! A block has few records at most. What it holds is their union; where two overlap, either is right, for both are
//! of the same version.

use arrayvec::ArrayVec;
use nilas_base::{ByteRange, HashMap};

use super::page::pages_of;
use crate::store::BlockId;

/// Records of one block at most: of more, the shortest is forgotten. Four pieces of a block that were filled at
/// different times; reclaim makes one of them.
pub const RECORDS_PER_BLOCK_MAX: usize = 4;
/// Memory of a block with one record, tables included, about: a key, a run, and what a table of two thirds wastes.
const BLOCK_BYTES: u64 = 72;
/// What the second to last of its records take beside that.
const FURTHER_BYTES: u64 = (RECORDS_PER_BLOCK_MAX * size_of::<Run>() + size_of::<usize>()) as u64;

/// Where a record lies in its area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The segment's number.
    pub segment: u32,
    /// Pages from its beginning.
    pub page: u32,
}

/// A record as the index has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where it lies.
    pub place: Place,
    /// Where in its block it begins.
    pub first_byte: u32,
    /// Bytes of the block that it holds.
    pub data_bytes: u32,
    /// Pages of its header.
    pub header_pages: u16,
}

impl Run {
    /// The bytes of the block that it holds.
    pub fn range(&self) -> ByteRange {
        let start = u64::from(self.first_byte);
        ByteRange::new(start, start + u64::from(self.data_bytes))
    }

    fn holds(&self, byte: u64) -> bool {
        let range = self.range();
        range.start <= byte && byte < range.end
    }

    /// Pages of the whole record.
    pub fn pages(&self) -> u32 {
        u32::from(self.header_pages) + pages_of(self.data_bytes as usize) as u32
    }
}

/// The records of one block; nearly all have one.
#[derive(Clone, Debug)]
enum Runs {
    One(Run),
    Several(Box<ArrayVec<Run, RECORDS_PER_BLOCK_MAX>>),
}

impl Runs {
    fn as_slice(&self) -> &[Run] {
        match self {
            Runs::One(run) => std::slice::from_ref(run),
            Runs::Several(runs) => runs,
        }
    }

    fn of(runs: &[Run]) -> Option<Runs> {
        match runs {
            [] => None,
            [run] => Some(Runs::One(*run)),
            runs => Some(Runs::Several(Box::new(runs.iter().copied().collect()))),
        }
    }
}

/// Records that a new one has made needless.
pub type Superseded = ArrayVec<Run, RECORDS_PER_BLOCK_MAX>;

/// The index of one area.
#[derive(Clone, Debug, Default)]
pub struct DiskIndex {
    blocks: HashMap<BlockId, Runs>,
    /// Blocks with more than one record.
    several: u64,
}

impl DiskIndex {
    /// Adds a record; gives those that it makes needless: all whose bytes it has too, and the shortest where there
    /// would be more than [`RECORDS_PER_BLOCK_MAX`], be it the new one.
    pub fn insert(&mut self, block: BlockId, run: Run) -> Superseded {
        let mut superseded = Superseded::new();
        let mut runs: ArrayVec<Run, { RECORDS_PER_BLOCK_MAX + 1 }> =
            self.runs(block).iter().copied().collect();
        runs.retain(|old| {
            let is_needless = run.range().contains(old.range());
            if is_needless {
                superseded.push(*old);
            }
            !is_needless
        });
        runs.push(run);
        if runs.len() > RECORDS_PER_BLOCK_MAX {
            let by_length = runs.iter().enumerate().min_by_key(|(_, run)| run.data_bytes);
            let (shortest, _) = by_length.expect("one was just added");
            superseded.push(runs.remove(shortest));
        }
        self.put(block, &runs);
        superseded
    }

    /// The record that holds the first byte of `wanted` and most of what follows, and the part that it holds.
    pub fn find(&self, block: BlockId, wanted: ByteRange) -> Option<(Run, ByteRange)> {
        let has_first = |run: &&Run| run.holds(wanted.start);
        let run = self.runs(block).iter().filter(has_first).max_by_key(|run| run.range().end)?;
        Some((*run, ByteRange::new(wanted.start, wanted.end.min(run.range().end))))
    }

    /// The records of a block.
    pub fn runs(&self, block: BlockId) -> &[Run] {
        self.blocks.get(&block).map_or(&[], Runs::as_slice)
    }

    /// Forgets the record at a place; whether it was known.
    pub fn remove(&mut self, block: BlockId, place: Place) -> bool {
        let runs = self.runs(block);
        let kept: ArrayVec<Run, RECORDS_PER_BLOCK_MAX> =
            runs.iter().filter(|run| run.place != place).copied().collect();
        let was_known = kept.len() < runs.len();
        if was_known {
            self.put(block, &kept);
        }
        was_known
    }

    /// Forgets a block; gives its records.
    pub fn remove_block(&mut self, block: BlockId) -> Superseded {
        let runs = self.runs(block).iter().copied().collect();
        self.put(block, &[]);
        runs
    }

    /// Blocks with a record.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// What the index takes of memory, bytes, about.
    pub fn memory_bytes(&self) -> u64 {
        self.blocks.len() as u64 * BLOCK_BYTES + self.several * FURTHER_BYTES
    }

    fn put(&mut self, block: BlockId, runs: &[Run]) {
        let before = self.runs(block).len();
        self.several = self.several + u64::from(runs.len() > 1) - u64::from(before > 1);
        match Runs::of(runs) {
            Some(runs) => {
                self.blocks.insert(block, runs);
            }
            None => {
                self.blocks.remove(&block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const PAGE: u32 = 4096;

    fn block(index: u32) -> BlockId {
        BlockId { version: [1; 16], index }
    }

    /// A run of pages `first..last`, which lies at `number`.
    fn run(number: u32, first: u32, last: u32) -> Run {
        Run {
            place: Place { segment: number, page: 1 },
            first_byte: first * PAGE,
            data_bytes: (last - first) * PAGE,
            header_pages: 1,
        }
    }

    fn range(first: u32, last: u32) -> ByteRange {
        ByteRange::new(u64::from(first * PAGE), u64::from(last * PAGE))
    }

    #[test]
    fn what_a_block_holds_is_the_union_of_its_records() {
        let mut index = DiskIndex::default();
        assert_eq!(index.find(block(0), range(0, 1)), None);
        assert!(index.insert(block(0), run(1, 0, 4)).is_empty());
        assert!(index.insert(block(0), run(2, 3, 8)).is_empty());
        assert_eq!(index.find(block(0), range(1, 6)), Some((run(1, 0, 4), range(1, 4))));
        assert_eq!(index.find(block(0), range(3, 6)), Some((run(2, 3, 8), range(3, 6))));
        assert_eq!(index.find(block(0), range(8, 9)), None);
        assert_eq!(index.find(block(1), range(0, 1)), None);
    }

    #[test]
    fn a_record_makes_those_needless_whose_bytes_it_has() {
        let mut index = DiskIndex::default();
        index.insert(block(0), run(1, 0, 2));
        index.insert(block(0), run(2, 2, 4));
        index.insert(block(0), run(3, 6, 8));
        let superseded = index.insert(block(0), run(4, 0, 4));
        assert_eq!(superseded.as_slice(), [run(1, 0, 2), run(2, 2, 4)]);
        assert_eq!(index.runs(block(0)), [run(3, 6, 8), run(4, 0, 4)]);
    }

    #[test]
    fn of_too_many_records_the_shortest_is_forgotten() {
        let full = || {
            let mut index = DiskIndex::default();
            for (number, first) in [(1, 0), (2, 10), (3, 20), (4, 30)] {
                assert!(index.insert(block(0), run(number, first, first + number + 1)).is_empty());
            }
            index
        };
        let mut index = full();
        assert_eq!(index.insert(block(0), run(5, 40, 43)).as_slice(), [run(1, 0, 2)]);
        assert_eq!(index.find(block(0), range(40, 41)).map(|found| found.0), Some(run(5, 40, 43)));
        let mut index = full();
        assert_eq!(index.insert(block(0), run(5, 40, 41)).as_slice(), [run(5, 40, 41)]);
        assert_eq!(index.runs(block(0)).len(), RECORDS_PER_BLOCK_MAX);
    }

    #[test]
    fn what_is_forgotten_takes_no_memory() {
        let mut index = DiskIndex::default();
        index.insert(block(0), run(1, 0, 2));
        index.insert(block(0), run(2, 4, 6));
        index.insert(block(1), run(3, 4, 6));
        assert_eq!(index.memory_bytes(), 2 * BLOCK_BYTES + FURTHER_BYTES);
        assert!(index.remove(block(0), run(1, 0, 2).place));
        assert!(!index.remove(block(0), run(1, 0, 2).place));
        assert_eq!(index.memory_bytes(), 2 * BLOCK_BYTES);
        assert_eq!(index.remove_block(block(1)).as_slice(), [run(3, 4, 6)]);
        assert!(index.remove(block(0), run(2, 4, 6).place));
        assert!(index.is_empty());
        assert_eq!(index.memory_bytes(), 0);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert { block: u32, first: u32, pages: u32 },
        Remove { block: u32, which: prop::sample::Index },
        RemoveBlock { block: u32 },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0..3_u32, 0..16_u32, 1..8_u32)
                .prop_map(|(block, first, pages)| Step::Insert { block, first, pages }),
            2 => (0..3_u32, any::<prop::sample::Index>())
                .prop_map(|(block, which)| Step::Remove { block, which }),
            1 => (0..3_u32).prop_map(|block| Step::RemoveBlock { block }),
        ]
    }

    proptest! {
        /// Against a list of all records that were neither given back nor removed.
        #[test]
        fn the_index_knows_every_record_that_it_has_not_given_back(steps in vec(step(), 1..120)) {
            let mut index = DiskIndex::default();
            let mut known: Vec<(BlockId, Run)> = Vec::new();
            for (number, step) in (0..).zip(steps) {
                match step {
                    Step::Insert { block: of, first, pages } => {
                        let new = run(number, first, first + pages);
                        known.push((block(of), new));
                        for gone in index.insert(block(of), new) {
                            let is_covered = new.range().contains(gone.range());
                            let is_full = index.runs(block(of)).len() == RECORDS_PER_BLOCK_MAX;
                            prop_assert!(is_covered || is_full);
                            known.retain(|(_, run)| run.place != gone.place);
                        }
                    }
                    Step::Remove { block: of, which } => {
                        let runs = index.runs(block(of));
                        if !runs.is_empty() {
                            let gone = *which.get(runs);
                            prop_assert!(index.remove(block(of), gone.place));
                            known.retain(|(_, run)| run.place != gone.place);
                        }
                    }
                    Step::RemoveBlock { block: of } => {
                        index.remove_block(block(of));
                        known.retain(|(it, _)| *it != block(of));
                    }
                }
                for of in 0..3 {
                    let expected = known.iter().filter(|(it, _)| *it == block(of)).count();
                    prop_assert_eq!(index.runs(block(of)).len(), expected);
                    for page in 0..24 {
                        let wanted = range(page, page + 5);
                        let holders = known.iter().filter(|(it, run)| {
                            *it == block(of) && run.holds(wanted.start)
                        });
                        let end = holders.map(|(_, run)| run.range().end.min(wanted.end)).max();
                        let found = index.find(block(of), wanted);
                        prop_assert_eq!(found.map(|(_, part)| part.end), end);
                    }
                }
            }
        }
    }
}

//! The index: which records hold which bytes of which block. It is rebuilt from segments and kept in memory; it
//! believes nothing and reads nothing, so what it says is where to look, not what is there.
//!
//! A block has few records at most. What it holds is their union; where two overlap, either is right, for both are
//! of the same version.

use arrayvec::ArrayVec;
use nilas_base::{ByteRange, HashMap};

use super::page::pages_of;
use crate::store::BlockId;

/// Records of one block at most: of more, the shortest is forgotten. The longest block in records of the greatest
/// length, and one more for a piece that was filled at another time; reclaim merges pieces.
pub const RECORDS_PER_BLOCK_MAX: usize = 20;
/// Memory of a block with one record, tables included, about: a key, a run, and what a table of two thirds wastes.
const BLOCK_BYTES: u64 = 72;
/// What a block with several records takes beside that and the records: an allocation.
const SEVERAL_BYTES: u64 = 16;
/// Each of them.
const RUN_BYTES: u64 = size_of::<Run>() as u64;
const _: () = assert!(SEVERAL_BYTES + 2 * RUN_BYTES <= DiskIndex::RECORD_BYTES_MAX);
/// Uses of a record that are told apart.
const USES_MAX: u8 = 3;

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
    /// How often it was read since it was written, up to a few.
    pub uses: u8,
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
    Several(Box<[Run]>),
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
            runs => Some(Runs::Several(runs.into())),
        }
    }
}

/// Records that a new one has made needless.
pub type Superseded = ArrayVec<Run, RECORDS_PER_BLOCK_MAX>;

/// The index of one area.
#[derive(Clone, Debug, Default)]
pub struct DiskIndex {
    blocks: HashMap<BlockId, Runs>,
    /// Blocks with more than one record, and the records of those.
    several: u64,
    several_runs: u64,
}

impl DiskIndex {
    /// What one record more takes of memory at most, bytes: the first of a block, or the one with which it has
    /// several.
    pub const RECORD_BYTES_MAX: u64 = BLOCK_BYTES;

    /// Makes room for so many blocks at once, which would else be made in steps, each longer than a reader should wait.
    pub fn expect(&mut self, blocks: u64, bytes_max: u64) {
        let blocks = blocks.min(bytes_max / BLOCK_BYTES);
        self.blocks.reserve(
            usize::try_from(blocks).unwrap_or(usize::MAX).saturating_sub(self.blocks.len()),
        );
    }

    /// Adds a record; gives those that it makes needless: all whose bytes it has too, and the shortest where there
    /// would be more than [`RECORDS_PER_BLOCK_MAX`], be it the new one.
    pub fn insert(&mut self, block: BlockId, run: Run) -> Superseded {
        let mut superseded = Superseded::new();
        // Nearly all: looked for once, and not three times.
        if self.blocks.try_insert(block, Runs::One(run)).is_ok() {
            return superseded;
        }
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
        superseded.extend(forget_shortest(&mut runs));
        self.put(block, &runs);
        superseded
    }

    /// Adds a record that was found, not written; `age` orders records by when they were. In whatever order they are
    /// found, one stays only where it has bytes that no later ones have: these were written because it could not be
    /// read, and it would be damaged again at every start. Says whether this one stays.
    pub fn insert_found<A: Ord>(
        &mut self,
        block: BlockId,
        run: Run,
        age: impl Fn(Place) -> A,
    ) -> bool {
        let mut runs: ArrayVec<Run, { RECORDS_PER_BLOCK_MAX + 1 }> =
            self.runs(block).iter().copied().collect();
        runs.push(run);
        runs.sort_unstable_by_key(|run| std::cmp::Reverse(age(run.place)));
        let mut kept: ArrayVec<Run, { RECORDS_PER_BLOCK_MAX + 1 }> = ArrayVec::new();
        for run in runs {
            if !is_covered(run.range(), &kept) {
                kept.push(run);
            }
        }
        forget_shortest(&mut kept);
        self.put(block, &kept);
        kept.contains(&run)
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

    /// Counts a use of a record that a read was led to.
    pub fn note_use(&mut self, block: BlockId, place: Place) {
        let runs = match self.blocks.get_mut(&block) {
            Some(Runs::One(run)) => std::slice::from_mut(run),
            Some(Runs::Several(runs)) => runs,
            None => return,
        };
        let used = runs.iter_mut().filter(|run| run.place == place);
        used.for_each(|run| run.uses = (run.uses + 1).min(USES_MAX));
    }

    /// Bytes of `wanted` before the first that a record holds.
    pub fn gap(&self, block: BlockId, wanted: ByteRange) -> u64 {
        let held = self.runs(block).iter().filter_map(|run| run.range().intersection(wanted));
        held.map(|held| held.start - wanted.start).min().unwrap_or(wanted.len())
    }

    /// What the index takes of memory, bytes, about.
    pub fn memory_bytes(&self) -> u64 {
        let several = self.several * SEVERAL_BYTES + self.several_runs * RUN_BYTES;
        self.blocks.len() as u64 * BLOCK_BYTES + several
    }

    /// The blocks with a record in a segment.
    pub fn blocks_in(&self, segment: u32) -> impl Iterator<Item = BlockId> {
        let lies_there = move |run: &Run| run.place.segment == segment;
        let blocks = self.blocks.iter();
        blocks.filter(move |(_, runs)| runs.as_slice().iter().any(lies_there)).map(|(id, _)| *id)
    }

    fn put(&mut self, block: BlockId, runs: &[Run]) {
        let before = self.runs(block).len();
        self.several = self.several + u64::from(runs.len() > 1) - u64::from(before > 1);
        let several = |runs: usize| if runs > 1 { runs as u64 } else { 0 };
        self.several_runs = self.several_runs + several(runs.len()) - several(before);
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

/// Of more than a block may have, the shortest goes.
fn forget_shortest(runs: &mut ArrayVec<Run, { RECORDS_PER_BLOCK_MAX + 1 }>) -> Option<Run> {
    if runs.len() <= RECORDS_PER_BLOCK_MAX {
        return None;
    }
    let (shortest, _) = runs.iter().enumerate().min_by_key(|(_, run)| run.data_bytes)?;
    Some(runs.remove(shortest))
}

/// Whether records together hold all bytes of a range.
fn is_covered(range: ByteRange, runs: &[Run]) -> bool {
    let mut at = range.start;
    while at < range.end {
        let holding = runs.iter().filter(|run| run.holds(at)).map(|run| run.range().end).max();
        match holding {
            Some(end) => at = end,
            None => return false,
        }
    }
    true
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
            uses: 0,
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
    fn of_records_that_are_found_the_later_stays_in_whatever_order() {
        // Where they lie says nothing of when they were written.
        let written = [run(7, 0, 4), run(9, 3, 6), run(3, 0, 2), run(8, 2, 4), run(5, 1, 2)];
        let age = |place: Place| written.iter().position(|it| it.place == place);
        for first in 0..written.len() {
            for step in 1..written.len() {
                let mut index = DiskIndex::default();
                for turn in 0..written.len() {
                    let number = (first + turn * step) % written.len();
                    index.insert_found(block(0), written[number], age);
                }
                let mut left = index.runs(block(0)).to_vec();
                left.sort_unstable_by_key(|it| age(it.place));
                assert_eq!(left, written[1..], "from {first} by {step}");
            }
        }
    }

    #[test]
    fn of_too_many_records_the_shortest_is_forgotten() {
        let most = RECORDS_PER_BLOCK_MAX as u32;
        let full = || {
            let mut index = DiskIndex::default();
            for number in 1..=most {
                let first = number * 100;
                assert!(index.insert(block(0), run(number, first, first + number + 1)).is_empty());
            }
            index
        };
        let mut index = full();
        let longer = run(most + 1, 3, 6);
        assert_eq!(index.insert(block(0), longer).as_slice(), [run(1, 100, 102)]);
        assert_eq!(index.find(block(0), range(3, 4)).map(|found| found.0), Some(longer));
        let mut index = full();
        let shorter = run(most + 1, 3, 4);
        assert_eq!(index.insert(block(0), shorter).as_slice(), [shorter]);
        assert_eq!(index.runs(block(0)).len(), RECORDS_PER_BLOCK_MAX);
    }

    #[test]
    fn a_gap_ends_where_the_first_record_begins() {
        let mut index = DiskIndex::default();
        assert_eq!(index.gap(block(0), range(1, 9)), range(0, 8).len());
        index.insert(block(0), run(1, 6, 8));
        index.insert(block(0), run(2, 3, 5));
        assert_eq!(index.gap(block(0), range(1, 9)), range(1, 3).len());
        assert_eq!(index.gap(block(0), range(4, 9)), 0);
        assert_eq!(index.gap(block(0), range(8, 9)), range(8, 9).len());
    }

    #[test]
    fn uses_are_counted_up_to_a_few() {
        let mut index = DiskIndex::default();
        index.insert(block(0), run(1, 0, 2));
        index.insert(block(0), run(2, 4, 6));
        for _ in 0..9 {
            index.note_use(block(0), run(2, 4, 6).place);
        }
        let uses: Vec<u8> = index.runs(block(0)).iter().map(|run| run.uses).collect();
        assert_eq!(uses, [0, USES_MAX]);
    }

    #[test]
    fn what_is_forgotten_takes_no_memory() {
        let mut index = DiskIndex::default();
        index.insert(block(0), run(1, 0, 2));
        index.insert(block(0), run(2, 4, 6));
        index.insert(block(1), run(3, 4, 6));
        assert_eq!(index.memory_bytes(), 2 * BLOCK_BYTES + SEVERAL_BYTES + 2 * RUN_BYTES);
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

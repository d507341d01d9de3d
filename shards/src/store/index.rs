//! The index: which blocks there are, and what is known of each.
//! A block has a number for as long as it is in the index or a fill of it goes on; a fill holds
//! the number, so it outlives the block's id. Never more blocks than slots: each has a sector.

use nilas_base::HashMap;

use super::BlockId;
use super::sector::{Sector, SectorTable};
use crate::eviction::Place;

/// A block's place in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockNumber(u32);

/// What is known of a block.
pub(super) struct Block {
    pub(super) id: BlockId,
    /// In the map under its id; false once removed while a fill goes on.
    pub(super) linked: bool,
    /// Fills that have not ended.
    pub(super) fills: u32,
    /// With the policy: exactly while it is linked and holds a sector.
    pub(super) place: Option<Place>,
    pub(super) sectors: SectorTable,
    /// Where the next read of the same reader begins; `None` before the first.
    read_end: Option<u64>,
}

impl Block {
    /// Notes a read; whether it is a use of its own. A read that goes on where the last one
    /// ended, or that gets what it missed before, is the same use; so is the first read after the
    /// first fill, which is what the fill was for.
    pub(super) fn note_read(&mut self, start: u64, end: u64) -> bool {
        self.read_end.replace(end).is_some_and(|expected| expected != start)
    }

    /// A reader was told to come back for the byte at `start`.
    pub(super) fn expect_read(&mut self, start: u64) {
        self.read_end = Some(start);
    }
}

/// All blocks of a store.
pub(super) struct Index {
    numbers: HashMap<BlockId, BlockNumber>,
    blocks: Vec<Block>,
    vacant: Vec<BlockNumber>,
}

impl Index {
    pub(super) fn new() -> Index {
        Index { numbers: HashMap::default(), blocks: Vec::new(), vacant: Vec::new() }
    }

    /// Blocks under an id.
    pub(super) fn blocks(&self) -> usize {
        self.numbers.len()
    }

    pub(super) fn find(&self, id: BlockId) -> Option<BlockNumber> {
        self.numbers.get(&id).copied()
    }

    pub(super) fn get(&self, number: BlockNumber) -> &Block {
        &self.blocks[number.0 as usize]
    }

    pub(super) fn get_mut(&mut self, number: BlockNumber) -> &mut Block {
        &mut self.blocks[number.0 as usize]
    }

    /// Whether the policy may let the block go: a fill's sectors cannot leave.
    pub(super) fn may_leave(&self, id: BlockId) -> bool {
        self.find(id).is_some_and(|number| self.get(number).fills == 0)
    }

    pub(super) fn find_or_add(&mut self, id: BlockId) -> BlockNumber {
        if let Some(number) = self.find(id) {
            return number;
        }
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.blocks.push(Block {
                id,
                linked: false,
                fills: 0,
                place: None,
                sectors: SectorTable::new(),
                read_end: None,
            });
            BlockNumber(self.blocks.len() as u32 - 1)
        });
        let block = self.get_mut(number);
        (block.id, block.linked, block.read_end) = (id, true, None);
        self.numbers.insert(id, number);
        number
    }

    /// Takes a block from under its id; its number stays.
    pub(super) fn unlink(&mut self, number: BlockNumber) {
        let block = &mut self.blocks[number.0 as usize];
        block.linked = false;
        self.numbers.remove(&block.id);
    }

    /// Ends a block that is unlinked, empty and not being filled.
    pub(super) fn vacate(&mut self, number: BlockNumber) {
        let block = self.get_mut(number);
        assert!(!block.linked && block.fills == 0 && block.place.is_none(), "nobody knows it");
        block.sectors.reset();
        self.vacant.push(number);
    }

    /// What the index takes with `sectors` sectors in its tables, estimated.
    pub(super) fn memory_bytes(&self, sectors: u32) -> u64 {
        let map_entry_bytes = size_of::<(BlockId, BlockNumber)>() + 1;
        let tables = self.numbers.capacity() * map_entry_bytes
            + self.blocks.capacity() * size_of::<Block>()
            + self.vacant.capacity() * size_of::<BlockNumber>()
            // A table grows by doubling.
            + sectors as usize * 2 * size_of::<Sector>();
        tables as u64
    }
}

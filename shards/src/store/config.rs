//! What a store is made from, and the sizes that follow from it.

use std::io;
use std::ops::Range;

use nilas_base::ByteRange;

use super::READ_BYTES_MAX;
use crate::arena::ArenaShape;
use crate::doorbell::Doorbell;

/// Leases out at one time, however small: a bound on the return queue (16 bytes each), far above
/// what a shard's connections send at once.
const LEASES_MAX: usize = 16 << 10;

/// What the tables beside an arena come to at most for each of its sectors, when each is a block of
/// its own: the index (a hash table that has just doubled, the block, its list of sectors), the
/// policy's node and ghost, the slot's state.
pub const INDEX_BYTES_PER_SECTOR_MAX: u64 = 448;

/// What tables take that are too small to be measured by the sector: a policy's least sketch, the first entries of lists.
const SMALLEST_TABLES_BYTES: u64 = 1 << 10;

/// And those that do not grow with the arena: the queue of returned leases, and what the smallest tables take.
pub const INDEX_BYTES_FIXED: u64 =
    2 * size_of::<usize>() as u64 * LEASES_MAX as u64 + SMALLEST_TABLES_BYTES;

/// Sectors of one block: 16 MiB in sectors of 4 KiB.
const SECTORS_PER_BLOCK_MAX: u64 = 4096;

/// What a store is made from.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// The arena: at least two blocks; rounded down to whole sectors.
    pub budget_bytes: u64,
    /// What is filled and kept at least: a power of two.
    pub sector_bytes: u64,
    /// A block: a power of two, at least a sector.
    pub block_bytes: u64,
    /// Memory that leases may hold at one time; `None` is a quarter of the arena, or two of the
    /// largest reads where the arena is small.
    pub leases_bytes_max: Option<u64>,
    /// Rung by a lease that returns while the store's user waits for memory.
    pub doorbell: Doorbell,
}

impl StoreConfig {
    pub(super) fn geometry(&self) -> Geometry {
        assert!(self.sector_bytes.is_power_of_two(), "sectors are a power of two");
        assert!(self.block_bytes.is_power_of_two(), "blocks are a power of two");
        assert!(self.sector_bytes <= self.block_bytes, "a block holds a sector");
        assert!(
            self.block_bytes / self.sector_bytes <= SECTORS_PER_BLOCK_MAX,
            "a block has no more than {SECTORS_PER_BLOCK_MAX} sectors"
        );
        let sector_bytes = u32::try_from(self.sector_bytes).expect("a sector is below 4 GiB");
        Geometry { sector_bytes, block_bytes: self.block_bytes }
    }

    pub(super) fn arena_shape(&self) -> io::Result<ArenaShape> {
        let refuse = |reason: String| io::Error::new(io::ErrorKind::InvalidInput, reason);
        // A fill may ask for a whole block, and fills get half of the arena.
        if self.budget_bytes < 2 * self.block_bytes {
            let (budget, block) = (self.budget_bytes, self.block_bytes);
            return Err(refuse(format!(
                "a store of {budget} bytes holds no two blocks of {block} bytes"
            )));
        }
        let slots = u32::try_from(self.budget_bytes / self.sector_bytes)
            .map_err(|_| refuse("a store has no more than 2^32 sectors".to_owned()))?;
        let leased = self.leases_bytes_max.unwrap_or_else(|| {
            let reads = (2 * READ_BYTES_MAX).min(self.budget_bytes / 2);
            (self.budget_bytes / 4).max(reads)
        });
        let slots_leased = (leased / self.sector_bytes).clamp(1, u64::from(slots));
        Ok(ArenaShape {
            slots,
            slot_bytes: self.geometry().sector_bytes,
            slots_leased_max: slots_leased as u32,
            leases_max: LEASES_MAX,
        })
    }
}

/// Blocks cut into sectors.
#[derive(Clone, Copy)]
pub(super) struct Geometry {
    pub(super) sector_bytes: u32,
    pub(super) block_bytes: u64,
}

impl Geometry {
    /// The sector that holds the byte at `offset` of its block.
    pub(super) fn sector_at(self, offset: u64) -> u16 {
        (offset / u64::from(self.sector_bytes)) as u16
    }

    /// The sectors that hold a byte of `range`.
    pub(super) fn sectors(self, range: ByteRange) -> Range<u16> {
        let sector_bytes = u64::from(self.sector_bytes);
        self.sector_at(range.start)..range.end.div_ceil(sector_bytes) as u16
    }

    /// The bytes of whole sectors.
    pub(super) fn bytes(self, sectors: Range<u16>) -> ByteRange {
        let offset = |sector: u16| u64::from(sector) * u64::from(self.sector_bytes);
        ByteRange::new(offset(sectors.start), offset(sectors.end))
    }
}

//! The store: the blocks that one shard holds in DRAM, filled sector by sector, read by lease.
//! Synchronous and for one thread; it does no I/O and never waits: who must wait is told so.
//! `arena` owns the memory, `index` says where a block's sectors are, `fill` brings bytes in, and
//! a policy of `eviction` chooses who leaves.

use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::io;
use std::rc::Rc;

use arrayvec::ArrayVec;
use nilas_base::ByteRange;

use crate::arena::Arena;
use crate::eviction::Eviction;
use config::Geometry;
use fill::Fill;
use index::{BlockNumber, Index};

mod config;
mod fill;
mod index;
mod sector;
#[cfg(test)]
mod tests;

pub use crate::sys::memory::Lease;
pub use config::{INDEX_BYTES_FIXED, INDEX_BYTES_PER_SECTOR_MAX, StoreConfig};
pub use fill::FillPermit;

/// Leases that one read gives at most.
pub const LEASES_PER_READ_MAX: usize = 16;

/// Bytes that one read gives at most: what one send may lease.
pub const READ_BYTES_MAX: u64 = 256 << 10;

/// A block: which version of which object (in which geometry, from which origin), and which block
/// of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockId {
    /// The first 16 bytes of SHA-256 of the full identity.
    pub version: [u8; 16],
    /// The block's number in the object, from 0.
    pub index: u32,
}

impl Hash for BlockId {
    /// The version is a hash already: half of it is as good as the whole.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [a, b, c, d, e, f, g, h, ..] = self.version;
        state.write_u64(u64::from_le_bytes([a, b, c, d, e, f, g, h]));
        state.write_u32(self.index);
    }
}

/// Who reads: how much of the ceilings on leases a read may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadKind {
    /// Of a small answer: up to the ceilings themselves.
    Small,
    /// Of a large answer, whose reader may stall for long: leaves a share to the small ones.
    Large,
}

/// The parts of one read, in order and without gaps.
pub type Leases = ArrayVec<Lease, LEASES_PER_READ_MAX>;

/// What a read found.
#[expect(clippy::large_enum_variant, reason = "a hit is the usual case and allocates nothing")]
#[derive(Debug)]
pub enum Read {
    /// A prefix of what was wanted: at least a byte, at most [`READ_BYTES_MAX`].
    Hit(Leases),
    /// The first wanted byte is in flight: read again when its fill has come further.
    Filling,
    /// The first wanted byte is neither held nor in flight.
    Miss,
    /// As much is leased as a read of this kind may have: read again when [`Store::reclaim`] says
    /// so.
    Full,
}

/// No memory for a fill now: begin again when [`Store::reclaim`] says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no memory for a fill until others end or leases return")]
pub struct NoSpace;

/// How the memory is used. Held, in flight, detached and free together are the budget, always:
/// a slot counts whole, however few bytes it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The arena.
    pub budget_bytes: u64,
    /// Sectors that can be read.
    pub held_bytes: u64,
    /// Reserved by fills that have not ended.
    pub in_flight_bytes: u64,
    /// Evicted, removed or given back by a fill, but still leased.
    pub detached_bytes: u64,
    /// The rest.
    pub free_bytes: u64,
    /// Leased, whether held, in flight or detached; a sector leased twice counts once.
    pub leased_bytes: u64,
    /// The most that may be leased.
    pub leased_bytes_max: u64,
    /// The most at which a large read may lease more.
    pub leased_bytes_large_max: u64,
    /// Blocks with a sector held or in flight.
    pub blocks: u64,
    /// Tables beside the arena, estimated.
    pub index_bytes: u64,
    /// Reads that gave bytes.
    pub hits: u64,
    /// Blocks that left to make room.
    pub evictions: u64,
}

/// The blocks of one shard and one class.
pub struct Store {
    geometry: Geometry,
    arena: Arena,
    index: Index,
    eviction: Box<dyn Eviction>,
    /// Fills whose permit was dropped before its end, not settled yet.
    abandoned: Rc<RefCell<Vec<Fill>>>,
    hits: u64,
    evictions: u64,
}

impl Store {
    /// An empty store. Fails when the budget is below two blocks or cannot be mapped; panics on a
    /// geometry that is none.
    pub fn new(config: StoreConfig, eviction: Box<dyn Eviction>) -> io::Result<Store> {
        let geometry = config.geometry();
        let arena = Arena::new(config.arena_shape()?, config.doorbell)?;
        Ok(Store {
            geometry,
            arena,
            index: Index::new(),
            eviction,
            abandoned: Rc::default(),
            hits: 0,
            evictions: 0,
        })
    }

    /// Leases a prefix of `want`, which lies within the block and within the object.
    pub fn read(&mut self, id: BlockId, want: ByteRange, kind: ReadKind) -> Read {
        assert!(!want.is_empty(), "a read wants a byte");
        assert!(want.end <= self.geometry.block_bytes, "a read ends in its block");
        self.settle_abandoned();
        let Some(number) = self.index.find(id) else { return Read::Miss };
        let mut leases = Leases::new();
        let mut stop = self.lease_prefix(number, (want, kind), &mut leases);
        if leases.is_empty() && stop == Stop::Ceiling {
            self.arena.take_returns_and_want_more();
            stop = self.lease_prefix(number, (want, kind), &mut leases);
        }
        let block = self.index.get_mut(number);
        if leases.is_empty() {
            block.expect_read(want.start);
            return match stop {
                Stop::InFlight => Read::Filling,
                Stop::Ceiling => Read::Full,
                Stop::End => Read::Miss,
            };
        }
        self.hits += 1;
        let bytes: usize = leases.iter().map(|lease| lease.len()).sum();
        let is_new_read = block.note_read(want.start, want.start + bytes as u64);
        if let Some(place) = block.place
            && is_new_read
        {
            self.eviction.touch(place);
        }
        Read::Hit(leases)
    }

    /// The first run of sectors in `want` that is neither held nor in flight, as bytes of the
    /// block; clipped to `block_len`, the block's length in this object.
    pub fn missing(&self, id: BlockId, want: ByteRange, block_len: u64) -> Option<ByteRange> {
        let present = ByteRange::new(0, block_len);
        let sectors = self.geometry.sectors(want.intersection(present)?);
        let gap = match self.index.find(id) {
            Some(number) => self.index.get(number).sectors.first_gap(sectors)?,
            None => sectors,
        };
        self.geometry.bytes(gap).intersection(present)
    }

    /// The bytes of `wanted` from its first on that are held without a gap, in pieces. To look at, not to keep: it
    /// counts as no use of the block.
    pub fn pieces(&self, id: BlockId, wanted: ByteRange) -> Vec<&[u8]> {
        let Some(number) = self.index.find(id) else { return Vec::new() };
        let sector_bytes = u64::from(self.geometry.sector_bytes);
        let sectors = &self.index.get(number).sectors;
        let mut pieces = Vec::new();
        let mut at = wanted.start;
        for sector in sectors.contiguous_from(self.geometry.sector_at(at)) {
            let start = (at % sector_bytes) as usize;
            let filled = self.arena.filled(sector.slot);
            let end = filled.len().min(start + (wanted.end - at) as usize);
            if start >= end {
                break;
            }
            pieces.push(&filled[start..end]);
            at += (end - start) as u64;
            if at == wanted.end || end < self.geometry.sector_bytes as usize {
                break;
            }
        }
        pieces
    }

    /// Forgets a block at once. Its leased sectors live on until they are returned, and a fill of
    /// it goes on without effect.
    pub fn remove(&mut self, id: BlockId) {
        let Some(number) = self.index.find(id) else { return };
        if let Some(place) = self.index.get_mut(number).place.take() {
            self.eviction.remove(place);
        }
        self.forget(number);
    }

    /// Takes returned leases back. True when memory or leases were gained since the last call, by
    /// this or by anything else: whoever waits for [`Read::Full`] or [`NoSpace`] tries again.
    pub fn reclaim(&mut self) -> bool {
        self.settle_abandoned();
        self.arena.take_returns();
        self.arena.take_gain()
    }

    /// Takes returned leases back, and leaves it to [`Store::reclaim`] to tell of them: for who wants
    /// to know the use, and waits for nothing.
    pub fn take_returns(&mut self) {
        self.settle_abandoned();
        self.arena.take_returns();
    }

    /// The use of the memory, as of the last call that changed it.
    pub fn usage(&self) -> Usage {
        let slots = self.arena.counts();
        let bytes = |slots: u32| u64::from(slots) * u64::from(self.geometry.sector_bytes);
        Usage {
            budget_bytes: bytes(slots.held + slots.in_flight + slots.detached + slots.free),
            held_bytes: bytes(slots.held),
            in_flight_bytes: bytes(slots.in_flight),
            detached_bytes: bytes(slots.detached),
            free_bytes: bytes(slots.free),
            leased_bytes: bytes(slots.leased),
            leased_bytes_max: bytes(self.arena.slots_leased_max(ReadKind::Small)),
            leased_bytes_large_max: bytes(self.arena.slots_leased_max(ReadKind::Large)),
            blocks: self.index.blocks() as u64,
            index_bytes: self.index.memory_bytes(slots.held + slots.in_flight)
                + self.arena.table_bytes()
                + self.eviction.memory_bytes(),
            hits: self.hits,
            evictions: self.evictions,
        }
    }

    /// Leases what of `want` can be read without a gap, and says what it stopped at.
    fn lease_prefix(
        &mut self,
        number: BlockNumber,
        (want, kind): (ByteRange, ReadKind),
        leases: &mut Leases,
    ) -> Stop {
        let sector_bytes = self.geometry.sector_bytes;
        let end = want.end.min(want.start + READ_BYTES_MAX);
        let mut at = want.start;
        let sectors = &self.index.get(number).sectors;
        for sector in sectors.contiguous_from(self.geometry.sector_at(at)) {
            let start = (at % u64::from(sector_bytes)) as u32;
            let filled = self.arena.filled_bytes(sector.slot);
            let stop = filled.min(start.saturating_add((end - at) as u32));
            if start >= stop {
                return if sector.in_flight { Stop::InFlight } else { Stop::End };
            }
            let Some(lease) = self.arena.lease(sector.slot, start..stop, kind) else {
                return Stop::Ceiling;
            };
            leases.push(lease);
            at += u64::from(stop - start);
            if at == end || stop < sector_bytes || leases.is_full() {
                return Stop::End;
            }
        }
        Stop::End
    }

    /// Lets the policy's choice go; false when no block may leave.
    fn evict(&mut self) -> bool {
        let index = &self.index;
        let Some(id) = self.eviction.evict(&|id| index.may_leave(id)) else { return false };
        let number = self.index.find(id).expect("a policy holds blocks of the index alone");
        self.index.get_mut(number).place = None;
        self.evictions += 1;
        self.forget(number);
        true
    }

    /// Takes a block, which the policy holds no more, out of the index.
    fn forget(&mut self, number: BlockNumber) {
        self.index.unlink(number);
        let block = self.index.get_mut(number);
        block.sectors.take_held(|slot| self.arena.give_back(slot));
        if block.fills == 0 {
            self.index.vacate(number);
        }
    }
}

/// What `lease_prefix` stopped at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// The end of what is wanted, of what is held, or of what one read gives.
    End,
    /// A sector that is still to be filled.
    InFlight,
    /// A ceiling on leases.
    Ceiling,
}

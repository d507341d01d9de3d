//! A trace through the store of one shard's memory: the very code that a node runs, with nothing in its sectors. What
//! is missing of a read is filled at once, in runs within a block, each one question to the origin.

use nilas_base::ByteRange;
use nilas_shards::Doorbell;
use nilas_shards::eviction::Eviction;
use nilas_shards::store::{BlockId, Read, ReadKind, Store, StoreConfig};

use super::trace::{Request, Trace};
use crate::error::{Error, Result};

/// Sizes of the memory that is played.
#[derive(Clone, Copy, Debug)]
pub struct MemoryShape {
    /// The arena, bytes.
    pub budget_bytes: u64,
    /// A block, bytes: a power of two.
    pub block_bytes: u64,
    /// A sector, bytes: a power of two.
    pub sector_bytes: u64,
}

/// What became of a trace's reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Reads.
    pub requests: u64,
    /// Of them, such as missed a byte.
    pub missed_requests: u64,
    /// Bytes that were wanted.
    pub bytes: u64,
    /// Of them, such as were not held.
    pub missed_bytes: u64,
    /// Questions to the origin.
    pub origin_requests: u64,
    /// Bytes that it was asked for: whole sectors.
    pub origin_bytes: u64,
}

impl Tally {
    /// The share of reads that missed a byte.
    pub fn request_miss_ratio(&self) -> f64 {
        self.missed_requests as f64 / self.requests.max(1) as f64
    }

    /// The share of bytes that were not held.
    pub fn byte_miss_ratio(&self) -> f64 {
        self.missed_bytes as f64 / self.bytes.max(1) as f64
    }
}

/// Plays a trace.
///
/// # Errors
/// Where the memory cannot be mapped, or holds no two blocks.
pub fn play(trace: &Trace, shape: MemoryShape, policy: Box<dyn Eviction>) -> Result<Tally> {
    let config = StoreConfig {
        budget_bytes: shape.budget_bytes,
        sector_bytes: shape.sector_bytes,
        block_bytes: shape.block_bytes,
        leases_bytes_max: None,
        doorbell: Doorbell::unattached(),
    };
    let store = Store::new(config, policy).map_err(|source| Error::System {
        doing: format!("making a memory of {} bytes", shape.budget_bytes),
        source,
    })?;
    let mut player = Player { store, shape, tally: Tally::default() };
    trace.requests.iter().for_each(|request| player.read(request));
    Ok(player.tally)
}

struct Player {
    store: Store,
    shape: MemoryShape,
    tally: Tally,
}

impl Player {
    fn read(&mut self, request: &Request) {
        let before = self.tally.missed_bytes;
        let mut at = request.range.start;
        while at < request.range.end {
            let index = at / self.shape.block_bytes;
            let block_at = index * self.shape.block_bytes;
            let end = request.range.end.min(block_at + self.shape.block_bytes);
            let block_bytes = (request.length - block_at).min(self.shape.block_bytes);
            let want = ByteRange::new(at - block_at, end - block_at);
            self.read_block(block_id(request.object, index), want, block_bytes);
            at = end;
        }
        self.tally.requests += 1;
        self.tally.bytes += request.range.len();
        self.tally.missed_requests += u64::from(self.tally.missed_bytes > before);
    }

    fn read_block(&mut self, id: BlockId, want: ByteRange, block_bytes: u64) {
        while let Some(run) = self.store.missing(id, want, block_bytes) {
            self.tally.origin_requests += 1;
            self.tally.origin_bytes += run.len();
            self.tally.missed_bytes += run.intersection(want).map_or(0, ByteRange::len);
            if !self.fill(id, run) {
                break;
            }
        }
        let mut at = want.start;
        while at < want.end {
            match self.store.read(id, ByteRange::new(at, want.end), ReadKind::Large) {
                Read::Hit(leases) => {
                    at += leases.iter().map(|lease| lease.len() as u64).sum::<u64>()
                }
                // It was longer than what memory a fill may have.
                Read::Miss | Read::Filling | Read::Full => break,
            }
        }
    }

    /// Brings a run into memory; false where there is none for it.
    fn fill(&mut self, id: BlockId, run: ByteRange) -> bool {
        self.store.take_returns();
        let Ok(mut permit) = self.store.begin_fill(id, run) else { return false };
        let rooms = self.store.lend(&permit, run.len());
        let is_lent = !rooms.is_empty();
        if is_lent {
            self.store.accept(&mut permit, rooms, run.len());
        }
        self.store.end_fill(permit);
        is_lent
    }
}

/// A block by the numbers of its object and of itself.
pub fn block_id(object: u64, index: u64) -> BlockId {
    let mut version = [0; 16];
    // A version is a hash, of which one half is as good as the whole.
    version[..8].copy_from_slice(&scattered(object).to_le_bytes());
    version[8..].copy_from_slice(&object.to_le_bytes());
    BlockId { version, index: index as u32 }
}

fn scattered(number: u64) -> u64 {
    nilas_base::Rng::from_seed(number).next_u64()
}

//! What is played, and what came of it: the sizes of a node's memory, and a trace's tally. How a node reads is `player`.

use nilas_base::ShardId;
use nilas_engine::reading::Geometry;
use nilas_shards::eviction::EvictionKind;

use super::player::{Naming, Player};
use super::trace::Trace;
use crate::error::Result;

/// The node whose memory is played.
#[derive(Clone, Copy, Debug)]
pub struct MemoryShape {
    /// The arenas of all shards, bytes.
    pub budget_bytes: u64,
    /// A block, bytes: a power of two.
    pub block_bytes: u64,
    /// A sector, bytes: a power of two.
    pub sector_bytes: u64,
    /// Shards.
    pub shards: u16,
    /// The shard that serves the connection on which everything is read.
    pub door: ShardId,
    /// Whether what a sequential reader will come to is fetched before, as a node does.
    pub reads_ahead: bool,
}

impl MemoryShape {
    /// Of a node of one shard that fetches nothing before it is asked for.
    pub fn of_one_shard(budget_bytes: u64, block_bytes: u64, sector_bytes: u64) -> MemoryShape {
        let (shards, door, reads_ahead) = (1, ShardId(0), false);
        MemoryShape { budget_bytes, block_bytes, sector_bytes, shards, door, reads_ahead }
    }

    /// How its objects are cut and spread, of an origin of this name.
    pub fn geometry(&self, origin_id: [u8; 16]) -> Geometry {
        Geometry { origin_id, block_bytes: self.block_bytes, shards: self.shards }
    }
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

    /// Adds what became of others.
    pub fn add(&mut self, other: &Tally) {
        self.requests += other.requests;
        self.missed_requests += other.missed_requests;
        self.bytes += other.bytes;
        self.missed_bytes += other.missed_bytes;
        self.origin_requests += other.origin_requests;
        self.origin_bytes += other.origin_bytes;
    }
}

/// Plays a trace.
///
/// # Errors
/// Where the memory cannot be mapped, or holds no two blocks of each shard.
pub fn play(trace: &Trace, shape: MemoryShape, policy: EvictionKind) -> Result<Tally> {
    let mut player = Player::new(shape, policy, (shape.geometry([0; 16]), Naming::of_numbers()))?;
    let mut tally = Tally::default();
    trace.requests.iter().for_each(|request| tally.add(&player.read(request)));
    Ok(tally)
}

//! Eviction: which block leaves when memory is needed. A policy knows ids and weights, no bytes;
//! it holds exactly the blocks that may leave, and the store tells it what happens to them.
//! Policies are deterministic: the same calls give the same victims, and nothing here is random or
//! tells the time. Each has one name in the table of [`EvictionKind`].

use crate::kind::named_kinds;
use crate::store::BlockId;

mod ghost;
mod one_queue;
mod queue;
mod s3_fifo;
mod sieve;
#[cfg(test)]
mod tests;
mod w_tiny_lfu;

pub use one_queue::{Fifo, Lru, OneQueue};
pub use s3_fifo::S3Fifo;
pub use sieve::Sieve;
pub use w_tiny_lfu::WTinyLfu;

/// Where a policy keeps a block: given by `insert`, and good until the block leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u32);

/// A policy. Each call takes constant time, averaged over many, as long as few blocks may not leave; its memory is
/// bounded by the most blocks that it ever held at once.
pub trait Eviction {
    /// Takes in a block that it does not hold.
    fn insert(&mut self, id: BlockId, weight_bytes: u64) -> Place;

    /// The block was read.
    fn touch(&mut self, place: Place);

    /// The block became heavier by `weight_bytes`, which is no sign of use.
    fn grow(&mut self, place: Place, weight_bytes: u64);

    /// The block is gone for a reason of its own, as an invalidation.
    fn remove(&mut self, place: Place);

    /// Chooses a block among those that `may_leave` and lets it go: the newest, too, where the policy thinks less of
    /// it than of what is there. `None` when there is none.
    fn evict(&mut self, may_leave: &dyn Fn(BlockId) -> bool) -> Option<BlockId>;

    /// The weight of all blocks that it holds.
    fn weight_bytes(&self) -> u64;

    /// What the policy itself takes, with all that it remembers of blocks that it holds no more, estimated.
    fn memory_bytes(&self) -> u64;
}

named_kinds! {
    /// The policies there are.
    pub enum EvictionKind {
        /// [`Fifo`].
        Fifo = "fifo",
        /// [`Lru`].
        Lru = "lru",
        /// [`Sieve`].
        Sieve = "sieve",
        /// [`S3Fifo`].
        S3Fifo = "s3-fifo",
        /// [`WTinyLfu`].
        WTinyLfu = "w-tinylfu",
    }
}

impl EvictionKind {
    /// The one that misses least in replays, and keeps what was read twice through a scan.
    pub const DEFAULT: EvictionKind = EvictionKind::WTinyLfu;

    /// One that holds nothing.
    pub fn build(self) -> Box<dyn Eviction> {
        match self {
            EvictionKind::Fifo => Box::new(Fifo::new()),
            EvictionKind::Lru => Box::new(Lru::new()),
            EvictionKind::Sieve => Box::new(Sieve::new()),
            EvictionKind::S3Fifo => Box::new(S3Fifo::new()),
            EvictionKind::WTinyLfu => Box::new(WTinyLfu::new()),
        }
    }
}

impl<P: Eviction + ?Sized> Eviction for Box<P> {
    fn insert(&mut self, id: BlockId, weight_bytes: u64) -> Place {
        (**self).insert(id, weight_bytes)
    }

    fn touch(&mut self, place: Place) {
        (**self).touch(place);
    }

    fn grow(&mut self, place: Place, weight_bytes: u64) {
        (**self).grow(place, weight_bytes);
    }

    fn remove(&mut self, place: Place) {
        (**self).remove(place);
    }

    fn evict(&mut self, may_leave: &dyn Fn(BlockId) -> bool) -> Option<BlockId> {
        (**self).evict(may_leave)
    }

    fn weight_bytes(&self) -> u64 {
        (**self).weight_bytes()
    }

    fn memory_bytes(&self) -> u64 {
        (**self).memory_bytes()
    }
}

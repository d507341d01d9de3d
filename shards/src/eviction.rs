//! Eviction: which block leaves when memory is needed. A policy knows ids and weights, no bytes;
//! it holds exactly the blocks that may leave, and the store tells it what happens to them.
//! Policies are deterministic: the same calls give the same victims, and nothing here is random or
//! tells the time. `s3_fifo` is the one in use; `lru` is what the tests compare it with.

use crate::store::BlockId;

mod ghost;
#[cfg(test)]
mod lru;
mod queue;
mod s3_fifo;
#[cfg(test)]
mod tests;

pub use s3_fifo::S3Fifo;

/// Where a policy keeps a block: given by `insert`, and good until the block leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u32);

/// A policy. Its memory is bounded by the number of blocks it holds.
pub trait Eviction {
    /// Takes in a block that it does not hold.
    fn insert(&mut self, id: BlockId, weight_bytes: u64) -> Place;

    /// The block was read.
    fn touch(&mut self, place: Place);

    /// The block became heavier by `weight_bytes`, which is no sign of use.
    fn grow(&mut self, place: Place, weight_bytes: u64);

    /// The block is gone for a reason of its own, as an invalidation.
    fn remove(&mut self, place: Place);

    /// Chooses a block among those that `may_leave` and lets it go. `None` when there is none.
    fn evict(&mut self, may_leave: &dyn Fn(BlockId) -> bool) -> Option<BlockId>;

    /// The weight of all blocks that it holds.
    fn weight_bytes(&self) -> u64;

    /// What the policy itself takes, estimated.
    fn memory_bytes(&self) -> u64;
}

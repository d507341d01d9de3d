//! FIFO and LRU: one queue, whose oldest block leaves. With FIFO blocks stand in the order in which they came, however
//! often they are read: the least that a policy can do, and what the others are to be better than. With LRU a block
//! that is read goes back to the newest end. A scan longer than the memory flushes all that is hot from either.

use super::queue::{Nodes, Queue};
use super::{Eviction, Place};
use crate::store::BlockId;

/// One queue; a block that may not leave when its turn comes goes to the end, and so does one that is read, where that
/// renews it.
pub struct OneQueue<const READS_RENEW: bool> {
    nodes: Nodes<()>,
    queue: Queue,
}

/// First in, first out.
pub type Fifo = OneQueue<false>;

/// Least recently used: the block leaves that was not read for the longest time.
pub type Lru = OneQueue<true>;

impl<const READS_RENEW: bool> OneQueue<READS_RENEW> {
    /// A policy that holds nothing.
    pub fn new() -> Self {
        Self { nodes: Nodes::new(), queue: Queue::new() }
    }
}

impl<const READS_RENEW: bool> Default for OneQueue<READS_RENEW> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const READS_RENEW: bool> Eviction for OneQueue<READS_RENEW> {
    fn insert(&mut self, id: BlockId, weight_bytes: u64) -> Place {
        let place = self.nodes.add(id, weight_bytes);
        self.queue.push(&mut self.nodes, place);
        place
    }

    fn touch(&mut self, place: Place) {
        if READS_RENEW {
            self.queue.unlink(&mut self.nodes, place);
            self.queue.push(&mut self.nodes, place);
        }
    }

    fn grow(&mut self, place: Place, weight_bytes: u64) {
        self.queue.grow(&mut self.nodes, place, weight_bytes);
    }

    fn remove(&mut self, place: Place) {
        self.queue.unlink(&mut self.nodes, place);
        self.nodes.forget(place);
    }

    fn evict(&mut self, may_leave: &dyn Fn(BlockId) -> bool) -> Option<BlockId> {
        let place = self.queue.oldest_that(&mut self.nodes, may_leave)?;
        let id = self.nodes.get(place).id;
        self.remove(place);
        Some(id)
    }

    fn weight_bytes(&self) -> u64 {
        self.queue.weight_bytes()
    }

    fn memory_bytes(&self) -> u64 {
        self.nodes.memory_bytes()
    }
}

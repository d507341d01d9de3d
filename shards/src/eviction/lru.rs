//! Least recently used: the block leaves that was not read for the longest time. A scan longer than the memory
//! flushes all that is hot, which is why it is not the default.

use super::queue::{Nodes, Queue};
use super::{Eviction, Place};
use crate::store::BlockId;

/// One queue; a block that is read goes back to its newest end, and so does one that may not leave when its turn
/// comes.
pub struct Lru {
    nodes: Nodes<()>,
    queue: Queue,
}

impl Lru {
    /// A policy that holds nothing.
    pub fn new() -> Lru {
        Lru { nodes: Nodes::new(), queue: Queue::new() }
    }
}

impl Default for Lru {
    fn default() -> Lru {
        Lru::new()
    }
}

impl Eviction for Lru {
    fn insert(&mut self, id: BlockId, weight_bytes: u64) -> Place {
        let place = self.nodes.add(id, weight_bytes);
        self.queue.push(&mut self.nodes, place);
        place
    }

    fn touch(&mut self, place: Place) {
        self.queue.unlink(&mut self.nodes, place);
        self.queue.push(&mut self.nodes, place);
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

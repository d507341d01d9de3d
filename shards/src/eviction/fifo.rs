//! First in, first out: the oldest block leaves, however often it was read. The least that a policy can do, and
//! what the others are to be better than.

use super::queue::{Nodes, Queue};
use super::{Eviction, Place};
use crate::store::BlockId;

/// One queue, in the order in which blocks came; one that may not leave when its turn comes goes to the end.
pub struct Fifo {
    nodes: Nodes<()>,
    queue: Queue,
}

impl Fifo {
    /// A policy that holds nothing.
    pub fn new() -> Fifo {
        Fifo { nodes: Nodes::new(), queue: Queue::new() }
    }
}

impl Default for Fifo {
    fn default() -> Fifo {
        Fifo::new()
    }
}

impl Eviction for Fifo {
    fn insert(&mut self, id: BlockId, weight_bytes: u64) -> Place {
        let place = self.nodes.add(id, weight_bytes);
        self.queue.push(&mut self.nodes, place);
        place
    }

    fn touch(&mut self, _: Place) {}

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

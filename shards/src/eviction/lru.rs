//! Least recently used: the naive baseline that the tests compare policies with.

use super::queue::{Nodes, Queue};
use super::{Eviction, Place};
use crate::store::BlockId;

/// One queue; a block that is read goes back to its newest end.
pub(super) struct Lru {
    nodes: Nodes,
    queue: Queue,
}

impl Lru {
    pub(super) fn new() -> Lru {
        Lru { nodes: Nodes::new(), queue: Queue::new() }
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
        for _ in 0..self.queue.blocks() {
            let place = self.queue.pop(&mut self.nodes)?;
            let id = self.nodes.get(place).id;
            if may_leave(id) {
                self.nodes.forget(place);
                return Some(id);
            }
            self.queue.push(&mut self.nodes, place);
        }
        None
    }

    fn weight_bytes(&self) -> u64 {
        self.queue.weight_bytes()
    }

    fn memory_bytes(&self) -> u64 {
        self.nodes.memory_bytes()
    }
}

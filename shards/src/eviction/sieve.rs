//! SIEVE (Zhang et al., "SIEVE is simpler than LRU", NSDI 2024): one queue in the order in which blocks came, and a
//! hand that goes through it from the oldest to the newest. A block that was read since the hand last passed stays
//! where it is, and loses its mark; the first without one leaves. Newcomers are sifted fast, since the hand stays
//! among them while what is older has proved its worth.

use super::queue::{Nodes, Queue};
use super::{Eviction, Place};
use crate::store::BlockId;

/// What the policy knows of a block.
#[derive(Default)]
struct Facts {
    is_visited: bool,
}

/// The queue and the hand; see the file's head.
pub struct Sieve {
    nodes: Nodes<Facts>,
    queue: Queue,
    /// The block that is looked at next; none: the oldest.
    hand: Option<Place>,
}

impl Sieve {
    /// A policy that holds nothing.
    pub fn new() -> Sieve {
        Sieve { nodes: Nodes::new(), queue: Queue::new(), hand: None }
    }
}

impl Default for Sieve {
    fn default() -> Sieve {
        Sieve::new()
    }
}

impl Eviction for Sieve {
    fn insert(&mut self, id: BlockId, weight_bytes: u64) -> Place {
        let place = self.nodes.add(id, weight_bytes);
        self.queue.push(&mut self.nodes, place);
        place
    }

    fn touch(&mut self, place: Place) {
        self.nodes.get_mut(place).facts.is_visited = true;
    }

    fn grow(&mut self, place: Place, weight_bytes: u64) {
        self.queue.grow(&mut self.nodes, place, weight_bytes);
    }

    fn remove(&mut self, place: Place) {
        if self.hand == Some(place) {
            self.hand = self.nodes.newer(place);
        }
        self.queue.unlink(&mut self.nodes, place);
        self.nodes.forget(place);
    }

    fn evict(&mut self, may_leave: &dyn Fn(BlockId) -> bool) -> Option<BlockId> {
        // Once round takes every mark away, so twice finds a victim if any block may leave.
        for _ in 0..self.queue.blocks() * 2 {
            let place = self.hand.or_else(|| self.queue.oldest())?;
            let node = self.nodes.get_mut(place);
            let id = node.id;
            if !may_leave(id) || std::mem::take(&mut node.facts.is_visited) {
                self.hand = self.nodes.newer(place);
            } else {
                self.hand = Some(place);
                self.remove(place);
                return Some(id);
            }
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

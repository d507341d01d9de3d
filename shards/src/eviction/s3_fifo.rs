//! S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023), by weight:
//! a small queue takes every newcomer, and only what is read again on its way through gets into
//! the main queue, so a scan passes through a tenth of the memory.
//! The small queue's tenth is of what is held, not of the budget: fills in flight may take half of
//! the budget for a while, and the main queue does not pay for them.

use super::ghost::Ghost;
use super::queue::{Nodes, Queue};
use super::{Eviction, Place};
use crate::store::BlockId;

/// The small queue gives while it holds at least one part in so many.
const SMALL_DIVISOR: u64 = 10;

/// Reads are counted up to here; so often may a block go round in the main queue unread.
const FREQUENCY_MAX: u8 = 3;

/// Reads on its way through the small queue that take a block into the main one (paper: > 1).
const PROMOTION_FREQUENCY: u8 = 2;

/// What the policy knows of a block.
#[derive(Default)]
struct Facts {
    frequency: u8,
    in_main: bool,
}

/// The policy's queues; see the file's head.
pub struct S3Fifo {
    nodes: Nodes<Facts>,
    small: Queue,
    main: Queue,
    ghost: Ghost,
}

impl S3Fifo {
    /// A policy that holds nothing.
    pub fn new() -> S3Fifo {
        S3Fifo { nodes: Nodes::new(), small: Queue::new(), main: Queue::new(), ghost: Ghost::new() }
    }

    fn evict_small(&mut self, may_leave: &dyn Fn(BlockId) -> bool) -> Option<BlockId> {
        for _ in 0..self.small.blocks() {
            let place = self.small.pop(&mut self.nodes)?;
            let node = self.nodes.get_mut(place);
            let id = node.id;
            if !may_leave(id) {
                self.small.push(&mut self.nodes, place);
            } else if node.facts.frequency >= PROMOTION_FREQUENCY {
                node.facts = Facts { frequency: 0, in_main: true };
                self.main.push(&mut self.nodes, place);
            } else {
                self.nodes.forget(place);
                // As many ghosts as blocks, which the arena bounds.
                self.ghost.push(id, self.small.blocks() + self.main.blocks() + 1);
                return Some(id);
            }
        }
        None
    }

    fn evict_main(&mut self, may_leave: &dyn Fn(BlockId) -> bool) -> Option<BlockId> {
        // Each round takes one from every frequency, so this many visits find a victim if any
        // block may leave.
        for _ in 0..self.main.blocks() * (usize::from(FREQUENCY_MAX) + 1) {
            let place = self.main.pop(&mut self.nodes)?;
            let node = self.nodes.get_mut(place);
            let id = node.id;
            if may_leave(id) && node.facts.frequency == 0 {
                self.nodes.forget(place);
                return Some(id);
            }
            node.facts.frequency = node.facts.frequency.saturating_sub(1);
            self.main.push(&mut self.nodes, place);
        }
        None
    }

    fn queue_of(&mut self, place: Place) -> (&mut Queue, &mut Nodes<Facts>) {
        let in_main = self.nodes.get(place).facts.in_main;
        let queue = if in_main { &mut self.main } else { &mut self.small };
        (queue, &mut self.nodes)
    }
}

impl Default for S3Fifo {
    fn default() -> S3Fifo {
        S3Fifo::new()
    }
}

impl Eviction for S3Fifo {
    fn insert(&mut self, id: BlockId, weight_bytes: u64) -> Place {
        let place = self.nodes.add(id, weight_bytes);
        self.nodes.get_mut(place).facts.in_main = self.ghost.take(id);
        let (queue, nodes) = self.queue_of(place);
        queue.push(nodes, place);
        place
    }

    fn touch(&mut self, place: Place) {
        let facts = &mut self.nodes.get_mut(place).facts;
        facts.frequency = (facts.frequency + 1).min(FREQUENCY_MAX);
    }

    fn grow(&mut self, place: Place, weight_bytes: u64) {
        let (queue, nodes) = self.queue_of(place);
        queue.grow(nodes, place, weight_bytes);
    }

    fn remove(&mut self, place: Place) {
        let (queue, nodes) = self.queue_of(place);
        queue.unlink(nodes, place);
        nodes.forget(place);
    }

    fn evict(&mut self, may_leave: &dyn Fn(BlockId) -> bool) -> Option<BlockId> {
        if self.small.weight_bytes() * SMALL_DIVISOR < self.weight_bytes()
            && let Some(id) = self.evict_main(may_leave)
        {
            return Some(id);
        }
        // What the small queue has just promoted, the main queue may give.
        self.evict_small(may_leave).or_else(|| self.evict_main(may_leave))
    }

    fn weight_bytes(&self) -> u64 {
        self.small.weight_bytes() + self.main.weight_bytes()
    }

    fn memory_bytes(&self) -> u64 {
        self.nodes.memory_bytes() + self.ghost.memory_bytes()
    }
}

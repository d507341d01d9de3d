//! First-in-first-out queues of blocks that also give up blocks in their middle, in constant time.
//! All queues of a policy share one table of nodes, so a block that moves keeps its place and
//! nothing is allocated for it. The table grows to the most blocks held at once, no further.

use super::Place;
use crate::store::BlockId;

/// No node: the end of a list.
const NOWHERE: u32 = u32::MAX;

/// A block's entry, with what the policy itself knows of the block.
pub(super) struct Node<F> {
    pub(super) id: BlockId,
    pub(super) weight_bytes: u64,
    pub(super) facts: F,
    newer: u32,
    older: u32,
}

/// The nodes of all queues of one policy.
pub(super) struct Nodes<F> {
    nodes: Vec<Node<F>>,
    vacant: Vec<u32>,
}

impl<F: Default> Nodes<F> {
    pub(super) fn new() -> Nodes<F> {
        Nodes { nodes: Vec::new(), vacant: Vec::new() }
    }

    /// A node in no queue yet.
    pub(super) fn add(&mut self, id: BlockId, weight_bytes: u64) -> Place {
        let facts = F::default();
        let node = Node { id, weight_bytes, facts, newer: NOWHERE, older: NOWHERE };
        if let Some(number) = self.vacant.pop() {
            self.nodes[number as usize] = node;
            return Place(number);
        }
        self.nodes.push(node);
        Place(self.nodes.len() as u32 - 1)
    }

    /// The node that came to its queue next after this one.
    pub(super) fn newer(&self, of: Place) -> Option<Place> {
        place(self.get(of).newer)
    }

    /// Forgets a node that is in no queue.
    pub(super) fn forget(&mut self, place: Place) {
        self.vacant.push(place.0);
    }

    pub(super) fn get(&self, place: Place) -> &Node<F> {
        &self.nodes[place.0 as usize]
    }

    pub(super) fn get_mut(&mut self, place: Place) -> &mut Node<F> {
        &mut self.nodes[place.0 as usize]
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let nodes = self.nodes.capacity() * size_of::<Node<F>>();
        (nodes + self.vacant.capacity() * size_of::<u32>()) as u64
    }
}

fn place(number: u32) -> Option<Place> {
    (number != NOWHERE).then_some(Place(number))
}

/// One queue: a list through the nodes, from newest to oldest.
pub(super) struct Queue {
    newest: u32,
    oldest: u32,
    blocks: usize,
    weight_bytes: u64,
}

impl Queue {
    pub(super) fn new() -> Queue {
        Queue { newest: NOWHERE, oldest: NOWHERE, blocks: 0, weight_bytes: 0 }
    }

    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    pub(super) fn weight_bytes(&self) -> u64 {
        self.weight_bytes
    }

    /// The node that came first, and stays.
    pub(super) fn oldest(&self) -> Option<Place> {
        place(self.oldest)
    }

    /// A block of this queue became heavier.
    pub(super) fn grow<F: Default>(
        &mut self,
        nodes: &mut Nodes<F>,
        place: Place,
        weight_bytes: u64,
    ) {
        nodes.get_mut(place).weight_bytes += weight_bytes;
        self.weight_bytes += weight_bytes;
    }

    /// Puts a node that is in no queue at the newest end.
    pub(super) fn push<F: Default>(&mut self, nodes: &mut Nodes<F>, place: Place) {
        let older = std::mem::replace(&mut self.newest, place.0);
        let node = nodes.get_mut(place);
        (node.newer, node.older) = (NOWHERE, older);
        self.weight_bytes += node.weight_bytes;
        self.blocks += 1;
        match older {
            NOWHERE => self.oldest = place.0,
            older => nodes.get_mut(Place(older)).newer = place.0,
        }
    }

    /// The oldest that may leave, which stays; those before it that may not go to the newest end.
    pub(super) fn oldest_that<F: Default>(
        &mut self,
        nodes: &mut Nodes<F>,
        may_leave: &dyn Fn(BlockId) -> bool,
    ) -> Option<Place> {
        for _ in 0..self.blocks {
            let place = self.oldest()?;
            if may_leave(nodes.get(place).id) {
                return Some(place);
            }
            self.unlink(nodes, place);
            self.push(nodes, place);
        }
        None
    }

    /// Takes the oldest.
    pub(super) fn pop<F: Default>(&mut self, nodes: &mut Nodes<F>) -> Option<Place> {
        let place = self.oldest()?;
        self.unlink(nodes, place);
        Some(place)
    }

    /// Takes a node of this queue out of it.
    pub(super) fn unlink<F: Default>(&mut self, nodes: &mut Nodes<F>, place: Place) {
        let node = nodes.get(place);
        let (newer, older) = (node.newer, node.older);
        self.weight_bytes -= node.weight_bytes;
        self.blocks -= 1;
        match newer {
            NOWHERE => self.newest = older,
            newer => nodes.get_mut(Place(newer)).older = older,
        }
        match older {
            NOWHERE => self.oldest = newer,
            older => nodes.get_mut(Place(older)).newer = newer,
        }
    }
}

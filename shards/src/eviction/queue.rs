//! First-in-first-out queues of blocks that also give up blocks in their middle, in constant time.
//! All queues of a policy share one table of nodes, so a block that moves keeps its place and
//! nothing is allocated for it. The table grows to the most blocks held at once, no further.

use super::Place;
use crate::store::BlockId;

/// No node: the end of a list.
const NOWHERE: u32 = u32::MAX;

/// A block's entry; the policy's own facts are `frequency` and `in_main`.
pub(super) struct Node {
    pub(super) id: BlockId,
    pub(super) weight_bytes: u64,
    pub(super) frequency: u8,
    pub(super) in_main: bool,
    newer: u32,
    older: u32,
}

/// The nodes of all queues of one policy.
pub(super) struct Nodes {
    nodes: Vec<Node>,
    vacant: Vec<u32>,
}

impl Nodes {
    pub(super) fn new() -> Nodes {
        Nodes { nodes: Vec::new(), vacant: Vec::new() }
    }

    /// A node in no queue yet.
    pub(super) fn add(&mut self, id: BlockId, weight_bytes: u64) -> Place {
        let node =
            Node { id, weight_bytes, frequency: 0, in_main: false, newer: NOWHERE, older: NOWHERE };
        if let Some(number) = self.vacant.pop() {
            self.nodes[number as usize] = node;
            return Place(number);
        }
        self.nodes.push(node);
        Place(self.nodes.len() as u32 - 1)
    }

    /// Forgets a node that is in no queue.
    pub(super) fn forget(&mut self, place: Place) {
        self.vacant.push(place.0);
    }

    pub(super) fn get(&self, place: Place) -> &Node {
        &self.nodes[place.0 as usize]
    }

    pub(super) fn get_mut(&mut self, place: Place) -> &mut Node {
        &mut self.nodes[place.0 as usize]
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let nodes = self.nodes.capacity() * size_of::<Node>();
        (nodes + self.vacant.capacity() * size_of::<u32>()) as u64
    }
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

    /// A block of this queue became heavier.
    pub(super) fn grow(&mut self, nodes: &mut Nodes, place: Place, weight_bytes: u64) {
        nodes.get_mut(place).weight_bytes += weight_bytes;
        self.weight_bytes += weight_bytes;
    }

    /// Puts a node that is in no queue at the newest end.
    pub(super) fn push(&mut self, nodes: &mut Nodes, place: Place) {
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

    /// Takes the oldest.
    pub(super) fn pop(&mut self, nodes: &mut Nodes) -> Option<Place> {
        let place = (self.oldest != NOWHERE).then_some(Place(self.oldest))?;
        self.unlink(nodes, place);
        Some(place)
    }

    /// Takes a node of this queue out of it.
    pub(super) fn unlink(&mut self, nodes: &mut Nodes, place: Place) {
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

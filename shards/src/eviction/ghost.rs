//! The ghost queue: ids of blocks that left lately, without their bytes.
//! A block that comes back while its ghost is here was let go too early.

use std::collections::VecDeque;

use nilas_base::HashMap;

use crate::store::BlockId;

/// Ids in the order in which they left, bounded by count.
pub(super) struct Ghost {
    /// The first was the `first`-th id that ever came. An id taken back stays here, stale, until
    /// its turn, so that the bound is on what is really kept.
    queue: VecDeque<BlockId>,
    first: u64,
    /// Each id's position in the same count; an id that came twice has its later one.
    positions: HashMap<BlockId, u64>,
}

impl Ghost {
    pub(super) fn new() -> Ghost {
        Ghost { queue: VecDeque::new(), first: 0, positions: HashMap::default() }
    }

    /// Remembers `id`, and of all ids the latest `ids_max`.
    pub(super) fn push(&mut self, id: BlockId, ids_max: usize) {
        self.positions.insert(id, self.first + self.queue.len() as u64);
        self.queue.push_back(id);
        while self.queue.len() > ids_max {
            self.forget_oldest();
        }
    }

    /// Whether `id` was remembered; it is no more.
    pub(super) fn take(&mut self, id: BlockId) -> bool {
        self.positions.remove(&id).is_some()
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let queue = self.queue.capacity() * size_of::<BlockId>();
        let positions = self.positions.capacity() * (size_of::<(BlockId, u64)>() + 1);
        (queue + positions) as u64
    }

    fn forget_oldest(&mut self) {
        let Some(id) = self.queue.pop_front() else { return };
        if self.positions.get(&id) == Some(&self.first) {
            self.positions.remove(&id);
        }
        self.first += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(index: u32) -> BlockId {
        BlockId { version: [0; 16], index }
    }

    #[test]
    fn an_id_that_left_twice_is_remembered_from_the_second_time() {
        let mut ghost = Ghost::new();
        ghost.push(id(1), 3);
        assert!(ghost.take(id(1)));
        ghost.push(id(2), 3);
        ghost.push(id(1), 3);
        ghost.push(id(3), 3);
        assert!(ghost.take(id(1)), "the stale entry's turn does not forget the later one");
        assert!(!ghost.take(id(1)));
    }

    #[test]
    fn the_ghost_is_bounded_by_count_whatever_is_taken_back() {
        let mut ghost = Ghost::new();
        for index in 0..1000 {
            ghost.push(id(index), 10);
            if index % 3 == 0 {
                ghost.take(id(index));
            }
            assert!(ghost.queue.len() <= 10 && ghost.positions.len() <= 10);
        }
        assert!(!ghost.take(id(980)) && ghost.take(id(998)));
    }
}

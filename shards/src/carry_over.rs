//! Carry-over: which records of the segment that is emptied next are worth being written anew. It is what the cache
//! device has in the place of `eviction`: its log is emptied oldest first, and what is carried over is young again.
//! Policies are deterministic, and never tell the time.

use crate::kind::named_kinds;
use crate::sketch::{Key, Sketch};
use crate::store::BlockId;

/// So often must a block have been read lately to be carried over by frequency.
const FREQUENCY_MIN: u8 = 2;

/// A policy. Its memory does not grow.
pub trait CarryOver {
    /// A record of the block was read.
    fn touch(&mut self, block: BlockId);

    /// What a record of the block is worth, which was read `uses` times since it was written, counted up to three.
    /// Nothing: it goes. Else those that are worth most for their bytes are carried over first, as far as there is room.
    fn worth(&self, block: BlockId, uses: u8) -> u8;

    /// What the policy itself takes.
    fn memory_bytes(&self) -> u64;
}

named_kinds! {
    /// The policies there are.
    pub enum CarryOverKind {
        /// [`Never`].
        Never = "never",
        /// [`Touched`].
        Touched = "touched",
        /// [`Frequent`].
        Frequent = "frequent",
    }
}

impl CarryOverKind {
    /// One that has seen nothing, and takes no more than this memory, or the least that it can do with.
    pub fn build(self, bytes_max: u64) -> Box<dyn CarryOver> {
        match self {
            CarryOverKind::Never => Box::new(Never),
            CarryOverKind::Touched => Box::new(Touched),
            CarryOverKind::Frequent => Box::new(Frequent::within(bytes_max)),
        }
    }
}

/// Nothing: first in, first out.
pub struct Never;

impl CarryOver for Never {
    fn touch(&mut self, _: BlockId) {}

    fn worth(&self, _: BlockId, _: u8) -> u8 {
        0
    }

    fn memory_bytes(&self) -> u64 {
        0
    }
}

/// What was read since it was written, by how often: a clock of a few rounds.
pub struct Touched;

impl CarryOver for Touched {
    fn touch(&mut self, _: BlockId) {}

    fn worth(&self, _: BlockId, uses: u8) -> u8 {
        uses
    }

    fn memory_bytes(&self) -> u64 {
        0
    }
}

/// What was read more than once lately, by a frequency sketch. It knows of reads before a record
/// was written anew, and of more than three.
pub struct Frequent {
    sketch: Sketch,
}

impl Frequent {
    /// Within this memory, of which a block takes sixteen bytes.
    pub fn within(bytes_max: u64) -> Frequent {
        Frequent { sketch: Sketch::within(bytes_max) }
    }
}

impl CarryOver for Frequent {
    fn touch(&mut self, block: BlockId) {
        self.sketch.count(Key::of(block, 0));
    }

    fn worth(&self, block: BlockId, _: u8) -> u8 {
        let frequency = self.sketch.frequency(Key::of(block, 0));
        if frequency >= FREQUENCY_MIN { frequency } else { 0 }
    }

    fn memory_bytes(&self) -> u64 {
        self.sketch.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use nilas_base::Rng;

    use super::*;

    const BYTES: u64 = 4 << 10;

    fn block(number: u64) -> BlockId {
        let mut version = [5; 16];
        version[..8].copy_from_slice(&number.to_le_bytes());
        BlockId { version, index: 0 }
    }

    /// Reads of hot and cold blocks, and after each what the policy thinks of the block and of another.
    fn story(kind: CarryOverKind) -> Vec<u8> {
        let (mut rng, mut policy) = (Rng::from_seed(6), kind.build(BYTES));
        let mut worths = Vec::new();
        for _ in 0..10_000 {
            let blocks = if rng.chance(1, 2) { 10 } else { 5000 };
            let (read, other) = (block(rng.below(blocks)), block(rng.below(blocks)));
            policy.touch(read);
            worths.extend(
                [(read, 3), (other, 1), (other, 0)].map(|(it, uses)| policy.worth(it, uses)),
            );
            assert!(policy.memory_bytes() <= BYTES);
        }
        worths
    }

    #[test]
    fn the_same_calls_give_the_same_answers_in_the_same_memory() {
        for kind in CarryOverKind::ALL {
            assert_eq!(story(*kind), story(*kind), "{kind}");
        }
    }

    #[test]
    fn each_carries_over_what_it_says() {
        for kind in CarryOverKind::ALL {
            let mut policy = kind.build(BYTES);
            (0..5).for_each(|_| policy.touch(block(1)));
            policy.touch(block(2));
            let worths = [(1, 0), (1, 3), (2, 1), (3, 0)];
            let worths = worths.map(|(number, uses)| policy.worth(block(number), uses));
            let expected = match kind {
                CarryOverKind::Never => [0, 0, 0, 0],
                CarryOverKind::Touched => [0, 3, 1, 0],
                CarryOverKind::Frequent => [5, 5, 0, 0],
            };
            assert_eq!(worths, expected, "{kind}");
        }
    }

    #[test]
    fn what_was_frequent_once_is_forgotten_when_others_are() {
        let mut policy = CarryOverKind::Frequent.build(BYTES);
        (0..15).for_each(|_| policy.touch(block(1)));
        (0..20_000).for_each(|at| policy.touch(block(2 + at % 100)));
        assert_eq!(policy.worth(block(1), 0), 0);
        assert!(policy.worth(block(2), 0) > 2);
    }

    #[test]
    fn a_policy_is_found_by_its_name() {
        for kind in CarryOverKind::ALL {
            assert_eq!(CarryOverKind::named(kind.name()), Some(*kind));
        }
        assert_eq!(CarryOverKind::named("always"), None);
    }
}

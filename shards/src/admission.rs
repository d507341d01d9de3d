//! Admission: which of the bytes that the origin brought are worth a write to the cache device, once keeping them
//! means that others leave; while there is room all of it is. Policies are deterministic, as those of `eviction`, and
//! never tell the time.

use nilas_base::ByteRange;

use crate::kind::named_kinds;
use crate::sketch::{Key, Sketch};
use crate::store::BlockId;

/// What is remembered together: a sector of the data store.
pub const PIECE_BYTES: u64 = 64 << 10;

/// A policy. Its memory does not grow.
pub trait Admission {
    /// Bytes of a block, at least one, came from the origin, for somebody wanted them: notes it, and says whether they
    /// are worth keeping. Once for each time that they came.
    fn admits(&mut self, block: BlockId, bytes: ByteRange) -> bool;

    /// What the policy itself takes.
    fn memory_bytes(&self) -> u64;
}

named_kinds! {
    /// The policies there are.
    pub enum AdmissionKind {
        /// [`Always`].
        Always = "always",
        /// [`SecondTouch`].
        SecondTouch = "second-touch",
    }
}

impl AdmissionKind {
    /// One that has seen nothing, and takes no more than this memory, or the least that it can do with.
    pub fn build(self, bytes_max: u64) -> Box<dyn Admission> {
        match self {
            AdmissionKind::Always => Box::new(Always),
            AdmissionKind::SecondTouch => Box::new(SecondTouch::within(bytes_max)),
        }
    }
}

/// Everything is worth it.
pub struct Always;

impl Admission for Always {
    fn admits(&mut self, _: BlockId, _: ByteRange) -> bool {
        true
    }

    fn memory_bytes(&self) -> u64 {
        0
    }
}

/// What came before, not long ago. Of what comes once nothing is written: scans pass by. A frequency sketch
/// remembers, so that a few strangers are admitted too: few also of the long ones, since most pieces must be known.
pub struct SecondTouch {
    sketch: Sketch,
}

impl SecondTouch {
    /// Within this memory: a piece for every sixteen bytes is remembered for as long as twice as many
    /// come after it, at the least.
    pub fn within(bytes_max: u64) -> SecondTouch {
        SecondTouch { sketch: Sketch::within(bytes_max) }
    }
}

impl Admission for SecondTouch {
    fn admits(&mut self, block: BlockId, bytes: ByteRange) -> bool {
        let pieces = bytes.start / PIECE_BYTES..bytes.end.div_ceil(PIECE_BYTES);
        let (mut known, mut all) = (0, 0);
        for piece in pieces {
            let key = Key::of(block, piece);
            known += u64::from(self.sketch.frequency(key) > 0);
            all += 1;
            // Twice, for what was counted once is forgotten by the next halving, however soon that comes.
            self.sketch.count(key);
            self.sketch.count(key);
        }
        known * 2 > all
    }

    fn memory_bytes(&self) -> u64 {
        self.sketch.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use nilas_base::Rng;

    use super::*;

    fn block(number: u64) -> BlockId {
        let mut version = [9; 16];
        version[..8].copy_from_slice(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
        BlockId { version, index: number as u32 % 5 }
    }

    /// A run of a block of 2 MiB.
    fn draw(rng: &mut Rng) -> (BlockId, ByteRange) {
        let blocks = if rng.chance(1, 2) { 20 } else { 100_000 };
        let start = rng.below(31) * PIECE_BYTES;
        let bytes = 1 + rng.below(32 * PIECE_BYTES - start);
        (block(rng.below(blocks)), ByteRange::new(start, start + bytes))
    }

    /// When each piece came last, by the count of all that came.
    #[derive(Default)]
    struct Diary {
        last: BTreeMap<(BlockId, u64), u64>,
        pieces: u64,
    }

    impl Diary {
        /// What is known of the pieces of a run.
        fn note(&mut self, block: BlockId, bytes: ByteRange) -> Known {
            let mut ages = Vec::new();
            for at in bytes.start / PIECE_BYTES..=(bytes.end - 1) / PIECE_BYTES {
                let last = self.last.insert((block, at), self.pieces);
                ages.push(last.map(|last| self.pieces - last));
                self.pieces += 1;
            }
            let recent = ages.iter().flatten().filter(|age| **age <= PIECES).count();
            match (recent * 2 > ages.len(), ages.iter().flatten().count()) {
                (true, _) => Known::Lately,
                (false, 0) => Known::Never,
                (false, _) => Known::Partly,
            }
        }
    }

    enum Known {
        /// Most of its pieces are.
        Lately,
        /// Some are, or were long ago.
        Partly,
        Never,
    }

    const BYTES: u64 = 16 << 10;
    /// Of which each is remembered for at least so long.
    const PIECES: u64 = BYTES / 16 * 2;

    #[test]
    fn everything_is_admitted_or_what_the_diary_tells_of() {
        for kind in AdmissionKind::ALL {
            let (mut rng, mut diary) = (Rng::from_seed(4), Diary::default());
            let mut policy = kind.build(BYTES);
            let (mut strangers, mut mistaken) = (0, 0);
            for _ in 0..50_000 {
                let (block, bytes) = draw(&mut rng);
                let (known, admits) = (diary.note(block, bytes), policy.admits(block, bytes));
                match (kind, known) {
                    (AdmissionKind::Always, _) => assert!(admits),
                    (AdmissionKind::SecondTouch, Known::Lately) => assert!(admits),
                    // Forgotten or not.
                    (AdmissionKind::SecondTouch, Known::Partly) => {}
                    (AdmissionKind::SecondTouch, Known::Never) => {
                        strangers += 1;
                        mistaken += u32::from(admits);
                    }
                }
            }
            assert!(mistaken * 50 <= strangers, "{kind}: {mistaken} of {strangers}");
        }
    }

    #[test]
    fn the_same_calls_give_the_same_answers() {
        for kind in AdmissionKind::ALL {
            let answers = || {
                let (mut rng, mut policy) = (Rng::from_seed(11), kind.build(BYTES));
                let mut next = || {
                    let (block, bytes) = draw(&mut rng);
                    policy.admits(block, bytes)
                };
                (0..20_000).map(|_| next()).collect::<Vec<bool>>()
            };
            assert_eq!(answers(), answers());
        }
    }

    #[test]
    fn its_memory_is_what_it_was_given_whatever_comes() {
        for kind in AdmissionKind::ALL {
            let (mut rng, mut policy) = (Rng::from_seed(2), kind.build(BYTES));
            for _ in 0..20_000 {
                let (block, bytes) = draw(&mut rng);
                policy.admits(block, bytes);
                assert!(policy.memory_bytes() <= BYTES);
            }
        }
    }

    #[test]
    fn a_scan_passes_by_and_its_second_round_does_not() {
        let whole = ByteRange::new(0, PIECE_BYTES);
        let mut policy = AdmissionKind::SecondTouch.build(16 << 10);
        let mut admitted =
            || (0..1000).filter(|number| policy.admits(block(*number), whole)).count();
        assert!(admitted() < 30);
        assert_eq!(admitted(), 1000);
    }

    #[test]
    fn what_came_long_ago_came_never() {
        let whole = ByteRange::new(0, PIECE_BYTES);
        let mut policy = AdmissionKind::SecondTouch.build(4 << 10);
        let forgotten = (1..100).filter(|round: &u64| {
            for number in 1..2000 {
                policy.admits(block(round * 10_000 + number), whole);
            }
            !policy.admits(block(round * 10_000 + 1), whole)
        });
        assert!(forgotten.count() > 80);
    }

    #[test]
    fn pieces_of_one_block_that_come_one_by_one_came_once_each() {
        let mut policy = AdmissionKind::SecondTouch.build(BYTES);
        let mut admitted = || {
            let pieces = (0..32).map(|at| ByteRange::new(at * PIECE_BYTES, (at + 1) * PIECE_BYTES));
            pieces.filter(|piece| policy.admits(block(1), *piece)).count()
        };
        assert_eq!(admitted(), 0);
        assert_eq!(admitted(), 32);
    }

    #[test]
    fn a_policy_is_found_by_its_name() {
        for kind in AdmissionKind::ALL {
            assert_eq!(AdmissionKind::named(kind.name()), Some(*kind));
        }
        assert_eq!(AdmissionKind::named("lru"), None);
    }
}

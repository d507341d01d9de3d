//! One suite for every policy: a cache so small that it can be checked by hand, and `sequence`, random calls against
//! the naive policies of `oracle`. Then what each promises beyond it.

mod oracle;
mod sequence;

use std::collections::BTreeMap;

use nilas_base::Rng;

use super::{Eviction, EvictionKind, Place};
use crate::store::BlockId;

fn id(number: u64) -> BlockId {
    let mut version = [0; 16];
    version[..8].copy_from_slice(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
    BlockId { version, index: number as u32 }
}

/// The obvious cache around a policy: a map of what is held, evicting until the newcomer fits.
struct Cache {
    policy: Box<dyn Eviction>,
    held: BTreeMap<BlockId, (Place, u64)>,
    budget_bytes: u64,
    victims: Vec<BlockId>,
}

impl Cache {
    fn new(kind: EvictionKind, budget_bytes: u64) -> Cache {
        Cache { policy: kind.build(), held: BTreeMap::new(), budget_bytes, victims: Vec::new() }
    }

    fn holds(&self, number: u64) -> bool {
        self.held.contains_key(&id(number))
    }

    fn weight_bytes(&self) -> u64 {
        self.held.values().map(|(_, weight_bytes)| weight_bytes).sum()
    }

    fn make_room(&mut self, weight_bytes: u64, except: Option<BlockId>) {
        while self.weight_bytes() + weight_bytes > self.budget_bytes {
            let held = &self.held;
            let may_leave = |id| held.contains_key(&id) && Some(id) != except;
            let Some(victim) = self.policy.evict(&may_leave) else { break };
            self.held.remove(&victim).expect("a victim was held");
            self.victims.push(victim);
        }
    }

    /// Whether it was a hit.
    fn access(&mut self, id: BlockId, weight_bytes: u64) -> bool {
        if let Some((place, _)) = self.held.get(&id) {
            self.policy.touch(*place);
            return true;
        }
        self.make_room(weight_bytes, None);
        self.held.insert(id, (self.policy.insert(id, weight_bytes), weight_bytes));
        false
    }

    /// Of a block of the least weight.
    fn read(&mut self, number: u64) {
        self.access(id(number), 1);
    }

    fn grow(&mut self, id: BlockId, weight_bytes: u64) {
        if !self.held.contains_key(&id) {
            return;
        }
        self.make_room(weight_bytes, Some(id));
        if self.weight_bytes() + weight_bytes <= self.budget_bytes {
            let (place, held) = self.held.get_mut(&id).expect("excepted from eviction");
            *held += weight_bytes;
            self.policy.grow(*place, weight_bytes);
        }
    }

    fn remove(&mut self, id: BlockId) {
        if let Some((place, _)) = self.held.remove(&id) {
            self.policy.remove(place);
        }
    }

    /// A seeded mix of everything, mostly reads of few blocks.
    fn churn(&mut self, seed: u64, steps: u64) {
        let mut rng = Rng::from_seed(seed);
        for _ in 0..steps {
            let spread = if rng.chance(1, 3) { 1000 } else { 30 };
            let block = id(rng.below(spread));
            match rng.below(10) {
                0 => self.remove(block),
                1 => self.grow(block, 1 + rng.below(4)),
                _ => drop(self.access(block, 1 + rng.below(8))),
            }
            assert!(self.weight_bytes() <= self.budget_bytes, "over the ceiling");
            assert_eq!(self.policy.weight_bytes(), self.weight_bytes());
        }
    }
}

macro_rules! eviction_suite {
    ($($suite:ident: $kind:expr,)*) => {
        const STAMPED: &[EvictionKind] = &[$($kind),*];
        $(mod $suite {
            use super::*;

            #[test]
            fn it_does_what_its_naive_twin_does() {
                sequence::check($kind);
            }

            #[test]
            fn the_weight_is_what_is_held_and_never_over_the_ceiling() {
                for seed in 0..20 {
                    Cache::new($kind, 64).churn(seed, 2000);
                }
            }

            #[test]
            fn the_same_calls_give_the_same_victims() {
                let victims = |seed| {
                    let mut cache = Cache::new($kind, 64);
                    cache.churn(seed, 2000);
                    cache.victims
                };
                assert!(victims(7).len() > 100);
                assert_eq!(victims(7), victims(7));
                assert_ne!(victims(7), victims(8));
            }

            #[test]
            fn every_block_leaves_once_and_then_none() {
                let mut cache = Cache::new($kind, 64);
                cache.churn(3, 2000);
                let held = cache.held.len();
                let mut left = std::collections::BTreeSet::new();
                while let Some(victim) = cache.policy.evict(&|_| true) {
                    assert!(cache.held.contains_key(&victim) && left.insert(victim));
                }
                assert_eq!(left.len(), held);
                assert_eq!(cache.policy.weight_bytes(), 0);
            }

            #[test]
            fn what_may_not_leave_stays_and_is_no_obstacle() {
                let mut policy = $kind.build();
                let places: Vec<Place> =
                    (0..10).map(|number| policy.insert(id(number), 1)).collect();
                for place in places.iter().cycle().take(25) {
                    policy.touch(*place);
                }
                for _ in 0..9 {
                    let victim = policy.evict(&|block| block != id(4));
                    assert!(victim.is_some_and(|victim| victim != id(4)));
                }
                assert_eq!(policy.evict(&|block| block != id(4)), None);
                assert_eq!(policy.weight_bytes(), 1);
                assert_eq!(policy.evict(&|_| true), Some(id(4)));
            }

            #[test]
            fn its_memory_is_bounded_by_the_blocks_held_however_many_pass() {
                let mut cache = Cache::new($kind, 100);
                for number in 0..50_000 {
                    cache.access(id(number), 1);
                    let most = POLICY_BYTES_FIXED + 100 * POLICY_BYTES_PER_BLOCK;
                    assert!(cache.policy.memory_bytes() <= most, "{number} blocks have passed");
                }
            }
        })*
    };
}

/// What a policy may take for each block that it holds, tables that have just doubled included.
const POLICY_BYTES_PER_BLOCK: u64 = 256;
/// And beside that.
const POLICY_BYTES_FIXED: u64 = 1024;

eviction_suite! {
    fifo: EvictionKind::Fifo,
    lru: EvictionKind::Lru,
    sieve: EvictionKind::Sieve,
    s3_fifo: EvictionKind::S3Fifo,
    w_tiny_lfu: EvictionKind::WTinyLfu,
}

#[test]
fn the_suite_is_stamped_on_every_policy() {
    assert_eq!(STAMPED, EvictionKind::ALL);
}

#[test]
fn a_policy_is_found_by_its_name_and_nothing_else() {
    for kind in EvictionKind::ALL {
        assert_eq!(EvictionKind::named(kind.name()), Some(*kind));
    }
    let names: Vec<&str> = EvictionKind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(names, EvictionKind::NAMES);
    assert_eq!(EvictionKind::named("S3-FIFO"), None);
}

/// The part of a hot set, half the budget of so many blocks and read so often, that survives a scan of ten budgets.
fn hot_percent_after_scan(kind: EvictionKind, reads: usize, blocks: u64, first: u64) -> usize {
    let mut cache = Cache::new(kind, blocks);
    let hot = first..first + blocks / 2;
    for _ in 0..reads {
        for number in hot.clone() {
            cache.access(id(number), 1);
        }
    }
    for number in hot.end..hot.end + 10 * blocks {
        cache.access(id(number), 1);
    }
    hot.clone().filter(|number| cache.holds(*number)).count() * 100 / hot.count()
}

#[test]
fn a_hot_set_survives_a_scan_but_under_the_two_that_a_scan_flushes() {
    for kind in EvictionKind::ALL {
        let reads = if *kind == EvictionKind::S3Fifo { 3 } else { 2 };
        // Powers of two, where the sketch of W-TinyLFU is the smallest for what it counts, and what is beside them.
        for blocks in [20, 32, 64, 126, 128, 130, 256, 512] {
            for first in (0..20).map(|draw| draw * 1_000_000) {
                let percent = hot_percent_after_scan(*kind, reads, blocks, first);
                match kind {
                    EvictionKind::Fifo | EvictionKind::Lru => assert_eq!(percent, 0, "{kind}"),
                    _ => assert!(
                        percent >= 90,
                        "{kind}: {percent} of 100, {blocks} blocks from {first} on"
                    ),
                }
            }
        }
    }
}

#[test]
fn a_scan_in_growing_blocks_does_not_promote_itself() {
    let mut cache = Cache::new(EvictionKind::S3Fifo, 1000);
    for _ in 0..3 {
        for number in 0..50 {
            cache.access(id(number), 10);
        }
    }
    for number in 1000..2000 {
        cache.access(id(number), 2);
        for _ in 0..4 {
            cache.grow(id(number), 2);
        }
    }
    let survivors = (0..50).filter(|number| cache.held.contains_key(&id(*number))).count();
    assert!(survivors >= 45, "{survivors} of 50");
}

#[test]
fn a_block_that_comes_back_soon_after_it_left_is_kept() {
    let mut cache = Cache::new(EvictionKind::S3Fifo, 100);
    for number in 0..101 {
        cache.access(id(number), 1);
    }
    assert_eq!(cache.victims, [id(0)]);
    cache.access(id(0), 1);
    for number in 200..1000 {
        cache.access(id(number), 1);
    }
    assert!(cache.held.contains_key(&id(0)), "its ghost brought it into the main queue");
}

#[test]
fn a_removed_block_leaves_no_ghost() {
    let mut cache = Cache::new(EvictionKind::S3Fifo, 100);
    cache.access(id(0), 1);
    cache.remove(id(0));
    for number in 0..300 {
        cache.access(id(number), 1);
    }
    assert!(!cache.held.contains_key(&id(0)));
}

#[test]
fn s3_fifo_finds_a_victim_among_what_it_has_just_promoted() {
    let mut policy = EvictionKind::S3Fifo.build();
    let small = policy.insert(id(0), 10);
    (0..2).for_each(|_| policy.touch(small));
    let heavy = policy.insert(id(1), 1);
    (0..2).for_each(|_| policy.touch(heavy));
    policy.insert(id(2), 1);
    assert_eq!(policy.evict(&|_| true), Some(id(2)), "the others are in the main queue now");
    policy.grow(heavy, 1000);
    let read = policy.insert(id(3), 1);
    (0..2).for_each(|_| policy.touch(read));
    assert_eq!(policy.evict(&|block| block == id(3)), Some(id(3)));
}

#[test]
fn sieve_spares_what_was_read_once_and_goes_on_from_there() {
    let mut policy = EvictionKind::Sieve.build();
    let places: Vec<Place> = (0..4).map(|number| policy.insert(id(number), 1)).collect();
    policy.touch(places[0]);
    policy.touch(places[2]);
    let mut evict = || policy.evict(&|_| true);
    assert_eq!(evict(), Some(id(1)), "0 was read");
    assert_eq!(evict(), Some(id(3)), "2 was read");
    assert_eq!(evict(), Some(id(0)), "from the oldest again");
    assert_eq!(evict(), Some(id(2)));
}

/// Of ten blocks that are read in turns and one newcomer after the other, the share of reads that hit.
fn hits_among_newcomers(kind: EvictionKind) -> usize {
    let mut cache = Cache::new(kind, 12);
    let mut hits = 0;
    for round in 0..100 {
        for number in 0..10 {
            hits += usize::from(cache.access(id(number), 1));
            cache.access(id(1000 + round * 10 + number), 1);
        }
    }
    hits
}

#[test]
fn w_tiny_lfu_lets_the_newcomer_go_where_the_others_are_used_more() {
    let hits = hits_among_newcomers(EvictionKind::WTinyLfu);
    assert!(hits > 900, "{hits} of 1000");
    assert!(hits_among_newcomers(EvictionKind::Lru) < 100);
}

#[test]
fn w_tiny_lfu_forgets_what_was_hot_once() {
    let mut cache = Cache::new(EvictionKind::WTinyLfu, 100);
    let mut read_all = |first: u64, rounds: u64| {
        for _ in 0..rounds {
            (first..first + 100).for_each(|number| cache.read(number));
        }
        (first..first + 100).filter(|number| cache.holds(*number)).count()
    };
    assert!(read_all(0, 20) > 90);
    let early = read_all(5000, 2);
    let late = read_all(5000, 30);
    assert!(early < 30, "{early} of 100: what is hot is not given up at once");
    assert!(late > 80, "{late} of 100: but it is, when it is used no more");
}

#[test]
fn w_tiny_lfu_keeps_all_that_comes_while_nothing_must_leave() {
    let mut cache = Cache::new(EvictionKind::WTinyLfu, 1000);
    (0..1000).for_each(|number| cache.read(number));
    // What comes first has no room; it is a stranger as the others are, and leaves itself.
    (2000..2010).for_each(|number| cache.read(number));
    let survivors = (0..1000).filter(|number| cache.holds(*number)).count();
    assert!(survivors >= 985, "{survivors} of 1000");
}

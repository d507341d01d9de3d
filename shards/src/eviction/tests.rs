//! One suite for every policy, against a cache so small that it can be checked by hand, and what
//! S3-FIFO promises beyond it.

use std::collections::BTreeMap;

use nilas_base::Rng;

use super::lru::Lru;
use super::{Eviction, Place, S3Fifo};
use crate::store::BlockId;

fn id(number: u64) -> BlockId {
    let mut version = [0; 16];
    version[..8].copy_from_slice(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
    BlockId { version, index: number as u32 }
}

/// The obvious cache around a policy: a map of what is held, evicting until the newcomer fits.
struct Cache<P> {
    policy: P,
    held: BTreeMap<BlockId, (Place, u64)>,
    budget_bytes: u64,
    victims: Vec<BlockId>,
}

impl<P: Eviction> Cache<P> {
    fn new(policy: P, budget_bytes: u64) -> Cache<P> {
        Cache { policy, held: BTreeMap::new(), budget_bytes, victims: Vec::new() }
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
    ($suite:ident, $policy:expr) => {
        mod $suite {
            use super::*;

            #[test]
            fn the_weight_is_what_is_held_and_never_over_the_ceiling() {
                for seed in 0..20 {
                    Cache::new($policy, 64).churn(seed, 2000);
                }
            }

            #[test]
            fn the_same_calls_give_the_same_victims() {
                let victims = |seed| {
                    let mut cache = Cache::new($policy, 64);
                    cache.churn(seed, 2000);
                    cache.victims
                };
                assert!(victims(7).len() > 100);
                assert_eq!(victims(7), victims(7));
                assert_ne!(victims(7), victims(8));
            }

            #[test]
            fn every_block_leaves_once_and_then_none() {
                let mut cache = Cache::new($policy, 64);
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
                let mut policy = $policy;
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
                let mut cache = Cache::new($policy, 100);
                for number in 0..200 {
                    cache.access(id(number), 1);
                }
                let early = cache.policy.memory_bytes();
                for number in 0..50_000 {
                    cache.access(id(number), 1);
                }
                assert!(cache.policy.memory_bytes() <= early * 2);
            }
        }
    };
}

eviction_suite!(s3_fifo, S3Fifo::new());
eviction_suite!(lru, Lru::new());

/// The part of a hot set, half the budget and touched twice, that survives a scan of ten budgets.
fn hot_percent_after_scan(policy: impl Eviction) -> usize {
    let mut cache = Cache::new(policy, 1000);
    for _ in 0..3 {
        for number in 0..500 {
            cache.access(id(number), 1);
        }
    }
    for number in 10_000..20_000 {
        cache.access(id(number), 1);
    }
    (0..500).filter(|number| cache.held.contains_key(&id(*number))).count() * 100 / 500
}

#[test]
fn a_hot_set_survives_a_scan_under_s3_fifo() {
    assert!(hot_percent_after_scan(S3Fifo::new()) >= 90);
}

#[test]
fn the_scan_is_one_that_flushes_the_baseline() {
    assert_eq!(hot_percent_after_scan(Lru::new()), 0);
}

#[test]
fn a_scan_in_growing_blocks_does_not_promote_itself() {
    let mut cache = Cache::new(S3Fifo::new(), 1000);
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
    let mut cache = Cache::new(S3Fifo::new(), 100);
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
    let mut cache = Cache::new(S3Fifo::new(), 100);
    cache.access(id(0), 1);
    cache.remove(id(0));
    for number in 0..300 {
        cache.access(id(number), 1);
    }
    assert!(!cache.held.contains_key(&id(0)));
}

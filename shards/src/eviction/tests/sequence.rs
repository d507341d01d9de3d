//! Random calls to a policy and to its naive twin: the same victims in the same order, and at the end every block
//! that was neither removed nor let go leaves once.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::id;
use super::oracle::oracle;
use crate::eviction::{EvictionKind, Place};
use crate::store::BlockId;

/// Blocks of a sequence: so many that a sketch grows, and so few that it is halved within a sequence.
const BLOCKS: u64 = 20;
const CALLS_MAX: usize = 1000;

#[derive(Clone, Copy, Debug)]
enum Call {
    /// Inserts a block, or touches it where it is held.
    Read {
        block: u64,
        weight_bytes: u64,
    },
    Touch {
        block: u64,
    },
    Grow {
        block: u64,
        weight_bytes: u64,
    },
    Remove {
        block: u64,
    },
    /// One block in so many may not leave; which, is drawn with `salt`.
    Evict {
        one_stays_in: u64,
        salt: u64,
    },
}

fn call() -> impl Strategy<Value = Call> {
    let block = || prop_oneof![0..6_u64, 0..BLOCKS];
    let weight_bytes = || prop_oneof![Just(1_u64), 1..200_u64];
    prop_oneof![
        5 => (block(), weight_bytes())
            .prop_map(|(block, weight_bytes)| Call::Read { block, weight_bytes }),
        4 => block().prop_map(|block| Call::Touch { block }),
        1 => (block(), weight_bytes())
            .prop_map(|(block, weight_bytes)| Call::Grow { block, weight_bytes }),
        1 => block().prop_map(|block| Call::Remove { block }),
        3 => (prop_oneof![Just(u64::MAX), 1..5_u64], any::<u64>())
            .prop_map(|(one_stays_in, salt)| Call::Evict { one_stays_in, salt }),
    ]
}

fn stays(id: BlockId, one_in: u64, salt: u64) -> bool {
    let drawn = (u64::from(id.index) ^ salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    drawn.is_multiple_of(one_in)
}

/// Holds a policy to what it promises for every sequence of calls.
pub(super) fn check(kind: EvictionKind) {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let result = runner.run(&vec(call(), 0..CALLS_MAX), |calls| {
        run(kind, &calls);
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{kind}: {failure}");
    }
}

fn run(kind: EvictionKind, calls: &[Call]) {
    let (mut policy, mut twin) = (kind.build(), oracle(kind));
    let mut held: BTreeMap<BlockId, (Place, u64)> = BTreeMap::new();
    for call in calls {
        match *call {
            Call::Read { block, weight_bytes } if !held.contains_key(&id(block)) => {
                let place = policy.insert(id(block), weight_bytes);
                twin.insert(id(block), weight_bytes);
                held.insert(id(block), (place, weight_bytes));
            }
            Call::Read { block, .. } | Call::Touch { block } => {
                let Some((place, _)) = held.get(&id(block)) else { continue };
                policy.touch(*place);
                twin.touch(id(block));
            }
            Call::Grow { block, weight_bytes } => {
                let Some((place, weight)) = held.get_mut(&id(block)) else { continue };
                policy.grow(*place, weight_bytes);
                twin.grow(id(block), weight_bytes);
                *weight += weight_bytes;
            }
            Call::Remove { block } => {
                let Some((place, _)) = held.remove(&id(block)) else { continue };
                policy.remove(place);
                twin.remove(id(block));
            }
            Call::Evict { one_stays_in, salt } => {
                let may_leave = |id| !stays(id, one_stays_in, salt);
                let victim = policy.evict(&may_leave);
                assert_eq!(victim, twin.evict(&may_leave));
                assert_eq!(victim.is_some(), held.keys().any(|id| may_leave(*id)));
                if let Some(victim) = victim {
                    assert!(may_leave(victim) && held.remove(&victim).is_some());
                }
            }
        }
        let weight_bytes: u64 = held.values().map(|(_, weight_bytes)| weight_bytes).sum();
        assert_eq!(policy.weight_bytes(), weight_bytes);
    }
    while let Some(victim) = policy.evict(&|_| true) {
        assert_eq!(Some(victim), twin.evict(&|_| true));
        assert!(held.remove(&victim).is_some(), "it was let go once already");
    }
    assert!(held.is_empty(), "{} stayed", held.len());
    assert_eq!(policy.weight_bytes(), 0);
}

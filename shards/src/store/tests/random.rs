//! Random operations on a store, each step held against the model.

use nilas_base::ByteRange;
use proptest::prelude::*;

use super::model::{Harness, block_len};
use crate::eviction::EvictionKind;
use crate::store::ReadKind;

const BLOCKS: u32 = 12;

#[derive(Clone, Debug)]
enum Operation {
    Read { index: u32, want: ByteRange, kind: ReadKind, keep: bool },
    BeginFill { index: u32, want: ByteRange },
    Append { fill: usize, bytes_max: u64 },
    EndFill { fill: usize, is_dropped: bool },
    Remove { index: u32 },
    DropLeases { leases: usize, on_other_thread: bool },
    Reclaim,
}

fn block_and_range() -> impl Strategy<Value = (u32, ByteRange)> {
    (0..BLOCKS).prop_flat_map(|index| {
        let within = (0..block_len(index), 1..=block_len(index));
        within.prop_map(move |(start, len)| {
            (index, ByteRange::new(start, (start + len).min(block_len(index))))
        })
    })
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    prop_oneof![
        6 => (block_and_range(), any::<bool>(), any::<bool>())
            .prop_map(|((index, want), is_small, keep)| {
                let kind = if is_small { ReadKind::Small } else { ReadKind::Large };
                Read { index, want, kind, keep }
            }),
        5 => block_and_range().prop_map(|(index, want)| BeginFill { index, want }),
        6 => (any::<usize>(), 1..2048_u64)
            .prop_map(|(fill, bytes_max)| Append { fill, bytes_max }),
        4 => (any::<usize>(), prop::bool::weighted(0.2))
            .prop_map(|(fill, is_dropped)| EndFill { fill, is_dropped }),
        1 => (0..BLOCKS).prop_map(|index| Remove { index }),
        4 => (any::<usize>(), prop::bool::weighted(0.1))
            .prop_map(|(leases, on_other_thread)| DropLeases { leases, on_other_thread }),
        2 => Just(Reclaim),
    ]
}

fn apply(harness: &mut Harness, operation: Operation) {
    match operation {
        Operation::Read { index, want, kind, keep } => harness.read(index, (want, kind), keep),
        Operation::BeginFill { index, want } => harness.begin_fill(index, want),
        Operation::Append { fill, bytes_max } => harness.append(fill, bytes_max),
        Operation::EndFill { fill, is_dropped } => harness.end_fill(fill, is_dropped),
        Operation::Remove { index } => harness.remove(index),
        Operation::DropLeases { leases, on_other_thread } => {
            harness.drop_leases(leases, on_other_thread);
        }
        Operation::Reclaim => harness.reclaim(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_store_is_the_model_under_any_operations(
        eviction in prop::sample::select(EvictionKind::ALL),
        operations in prop::collection::vec(operation(), 1..300),
    ) {
        let mut harness = Harness::new(eviction);
        for operation in operations {
            apply(&mut harness, operation);
            harness.check();
        }
        harness.finish();
    }
}

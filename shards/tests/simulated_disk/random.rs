//! Random operations on a simulated disk, each step held against the model.

use crate::model::{Harness, SECTORS};
use proptest::prelude::*;

/// Where a run of sectors begins, and how many it has; cut at the disk's end.
type Run = (usize, usize);

#[derive(Clone, Debug)]
enum Operation {
    Read(Run),
    Write(Run),
    WriteDuringSync(Run),
    Sync,
    FailSync,
    Crash(Vec<Run>),
    Restart(Vec<Run>),
}

fn run() -> impl Strategy<Value = Run> {
    // Few places, so that writes meet.
    prop_oneof![4 => (0..24_usize, 1..12_usize), 1 => (0..SECTORS, 1..SECTORS)]
}

fn operation() -> impl Strategy<Value = Operation> {
    let in_flight = || prop::collection::vec(run(), 0..4);
    prop_oneof![
        4 => run().prop_map(Operation::Read),
        8 => run().prop_map(Operation::Write),
        2 => run().prop_map(Operation::WriteDuringSync),
        3 => Just(Operation::Sync),
        1 => Just(Operation::FailSync),
        2 => in_flight().prop_map(Operation::Crash),
        1 => in_flight().prop_map(Operation::Restart),
    ]
}

fn apply(harness: &mut Harness, operation: Operation) {
    match operation {
        Operation::Read((first, count)) => harness.read(first, count),
        Operation::Write((first, count)) => harness.write(first, count),
        Operation::WriteDuringSync((first, count)) => harness.write_during_sync(first, count),
        Operation::Sync => harness.sync(),
        Operation::FailSync => harness.fail_sync(),
        Operation::Crash(in_flight) => harness.crash(&in_flight),
        Operation::Restart(in_flight) => harness.restart(&in_flight),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_disk_is_the_model_under_any_operations(
        seed in any::<u64>(),
        operations in prop::collection::vec(operation(), 1..80),
    ) {
        let mut harness = Harness::new(seed);
        for operation in operations {
            apply(&mut harness, operation);
            harness.check();
        }
    }
}

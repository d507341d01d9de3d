//! Whole runs: nothing is wrong, and one seed gives one run.

use nilas_sim::season::one;
use nilas_sim::weather::DeviceShare;

fn assert_right(seed: u64, devices: DeviceShare) {
    let outcome = one(seed, devices, None, false);
    assert!(
        outcome.violations.is_empty(),
        "cargo sim -- --seeds 1 --first-seed {seed}\n{:#?}",
        outcome.violations
    );
    assert!(outcome.answers > 0, "seed {seed} asks something");
}

#[test]
fn nothing_is_wrong_in_a_hundred_seeds() {
    (1..=100).for_each(|seed| assert_right(seed, DeviceShare::Half));
}

#[test]
fn what_was_wrong_once_is_right_now() {
    let list = include_str!("../regression.txt");
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let seeds = lines.filter_map(|line| line.split(' ').next()?.parse().ok());
    // As they were, before some had a cache device; and with one.
    let both = [DeviceShare::None, DeviceShare::All];
    let count =
        seeds.inspect(|seed: &u64| both.iter().for_each(|it| assert_right(*seed, *it))).count();
    assert!(count > 0, "the list holds seeds");
}

#[test]
fn one_seed_gives_one_run_and_another_seed_another() {
    let run = |seed| {
        let outcome = one(seed, DeviceShare::All, None, true);
        (outcome.trace_hash, outcome.answers, outcome.device, outcome.journal)
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).0, run(8).0);
}

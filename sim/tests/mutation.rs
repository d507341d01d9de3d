//! The judge judged: each planted mistake is found by the rule that is there for it, and within a
//! thousand seeds that nobody chose.
#![cfg(feature = "mutations")]

use nilas_engine::mutation::Mutation;
use nilas_shards::mutation::{DiskMutation, JournalMutation};
use nilas_sim::mistake::Mistake;
use nilas_sim::season::{Season, one, play};
use nilas_sim::weather::DeviceShare;

/// A mistake, the first seed that showed it, and words of what is seen.
const KNOWN: [(Mutation, u64, &str); 9] = [
    (Mutation::MappingFieldByField, 13, "is not"),
    (Mutation::NoBumpBeforeRelay, 2, "arrived at"),
    (Mutation::NoBumpAfterRelay, 25, "was acknowledged before"),
    (Mutation::EpochUnchecked, 116, "was acknowledged before"),
    (Mutation::SingleflightDropped, 1, "asked twice at once: Open"),
    (Mutation::LeaseFreedAtSubmit, 7, "is not of version"),
    (Mutation::PurgeMissesFills, 15, "purged"),
    (Mutation::ResumeUnmatched, 8, "is not of version"),
    (Mutation::WrittenUnmatched, 153, "is not of version"),
];

/// The same, of what a node keeps on its cache device. A checksum that is not bound to its place is beyond this judge:
/// the record's head, which is, tells of other bytes already. A summary is beyond it too: nothing that it says is
/// believed before the record itself has been looked at.
const KNOWN_WITH_A_DEVICE: [(Mistake, u64, &str); 4] = [
    (Mistake::Disk(DiskMutation::ChecksumUnread), 8, "is not of version"),
    (
        Mistake::Disk(DiskMutation::SegmentReusedEarly),
        183,
        "a segment is not reused under an operation",
    ),
    (Mistake::Node(Mutation::TombstoneAfterRelay), 84, "arrived at"),
    (Mistake::Journal(JournalMutation::SequenceIgnored), 60, "was acknowledged before"),
];

/// A change to the node moves its seeds a little: from the one that showed a mistake, as many more
/// are played.
const SEEDS_MORE_MAX: u64 = 400;

#[test]
fn each_planted_mistake_is_found_by_the_rule_that_is_there_for_it() {
    let known: Vec<Mistake> = all_known().collect();
    assert!(Mutation::ALL.iter().all(|mutation| known.contains(&Mistake::Node(*mutation))));
    for (mutation, first_seed, words) in KNOWN {
        is_found(Mistake::Node(mutation), DeviceShare::None, (first_seed, words));
    }
    for (mistake, first_seed, words) in KNOWN_WITH_A_DEVICE {
        is_found(mistake, DeviceShare::All, (first_seed, words));
    }
}

fn all_known() -> impl Iterator<Item = Mistake> {
    let with_a_device = KNOWN_WITH_A_DEVICE.map(|(mistake, ..)| mistake);
    KNOWN.map(|(mutation, ..)| Mistake::Node(mutation)).into_iter().chain(with_a_device)
}

fn is_found(mistake: Mistake, devices: DeviceShare, (first_seed, words): (u64, &str)) {
    let says_so = |seed| {
        let found = one(seed, devices, Some(mistake), false).violations;
        found.iter().any(|violation| violation.contains(words))
    };
    let seed = (first_seed..=first_seed + SEEDS_MORE_MAX).find(|seed| says_so(*seed));
    let seed = seed.unwrap_or_else(|| panic!("{mistake:?} is not seen from {first_seed} on"));
    let right = one(seed, devices, None, false);
    assert_eq!(right.violations, Vec::<String>::new(), "seed {seed}");
}

#[test]
fn a_block_whose_hash_another_has_on_the_device_is_brought_by_the_origin() {
    nilas_shards::mutation::collide(true);
    let mut hits = 0;
    for seed in 1..=40 {
        let outcome = one(seed, DeviceShare::All, None, false);
        assert_eq!(outcome.violations, Vec::<String>::new(), "seed {seed}");
        hits += outcome.device.hits;
    }
    nilas_shards::mutation::collide(false);
    assert!(hits > 0, "{hits} hits of blocks that collide with none");
}

#[test]
fn each_planted_mistake_is_found_within_a_thousand_seeds_that_nobody_chose() {
    // Some need a device.
    let node_alone = KNOWN.map(|(mutation, ..)| (Mistake::Node(mutation), DeviceShare::Half));
    let of_a_device = KNOWN_WITH_A_DEVICE.map(|(mistake, ..)| (mistake, DeviceShare::All));
    for (mistake, devices) in node_alone.into_iter().chain(of_a_device) {
        let season = Season {
            first_seed: 1_000_000,
            seeds: 1000,
            time: std::time::Duration::ZERO,
            threads: 2,
            devices,
            mistake: Some(mistake),
        };
        assert!(!play(&season).wrong_seeds.is_empty(), "{mistake:?} is not found");
    }
}

//! The judge judged: each planted mistake is found, in a seed that is known to show it, by the rule
//! that is there for it; the same seeds without a mistake show nothing.
#![cfg(feature = "mutations")]

use nilas_engine::mutation::Mutation;
use nilas_sim::season::{Season, one, play};

/// A mistake, a seed that shows it, and words of what is seen.
const KNOWN: [(Mutation, u64, &str); 8] = [
    (Mutation::MappingFieldByField, 11, "is not"),
    (Mutation::NoBumpBeforeRelay, 4, "arrived at"),
    (Mutation::NoBumpAfterRelay, 22, "was acknowledged before"),
    (Mutation::EpochUnchecked, 76, "was acknowledged before"),
    (Mutation::SingleflightDropped, 1, "asked twice at once: Open"),
    (Mutation::LeaseFreedAtSubmit, 7, "is not of version"),
    (Mutation::PurgeMissesFills, 9, "purged"),
    (Mutation::ResumeUnmatched, 37, "is not of version"),
];

#[test]
fn each_planted_mistake_is_found_and_its_seed_is_right_without_it() {
    assert_eq!(KNOWN.map(|(mutation, ..)| mutation), Mutation::ALL);
    for (mutation, seed, words) in KNOWN {
        let found = one(seed, Some(mutation), false).violations;
        let says_so = found.iter().any(|violation| violation.contains(words));
        assert!(says_so, "{mutation:?} in seed {seed}: {found:#?}");
        assert_eq!(one(seed, None, false).violations, Vec::<String>::new(), "seed {seed}");
    }
}

#[test]
fn each_planted_mistake_is_found_within_a_thousand_seeds_that_nobody_chose() {
    for mutation in Mutation::ALL {
        let season = Season {
            first_seed: 1_000_000,
            seeds: 1000,
            time: std::time::Duration::ZERO,
            threads: 2,
            mutation: Some(mutation),
        };
        assert!(play(&season).wrong_seeds > 0, "{mutation:?} is not found");
    }
}

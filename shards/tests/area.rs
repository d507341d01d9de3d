//! The store of an area against what was put into it: on every ring body, through restarts and damage, whatever it
//! gives is right, and its ceilings hold.

#[path = "area/content.rs"]
mod content;
#[path = "area/model.rs"]
mod model;
#[expect(dead_code, reason = "the stage of the reactor's suite has more than is needed here")]
#[path = "reactor/stage.rs"]
mod stage;

use std::rc::Rc;

use model::{Ceilings, Life, Medium, SEGMENT_BYTES, Story};
use nilas_base::ByteRange;
use nilas_shards::admission::AdmissionKind;
use nilas_shards::area::{AreaPolicies, NotOnDisk};
use nilas_shards::carry_over::CarryOverKind;
use stage::Stage;

/// Stamps each claim on the bodies named.
macro_rules! on_bodies {
    ([$($body:ident),*] $claims:tt) => {
        $(on_bodies!(@one $body $claims);)*
    };
    (@one $body:ident { $($claim:ident),* $(,)? }) => {
        mod $body {
            $(
                #[test]
                fn $claim() {
                    super::$claim(super::$body);
                }
            )*
        }
    };
}

on_bodies!([io_uring, epoll, simulated] {
    what_was_kept_is_read_back_also_after_a_restart,
    what_is_damaged_is_a_miss,
    a_summary_that_is_damaged_loses_no_record,
    what_comes_while_a_store_looks_at_its_device_is_kept_too,
    old_blocks_make_room_and_those_that_are_read_stay,
    what_is_carried_over_is_for_a_policy_to_say,
    however_much_is_read_four_fifths_of_what_is_emptied_make_room,
    where_there_is_no_room_a_scan_is_not_written,
    where_the_index_is_full_the_oldest_blocks_make_room,
    a_block_that_is_asked_for_as_anothers_stays,
    a_segment_that_shows_a_former_life_leaves_nothing_behind,
});

/// A device of so many segments.
type Body = fn(u64) -> Rc<Medium>;

fn io_uring(segments: u64) -> Rc<Medium> {
    Rc::new(Medium::real(Stage::io_uring, segments))
}

fn epoll(segments: u64) -> Rc<Medium> {
    Rc::new(Medium::real(Stage::epoll, segments))
}

fn simulated(segments: u64) -> Rc<Medium> {
    Rc::new(Medium::simulated(5, segments))
}

fn what_was_kept_is_read_back_also_after_a_restart(body: Body) {
    let medium = body(16);
    for close in [true, false] {
        let mut life = Life::begin(&medium);
        assert_eq!(life.keep_all(0..20), 20);
        assert_eq!(life.hits(0..20), 20);
        if close {
            life.close();
        } else {
            life.flush();
        }
        life.end();
        let mut life = Life::begin(&medium);
        assert_eq!(life.recovered.records, 20);
        assert_eq!(life.recovered.unsealed, u32::from(!close));
        assert_eq!(life.hits(0..20), 20, "after a restart");
        assert_eq!(life.hits(20..40), 0);
        life.end();
        medium.wipe();
    }
}

fn what_is_damaged_is_a_miss(body: Body) {
    let medium = body(16);
    let mut life = Life::begin(&medium);
    life.keep_all(0..20);
    life.close();
    medium.spoil_everything();
    assert_eq!(life.hits(0..20), 0);
    assert_eq!(life.usage().counts.damaged, 20);
    assert_eq!(life.usage().blocks, 0, "what is damaged is forgotten");
    assert_eq!(life.keep_all(0..20), 20, "and kept anew");
    assert_eq!(life.hits(0..20), 20);
    life.end();
}

/// A block that is read again and again: of two in one segment a fifth of it would hold one.
const HOT: [u32; 1] = [0];

fn old_blocks_make_room_and_those_that_are_read_stay(body: Body) {
    let medium = body(8);
    let mut life = Life::begin(&medium);
    life.keep_all(0..8);
    // Many times what the area holds.
    for block in 8..400 {
        life.keep_all(block..block + 1);
        life.hits(HOT);
    }
    assert_eq!(life.hits(HOT), 1, "a hot block is carried over");
    assert_eq!(life.hits(1..6), 0, "cold ones have left");
    let usage = life.usage();
    assert!(usage.counts.reclaimed > 8 && usage.counts.carried_bytes > 0, "{usage:?}");
    assert!(usage.used_bytes < usage.area_bytes);
    life.end();
}

fn what_is_carried_over_is_for_a_policy_to_say(body: Body) {
    for carry_over in CarryOverKind::ALL {
        let medium = body(8);
        medium.set_policies(AreaPolicies { carry_over: *carry_over, ..AreaPolicies::default() });
        let mut life = Life::begin(&medium);
        life.keep_all(0..8);
        // More than twice what the area holds.
        for block in 8..100 {
            life.keep_all(block..block + 1);
            life.hits(HOT);
        }
        // What has just been carried over is found once it is written.
        life.flush();
        let (hits, carried) = (life.hits(HOT), life.usage().counts.carried_bytes);
        let expected = if *carry_over == CarryOverKind::Never { 0 } else { 1 };
        assert_eq!((hits, carried > 0), (expected, expected > 0), "{carry_over}");
        life.end();
    }
}

fn however_much_is_read_four_fifths_of_what_is_emptied_make_room(body: Body) {
    for carry_over in CarryOverKind::ALL {
        let medium = body(8);
        medium.set_policies(AreaPolicies { carry_over: *carry_over, ..AreaPolicies::default() });
        let mut life = Life::begin(&medium);
        for block in 0..150 {
            life.keep_all(block..block + 1);
            life.hits(block.saturating_sub(20)..block + 1);
        }
        let usage = life.usage();
        let emptied_bytes = usage.counts.reclaimed * u64::from(SEGMENT_BYTES);
        assert!(usage.counts.reclaimed > 8, "{usage:?}");
        assert!(usage.counts.carried_bytes <= emptied_bytes / 5, "{carry_over}: {usage:?}");
        life.end();
    }
}

fn where_there_is_no_room_a_scan_is_not_written(body: Body) {
    for admission in AdmissionKind::ALL {
        let medium = body(8);
        medium.set_policies(AreaPolicies { admission: *admission, ..AreaPolicies::default() });
        let mut life = Life::begin(&medium);
        assert_eq!(life.bring_all(0..8), 8, "there is room");
        life.bring_all(8..60);
        let before = life.usage().counts;
        let (scanned, again) = (life.bring_all(100..160), life.bring_all(100..160));
        let counts = life.usage().counts;
        assert_eq!(again, 60, "{admission}: what comes again is written");
        if *admission == AdmissionKind::Always {
            assert_eq!((scanned, counts.unadmitted), (60, 0));
        } else {
            assert!(scanned <= 6, "{scanned} of a scan were written");
            assert_eq!(counts.unadmitted - before.unadmitted, 60 - scanned as u64);
        }
        assert!(life.hits(100..160) > 10, "{admission}");
        life.end();
    }
}

fn where_the_index_is_full_the_oldest_blocks_make_room(body: Body) {
    let medium = body(16);
    // Of a part of the blocks that the area has room for.
    medium.set_ceilings(Ceilings { index_bytes: 2 << 10, header_bytes: 2 << 10, ..Ceilings::WIDE });
    for first in [0, 200] {
        let mut life = Life::begin(&medium);
        for block in first..first + 100 {
            life.keep_all(block..block + 1);
            assert_eq!(life.hits(block..block + 1), 1, "block {block}");
        }
        life.close();
        life.end();
    }
}

fn a_block_that_is_asked_for_as_anothers_stays(body: Body) {
    let medium = body(16);
    // Whether headers are kept in memory or not.
    for header_bytes in [0, 16 << 10] {
        medium.set_ceilings(Ceilings { header_bytes, ..Ceilings::WIDE });
        let mut life = Life::begin(&medium);
        life.keep_all(0..4);
        for block in 0..4 {
            let read = life.read_as_another(block, ByteRange::new(0, 1000));
            assert_eq!(read.expect_err("it is another's"), NotOnDisk::Anothers);
        }
        assert_eq!(life.hits(0..4), 4);
        assert_eq!(life.usage().counts.damaged, 0);
        life.end();
        medium.wipe();
    }
}

fn a_segment_that_shows_a_former_life_leaves_nothing_behind(body: Body) {
    let medium = body(8);
    let mut life = Life::begin(&medium);
    life.keep_all(0..60);
    life.close();
    let former = medium.all();
    // As long as it takes to use every segment again.
    let mut block = 60;
    while life.usage().counts.reclaimed < 16 {
        life.keep_all(block..block + 1);
        block += 1;
    }
    let before = block;
    life.close();
    medium.put_all(&former);
    let reclaimed = life.usage().counts.reclaimed;
    while life.usage().counts.reclaimed == reclaimed {
        life.keep_all(block..block + 1);
        block += 1;
    }
    // What is a miss is not found either.
    life.hits(60..before);
    life.end();
}

fn a_summary_that_is_damaged_loses_no_record(body: Body) {
    let medium = body(16);
    let mut rng = nilas_base::Rng::from_seed(3);
    for _ in 0..20 {
        let mut life = Life::begin(&medium);
        life.keep_all(0..20);
        life.close();
        life.end();
        medium.spoil_summaries(&mut rng);
        let mut life = Life::begin(&medium);
        assert_eq!(life.hits(0..20), 20);
        assert_eq!(life.usage().counts.damaged, 0);
        life.end();
        medium.wipe();
    }
}

fn what_comes_while_a_store_looks_at_its_device_is_kept_too(body: Body) {
    let medium = body(16);
    let mut life = Life::begin(&medium);
    life.keep_all(0..20);
    life.end();
    let mut life = Life::begin_keeping(&medium, 20..40);
    assert_eq!(life.hits(0..40), 40);
    life.end();
}

#[test]
fn on_whatever_an_area_holds_a_store_begins_and_keeps() {
    for seed in 0..100 {
        let medium = simulated(8);
        medium.write_whatever(seed);
        let mut life = Life::begin(&medium);
        // What seems to be there is not, and makes room.
        assert_eq!(life.hits(0..60), 0, "seed {seed}");
        life.keep_all(0..20);
        assert_eq!(life.hits(0..20), 20, "seed {seed}");
        life.end();
    }
}

fn on_a_real_device_no_byte_is_wrong(body: fn() -> Stage) {
    let (mut hits, mut damaged) = (0, 0);
    for seed in seeds(("NILAS_AREA_REAL_FIRST_SEED", "NILAS_AREA_REAL_SEEDS"), REAL_STORIES) {
        let ending = Story::real(seed, body).play(REAL_STORY_STEPS);
        hits += ending.hits;
        damaged += ending.damaged;
    }
    assert!(hits > 1000 && damaged > 10, "{hits} hits, {damaged} damaged: the story is one");
}

#[test]
fn on_a_real_device_no_byte_is_wrong_io_uring() {
    on_a_real_device_no_byte_is_wrong(Stage::io_uring);
}

#[test]
fn on_a_real_device_no_byte_is_wrong_epoll() {
    on_a_real_device_no_byte_is_wrong(Stage::epoll);
}

/// Operations in each of a seed's stories, in the simulator and on real files.
const STORY_STEPS: u32 = 400;
const REAL_STORY_STEPS: u32 = 3000;

/// Seeds that are played where nobody says otherwise.
const STORIES: u64 = 60;
const REAL_STORIES: u64 = 3;

fn seeds((first, count): (&str, &str), count_otherwise: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number(first).unwrap_or(0);
    first..first + number(count).unwrap_or(count_otherwise)
}

#[test]
fn a_read_is_one_operation_but_where_its_header_lies_apart_and_is_not_kept() {
    let medium = simulated(16);
    medium.set_ceilings(Ceilings { header_bytes: 2 << 10, ..Ceilings::WIDE });
    let mut life = Life::begin(&medium);
    life.keep_all(0..20);
    let mut operations = |number, wanted| {
        let before = medium.reads();
        life.read(number, wanted);
        medium.reads() - before
    };
    // Those that were written last may be kept.
    let (whole, middle) = (ByteRange::new(0, 200_000), ByteRange::new(81_920, 100_000));
    assert_eq!(operations(0, whole), 1, "header and data side by side");
    assert_eq!(operations(1, middle), 2, "header and data apart");
    assert_eq!(operations(1, middle), 1, "its header is kept now");
    life.end();
}

fn stories() -> std::ops::Range<u64> {
    seeds(("NILAS_AREA_FIRST_SEED", "NILAS_AREA_SEEDS"), STORIES)
}

#[test]
fn with_faults_of_every_kind_no_byte_is_wrong() {
    let (mut hits, mut damaged, mut failures) = (0, 0, 0);
    for seed in stories() {
        let ending = Story::simulated(seed, true).play(STORY_STEPS);
        hits += ending.hits;
        damaged += ending.damaged;
        failures += ending.failures;
    }
    assert!(hits > 1000 && damaged > 100 && failures > 100, "{hits}, {damaged}, {failures}");
}

#[test]
fn a_device_that_only_loses_power_loses_only_what_was_not_written() {
    let mut hits = 0;
    for seed in stories() {
        let ending = Story::simulated(seed, false).play(STORY_STEPS);
        hits += ending.hits;
        assert_eq!(ending.failures, 0, "seed {seed}");
    }
    assert!(hits > 1000, "{hits}");
}

#[cfg(feature = "mutations")]
mod mutations {
    use std::panic::catch_unwind;

    use nilas_shards::mutation::DiskMutation;

    use super::{Story, a_summary_that_is_damaged_loses_no_record, simulated};

    /// Seeds within which a planted mistake must be found.
    const SEEDS_MAX: u64 = 1000;

    fn is_found(mutation: DiskMutation, seed: u64) -> bool {
        DiskMutation::plant(Some(mutation));
        let played = catch_unwind(|| match mutation {
            DiskMutation::SummaryUnchecked => {
                a_summary_that_is_damaged_loses_no_record(simulated);
            }
            _ => drop(Story::simulated(seed, true).play(super::STORY_STEPS)),
        });
        DiskMutation::plant(None);
        played.is_err()
    }

    #[test]
    fn every_planted_mistake_is_found_within_a_thousand_seeds() {
        for mutation in DiskMutation::ALL {
            let found = (0..SEEDS_MAX).find(|seed| is_found(mutation, *seed));
            assert!(found.is_some(), "{mutation:?} was not found");
            println!("{mutation:?}: seed {}", found.expect("just seen"));
        }
    }
}

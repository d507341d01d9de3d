//! What damage of each kind comes to, between two openings.

use super::bench::{Bench, PAGE, Replay, SEGMENT_PAGES, SEGMENTS, whole};
use crate::journal::Damage;
use crate::ring::RingBody;

const AREA_PAGES: u64 = SEGMENTS * SEGMENT_PAGES;
const RING_START: u64 = 2;

fn is_damaged(replay: &Replay) -> bool {
    matches!(replay, Replay::Damaged(_))
}

/// A journal with entries of about a page each, stopped cleanly, and a copy of its area.
fn stopped(body: RingBody, entries: u8) -> (Bench, Replay, Vec<u8>) {
    let bench = Bench::new(body);
    let (opened, _) = bench.open();
    let all: Vec<Vec<u8>> = (0..entries).map(|number| vec![number; 3000]).collect();
    let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    opened.append_durably(&all);
    opened.stop();
    let bytes = bench.bytes();
    (bench, whole(&all), bytes)
}

/// Opens after `spoil`, and puts all back.
fn replay_after(bench: &Bench, bytes: &[u8], spoil: impl FnOnce(&Bench)) -> Replay {
    spoil(bench);
    let replay = bench.replay();
    bench.put(0, bytes);
    replay
}

fn page_of(bytes: &[u8], page: u64) -> &[u8] {
    &bytes[(page * PAGE) as usize..][..PAGE as usize]
}

fn segment_of(bytes: &[u8], segment: u64) -> &[u8] {
    let length = (SEGMENT_PAGES * PAGE) as usize;
    &bytes[segment as usize * length..][..length]
}

/// The same bytes with one bit changed.
fn flipped(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 0x10;
    bytes
}

pub(super) fn one_copy_of_the_ledger_is_enough(body: RingBody) {
    let (bench, expected, bytes) = stopped(body, 6);
    for end in [0, AREA_PAGES - 2] {
        let replay = replay_after(&bench, &bytes, |bench| {
            bench.put(end, &flipped(page_of(&bytes, end), 40));
            bench.put(end + 1, &[0xee; PAGE as usize]);
        });
        assert_eq!(replay, expected, "without the copies at {end}");
    }
}

pub(super) fn without_a_ledger_nothing_is_believed(body: RingBody) {
    let (bench, _, bytes) = stopped(body, 6);
    for blank in [0, 0xee] {
        let replay = replay_after(&bench, &bytes, |bench| {
            for page in [0, 1, AREA_PAGES - 2, AREA_PAGES - 1] {
                bench.put(page, &[blank; PAGE as usize]);
            }
        });
        assert_eq!(replay, Replay::Damaged(Damage::NoLedger));
    }
    // The latest ledger is one of the two; of the other it is not known that it was not later.
    for which in [0, 1] {
        let replay = replay_after(&bench, &bytes, |bench| {
            for page in [which, AREA_PAGES - 2 + which] {
                bench.put(page, &flipped(page_of(&bytes, page), 500));
            }
        });
        assert_eq!(replay, Replay::Damaged(Damage::NoLedger));
    }
}

pub(super) fn every_lost_page_of_the_log_is_seen(body: RingBody) {
    let (bench, expected, bytes) = stopped(body, 6);
    for (number, page) in (1..).zip(RING_START..RING_START + 6) {
        for lost in [vec![0; PAGE as usize], flipped(page_of(&bytes, page), 2000)] {
            let replay = replay_after(&bench, &bytes, |bench| bench.put(page, &lost));
            assert_eq!(replay, Replay::Damaged(Damage::Gap { number }), "page {page}");
        }
    }
    let replay = replay_after(&bench, &bytes, |bench| {
        bench.put(RING_START + 6, &[0xee; PAGE as usize]);
    });
    assert_eq!(replay, expected, "nothing was there");
}

pub(super) fn an_area_that_is_cut_off_is_damaged(body: RingBody) {
    let (bench, expected, bytes) = stopped(body, 20);
    for pages in [0, 1, RING_START, RING_START + 7, RING_START + 19] {
        let replay = replay_after(&bench, &bytes, |bench| bench.cut(pages));
        assert!(is_damaged(&replay), "cut off at {pages}: {replay:?}");
    }
    // What is written at the start makes the file as long as it was.
    let replay = replay_after(&bench, &bytes, |bench| bench.cut(RING_START + 20));
    assert_eq!(replay, expected, "the first ledgers and all batches are there");
}

pub(super) fn segments_that_are_exchanged_are_damage(body: RingBody) {
    let (bench, _, bytes) = stopped(body, 50);
    for one in 0..SEGMENTS {
        for other in 0..one {
            let replay = replay_after(&bench, &bytes, |bench| {
                bench.put(one * SEGMENT_PAGES, segment_of(&bytes, other));
                bench.put(other * SEGMENT_PAGES, segment_of(&bytes, one));
            });
            assert!(is_damaged(&replay), "{one} and {other}: {replay:?}");
        }
    }
}

pub(super) fn an_older_content_of_a_segment_is_damage(body: RingBody) {
    let (bench, _, older) = stopped(body, 20);
    let (opened, _) = bench.open();
    let later: Vec<Vec<u8>> = (100..130).map(|number| vec![number; 3000]).collect();
    opened.append_durably(&later.iter().map(Vec::as_slice).collect::<Vec<_>>());
    opened.stop();
    let bytes = bench.bytes();
    let expected = bench.replay();
    assert!(matches!(&expected, Replay::Whole(entries) if entries.len() == 50));
    bench.put(0, &bytes);
    for segment in 0..SEGMENTS {
        let replay = replay_after(&bench, &bytes, |bench| {
            bench.put(segment * SEGMENT_PAGES, segment_of(&older, segment));
        });
        // The first has one copy of the ledger, and batches that are as they were.
        if segment == 0 {
            assert_eq!(replay, expected);
        } else {
            assert!(is_damaged(&replay), "{segment}: {replay:?}");
        }
    }
    // Both copies, and a batch that none of them knows: their age is told by that.
    let replay = replay_after(&bench, &bytes, |bench| {
        for page in [0, 1, AREA_PAGES - 2, AREA_PAGES - 1] {
            bench.put(page, page_of(&older, page));
        }
    });
    assert_eq!(replay, Replay::Damaged(Damage::Outdated));
}

/// The first opening leaves batches that the second does not see, for one before them is missing. They fit into what
/// the second one writes there, by their place and number, and must not come back.
pub(super) fn what_an_earlier_opening_left_behind_is_not_taken(body: RingBody) {
    let bench = Bench::new(body);
    let (opened, _) = bench.open();
    opened.append_durably(&[b"one"]);
    let ledger_of_one = bench.bytes();
    opened.append_durably(&[b"two", b"three"]);
    opened.kill();
    // As if power had failed: the ledger of the first is the last that was durable, and "two" was lost.
    let left = bench.bytes();
    for page in [0, 1, AREA_PAGES - 2, AREA_PAGES - 1] {
        bench.put(page, page_of(&ledger_of_one, page));
    }
    bench.put(RING_START + 1, &[0; PAGE as usize]);
    let (opened, replay) = bench.open();
    assert_eq!(replay, whole(&[b"one"]));
    opened.append_durably(&[b"two"]);
    opened.kill();
    assert_eq!(page_of(&bench.bytes(), RING_START + 2), page_of(&left, RING_START + 2));
    assert_eq!(bench.replay(), whole(&[b"one", b"two"]));
}

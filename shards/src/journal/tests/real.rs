//! Random use of a journal on a real file, which ends by a stop or a kill, with damage to one segment or none before
//! the next opening.

use std::time::Duration;

use nilas_base::Rng;

use super::bench::{Bench, Opened, PAGE, Replay, SEGMENT_PAGES, SEGMENTS};
use super::model::{History, spawn_users};
use crate::ring::RingBody;

const SEEDS: u64 = 25;
const OPENINGS: u64 = 6;
const SEGMENT_BYTES: usize = (SEGMENT_PAGES * PAGE) as usize;

pub(super) fn no_kill_and_no_damage_loses_what_is_durable(body: RingBody) {
    let (mut whole, mut damaged) = (0, 0);
    for seed in 0..SEEDS {
        let replays = play(body, seed);
        whole += replays.iter().filter(|it| matches!(it, Replay::Whole(_))).count();
        damaged += replays.iter().filter(|it| matches!(it, Replay::Damaged(_))).count();
    }
    assert!(whole > 50 && damaged > 3, "{whole} whole, {damaged} damaged");
}

fn play(body: RingBody, seed: u64) -> Vec<Replay> {
    let mut rng = Rng::from_seed(seed);
    let bench = Bench::new(body);
    let history = History::default();
    let mut older = vec![bench.bytes()];
    let mut replays = Vec::new();
    let mut is_spoilt = true;
    for opening in 0..OPENINGS {
        let (opened, replay) = bench.open();
        let at = format!("{body} seed {seed} opening {opening}");
        if let Err(wrong) = history.take(&replay) {
            panic!("{at}: {wrong}");
        }
        assert!(is_spoilt || matches!(replay, Replay::Whole(_)), "{at}: {replay:?}");
        // It stays so until something is made durable, for which a busy machine may give it no time.
        let was_damaged = matches!(replay, Replay::Damaged(_));
        replays.push(replay);
        let Opened { reactor, journal } = &opened;
        spawn_users(journal, &history, &mut rng);
        reactor.block_on(reactor.sleep(Duration::from_millis(1 + rng.below(30))));
        if rng.chance(1, 2) {
            reactor.block_on(history.flush(journal));
        }
        is_spoilt = was_damaged || journal.has_failed();
        opened.kill();
        let bytes = bench.bytes();
        if rng.chance(1, 3) {
            is_spoilt = true;
            spoil(&bench, &mut rng, &bytes, &older);
        }
        older.push(bytes);
    }
    replays
}

/// Damages one segment, or exchanges two.
fn spoil(bench: &Bench, rng: &mut Rng, bytes: &[u8], older: &[Vec<u8>]) {
    let number = rng.below(SEGMENTS);
    let start = number as usize * SEGMENT_BYTES;
    let segment = &bytes[start..][..SEGMENT_BYTES];
    let first_page = number * SEGMENT_PAGES;
    match rng.below(4) {
        0 => {
            let mut flipped = segment.to_vec();
            flipped[rng.below(SEGMENT_BYTES as u64) as usize] ^= 1 << rng.below(8);
            bench.put(first_page, &flipped);
        }
        1 => bench.cut(first_page + rng.below(SEGMENT_PAGES)),
        2 => {
            let other = rng.below(SEGMENTS);
            bench.put(other * SEGMENT_PAGES, segment);
            bench.put(first_page, &bytes[other as usize * SEGMENT_BYTES..][..SEGMENT_BYTES]);
        }
        _ => {
            let older = &older[rng.below(older.len() as u64) as usize];
            bench.put(first_page, &older[start..][..SEGMENT_BYTES]);
        }
    }
}

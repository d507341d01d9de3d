//! A journal on whatever an area may hold: ledgers and batches that are whole and make no sense, and noise. Whatever
//! that is worth, it opens, and what it is given then is found again, or nothing is believed.

use nilas_base::Rng;

use super::bench::{Bench, DEVICE, OWNER, PAGE, Replay, SEGMENT_PAGES, SEGMENTS};
use crate::disk::{BatchHeader, Entries, Generation, Ledger};
use crate::ring::RingBody;

const AREA_PAGES: u64 = SEGMENTS * SEGMENT_PAGES;
const AREAS: u64 = 200;

pub(super) fn on_whatever_an_area_holds_a_journal_opens(body: RingBody) {
    let (mut whole, mut damaged, mut found) = (0, 0, 0);
    for seed in 0..AREAS {
        let bench = Bench::new(body);
        write_whatever(&bench, &mut Rng::from_seed(seed));
        let (opened, replay) = bench.open();
        whole += u64::from(matches!(replay, Replay::Whole(_)));
        damaged += u64::from(matches!(replay, Replay::Damaged(_)));
        opened.append_durably(&[b"entry"]);
        opened.kill();
        match bench.replay() {
            Replay::Whole(entries) => {
                assert_eq!(entries.last().map(|it| &**it), Some(&b"entry"[..]), "seed {seed}");
                found += 1;
            }
            Replay::Fresh | Replay::Another => {
                panic!("seed {seed}: what is durable is there or missed")
            }
            // By what is whole and seems to be later.
            Replay::Damaged(_) => {}
        }
    }
    assert!(whole > 0 && damaged > 0 && found > 0, "{whole}, {damaged}, {found}");
}

fn write_whatever(bench: &Bench, rng: &mut Rng) {
    for page in 0..AREA_PAGES {
        match rng.below(4) {
            0 => {}
            1 => bench.put(page, &noise(rng, PAGE)),
            // Those that are longer than a page are torn by what comes next, or not.
            _ => bench.put(
                page,
                &batch(rng, page as u32).into_iter().take(room(page)).collect::<Vec<_>>(),
            ),
        }
    }
    for page in [0, 1, AREA_PAGES - 2, AREA_PAGES - 1] {
        if rng.chance(2, 3) {
            bench.put(page, &ledger(rng).encode(page as u32));
        }
    }
}

fn room(page: u64) -> usize {
    ((AREA_PAGES - page) * PAGE) as usize
}

fn noise(rng: &mut Rng, bytes: u64) -> Vec<u8> {
    (0..bytes / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect()
}

/// Small, as they are, or any.
fn number(rng: &mut Rng) -> u64 {
    match rng.below(4) {
        0 => rng.next_u64(),
        1 => (u64::MAX >> 1) - rng.below(2),
        _ => rng.below(4),
    }
}

fn batch(rng: &mut Rng, page: u32) -> Vec<u8> {
    let mut entries = Entries::default();
    for _ in 0..rng.below(4) {
        let bytes = 8 * rng.below(700);
        entries.push(&noise(rng, bytes), 4);
    }
    let (number, generation) = (number(rng), Generation(number(rng)));
    let previous = rng.below(2) as u32;
    let header =
        BatchHeader { device: DEVICE, area: 2, owner: OWNER, page, number, generation, previous };
    header.encode(&entries).0
}

fn ledger(rng: &mut Rng) -> Ledger {
    let durable = number(rng);
    Ledger {
        device: DEVICE,
        area: 2,
        owner: OWNER,
        generation: Generation(number(rng)),
        sequence: number(rng),
        first: if rng.chance(1, 2) { durable.saturating_add(1) } else { number(rng) },
        first_page: if rng.chance(3, 4) {
            rng.below(AREA_PAGES) as u32
        } else {
            number(rng) as u32
        },
        durable,
        durable_checksum: rng.below(2) as u32,
        is_void: rng.chance(1, 4),
    }
}

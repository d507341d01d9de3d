//! Every fault, drawn at random for every tenth request, while many clients read: each answer has the
//! right bytes, is an error that S3 has a name for, or is cut; and it passes.

use std::time::Duration;

use nilas_base::Rng;
use nilas_shards::RingBody;

use crate::behaviour::{Behaviour, Ending};
use crate::origin::{Asked, FaultyOrigin};
use crate::{HASTY, get_unless_cut, node_before, noise, on_both_bodies, target};

on_both_bodies! {
    in_any_weather_an_answer_is_right_or_an_error
}

const OBJECTS: u64 = 12;
const CLIENTS: u64 = 8;
const READS: u64 = 60;

fn drawn(asked: &Asked) -> Behaviour {
    let mix = |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte));
    let seed = asked.path.bytes().fold(asked.number, mix);
    let mut rng = Rng::from_seed(seed);
    if !rng.chance(1, 10) {
        return Behaviour::well();
    }
    let after = rng.below(1_500_000);
    match rng.below(8) {
        0 => Behaviour::late(Duration::from_millis(rng.below(500))),
        1 => Behaviour::reset(),
        2 => Behaviour::error(500),
        3 => Behaviour::error(503),
        4 => Behaviour::error_for(503, "1"),
        5 => Behaviour::ends(after, Ending::Cut),
        6 => Behaviour::ends(after, Ending::Reset),
        _ => Behaviour::ends(after, Ending::Stall),
    }
}

fn in_any_weather_an_answer_is_right_or_an_error(ring: RingBody) {
    let origin = FaultyOrigin::start();
    let objects: Vec<Vec<u8>> = (0..OBJECTS).map(|seed| noise(seed, 3 << 20)).collect();
    for (number, bytes) in objects.iter().enumerate() {
        origin.place(&format!("object-{number}"), bytes.clone());
    }
    origin.script(drawn);
    // Too small for all of them, so that they are fetched again and again.
    let node = node_before(&origin, ring, &[&HASTY[..], &["--cache.data_bytes", "16MiB"]].concat());
    let (objects, node) = (&objects, &node);
    let read_many = |seed| {
        let mut rng = Rng::from_seed(seed);
        let mut right = 0;
        for _ in 0..READS {
            let number = rng.below(OBJECTS) as usize;
            let bytes = &objects[number];
            let start = rng.below(bytes.len() as u64) as usize;
            let end = start + 1 + rng.below((bytes.len() - start) as u64) as usize;
            let range = format!("bytes={start}-{}", end - 1);
            let key = target(&format!("object-{number}"));
            match get_unless_cut(node, &key, &[("Range", &range)]) {
                Some(answer) if answer.status == 206 => {
                    assert!(answer.body == bytes[start..end], "object {number}, {range}");
                    right += 1;
                }
                Some(answer) => assert!(matches!(answer.status, 500 | 503), "{}", answer.status),
                None => {}
            }
        }
        right
    };
    let right: u64 = std::thread::scope(|scope| {
        let clients: Vec<_> =
            (0..CLIENTS).map(|seed| scope.spawn(move || read_many(seed))).collect();
        clients.into_iter().map(|client| client.join().expect("it read")).sum()
    });
    assert!(right * 100 >= CLIENTS * READS * 95, "{right} of {}", CLIENTS * READS);
    origin.behave();
    for (number, bytes) in objects.iter().enumerate() {
        let answer = node.client().get(&target(&format!("object-{number}")), &[]);
        assert!(answer.status == 200 && answer.body == *bytes, "object {number} afterwards");
    }
}

//! Reading ahead: who reads from front to back waits for the origin less often, at no more than twice
//! the bytes; who reads here and there costs what was asked for.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nilas_shards::RingBody;

use crate::behaviour::Behaviour;
use crate::origin::FaultyOrigin;
use crate::time::eventually;
use crate::{node_before, noise, on_both_bodies, target};

on_both_bodies! {
    sequential_requests_are_read_ahead_of_within_twice_their_bytes
    reads_that_are_not_sequential_are_not_read_ahead_of
    a_large_object_comes_by_many_connections_at_once
}

const PIECE: usize = 128 << 10;

fn sequential_requests_are_read_ahead_of_within_twice_their_bytes(ring: RingBody) {
    let origin = FaultyOrigin::start();
    let bytes = noise(1, 16 << 20);
    origin.place("object", bytes.clone());
    origin.script(|_| Behaviour::late(Duration::from_millis(30)));
    let node = node_before(&origin, ring, &[]);
    let mut client = node.client();
    let pieces = bytes.len() / PIECE;
    for number in 0..pieces {
        let (start, end) = (number * PIECE, (number + 1) * PIECE);
        let range = format!("bytes={start}-{}", end - 1);
        let answer = client.get(&target("object"), &[("Range", &range)]);
        assert!(answer.status == 206 && answer.body == bytes[start..end], "{range}");
        let asked = 2 * end.max(PIECE);
        assert!(origin.body_bytes() <= asked as u64, "{} at {end}", origin.body_bytes());
    }
    let asked = origin.asked().len();
    assert!(asked <= pieces / 3, "{asked} requests for {pieces}");
    assert_eq!(origin.body_bytes(), bytes.len() as u64, "and nothing twice");
}

fn reads_that_are_not_sequential_are_not_read_ahead_of(ring: RingBody) {
    let origin = FaultyOrigin::start();
    let bytes = noise(2, 16 << 20);
    origin.place("object", bytes.clone());
    let node = node_before(&origin, ring, &[]);
    let mut client = node.client();
    let sector = 64 << 10;
    // From back to front, then every other sector.
    for number in (0..64).rev() {
        let start = number * 4 * sector;
        let range = format!("bytes={start}-{}", start + sector - 1);
        let answer = client.get(&target("object"), &[("Range", &range)]);
        assert!(answer.body == bytes[start..start + sector]);
    }
    assert_eq!(origin.body_bytes(), 64 * sector as u64);
}

fn a_large_object_comes_by_many_connections_at_once(ring: RingBody) {
    let origin = FaultyOrigin::start();
    let bytes = noise(3, 32 << 20);
    origin.place("object", bytes.clone());
    // But for the first, which tells how long it is, none is answered before eight are asked.
    let waiting = Arc::new(Mutex::new(BTreeSet::new()));
    origin.script(move |asked| {
        let arrived = || waiting.lock().expect("nobody panics with it");
        if asked.number > 0 {
            arrived().insert(asked.range.clone());
            eventually("eight ranges are asked for at once", || arrived().len() >= 8);
        }
        Behaviour::well()
    });
    let node = node_before(&origin, ring, &["--cache.data_bytes", "256MiB"]);
    assert!(node.client().get(&target("object"), &[]).body == bytes);
}

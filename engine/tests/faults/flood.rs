//! Many clients at once on what is cold: the origin sends each byte once, and one who stalls holds up
//! nobody. Small reads far apart cost the origin little more than a sector each.

use std::sync::Barrier;
use std::time::Duration;

use nilas_shards::RingBody;

use crate::behaviour::Behaviour;
use crate::node::{BUCKET, TestNode};
use crate::origin::FaultyOrigin;
use crate::{node_before, noise, on_both_bodies, target};

on_both_bodies! {
    sixty_four_readers_of_a_cold_object_cost_each_byte_once
    one_reader_who_stalls_holds_up_nobody
    a_thousand_small_reads_cost_little_more_than_a_sector_each
}

const LENGTH: usize = 64 << 20;
const CLIENTS: usize = 64;

fn cold_node(ring: RingBody) -> (FaultyOrigin, TestNode, Vec<u8>) {
    let origin = FaultyOrigin::start();
    let bytes = noise(1, LENGTH);
    origin.place("object", bytes.clone());
    origin.script(|_| Behaviour::late(Duration::from_millis(5)));
    let node = node_before(&origin, ring, &["--cache.data_bytes", "256MiB"]);
    (origin, node, bytes)
}

/// Has all clients read the object at once.
fn read_at_once(node: &TestNode, bytes: &[u8], clients: usize) {
    let barrier = Barrier::new(clients);
    let read = || {
        let mut client = node.client();
        barrier.wait();
        let answer = client.get(&format!("/{BUCKET}/object"), &[]);
        assert!(answer.status == 200 && answer.body == bytes);
    };
    std::thread::scope(|scope| {
        (0..clients).for_each(|_| drop(scope.spawn(read)));
    });
}

fn sixty_four_readers_of_a_cold_object_cost_each_byte_once(ring: RingBody) {
    let (origin, node, bytes) = cold_node(ring);
    read_at_once(&node, &bytes, CLIENTS);
    assert_eq!(origin.body_bytes(), LENGTH as u64);
    let wanted: u64 = origin.asked().iter().map(asked_bytes).sum();
    assert_eq!(wanted, LENGTH as u64, "nor is any asked for twice");
}

fn asked_bytes(asked: &crate::origin::Asked) -> u64 {
    let range = asked.range.as_deref().expect("in parts").trim_start_matches("bytes=");
    let (first, last) = range.split_once('-').expect("two ends");
    let (first, last): (u64, u64) = (first.parse().expect("a number"), last.parse().expect("one"));
    last + 1 - first
}

fn one_reader_who_stalls_holds_up_nobody(ring: RingBody) {
    let (_origin, node, bytes) = cold_node(ring);
    let mut stalled = node.client();
    let head = stalled.signed_head("GET", &target("object"), &[], 0);
    stalled.write(&head);
    read_at_once(&node, &bytes, 16);
    // Had they waited for it, it would have been closed for them.
    assert_eq!(stalled.answer(false).body.len(), LENGTH, "the others had all while it stood still");
}

fn a_thousand_small_reads_cost_little_more_than_a_sector_each(ring: RingBody) {
    let (block, sector) = (1 << 20, 64 << 10);
    let origin = FaultyOrigin::start();
    let blocks = 200;
    let bytes = noise(2, blocks * block);
    // Five objects, so that the origin need not hold a thousand blocks of noise.
    for number in 0..5 {
        origin.place(&format!("object-{number}"), bytes.clone());
    }
    let flags = ["--cache.block_bytes", "1MiB", "--cache.data_bytes", "160MiB"];
    let node = node_before(&origin, ring, &flags);
    let mut client = node.client();
    let mut pass = || {
        for number in 0..1000 {
            let start = (number % blocks) * block + (number * 4099) % (block - 4096);
            let range = format!("bytes={start}-{}", start + 4095);
            let key = format!("object-{}", number / blocks);
            let answer = client.get(&target(&key), &[("Range", &range)]);
            assert_eq!(answer.status, 206, "{key} {range}: {}", answer.text());
            assert!(answer.body == bytes[start..start + 4096], "{key} {range}");
        }
    };
    pass();
    let cost = origin.body_bytes();
    assert!(cost <= 1000 * sector * 11 / 10, "{cost}");
    pass();
    assert_eq!(origin.body_bytes(), cost, "the next pass asks for nothing");
}

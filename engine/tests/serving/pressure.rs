//! More wanted than there is memory for: answers stay right and complete, budgets hold, readers of
//! large objects and of small ones get on side by side.

use std::time::Duration;

use nilas_base::Rng;
use nilas_engine::metrics::Resource;
use nilas_shards::RingBody;

use crate::client::TestClient;
use crate::node::{BUCKET, TestNode};
use crate::time::{eventually, pause};
use crate::{noise, on_both_bodies};

on_both_bodies! {
    an_object_larger_than_the_cache_is_read_whole_by_many
    random_reads_under_pressure_are_right
    stalled_readers_do_not_hold_up_others
    stalled_readers_that_took_all_leases_are_closed_in_time
    readers_that_leave_do_not_keep_the_memory
    few_mappings_serve_many_objects
}

const SMALL: [&str; 6] =
    ["--cache.data_bytes", "8MiB", "--cache.metadata_bytes", "8MiB", "--cache.block_bytes", "1MiB"];

fn budget_holds(node: &TestNode) {
    for cells in node.node().metrics().shards() {
        for resource in [Resource::DataBytes, Resource::MetadataBytes, Resource::MappingBytes] {
            let (used, most) =
                (cells.used[resource.index()].get(), cells.ceilings[resource.index()].get());
            assert!(used <= most, "{}: {used} of {most}", resource.label());
        }
    }
}

fn an_object_larger_than_the_cache_is_read_whole_by_many(ring: RingBody) {
    let node = TestNode::start(ring, &SMALL);
    let bytes = noise(1, 40 << 20);
    node.place("object", &bytes);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let read = node.client().get(&format!("/{BUCKET}/object"), &[]);
                assert!(read.status == 200 && read.body == bytes);
            });
        }
    });
    budget_holds(&node);
}

fn random_reads_under_pressure_are_right(ring: RingBody) {
    let node = TestNode::start(ring, &SMALL);
    let objects: Vec<Vec<u8>> =
        (0..6).map(|seed| noise(seed, (3 << 20) + 12_345 * seed as usize)).collect();
    for (number, bytes) in objects.iter().enumerate() {
        node.place(&format!("object-{number}"), bytes);
        node.place(&format!("t/metadata/{number}.avro"), bytes);
    }
    std::thread::scope(|scope| {
        for seed in 0..6 {
            let (node, objects) = (&node, &objects);
            scope.spawn(move || {
                let mut rng = Rng::from_seed(seed);
                let mut client = node.client();
                for _ in 0..60 {
                    let number = rng.below(objects.len() as u64) as usize;
                    let bytes = &objects[number];
                    let start = rng.below(bytes.len() as u64) as usize;
                    let reach = if rng.chance(1, 3) { 3 << 20 } else { 100_000 };
                    let end = (start + 1 + rng.below(reach) as usize).min(bytes.len());
                    let key = if rng.chance(1, 3) {
                        format!("t/metadata/{number}.avro")
                    } else {
                        format!("object-{number}")
                    };
                    let range = format!("bytes={start}-{}", end - 1);
                    let read = client.get(&format!("/{BUCKET}/{key}"), &[("Range", &range)]);
                    assert!(read.status == 206 && read.body == bytes[start..end], "{key} {range}");
                }
            });
        }
    });
    budget_holds(&node);
}

/// Clients that ask for this and read no more than its beginning.
fn stalled_readers(node: &TestNode, key: &str, count: usize) -> Vec<TestClient> {
    let stalled = std::iter::repeat_with(|| {
        let mut client = node.client();
        client.write(&client.signed_head("GET", &format!("/{BUCKET}/{key}"), &[], 0));
        client.read_some(100);
        client
    });
    stalled.take(count).collect()
}

fn stalled_readers_do_not_hold_up_others(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    let bytes = noise(1, 24 << 20);
    node.place("large", &bytes);
    node.place("small", b"content");
    let stalled = stalled_readers(&node, "large", 24);
    pause(Duration::from_millis(50));
    for _ in 0..20 {
        assert_eq!(node.client().get(&format!("/{BUCKET}/small"), &[]).text(), "content");
    }
    let read = node.client().get(&format!("/{BUCKET}/large"), &[]);
    assert!(read.body == bytes, "a reader that reads gets on, too");
    drop(stalled);
}

fn stalled_readers_that_took_all_leases_are_closed_in_time(ring: RingBody) {
    let flags = [&SMALL[..], &["--limits.send_idle_timeout", "300ms"]].concat();
    let node = TestNode::start(ring, &flags);
    let bytes = noise(1, 24 << 20);
    node.place("large", &bytes);
    node.place("metadata/small.avro", b"content");
    let stalled = stalled_readers(&node, "large", 24);
    // No data can take from the metadata's store.
    let small = node.client().get(&format!("/{BUCKET}/metadata/small.avro"), &[]);
    assert_eq!(small.text(), "content");
    assert!(node.client().get(&format!("/{BUCKET}/large"), &[]).body == bytes);
    eventually("the stalled ones are closed", || node.open_connections() == 0);
    drop(stalled);
}

fn readers_that_leave_do_not_keep_the_memory(ring: RingBody) {
    let flags = [&SMALL[..], &["--origin.first_byte_latency", "3ms"]].concat();
    let node = TestNode::start(ring, &flags);
    let objects: Vec<Vec<u8>> = (0..8).map(|seed| noise(seed, 9 << 20)).collect();
    for (number, bytes) in objects.iter().enumerate() {
        node.place(&format!("object-{number}"), bytes);
    }
    for _ in 0..3 {
        for number in 0..objects.len() {
            let mut leaver = node.client();
            leaver.write(&leaver.signed_head("GET", &format!("/{BUCKET}/object-{number}"), &[], 0));
            leaver.read_some(1000);
        }
        for (number, bytes) in objects.iter().enumerate().step_by(3) {
            let read = node.client().get(&format!("/{BUCKET}/object-{number}"), &[]);
            assert!(read.status == 200 && read.body == *bytes, "object-{number}");
        }
    }
    budget_holds(&node);
}

fn few_mappings_serve_many_objects(ring: RingBody) {
    let node =
        TestNode::start(ring, &["--cache.mapping_bytes", "128KiB", "--cache.mutable_ttl", "1h"]);
    let mut client = node.client();
    for number in 0..600 {
        node.place(&format!("object-{number}"), format!("content {number}").as_bytes());
    }
    for _ in 0..2 {
        for number in 0..600 {
            let read = client.get(&format!("/{BUCKET}/object-{number}"), &[]);
            assert_eq!(read.text(), format!("content {number}"));
        }
    }
    budget_holds(&node);
}

//! How long the cache believes what it knows: names that Iceberg never rewrites for good, all else
//! for its time to live; after that one conditional question, and no body where nothing changed.

use std::time::Duration;

use nilas_engine::origin::{OriginOperation, OriginSnapshot};
use nilas_shards::RingBody;

use crate::node::{BUCKET, TestNode};
use crate::time::pause;
use crate::{noise, on_both_bodies};

on_both_bodies! {
    a_mutable_object_is_asked_for_once_a_time_to_live
    a_change_behind_the_node_is_seen_after_the_time_to_live
    without_a_time_to_live_every_read_asks
    icebergs_own_names_are_never_asked_for_again
    a_data_file_beside_metadata_is_settled_by_one_listing
    a_data_file_without_metadata_stays_mutable
    a_table_whose_metadata_was_read_needs_no_listing
    immutable_globs_are_never_asked_for_again
    many_readers_of_a_cold_immutable_object_share_one_question_without_a_time_to_live
}

/// Requests and received bytes since `before`.
fn since(before: &OriginSnapshot, node: &TestNode) -> (u64, u64) {
    let now = node.origin_counts();
    (now.requests() - before.requests(), now.bytes_received() - before.bytes_received())
}

fn a_mutable_object_is_asked_for_once_a_time_to_live(ring: RingBody) {
    let node = TestNode::start(ring, &["--cache.mutable_ttl", "400ms"]);
    let bytes = noise(1, 3 << 20);
    node.place("object", &bytes);
    let target = format!("/{BUCKET}/object");
    let mut client = node.client();
    assert!(client.get(&target, &[]).body == bytes);
    let before = node.origin_counts();
    for _ in 0..5 {
        client.get(&target, &[("Range", "bytes=5-10")]);
        client.request("HEAD", &target, &[], b"");
    }
    assert_eq!(since(&before, &node).0, 0, "within its time nothing is asked");
    for method in ["GET", "HEAD"] {
        pause(Duration::from_millis(450));
        let before = node.origin_counts();
        for _ in 0..3 {
            let read = client.request(method, &target, &[], b"");
            assert!(read.status == 200 && (method == "HEAD" || read.body == bytes));
        }
        assert_eq!(since(&before, &node), (1, 0), "{method}: one question, answered by 304");
    }
}

fn a_change_behind_the_node_is_seen_after_the_time_to_live(ring: RingBody) {
    let node = TestNode::start(ring, &["--cache.mutable_ttl", "100ms"]);
    let target = format!("/{BUCKET}/object");
    let mut client = node.client();
    for round in 0..4 {
        // Of one length, too: the ETag tells them apart.
        let bytes = noise(round, 2_500_000 + 7 * (round as usize / 2));
        node.place("object", &bytes);
        pause(Duration::from_millis(120));
        for _ in 0..2 {
            let read = client.get(&target, &[]);
            assert!(read.status == 200 && read.body == bytes, "round {round}");
            let part = client.get(&target, &[("Range", "bytes=2097000-2400000")]);
            assert!(
                part.status == 206 && part.body == bytes[2_097_000..2_400_001],
                "round {round}"
            );
        }
    }
    std::fs::remove_file(node.bucket_directory().join("object")).expect("the object");
    pause(Duration::from_millis(120));
    assert_eq!(client.get(&target, &[]).status, 404);
}

fn without_a_time_to_live_every_read_asks(ring: RingBody) {
    let node = TestNode::start(ring, &["--cache.mutable_ttl", "0s"]);
    let target = format!("/{BUCKET}/object");
    let mut client = node.client();
    for round in 0..4 {
        let bytes = noise(round, 100_000);
        node.place("object", &bytes);
        assert!(client.get(&target, &[]).body == bytes, "round {round}");
        let before = node.origin_counts();
        for _ in 0..3 {
            assert!(client.get(&target, &[]).body == bytes, "round {round}");
        }
        assert_eq!(since(&before, &node), (3, 0), "each asks, none is sent the bytes again");
    }
}

fn icebergs_own_names_are_never_asked_for_again(ring: RingBody) {
    for ttl in ["0s", "10ms"] {
        let node = TestNode::start(ring, &["--cache.mutable_ttl", ttl]);
        let keys = [
            "00001-a.metadata.json",
            "v2.gz.metadata.json",
            "snap-1-a.avro",
            "a-m0.avro",
            "a.stats",
            "a.puffin",
        ];
        let mut client = node.client();
        let mut targets = Vec::new();
        for key in keys {
            node.place(&format!("db/t/metadata/{key}"), &noise(key.len() as u64, 20_000));
            targets
                .push((format!("/{BUCKET}/db/t/metadata/{key}"), noise(key.len() as u64, 20_000)));
        }
        for (target, bytes) in &targets {
            assert!(client.get(target, &[]).body == *bytes, "{target}");
        }
        pause(Duration::from_millis(30));
        let before = node.origin_counts();
        for (target, bytes) in &targets {
            assert!(client.get(target, &[]).body == *bytes, "{target}");
            assert_eq!(
                client.get(target, &[("Range", "bytes=-8")]).body,
                bytes[19_992..],
                "{target}"
            );
            assert_eq!(client.request("HEAD", target, &[], b"").status, 200, "{target}");
        }
        assert_eq!(since(&before, &node), (0, 0), "{ttl}");
    }
}

fn lists(node: &TestNode) -> u64 {
    node.origin_counts().of(OriginOperation::List).requests
}

fn a_data_file_beside_metadata_is_settled_by_one_listing(ring: RingBody) {
    let node = TestNode::start(ring, &["--cache.mutable_ttl", "20ms"]);
    node.place("db/t/metadata/00001-a.metadata.json", b"{}");
    let mut client = node.client();
    let files: Vec<String> =
        (0..6).map(|number| format!("db/t/data/p={number}/a.parquet")).collect();
    for round in 0..4 {
        for (number, file) in files.iter().enumerate() {
            let bytes = noise(number as u64, 70_000);
            if round == 0 {
                node.place(file, &bytes);
            }
            assert!(client.get(&format!("/{BUCKET}/{file}"), &[]).body == bytes, "{round} {file}");
        }
        pause(Duration::from_millis(30));
    }
    assert_eq!(lists(&node), 1);
    let gets = node.origin_counts().of(OriginOperation::GetObject).requests;
    assert_eq!(gets, files.len() as u64, "no file was asked for twice");
    let before = node.origin_counts();
    for file in &files {
        client.get(&format!("/{BUCKET}/{file}"), &[]);
        client.request("HEAD", &format!("/{BUCKET}/{file}"), &[], b"");
    }
    assert_eq!(since(&before, &node), (0, 0));
}

fn a_data_file_without_metadata_stays_mutable(ring: RingBody) {
    let node = TestNode::start(ring, &["--cache.mutable_ttl", "20ms"]);
    let target = format!("/{BUCKET}/logs/data/file");
    let mut client = node.client();
    for round in 0..4 {
        let bytes = noise(round, 1000);
        node.place("logs/data/file", &bytes);
        pause(Duration::from_millis(30));
        assert!(client.get(&target, &[]).body == bytes, "round {round}");
    }
    assert_eq!(lists(&node), 1, "what a folder is, is asked once");
}

fn a_table_whose_metadata_was_read_needs_no_listing(ring: RingBody) {
    let node = TestNode::start(ring, &["--cache.mutable_ttl", "20ms"]);
    node.place("db/t/metadata/00001-a.metadata.json", b"{}");
    node.place("db/t/data/a.parquet", b"data");
    let mut client = node.client();
    assert_eq!(
        client.get(&format!("/{BUCKET}/db/t/metadata/00001-a.metadata.json"), &[]).text(),
        "{}"
    );
    assert_eq!(client.get(&format!("/{BUCKET}/db/t/data/a.parquet"), &[]).text(), "data");
    pause(Duration::from_millis(50));
    let before = node.origin_counts();
    for _ in 0..3 {
        for mut client in [node.client(), node.client()] {
            assert_eq!(client.get(&format!("/{BUCKET}/db/t/data/a.parquet"), &[]).text(), "data");
        }
    }
    assert_eq!(since(&before, &node), (0, 0));
}

fn immutable_globs_are_never_asked_for_again(ring: RingBody) {
    let flags = ["--cache.mutable_ttl", "0s", "--cache.immutable_globs", "lake/archive/**"];
    let node = TestNode::start(ring, &flags);
    node.place("archive/2020/a", b"content");
    let mut client = node.client();
    assert_eq!(client.get(&format!("/{BUCKET}/archive/2020/a"), &[]).text(), "content");
    let before = node.origin_counts();
    assert_eq!(client.get(&format!("/{BUCKET}/archive/2020/a"), &[]).text(), "content");
    assert_eq!(since(&before, &node), (0, 0));
}

fn many_readers_of_a_cold_immutable_object_share_one_question_without_a_time_to_live(
    ring: RingBody,
) {
    let flags = ["--cache.mutable_ttl", "0s", "--origin.first_byte_latency", "30ms"];
    let node = TestNode::start(ring, &flags);
    let bytes = noise(1, 500_000);
    node.place("t/metadata/a.avro", &bytes);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                assert!(
                    node.client().get(&format!("/{BUCKET}/t/metadata/a.avro"), &[]).body == bytes
                );
            });
        }
    });
    assert_eq!(node.origin_counts().bytes_received(), 500_000);
    assert_eq!(node.origin_requests(), 1);
}

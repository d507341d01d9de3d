//! What users of other caches ran into, each as the claim that it does not happen here.

use std::time::Duration;

use nilas_base::Rng;
use nilas_engine::origin::OriginOperation;
use nilas_shards::RingBody;

use crate::node::{BUCKET, TestNode};
use crate::origin::WritableOrigin;
use crate::time::pause;
use crate::{node_before, noise, on_both_bodies, target};

on_both_bodies! {
    readers_of_one_sector_at_once_each_get_all_of_it
    a_first_read_that_does_not_begin_at_zero_is_put_where_it_belongs
    a_new_etag_never_stands_beside_the_old_length
    parts_of_two_versions_are_neither_mixed_nor_kept
    an_object_without_validators_is_never_kept
    warm_reads_are_answered_from_the_cache_as_the_origin_counts
    files_that_never_change_are_not_asked_about_however_often_they_are_headed
    head_and_get_agree_on_whether_an_object_exists
}

fn readers_of_one_sector_at_once_each_get_all_of_it(ring: RingBody) {
    let node = TestNode::start(ring, &["--origin.first_byte_latency", "5ms"]);
    let bytes = noise(1, 3 << 20);
    for round in 0..6 {
        let key = format!("object-{round}");
        node.place(&key, &bytes);
        std::thread::scope(|scope| {
            for reader in 0..8_usize {
                let (node, key, bytes) = (&node, &key, &bytes);
                scope.spawn(move || {
                    let mut client = node.client();
                    for step in 0..8 {
                        let start = 65_536 * 3 + 1000 * reader + 7 * step;
                        let range = format!("bytes={start}-{}", start + 65_535);
                        let read = client.get(&target(key), &[("Range", &range)]);
                        let expected = &bytes[start..start + 65_536];
                        assert!(read.status == 206 && read.body == expected, "{range}");
                    }
                });
            }
        });
    }
}

fn a_first_read_that_does_not_begin_at_zero_is_put_where_it_belongs(ring: RingBody) {
    let length = (4 << 20) + 12_345;
    let bytes = noise(1, length);
    let node = TestNode::start(ring, &["--cache.mutable_ttl", "1h"]);
    let mut client = node.client();
    let starts = [1, 4095, 65_535, 65_536, 2_097_151, 2_097_152, 3_000_001, length - 1];
    for (number, start) in starts.into_iter().enumerate() {
        let key = format!("object-{number}");
        node.place(&key, &bytes);
        let first =
            client.get(&target(&key), &[("Range", &format!("bytes={start}-{}", start + 99))]);
        assert!(first.body == bytes[start..length.min(start + 100)], "{start}");
        let last = client.get(&target(&key), &[("Range", "bytes=-77")]);
        assert!(last.body == bytes[length - 77..], "{start}");
        assert!(client.get(&target(&key), &[]).body == bytes, "{start}");
    }
}

/// Changes an object behind the node, with another length each time, and reads it in every way.
fn a_new_etag_never_stands_beside_the_old_length(ring: RingBody) {
    let origin = WritableOrigin::start();
    let node = node_before(&origin, ring, &["--cache.mutable_ttl", "0s"]);
    let mut client = node.client();
    let mut rng = Rng::from_seed(20);
    for round in 1..60 {
        let bytes = noise(round, 1 + rng.below(300_000) as usize);
        origin.place(&target("object"), &bytes);
        let read = match rng.below(3) {
            0 => client.get(&target("object"), &[("Range", "bytes=0-0")]),
            1 => client.request("HEAD", &target("object"), &[], b""),
            _ => client.get(&target("object"), &[]),
        };
        let length = match read.header("content-range") {
            Some(range) => range.rsplit('/').next(),
            None => read.header("content-length"),
        };
        let etag = format!("\"version-{round}\"");
        let length_now = bytes.len().to_string();
        assert_eq!((read.header("etag"), length), (Some(&*etag), Some(&*length_now)));
    }
}

fn parts_of_two_versions_are_neither_mixed_nor_kept(ring: RingBody) {
    let node = TestNode::start(ring, &["--cache.mutable_ttl", "1h"]);
    let (old, new) = (noise(1, 5 << 20), noise(2, 5 << 20));
    node.place("object", &old);
    let mut client = node.client();
    client.get(&target("object"), &[("Range", "bytes=0-99")]);
    node.place("object", &new);
    // The first part of the old version is at hand, the rest is gone.
    client.write(&client.signed_head("GET", &target("object"), &[], 0));
    if let Some(read) = client.answer_unless_cut() {
        assert!(read.body == old || read.body == new, "whole, and of one version");
    }
    for _ in 0..3 {
        assert!(node.client().get(&target("object"), &[]).body == new);
    }
}

fn an_object_without_validators_is_never_kept(ring: RingBody) {
    let origin = WritableOrigin::start();
    origin.leave_out(&["ETag"]);
    let node = node_before(&origin, ring, &[]);
    let mut client = node.client();
    for key in ["object", "t/metadata/a.avro"] {
        for round in 0..5 {
            let bytes = noise(round, 10_000);
            origin.place(&target(key), &bytes);
            for _ in 0..2 {
                assert!(client.get(&target(key), &[]).body == bytes, "{key}, round {round}");
                let part = client.get(&target(key), &[("Range", "bytes=10-19")]);
                assert!(part.body == bytes[10..20], "{key}, round {round}");
            }
        }
    }
}

fn warm_reads_are_answered_from_the_cache_as_the_origin_counts(ring: RingBody) {
    let node = TestNode::start(ring, &["--cache.mutable_ttl", "1h"]);
    let keys: Vec<String> = (0..10).map(|number| format!("object-{number}")).collect();
    let mut client = node.client();
    for (seed, key) in (0..).zip(&keys) {
        node.place(key, &noise(seed, 1 << 20));
        assert!(client.get(&target(key), &[]).body == noise(seed, 1 << 20));
    }
    let before = node.origin_counts();
    for mut client in [node.client(), node.client(), node.client()] {
        for (seed, key) in (0..).zip(&keys) {
            let bytes = noise(seed, 1 << 20);
            assert!(client.get(&target(key), &[]).body == bytes);
            let part = client.get(&target(key), &[("Range", "bytes=70000-170000")]);
            assert!(part.body == bytes[70_000..=170_000]);
            assert_eq!(client.request("HEAD", &target(key), &[], b"").status, 200);
        }
    }
    let now = node.origin_counts();
    assert_eq!(now.requests(), before.requests(), "a warm cache asks nothing");
    assert_eq!(now.bytes_received(), before.bytes_received());
}

fn files_that_never_change_are_not_asked_about_however_often_they_are_headed(ring: RingBody) {
    let node = TestNode::start(ring, &["--cache.mutable_ttl", "0s"]);
    node.place("db/t/metadata/v1.metadata.json", b"{}");
    node.place("db/t/metadata/snap-1.avro", b"avro");
    let data: Vec<String> = (0..20).map(|file| format!("db/t/data/{file}.parquet")).collect();
    let mut client = node.client();
    client.get(&target("db/t/metadata/v1.metadata.json"), &[]);
    client.get(&target("db/t/metadata/snap-1.avro"), &[]);
    for key in &data {
        node.place(key, b"data");
        client.request("HEAD", &target(key), &[], b"");
    }
    let before = node.origin_counts();
    for _ in 0..50 {
        for key in &data {
            assert_eq!(client.request("HEAD", &target(key), &[], b"").status, 200);
        }
        assert_eq!(
            client.request("HEAD", &target("db/t/metadata/snap-1.avro"), &[], b"").status,
            200
        );
    }
    let heads = |counts: &nilas_engine::origin::OriginSnapshot| {
        counts.of(OriginOperation::HeadObject).requests
    };
    let now = node.origin_counts();
    assert_eq!((heads(&now) - heads(&before), now.requests() - before.requests()), (0, 0));
}

fn head_and_get_agree_on_whether_an_object_exists(ring: RingBody) {
    let node = TestNode::start(ring, &["--cache.mutable_ttl", "20ms"]);
    let mut clients = [node.client(), node.client()];
    for key in ["object", "t/metadata/a.avro"] {
        for round in 0..6 {
            let exists = round % 2 == 0;
            if exists {
                node.place(key, b"bytes");
            } else if round % 4 == 1 {
                assert_eq!(clients[0].request("DELETE", &target(key), &[], b"").status, 204);
            } else {
                let xml = format!("<Delete><Object><Key>{key}</Key></Object></Delete>");
                let path = format!("/{BUCKET}?delete=");
                let headers = [("x-amz-checksum-crc32", &*crc32(&xml))];
                let deleted = clients[0].request("POST", &path, &headers, xml.as_bytes());
                assert_eq!(deleted.status, 200, "{}", deleted.text());
            }
            pause(Duration::from_millis(30));
            let expected = if exists { 200 } else { 404 };
            for client in &mut clients {
                let head = client.request("HEAD", &target(key), &[], b"").status;
                let get = client.get(&target(key), &[]).status;
                let part = match client.get(&target(key), &[("Range", "bytes=0-1")]).status {
                    206 => 200,
                    status => status,
                };
                let found = (head, get, part);
                assert_eq!(found, (expected, expected, expected), "{key}, round {round}");
            }
        }
    }
}

fn crc32(text: &str) -> String {
    use nilas_net::checksum::{Algorithm, checksum};
    checksum(Algorithm::Crc32, text.as_bytes()).base64()
}

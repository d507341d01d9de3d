//! Reads: byte-exact in every state of the cache, and silent towards the origin once warm.

use nilas_base::{ByteRange, Rng};
use nilas_shards::RingBody;

use crate::node::{BUCKET, TestNode};
use crate::{noise, on_both_bodies};

on_both_bodies! {
    what_was_read_once_is_read_again_without_the_origin
    random_ranges_are_the_objects_bytes_in_every_state_of_the_cache
    an_empty_object_is_read_whole
    a_write_is_seen_by_the_next_read
}

fn what_was_read_once_is_read_again_without_the_origin(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    let bytes = noise(1, 5 << 20);
    std::fs::write(node.bucket_directory().join("object"), &bytes).expect("an object");
    let mut client = node.client();
    let target = format!("/{BUCKET}/object");
    let cold = client.get(&target, &[("x-amz-checksum-mode", "ENABLED")]);
    assert_eq!((cold.status, cold.body == bytes), (200, true));
    let asked = node.origin_requests();
    for _ in 0..3 {
        let warm = client.get(&target, &[("x-amz-checksum-mode", "ENABLED")]);
        assert_eq!((warm.status, warm.body == bytes), (200, true));
        assert_eq!(warm.header("etag"), cold.header("etag"));
        let head = client.request("HEAD", &target, &[], b"");
        assert_eq!(head.header("content-length"), Some("5242880"));
    }
    assert_eq!(node.origin_requests(), asked);
}

fn random_ranges_are_the_objects_bytes_in_every_state_of_the_cache(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    let mut rng = Rng::from_seed(7);
    let mut client = node.client();
    for (number, length) in
        [1, 4095, 65_536, 65_537, 2 << 20, (4 << 20) + 77, 9 << 20].iter().enumerate()
    {
        let bytes = noise(number as u64, *length);
        let name = format!("object-{number}");
        std::fs::write(node.bucket_directory().join(&name), &bytes).expect("an object");
        for _ in 0..60 {
            check_range(&mut client, &name, &bytes, &mut rng);
        }
        let whole = client.get(&format!("/{BUCKET}/{name}"), &[]);
        assert!(whole.body == bytes, "{name} whole");
    }
}

fn check_range(client: &mut crate::client::TestClient, name: &str, bytes: &[u8], rng: &mut Rng) {
    let length = bytes.len() as u64;
    let start = rng.below(length);
    let reach = if rng.chance(1, 2) { 100_000 } else { length };
    let end = (start + 1 + rng.below(reach)).min(length);
    let (header, range) = match rng.below(4) {
        0 => (format!("bytes={start}-"), ByteRange::new(start, length)),
        1 => (format!("bytes=-{}", end - start), ByteRange::new(length - (end - start), length)),
        _ => (format!("bytes={start}-{}", end - 1), ByteRange::new(start, end)),
    };
    let answer = client.get(&format!("/{BUCKET}/{name}"), &[("Range", &header)]);
    assert_eq!(answer.status, 206, "{header} of {length}: {}", answer.text());
    assert_eq!(
        answer.header("content-range"),
        Some(format!("bytes {}-{}/{length}", range.start, range.end - 1).as_str())
    );
    let expected = &bytes[range.start as usize..range.end as usize];
    assert!(answer.body == expected, "{header} of {length}");
}

fn an_empty_object_is_read_whole(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    std::fs::write(node.bucket_directory().join("empty"), b"").expect("an object");
    let mut client = node.client();
    for _ in 0..2 {
        let answer = client.get(&format!("/{BUCKET}/empty"), &[]);
        assert_eq!((answer.status, answer.body.len()), (200, 0));
        let ranged = client.get(&format!("/{BUCKET}/empty"), &[("Range", "bytes=0-")]);
        assert_eq!(ranged.status, 416, "{}", ranged.text());
    }
}

fn a_write_is_seen_by_the_next_read(ring: RingBody) {
    let node = TestNode::start(ring, &["--cache.mutable_ttl", "1h"]);
    let mut client = node.client();
    let target = format!("/{BUCKET}/db/t/metadata/v1.metadata.json");
    for round in 0..5_usize {
        let bytes = noise(round as u64, 100_000 + round);
        let put = client.request("PUT", &target, &[], &bytes);
        assert_eq!(put.status, 200, "{}", put.text());
        for _ in 0..2 {
            let read = client.get(&target, &[]);
            assert!(read.status == 200 && read.body == bytes, "round {round}");
        }
    }
    assert_eq!(client.request("DELETE", &target, &[], b"").status, 204);
    assert_eq!(client.get(&target, &[]).status, 404);
}

//! Writes: checked as they pass, refused before they replace anything, streamed in bounded memory,
//! and seen by every later read, whoever reads.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use nilas_net::checksum::{Algorithm, checksum};
use nilas_net::sigv4::PayloadHash;
use nilas_shards::RingBody;

use crate::node::{BUCKET, TestNode};
use crate::{noise, on_both_bodies};

on_both_bodies! {
    a_signed_payload_is_compared_with_the_body
    a_checksum_in_the_head_is_compared_with_the_body
    a_condition_that_fails_changes_nothing
    an_early_refusal_of_the_origin_reaches_a_client_that_still_sends
    parts_become_one_object
    a_copy_is_read_as_what_it_copies
    deleted_objects_are_gone_for_every_reader
    a_write_is_seen_on_every_connection
    a_large_upload_goes_on_only_as_fast_as_the_origin_takes_it
}

fn a_signed_payload_is_compared_with_the_body(ring: RingBody) {
    let node = TestNode::start(ring, &["--cache.mutable_ttl", "1h"]);
    let target = format!("/{BUCKET}/object");
    for (seed, length) in [(1, 0), (2, 1), (3, 5_000), (4, 300_000)] {
        let bytes = noise(seed, length);
        let digest = checksum(Algorithm::Sha256, &bytes).hex();
        let payload = PayloadHash::parse(digest.as_bytes()).expect("a digest");
        let mut client = node.client();
        let right = client
            .wording("PUT", &target)
            .payload(payload)
            .header("Content-Length", &length.to_string());
        let put = client.send(&right, &bytes);
        assert_eq!(put.status, 200, "{}", put.text());
        assert!(client.get(&target, &[]).body == bytes);
        let other = noise(seed + 10, length.max(1));
        let wrong = client
            .wording("PUT", &target)
            .payload(payload)
            .header("Content-Length", &other.len().to_string());
        let put = client.send(&wrong, &other);
        assert_eq!((put.status, put.code().as_str()), (400, "XAmzContentSHA256Mismatch"));
        assert!(node.client().get(&target, &[]).body == bytes, "the old object is still there");
    }
}

fn a_checksum_in_the_head_is_compared_with_the_body(ring: RingBody) {
    compare_checksums(&TestNode::start(ring, &["--cache.mutable_ttl", "1h"]));
}

pub fn compare_checksums(node: &TestNode) {
    let target = format!("/{BUCKET}/object");
    let (old, bytes) = (noise(1, 90_000), noise(2, 120_000));
    assert_eq!(node.client().request("PUT", &target, &[], &old).status, 200);
    for algorithm in Algorithm::ALL {
        let (name, wrong) = (algorithm.header_name(), checksum(algorithm, &old).base64());
        let put = node.client().request("PUT", &target, &[(name, &wrong)], &bytes);
        assert_eq!((put.status, put.code().as_str()), (400, "BadDigest"), "{name}");
        let put = node.client().request("PUT", &target, &[(name, "nonsense")], &bytes);
        let code = if algorithm == Algorithm::Md5 { "InvalidDigest" } else { "InvalidRequest" };
        assert_eq!((put.status, put.code().as_str()), (400, code), "{name}");
        let empty = node.client().request("PUT", &target, &[(name, &wrong)], b"");
        assert_eq!((empty.status, empty.code().as_str()), (400, "BadDigest"), "{name} of nothing");
    }
    assert!(node.client().get(&target, &[]).body == old, "the old object is still there");
    for algorithm in Algorithm::ALL {
        let (name, right) = (algorithm.header_name(), checksum(algorithm, &bytes).base64());
        let put = node.client().request("PUT", &target, &[(name, &right)], &bytes);
        assert_eq!(put.status, 200, "{name}: {}", put.text());
    }
    assert!(node.client().get(&target, &[]).body == bytes);
}

fn a_condition_that_fails_changes_nothing(ring: RingBody) {
    write_conditionally(&TestNode::start(ring, &["--cache.mutable_ttl", "1h"]));
}

pub fn write_conditionally(node: &TestNode) {
    let target = format!("/{BUCKET}/object");
    let mut client = node.client();
    let create = [("If-None-Match", "*")];
    for length in [0, 500, 400_000] {
        client.request("DELETE", &target, &[], b"");
        let (first, second) = (noise(1, length), noise(2, length));
        let put = client.request("PUT", &target, &create, &first);
        assert_eq!(put.status, 200, "{}", put.text());
        let etag = put.header("etag").expect("an ETag").to_owned();
        let again = client.request("PUT", &target, &create, &second);
        assert_eq!((again.status, again.code().as_str()), (412, "PreconditionFailed"), "{length}");
        let mut client = node.client();
        let other = client.request("PUT", &target, &[("If-Match", "\"0\"")], &second);
        assert_eq!((other.status, other.code().as_str()), (412, "PreconditionFailed"), "{length}");
        let mut client = node.client();
        assert!(client.get(&target, &[]).body == first, "{length}");
        let put = client.request("PUT", &target, &[("If-Match", &etag)], &second);
        assert_eq!(put.status, 200, "{}", put.text());
        assert!(client.get(&target, &[]).body == second, "{length}");
    }
}

fn an_early_refusal_of_the_origin_reaches_a_client_that_still_sends(ring: RingBody) {
    be_refused_early(&TestNode::start(ring, &[]));
}

pub fn be_refused_early(node: &TestNode) {
    let bytes = noise(1, 700_000);
    for round in 0..30 {
        let mut client = node.client();
        let head = client.signed_head("PUT", "/nowhere/object", &[], bytes.len());
        client.write(&head);
        let mut is_taken = true;
        for piece in bytes.chunks(50_000 + 10_000 * (round % 5)) {
            is_taken &= client.try_write(piece);
        }
        assert!(is_taken, "what is refused early is still read, within bounds");
        let answer = client.answer(false);
        assert_eq!((answer.status, answer.code().as_str()), (404, "NoSuchBucket"), "{round}");
        match answer.header("connection") {
            Some("close") => assert!(client.is_closed(), "{round}"),
            _ => assert_eq!(client.get(&format!("/{BUCKET}/none"), &[]).status, 404, "{round}"),
        }
    }
    // One that stops in the middle gets its answer, too.
    let mut client = node.client();
    client.write(&client.signed_head("PUT", "/nowhere/object", &[], bytes.len()));
    client.write(&bytes[..600_000]);
    let answer = client.answer(false);
    assert_eq!((answer.status, answer.header("connection")), (404, Some("close")));
}

fn parts_become_one_object(ring: RingBody) {
    upload_in_parts(&TestNode::start(ring, &["--cache.mutable_ttl", "1h"]));
}

pub fn upload_in_parts(node: &TestNode) {
    let target = format!("/{BUCKET}/object");
    let mut client = node.client();
    assert_eq!(client.request("PUT", &target, &[], b"old").status, 200);
    assert_eq!(client.get(&target, &[]).text(), "old");
    let begun = client.request("POST", &format!("{target}?uploads="), &[], b"");
    assert_eq!(begun.status, 200, "{}", begun.text());
    let text = begun.text();
    let (_, rest) = text.split_once("<UploadId>").expect("an upload id");
    let (id, _) = rest.split_once("</UploadId>").expect("an upload id");
    let parts = [noise(1, 5 << 20), noise(2, 5 << 20), noise(3, 1234)];
    let mut xml = String::from("<CompleteMultipartUpload>");
    for (number, bytes) in (1..).zip(&parts) {
        let put = client.request(
            "PUT",
            &format!("{target}?partNumber={number}&uploadId={id}"),
            &[],
            bytes,
        );
        assert_eq!(put.status, 200, "{}", put.text());
        let etag = put.header("etag").expect("an ETag");
        xml.push_str(&format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"));
        assert_eq!(client.get(&target, &[]).text(), "old", "a part is no object yet");
    }
    xml.push_str("</CompleteMultipartUpload>");
    let done = client.request("POST", &format!("{target}?uploadId={id}"), &[], xml.as_bytes());
    assert_eq!(done.status, 200, "{}", done.text());
    let whole = parts.concat();
    for _ in 0..2 {
        let read = node.client().get(&target, &[]);
        assert!(read.body == whole);
        assert!(read.header("etag").expect("an ETag").ends_with("-3\""), "the origin's own ETag");
    }
}

fn a_copy_is_read_as_what_it_copies(ring: RingBody) {
    copy_an_object(&TestNode::start(ring, &["--cache.mutable_ttl", "1h"]));
}

pub fn copy_an_object(node: &TestNode) {
    let mut client = node.client();
    let bytes = noise(1, 100_000);
    let (source, copy) = (format!("/{BUCKET}/a%20%2B%252B%C3%BC"), format!("/{BUCKET}/copy"));
    assert_eq!(client.request("PUT", &source, &[], &bytes).status, 200);
    assert_eq!(client.request("PUT", &copy, &[], b"old").status, 200);
    assert_eq!(client.get(&copy, &[]).text(), "old");
    for spelt in [source.as_str(), &source[1..]] {
        let answer = client.request("PUT", &copy, &[("x-amz-copy-source", spelt)], b"");
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(client.get(&copy, &[]).body == bytes, "{spelt}");
        assert_eq!(client.request("PUT", &copy, &[], b"old").status, 200);
    }
}

fn deleted_objects_are_gone_for_every_reader(ring: RingBody) {
    delete_objects(&TestNode::start(ring, &["--cache.mutable_ttl", "1h"]));
}

pub fn delete_objects(node: &TestNode) {
    let mut client = node.client();
    let keys = ["a", "b/c", "metadata/v1.metadata.json", "d&e"];
    let targets =
        ["a", "b/c", "metadata/v1.metadata.json", "d%26e"].map(|key| format!("/{BUCKET}/{key}"));
    for target in &targets {
        assert_eq!(client.request("PUT", target, &[], b"bytes").status, 200);
        assert_eq!(client.get(target, &[]).status, 200);
    }
    let objects: String = keys
        .iter()
        .map(|key| format!("<Object><Key>{}</Key></Object>", key.replace('&', "&amp;")))
        .collect();
    let xml = format!("<Delete>{objects}</Delete>");
    let md5 = BASE64.encode(checksum(Algorithm::Md5, xml.as_bytes()).bytes());
    let headers = [("Content-MD5", md5.as_str())];
    let deleted = client.request("POST", &format!("/{BUCKET}?delete="), &headers, xml.as_bytes());
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    for target in &targets {
        for _ in 0..4 {
            assert_eq!(node.client().get(target, &[]).status, 404, "{target}");
        }
    }
}

fn a_write_is_seen_on_every_connection(ring: RingBody) {
    let node = TestNode::start(ring, &["--cache.mutable_ttl", "1h"]);
    let mut clients: Vec<_> = (0..12).map(|_| node.client()).collect();
    for round in 0..20_u64 {
        let target = format!("/{BUCKET}/object-{}", round % 3);
        let bytes = noise(round, 1 + 50_000 * (round as usize % 4));
        let writer = round as usize % clients.len();
        assert_eq!(clients[writer].request("PUT", &target, &[], &bytes).status, 200);
        for client in &mut clients {
            let read = client.get(&target, &[]);
            assert!(read.status == 200 && read.body == bytes, "round {round}");
        }
    }
}

fn a_large_upload_goes_on_only_as_fast_as_the_origin_takes_it(ring: RingBody) {
    let node = TestNode::start(ring, &["--origin.first_byte_latency", "4s"]);
    let bytes = noise(1, 64 << 20);
    let mut client = node.client();
    client.write(&client.signed_head("PUT", &format!("/{BUCKET}/large"), &[], bytes.len()));
    let ahead = client.write_until_blocked(&bytes, Duration::from_millis(200));
    // What the kernel's buffers of both sides hold, and the node's few pieces.
    assert!(ahead < 24 << 20, "{ahead} bytes were taken before the origin took one");
    client.write(&bytes[ahead..]);
    let put = client.answer(false);
    assert_eq!(put.status, 200, "{}", put.text());
    let etag = format!("\"{}\"", checksum(Algorithm::Md5, &bytes).hex());
    assert_eq!(put.header("etag"), Some(etag.as_str()));
}

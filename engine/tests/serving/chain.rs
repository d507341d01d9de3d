//! The same claims with an S3 behind the node instead of a directory: another node. What is signed
//! anew, framed anew and passed on must come to the same.

use nilas_engine::origin::OriginOperation;
use nilas_shards::RingBody;

use crate::client::TestClient;
use crate::node::{BUCKET, TestNode};
use crate::{cache, framing, key, noise, on_both_bodies, overwrite, write};

on_both_bodies! {
    any_key_reaches_the_s3_behind_it
    every_framing_reaches_the_s3_behind_it
    a_wrong_framing_leaves_the_object_of_the_s3_behind_it
    refusals_of_the_s3_behind_it_reach_the_client
    checks_fail_before_the_s3_behind_it_has_the_object
    writes_of_every_form_reach_the_s3_behind_it
    reads_of_every_form_are_the_s3s
    a_large_object_passes_whole_in_both_directions
    what_was_just_written_is_answered_from_memory_as_the_s3_answers_it
    reads_that_race_with_writes_never_mix_the_s3s_versions
}

fn start(ring: RingBody) -> TestNode {
    TestNode::start_on_s3(ring, &["--cache.mutable_ttl", "1h"])
}

fn any_key_reaches_the_s3_behind_it(ring: RingBody) {
    key::use_any_key(&start(ring));
    key::use_keys_that_look_alike(&start(ring));
}

fn every_framing_reaches_the_s3_behind_it(ring: RingBody) {
    framing::write_in_every_framing(&start(ring));
}

fn a_wrong_framing_leaves_the_object_of_the_s3_behind_it(ring: RingBody) {
    framing::write_in_wrong_framings(&start(ring));
}

fn refusals_of_the_s3_behind_it_reach_the_client(ring: RingBody) {
    write::be_refused_early(&start(ring));
}

fn checks_fail_before_the_s3_behind_it_has_the_object(ring: RingBody) {
    write::compare_checksums(&start(ring));
}

fn writes_of_every_form_reach_the_s3_behind_it(ring: RingBody) {
    write::write_conditionally(&start(ring));
    write::upload_in_parts(&start(ring));
    write::copy_an_object(&start(ring));
    write::delete_objects(&start(ring));
}

fn reads_of_every_form_are_the_s3s(ring: RingBody) {
    cache::ask_for_odd_ranges(&start(ring));
    cache::keep_headers(&start(ring));
    cache::complete_a_mapping(&start(ring));
}

fn a_large_object_passes_whole_in_both_directions(ring: RingBody) {
    let node = start(ring);
    let bytes = noise(1, 20 << 20);
    let target = format!("/{BUCKET}/object");
    let put = node.client().request("PUT", &target, &[], &bytes);
    assert_eq!(put.status, 200, "{}", put.text());
    for _ in 0..2 {
        assert!(node.client().get(&target, &[]).body == bytes);
    }
}

/// In every framing, with every header, under conditions and not.
fn what_was_just_written_is_answered_from_memory_as_the_s3_answers_it(ring: RingBody) {
    let flags = ["--cache.mutable_ttl", "1h", "--cache.write_allocate", "all"];
    let node = TestNode::start_on_s3(ring, &flags);
    framing::write_in_every_framing(&node);
    cache::keep_headers(&node);
    let (mut through, mut direct) = (node.client(), node.behind().client());
    let bytes = noise(1, 300_000);
    for (number, headers) in [
        vec![],
        vec![("Content-Type", "text/x-test"), ("x-amz-meta-a", "b"), ("Cache-Control", "no-cache")],
        vec![("If-None-Match", "*"), ("x-amz-storage-class", "STANDARD")],
        vec![("x-amz-checksum-algorithm", "CRC32"), ("Expires", "Wed, 01 Jan 2031 00:00:00 GMT")],
    ]
    .into_iter()
    .enumerate()
    {
        let target = format!("/{BUCKET}/compared-{number}");
        let put = through.request("PUT", &target, &headers, &bytes);
        assert_eq!(put.status, 200, "{headers:?}: {}", put.text());
        for asked in
            [vec![], vec![("x-amz-checksum-mode", "ENABLED")], vec![("Range", "bytes=5-9")]]
        {
            for method in ["GET", "HEAD"] {
                let [seen, expected] =
                    [&mut through, &mut direct].map(|client| told(client, method, &target, &asked));
                assert_eq!(seen, expected, "{method} {headers:?} {asked:?}");
            }
        }
    }
    let read = node.origin_counts().of(OriginOperation::GetObject).clone();
    assert_eq!(read.bytes_received, 0, "{read:?}");
}

/// Status, headers and body, without what is each answer's own.
fn told(
    client: &mut TestClient,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
) -> (u16, Vec<(String, String)>, Vec<u8>) {
    const OWN: [&str; 5] = ["date", "server", "connection", "x-amz-request-id", "x-amz-id-2"];
    let mut answer = client.request(method, target, headers, b"");
    answer.headers.retain(|(name, _)| !OWN.contains(&name.as_str()));
    answer.headers.sort();
    (answer.status, answer.headers, answer.body)
}

fn reads_that_race_with_writes_never_mix_the_s3s_versions(ring: RingBody) {
    overwrite::race_with_writes(&start(ring));
}

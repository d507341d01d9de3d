//! The same claims with an S3 behind the node instead of a directory: another node. What is signed
//! anew, framed anew and passed on must come to the same.

use nilas_shards::RingBody;

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

fn reads_that_race_with_writes_never_mix_the_s3s_versions(ring: RingBody) {
    overwrite::race_with_writes(&start(ring));
}

//! What the origin refuses to the node's identity is not served from memory: not on revalidation, not
//! when bytes are fetched, and not after a relayed read was refused.

use std::time::Duration;

use nilas_shards::RingBody;

use crate::origin::WritableOrigin;
use crate::time::pause;
use crate::{node_before, noise, on_both_bodies, target};

on_both_bodies! {
    a_refusal_reaches_the_client_as_it_is
    a_refused_revalidation_ends_what_was_known
    a_refused_fetch_of_bytes_ends_what_was_known
    a_refused_relayed_read_ends_what_was_known
}

const KEY: &str = "t/metadata/a.avro";

fn a_refusal_reaches_the_client_as_it_is(ring: RingBody) {
    let origin = WritableOrigin::start();
    let node = node_before(&origin, ring, &[]);
    origin.place(&target("object"), b"bytes");
    let mut client = node.client();
    for status in [403, 401, 404] {
        origin.refuse_reads(Some(status));
        for range in [&[][..], &[("Range", "bytes=0-1")]] {
            assert_eq!(client.get(&target("object"), range).status, status);
        }
        assert_eq!(client.request("HEAD", &target("object"), &[], b"").status, status);
    }
    origin.refuse_reads(None);
    assert_eq!(client.get(&target("object"), &[]).text(), "bytes", "no refusal is kept");
}

fn a_refused_revalidation_ends_what_was_known(ring: RingBody) {
    let origin = WritableOrigin::start();
    let node = node_before(&origin, ring, &["--cache.mutable_ttl", "20ms"]);
    origin.place(&target("object"), &noise(1, 5000));
    let mut client = node.client();
    for status in [403, 404] {
        assert!(client.get(&target("object"), &[]).body == noise(1, 5000));
        pause(Duration::from_millis(40));
        origin.refuse_reads(Some(status));
        for _ in 0..3 {
            assert_eq!(client.get(&target("object"), &[]).status, status);
            assert_eq!(client.request("HEAD", &target("object"), &[], b"").status, status);
        }
        origin.refuse_reads(None);
        assert!(client.get(&target("object"), &[]).body == noise(1, 5000));
        let asked = origin.asked().pop().expect("it was asked");
        assert_eq!(asked.header("if-none-match"), None, "the old ETag was forgotten");
    }
}

fn a_refused_fetch_of_bytes_ends_what_was_known(ring: RingBody) {
    let origin = WritableOrigin::start();
    let node = node_before(&origin, ring, &[]);
    origin.place(&target(KEY), &noise(1, 6 << 20));
    let mut client = node.client();
    assert_eq!(client.get(&target(KEY), &[("Range", "bytes=0-99")]).status, 206);
    origin.refuse_reads(Some(403));
    assert_eq!(client.get(&target(KEY), &[("Range", "bytes=5000000-")]).status, 403);
    assert_eq!(client.get(&target(KEY), &[("Range", "bytes=0-99")]).status, 403);
    assert_eq!(client.request("HEAD", &target(KEY), &[], b"").status, 403);
}

fn a_refused_relayed_read_ends_what_was_known(ring: RingBody) {
    let origin = WritableOrigin::start();
    let node = node_before(&origin, ring, &[]);
    origin.place(&target(KEY), b"bytes");
    let mut client = node.client();
    for status in [403, 404] {
        assert_eq!(client.get(&target(KEY), &[]).text(), "bytes");
        origin.refuse_reads(Some(status));
        assert_eq!(client.get(&target(KEY), &[]).text(), "bytes", "it never changes");
        assert_eq!(client.get(&target(KEY), &[("Range", "bytes=odd")]).status, status);
        assert_eq!(client.get(&target(KEY), &[]).status, status);
        assert_eq!(client.request("HEAD", &target(KEY), &[], b"").status, status);
        origin.refuse_reads(None);
    }
}

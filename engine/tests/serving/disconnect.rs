//! Clients that go away in the middle of something: the node stays well, nothing is counted as open
//! that is not, and an upload that broke off changes nothing.

use std::time::Duration;

use nilas_net::sigv4::PayloadHash;
use nilas_shards::RingBody;

use crate::node::{BUCKET, TestNode};
use crate::time::{eventually, pause};
use crate::{noise, on_both_bodies};

on_both_bodies! {
    clients_that_leave_at_any_point_leave_nothing_behind
    a_client_that_reads_nothing_is_closed_in_time
    a_body_that_ends_early_changes_nothing_and_says_so
    a_client_that_sends_nothing_more_is_answered
    a_write_whose_client_has_left_is_seen_by_all
}

const OBJECT_BYTES: usize = 6 << 20;

fn clients_that_leave_at_any_point_leave_nothing_behind(ring: RingBody) {
    let node = TestNode::start(ring, &["--origin.first_byte_latency", "5ms"]);
    let old = noise(1, OBJECT_BYTES);
    node.place("object", &old);
    let target = format!("/{BUCKET}/object");
    for round in 0..12 {
        let mut reader = node.client();
        let head = reader.signed_head("GET", &target, &[], 0);
        reader.write(&head[..head.len() - round % 2]);
        if round % 2 == 0 {
            reader.read_some([1, 200, 100_000, 3 << 20][round / 2 % 4]);
        }
        let mut writer = node.client();
        let mut sent = writer.signed_head("PUT", &target, &[], OBJECT_BYTES);
        sent.extend_from_slice(&noise(2, [0, 1, 10_000, 3 << 20, OBJECT_BYTES - 1][round % 5]));
        writer.write(&sent);
        drop((reader, writer));
        // Gone before anything is done.
        drop(node.client());
        let waiting = node.client();
        let mut asked = node.client();
        asked.write(&asked.signed_head("GET", &format!("/{BUCKET}/none"), &[], 0));
        drop((waiting, asked));
    }
    eventually("no connection is left", || node.open_connections() == 0);
    eventually("the origin is left alone", || node.origin_counts().in_flight == 0);
    let read = node.client().get(&target, &[]);
    assert!(read.status == 200 && read.body == old, "what was not whole was not written");
}

fn a_client_that_reads_nothing_is_closed_in_time(ring: RingBody) {
    let node = TestNode::start(ring, &["--limits.send_idle_timeout", "2s"]);
    let bytes = noise(1, 24 << 20);
    node.place("object", &bytes);
    let target = format!("/{BUCKET}/object");
    let mut stalled = node.client();
    stalled.write(&stalled.signed_head("GET", &target, &[], 0));
    stalled.read_some(1000);
    pause(Duration::from_millis(50));
    assert!(node.client().get(&target, &[]).body == bytes, "the stalled one holds nobody up");
    eventually("the stalled one is closed", || node.open_connections() == 0);
}

fn a_body_that_ends_early_changes_nothing_and_says_so(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    node.place("object", b"old");
    let target = format!("/{BUCKET}/object");
    let digest = PayloadHash::parse(&[b'0'; 64]).expect("a digest");
    for (payload, sent) in [
        (PayloadHash::Unsigned, 0),
        (PayloadHash::Unsigned, 999),
        (PayloadHash::Unsigned, 199_999),
        (digest, 199_999),
    ] {
        let mut client = node.client();
        let wording =
            client.wording("PUT", &target).header("Content-Length", "200000").payload(payload);
        client.write(&wording.head());
        client.write(&noise(1, sent));
        client.end_sending();
        let answer = client.answer(false);
        assert_eq!((answer.status, answer.code().as_str()), (400, "IncompleteBody"));
        assert!(client.is_closed());
        assert_eq!(node.client().get(&target, &[]).text(), "old");
    }
}

fn a_client_that_sends_nothing_more_is_answered(ring: RingBody) {
    let node = TestNode::start(ring, &["--origin.first_byte_latency", "20ms"]);
    let bytes = noise(1, 3 << 20);
    let target = format!("/{BUCKET}/object");
    let mut writer = node.client();
    writer.write(&writer.signed_head("PUT", &target, &[], bytes.len()));
    writer.write(&bytes);
    writer.end_sending();
    assert_eq!(writer.answer(false).status, 200);
    assert!(writer.is_closed());
    for _ in 0..2 {
        let mut reader = node.client();
        reader.write(&reader.signed_head("GET", &target, &[], 0));
        reader.end_sending();
        assert!(reader.answer(false).body == bytes);
        assert!(reader.is_closed());
    }
}

fn a_write_whose_client_has_left_is_seen_by_all(ring: RingBody) {
    let flags = ["--origin.first_byte_latency", "20ms", "--cache.mutable_ttl", "1h"];
    let node = TestNode::start(ring, &flags);
    let target = format!("/{BUCKET}/object");
    node.place("object", b"old");
    for round in 0..5 {
        let new = noise(round, 1000);
        let mut readers = [node.client(), node.client(), node.client()];
        readers[0].get(&target, &[]);
        let mut writer = node.client();
        writer.write(&writer.signed_head("PUT", &target, &[], new.len()));
        writer.write(&new);
        drop(writer);
        eventually("the write is seen", || readers[1].get(&target, &[]).body == new);
        for reader in &mut readers {
            assert!(reader.get(&target, &[]).body == new, "what was seen once is seen by all");
        }
    }
}

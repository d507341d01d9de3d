//! An origin that is down: what is cached is served as long as it may be, everything else is told to
//! come back; the breaker opens once, and closes once when it is over.

use std::time::Duration;

use nilas_engine::metrics::OriginEvent;
use nilas_shards::RingBody;

use crate::behaviour::Behaviour;
use crate::node::TestNode;
use crate::origin::FaultyOrigin;
use crate::time::{eventually, pause};
use crate::{node_before, noise, on_both_bodies, target, timed};

on_both_bodies! {
    with_the_origin_down_what_never_changes_is_served_and_the_rest_is_told_to_come_back
    what_may_change_is_served_within_its_time_to_live_and_not_past_it
    what_may_change_is_served_past_its_time_to_live_as_far_as_the_operator_says
    a_partial_mapping_answers_while_the_origin_cannot_complete_it
    the_breaker_opens_once_spares_the_origin_and_closes_once
}

fn turns(node: &TestNode) -> (u64, u64) {
    let metrics = node.node().metrics();
    let opened = metrics.origin_events(OriginEvent::BreakerOpened);
    (opened, metrics.origin_events(OriginEvent::BreakerClosed))
}

/// Asks for what is not cached until the breaker opens.
fn wait_until_open(node: &TestNode) {
    let mut client = node.client();
    eventually("the breaker opens", || {
        let answer = client.get(&target("nothing"), &[]);
        assert_eq!((answer.status, answer.code().as_str()), (503, "ServiceUnavailable"));
        assert!(answer.header("retry-after").is_some());
        node.node().metrics().is_breaker_open()
    });
}

fn with_the_origin_down_what_never_changes_is_served_and_the_rest_is_told_to_come_back(
    ring: RingBody,
) {
    let mut origin = FaultyOrigin::start();
    let bytes = noise(1, 3 << 20);
    origin.place("object", bytes.clone());
    origin.place("late", bytes.clone());
    let node = node_before(&origin, ring, &[]);
    let mut client = node.client();
    assert!(client.get(&target("object"), &[]).body == bytes);
    origin.go_down();
    for open in [false, true] {
        if open {
            wait_until_open(&node);
        }
        assert!(client.get(&target("object"), &[]).body == bytes);
        let head = client.request("HEAD", &target("object"), &[], b"");
        assert_eq!((head.status, head.header("content-length")), (200, Some("3145728")));
        let answer = client.get(&target("late"), &[]);
        assert_eq!((answer.status, answer.header("retry-after").is_some()), (503, true));
        let put = client.request("PUT", &target("new"), &[], b"content");
        assert_eq!((put.status, put.header("retry-after").is_some()), (503, true));
        client = node.client();
    }
    origin.come_back();
    eventually("it is served again", || client.get(&target("late"), &[]).body == bytes);
    assert_eq!(turns(&node), (1, 1));
}

fn what_may_change_is_served_within_its_time_to_live_and_not_past_it(ring: RingBody) {
    let origin = FaultyOrigin::start();
    origin.place("object", b"content".to_vec());
    let node = node_before(&origin, ring, &["--cache.mutable_ttl", "2s"]);
    let mut client = node.client();
    assert_eq!(client.get(&target("object"), &[]).text(), "content");
    origin.go_down();
    let answer = client.get(&target("object"), &[]);
    assert_eq!((answer.status, answer.text().as_str()), (200, "content"));
    pause(Duration::from_millis(2100));
    for method in ["GET", "HEAD"] {
        let answer = client.request(method, &target("object"), &[], b"");
        assert_eq!((answer.status, answer.header("retry-after").is_some()), (503, true));
    }
}

fn what_may_change_is_served_past_its_time_to_live_as_far_as_the_operator_says(ring: RingBody) {
    for is_refused in [true, false] {
        let origin = FaultyOrigin::start();
        origin.place("object", b"content".to_vec());
        let flags = ["--cache.mutable_ttl", "0s", "--cache.stale_if_error", "2s"];
        let node = node_before(&origin, ring, &flags);
        let mut client = node.client();
        assert_eq!(client.get(&target("object"), &[]).text(), "content");
        if is_refused {
            origin.go_down();
        } else {
            origin.script(|_| Behaviour::error(502));
        }
        for method in ["GET", "HEAD"] {
            let answer = client.request(method, &target("object"), &[], b"");
            assert_eq!(answer.status, 200, "refused {is_refused}, {method}");
            assert!(method == "HEAD" || answer.text() == "content");
        }
        pause(Duration::from_millis(2100));
        let status = client.get(&target("object"), &[]).status;
        assert!(matches!(status, 502 | 503), "{status}");
    }
}

fn a_partial_mapping_answers_while_the_origin_cannot_complete_it(ring: RingBody) {
    let origin = FaultyOrigin::start();
    let bytes = noise(2, 1000);
    origin.place("object", bytes.clone());
    let node = node_before(&origin, ring, &[]);
    let mut client = node.client();
    client.get(&target("object"), &[("Range", "bytes=0-999")]);
    origin.go_down();
    let wants_checksums = [("x-amz-checksum-mode", "ENABLED")];
    assert!(client.get(&target("object"), &wants_checksums).body == bytes);
    let head = client.request("HEAD", &target("object"), &wants_checksums, b"");
    assert_eq!((head.status, head.header("content-length")), (200, Some("1000")));
}

fn the_breaker_opens_once_spares_the_origin_and_closes_once(ring: RingBody) {
    let origin = FaultyOrigin::start();
    origin.place("object", b"content".to_vec());
    origin.script(|_| Behaviour::error(500));
    let node = node_before(&origin, ring, &["--cache.mutable_ttl", "0s"]);
    let mut client = node.client();
    eventually("the breaker opens", || {
        client.get(&target("object"), &[]);
        node.node().metrics().is_breaker_open()
    });
    let asked = origin.asked().len();
    let (answer, took) = timed(|| {
        (0..50).map(|_| client.get(&target("object"), &[])).last().expect("there were some")
    });
    assert_eq!((answer.status, answer.code().as_str()), (503, "ServiceUnavailable"));
    let asked = (origin.asked().len() - asked) as u64;
    assert!(asked <= 1 + took.as_secs(), "at most a probe a second: {asked} in {took:?}");
    origin.behave();
    eventually("it closes", || client.get(&target("object"), &[]).text() == "content");
    assert_eq!(turns(&node), (1, 1));
}

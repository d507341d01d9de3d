//! `Expect: 100-continue`: a request that is taken gets its 100 and then its answer; one that is
//! refused by its head gets its answer at once, and no 100; one without a body poisons nothing.

use std::time::Duration;

use nilas_shards::RingBody;

use crate::node::{BUCKET, TestNode};
use crate::{noise, on_both_bodies};

on_both_bodies! {
    a_body_is_asked_for_before_it_is_sent
    a_body_that_comes_unasked_is_taken
    what_is_refused_by_its_head_gets_no_100
    an_empty_body_with_an_expectation_leaves_the_connection_usable
    another_expectation_is_refused
}

const EXPECT: (&str, &str) = ("Expect", "100-continue");

fn a_body_is_asked_for_before_it_is_sent(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    let mut client = node.client();
    let target = format!("/{BUCKET}/object");
    for (seed, length) in [(1, 1), (2, 5_000), (3, 400_000)] {
        let bytes = noise(seed, length);
        client.write(&client.signed_head("PUT", &target, &[EXPECT], length));
        assert_eq!(client.answer(false).status, 100);
        assert!(client.is_silent_for(Duration::from_millis(20)), "the answer waits for the body");
        client.write(&bytes);
        let put = client.answer(false);
        assert_eq!(put.status, 200, "{}", put.text());
        assert!(client.get(&target, &[]).body == bytes);
    }
}

fn a_body_that_comes_unasked_is_taken(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    let mut client = node.client();
    let target = format!("/{BUCKET}/object");
    let bytes = noise(1, 200_000);
    let mut sent = client.signed_head("PUT", &target, &[EXPECT], bytes.len());
    sent.extend_from_slice(&bytes);
    sent.extend(client.signed_head("GET", &target, &[], 0));
    client.write(&sent);
    let mut put = client.answer(false);
    if put.status == 100 {
        put = client.answer(false);
    }
    assert_eq!(put.status, 200, "{}", put.text());
    assert!(client.answer(false).body == bytes);
}

fn what_is_refused_by_its_head_gets_no_100(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    for case in ["secret", "key", "digest", "length"] {
        let mut client = node.client();
        let mut wording = client
            .wording("PUT", &format!("/{BUCKET}/object"))
            .headers(&[EXPECT, ("Content-Length", "100000")]);
        let code = match case {
            "secret" => {
                wording.secret = "another".to_owned();
                "SignatureDoesNotMatch"
            }
            "key" => {
                wording.access_key = "AKNOBODY".to_owned();
                "InvalidAccessKeyId"
            }
            "digest" => {
                wording = wording.header("Content-MD5", "short");
                "InvalidDigest"
            }
            _ => {
                wording.payload = nilas_net::sigv4::PayloadHash::StreamingUnsignedTrailer;
                "MissingContentLength"
            }
        };
        client.write(&wording.head());
        let answer = client.answer(false);
        assert_eq!(answer.code(), code, "{case}: {}", answer.text());
        if answer.header("connection") == Some("close") {
            assert!(client.is_closed(), "{case}");
        } else {
            client.write(&noise(1, 100_000));
            assert_eq!(client.get(&format!("/{BUCKET}/none"), &[]).status, 404, "{case}");
        }
    }
}

fn an_empty_body_with_an_expectation_leaves_the_connection_usable(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    let mut client = node.client();
    let target = format!("/{BUCKET}/empty");
    for _ in 0..5 {
        client.write(&client.signed_head("PUT", &target, &[EXPECT], 0));
        let put = client.answer(false);
        assert_eq!(put.status, 200, "{}", put.text());
        let read = client.get(&target, &[]);
        assert_eq!((read.status, read.body.len()), (200, 0));
    }
}

fn another_expectation_is_refused(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    let mut client = node.client();
    client.write(&client.signed_head("PUT", &format!("/{BUCKET}/x"), &[("Expect", "the-best")], 5));
    let answer = client.answer(false);
    assert_eq!((answer.status, answer.code().as_str()), (417, "ExpectationFailed"));
}

//! Where the origin's word is the client's answer: its ids, its rules for browsers, its judgement of
//! whom the node cannot judge, and whether it wants a body at all.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use nilas_shards::RingBody;

use crate::node::TestNode;
use crate::origin::{ORIGIN_ID, WritableOrigin};
use crate::time::pause;
use crate::{node_before, on_both_bodies, target};

on_both_bodies! {
    a_relayed_answer_keeps_the_origins_id_and_a_served_one_has_its_own
    a_browsers_question_needs_no_signature
    a_browsers_read_is_the_origins_to_answer
    an_empty_expectation_expects_nothing
    who_waits_for_the_origins_word_is_refused_before_sending
    who_waits_for_the_origins_word_sends_when_it_came
    the_origins_address_is_told_as_the_nodes
    an_unknown_expectation_is_told_on
    the_body_of_an_early_refusal_arrives_whole
}

const KEY: &str = "t/metadata/a.avro";

fn a_relayed_answer_keeps_the_origins_id_and_a_served_one_has_its_own(ring: RingBody) {
    let origin = WritableOrigin::start();
    let node = node_before(&origin, ring, &[]);
    origin.place(&target(KEY), b"bytes");
    let mut client = node.client();
    let id = |answer: crate::client::Answer| {
        answer.headers.iter().filter(|(name, _)| name == "x-amz-request-id").count() == 1
            && answer.header("x-amz-request-id") == Some(ORIGIN_ID)
    };
    assert!(id(client.get(&target("gone"), &[])));
    assert!(id(client.request("PUT", &target("new"), &[], b"x")));
    assert!(id(client.get(&target(KEY), &[("Range", "bytes=odd")])));
    client.get(&target(KEY), &[]);
    assert!(!id(client.get(&target(KEY), &[])), "from memory");
}

fn a_browsers_question_needs_no_signature(ring: RingBody) {
    let origin = WritableOrigin::start();
    let node = node_before(&origin, ring, &[]);
    for proof in ["", "?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=c&X-Amz-Signature=00"] {
        let mut client = node.client();
        let head = format!(
            "OPTIONS {}{proof} HTTP/1.1\r\nHost: here\r\nOrigin: https://app.example\r\n\
             Access-Control-Request-Method: GET\r\n\r\n",
            target(KEY)
        );
        client.write(head.as_bytes());
        assert_eq!(client.answer(false).status, 200);
        let asked = origin.asked().pop().expect("it was asked");
        assert_eq!((asked.method.as_str(), &asked.target), ("OPTIONS", &target(KEY)));
        assert_eq!(asked.header("origin"), Some("https://app.example"));
        assert_eq!(asked.header("authorization"), None);
    }
}

fn a_browsers_read_is_the_origins_to_answer(ring: RingBody) {
    let origin = WritableOrigin::start();
    let node = node_before(&origin, ring, &[]);
    origin.place(&target(KEY), b"bytes");
    let mut client = node.client();
    assert_eq!(client.get(&target(KEY), &[]).text(), "bytes");
    let before = origin.reads(&target(KEY));
    for _ in 0..2 {
        let read = client.get(&target(KEY), &[("Origin", "https://app.example")]);
        assert_eq!(read.text(), "bytes");
    }
    assert_eq!(origin.reads(&target(KEY)), before + 2);
}

fn an_empty_expectation_expects_nothing(ring: RingBody) {
    let origin = WritableOrigin::start();
    let node = node_before(&origin, ring, &[]);
    let mut client = node.client();
    assert_eq!(client.request("PUT", &target(KEY), &[("Expect", "")], b"bytes").status, 200);
    assert_eq!(client.get(&target(KEY), &[]).text(), "bytes");
}

/// A node that leaves unsigned requests to an origin that says this to a head, and then reads
/// on for so many bytes and says that.
fn node_before_words(ring: RingBody, first: &'static str, then: &'static str) -> TestNode {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the node connects");
        let mut seen = Vec::new();
        let mut read_until = |end: &[u8]| {
            while !seen.windows(end.len()).any(|bytes| bytes == end) {
                let mut piece = [0; 4096];
                match stream.read(&mut piece) {
                    Ok(0) | Err(_) => return,
                    Ok(count) => seen.extend_from_slice(&piece[..count]),
                }
            }
        };
        read_until(b"expect: 100-continue\r\n");
        read_until(b"\r\n\r\n");
        let _ = stream.write_all(first.as_bytes());
        if !then.is_empty() {
            let mut body = [0; 5];
            stream.read_exact(&mut body).expect("the body follows");
            assert_eq!(&body, b"bytes");
            let _ = stream.write_all(then.as_bytes());
        }
    });
    TestNode::start_before(address, ring, &["--auth.anonymous", "relay"])
}

const UNSIGNED: &str = "PUT /lake/k HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\
    Expect: 100-continue\r\n\r\n";

fn who_waits_for_the_origins_word_is_refused_before_sending(ring: RingBody) {
    let node = node_before_words(ring, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "");
    let mut client = node.client();
    client.write(UNSIGNED.as_bytes());
    assert_eq!(client.answer(false).status, 403, "and not 100");
}

fn who_waits_for_the_origins_word_sends_when_it_came(ring: RingBody) {
    let done = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let node = node_before_words(ring, "HTTP/1.1 100 Continue\r\n\r\n", done);
    let mut client = node.client();
    client.write(UNSIGNED.as_bytes());
    assert_eq!(client.answer(false).status, 100);
    client.write(b"bytes");
    assert_eq!(client.answer(false).status, 200);
}

fn the_origins_address_is_told_as_the_nodes(ring: RingBody) {
    let origin = WritableOrigin::start();
    let node = node_before(&origin, ring, &["--server.domains", "node.example"]);
    let there = format!("http://{}/lake/t/k", origin.address());
    let xml = |address: &str| {
        format!(
            "<CompleteMultipartUploadResult><Location>{address}</Location></CompleteMultipartUploadResult>"
        )
    };
    origin.answer_writes_with(&xml(&there), Some(&there));
    let mut client = node.client();
    let done = client.request("POST", "/lake/t/k?uploadId=u", &[], b"<parts/>");
    let here = format!("http://{}/lake/t/k", node.endpoint());
    assert_eq!((done.text(), done.header("location")), (xml(&here), Some(&*here)));
    let mut wording = client.wording("POST", "/t/k?uploadId=u").header("Content-Length", "8");
    wording.host = "lake.node.example:80".to_owned();
    let done = client.send(&wording, b"<parts/>");
    assert_eq!(done.text(), xml("http://lake.node.example:80/t/k"));
    let put = client.request("PUT", "/lake/t/k", &[], b"x");
    assert_eq!(put.text(), xml(&there), "of no other write");
}

fn an_unknown_expectation_is_told_on(ring: RingBody) {
    let origin = WritableOrigin::start();
    let node = node_before(&origin, ring, &[]);
    let mut client = node.client();
    assert_eq!(client.request("PUT", &target(KEY), &[("Expect", "200")], b"bytes").status, 200);
    assert_eq!(origin.asked().pop().expect("it was asked").header("expect"), Some("200"));
}

fn the_body_of_an_early_refusal_arrives_whole(ring: RingBody) {
    for _ in 0..20 {
        let refusal = "HTTP/1.1 403 Forbidden\r\nContent-Length: 30\r\n\r\n";
        let node = node_before_late_words(ring, refusal, "<Error><Code>No</Code></Error>");
        let mut client = node.client();
        client.write(UNSIGNED.as_bytes());
        let answer = client.answer(false);
        assert_eq!((answer.status, answer.code().as_str()), (403, "No"));
    }
}

/// A node that leaves unsigned requests to an origin that answers a head with these words, and a
/// little later with those.
fn node_before_late_words(ring: RingBody, first: &'static str, later: &'static str) -> TestNode {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the node connects");
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(first.as_bytes());
        pause(Duration::from_millis(20));
        let _ = stream.write_all(later.as_bytes());
        // Open until the node closes it.
        while matches!(stream.read(&mut [0; 4096]), Ok(count) if count > 0) {}
    });
    TestNode::start_before(address, ring, &["--auth.anonymous", "relay"])
}

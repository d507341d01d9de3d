//! Limits and bad manners: what is too long, malformed or ambiguous is refused with a clear error,
//! what is too slow or idle is closed, what is too many is turned away. Nothing stalls.

use std::time::Duration;

use nilas_shards::RingBody;

use crate::node::{BUCKET, TestNode};
use crate::on_both_bodies;
use crate::time::{eventually, pause};

on_both_bodies! {
    what_is_over_a_limit_is_refused_with_its_code
    what_could_be_read_in_two_ways_is_refused
    what_is_no_request_is_refused
    a_head_that_stands_still_is_refused_in_time
    a_head_that_drips_is_refused_in_time
    an_idle_connection_is_closed
    a_body_that_stands_still_is_refused_in_time
    a_connection_too_many_is_told_to_slow_down
}

/// Sends this and expects that code, or any refusal that closes the connection.
fn check(node: &TestNode, about: &str, sent: &[u8], (status, code): (u16, &str)) {
    let mut client = node.client();
    // A refusal may come before everything was sent.
    client.try_write(sent);
    let answer = client.answer(false);
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (status, code),
        "{about}: {}",
        answer.text()
    );
    assert_eq!(answer.header("connection"), Some("close"), "{about}");
    assert!(answer.header("x-amz-request-id").is_some(), "{about}");
    assert!(client.is_closed(), "{about}");
}

fn is_healthy(node: &TestNode) {
    assert_eq!(node.client().get(&format!("/{BUCKET}/none"), &[]).status, 404);
}

fn what_is_over_a_limit_is_refused_with_its_code(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    let long = |count: usize| "a".repeat(count);
    let many: String = (0..101).map(|number| format!("x-{number}: a\r\n")).collect();
    let metadata = format!("x-amz-meta-a: {}\r\n", long(2048));
    let too_large = (400, "RequestHeaderSectionTooLarge");
    for (about, head, expected) in [
        (
            "a long line",
            format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", long(9000)),
            (400, "InvalidURI"),
        ),
        ("a line without end", format!("GET /{}", long(20_000)), (400, "InvalidURI")),
        (
            "a long header",
            format!("GET / HTTP/1.1\r\nHost: h\r\nx: {}\r\n\r\n", long(9000)),
            too_large,
        ),
        (
            "a header without end",
            format!("GET / HTTP/1.1\r\nHost: h\r\nx: {}", long(30_000)),
            too_large,
        ),
        ("many headers", format!("GET / HTTP/1.1\r\nHost: h\r\n{many}\r\n"), too_large),
        (
            "much metadata",
            format!("PUT /b/k HTTP/1.1\r\nHost: h\r\n{metadata}\r\n"),
            (400, "MetadataTooLarge"),
        ),
        (
            "a long method",
            format!("{} / HTTP/1.1\r\nHost: h\r\n\r\n", "A".repeat(33)),
            (400, "BadRequest"),
        ),
    ] {
        check(&node, about, head.as_bytes(), expected);
    }
    is_healthy(&node);
}

fn what_could_be_read_in_two_ways_is_refused(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    let bad = (400, "BadRequest");
    for (headers, expected) in [
        ("Content-Length: 5\r\nContent-Length: 6\r\n", bad),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", bad),
        ("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", bad),
        ("Content-Length: 5, 5\r\n", bad),
        ("Content-Length: +5\r\n", bad),
        ("Content-Length: -1\r\n", bad),
        ("Content-Length: 0x5\r\n", bad),
        ("Content-Length: 5 5\r\n", bad),
        ("Content-Length: \r\n", bad),
        ("Content-Length: 99999999999999999999999\r\n", bad),
        ("Transfer-Encoding: gzip, chunked\r\n", (501, "NotImplemented")),
        ("Transfer-Encoding: chunked, chunked\r\n", (501, "NotImplemented")),
        ("Transfer-Encoding: xchunked\r\n", (501, "NotImplemented")),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", (501, "NotImplemented")),
        ("Content-Length : 5\r\n", bad),
        (" Content-Length: 5\r\n", bad),
        ("X: a\r\n Content-Length: 5\r\n", bad),
        ("Content-Length: 5\nX: a\r\n", bad),
        ("Host: other\r\n", bad),
        ("X\0: a\r\n", bad),
        ("X: a\0b\r\n", bad),
    ] {
        let head = format!("PUT /{BUCKET}/x HTTP/1.1\r\nHost: h\r\n{headers}\r\nhello");
        check(&node, headers, head.as_bytes(), expected);
    }
    let old = format!(
        "PUT /{BUCKET}/x HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    );
    check(&node, "chunks in 1.0", old.as_bytes(), bad);
    is_healthy(&node);
}

fn what_is_no_request_is_refused(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    let bad = (400, "BadRequest");
    for (text, expected) in [
        ("hello\r\n\r\n", bad),
        ("GET\r\n\r\n", bad),
        ("GET /\r\n\r\n", bad),
        ("GET  / HTTP/1.1\r\nHost: h\r\n\r\n", bad),
        ("GET / HTTP/1.1 \r\nHost: h\r\n\r\n", bad),
        ("GET / HTTP/1.1\r\n\r\n", bad),
        ("GET / HTTP/1.1\r\nHost:\r\n\r\n", bad),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", bad),
        ("GET / HTTP/1.1\r\nno colon\r\n\r\n", bad),
        ("GET / HTTP/1.1\r\n: empty\r\nHost: h\r\n\r\n", bad),
        ("G\x01T / HTTP/1.1\r\nHost: h\r\n\r\n", bad),
        ("GET x HTTP/1.1\r\nHost: h\r\n\r\n", (400, "InvalidURI")),
        ("GET https://h/ HTTP/1.1\r\nHost: h\r\n\r\n", (400, "InvalidURI")),
        ("CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n", (400, "InvalidURI")),
        ("GET http://other/ HTTP/1.1\r\nHost: h\r\n\r\n", bad),
        ("GET / HTTP/2.0\r\nHost: h\r\n\r\n", (505, "UnsupportedHttpVersion")),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (505, "UnsupportedHttpVersion")),
        ("GET /b/%zz HTTP/1.1\r\nHost: h\r\n\r\n", (400, "InvalidURI")),
        ("GET /b/%ff HTTP/1.1\r\nHost: h\r\n\r\n", (400, "InvalidURI")),
        ("GET //k HTTP/1.1\r\nHost: h\r\n\r\n", (400, "InvalidBucketName")),
        ("\x16\x03\x01\x02\x00\x01\x00\x01\u{fc}\x03\x03", bad),
    ] {
        check(&node, text, text.as_bytes(), expected);
    }
    is_healthy(&node);
}

fn a_head_that_stands_still_is_refused_in_time(ring: RingBody) {
    let node = TestNode::start(ring, &["--limits.header_timeout", "100ms"]);
    check(&node, "half a head", b"GET / HTTP/1.1\r\nHos", (400, "RequestTimeout"));
    is_healthy(&node);
}

fn a_head_that_drips_is_refused_in_time(ring: RingBody) {
    let node = TestNode::start(ring, &["--limits.header_timeout", "200ms"]);
    let mut client = node.client();
    client.write(b"GET / HTTP/1.1\r\nX: ");
    let mut drops = 0;
    while client.is_silent_for(Duration::from_millis(20)) {
        drops += 1;
        assert!(drops < 60, "each byte gained the client more time");
        client.try_write(b"a");
    }
    eventually("the connection is closed", || {
        node.open_connections() == 0 || {
            client.try_write(b"a");
            false
        }
    });
}

fn an_idle_connection_is_closed(ring: RingBody) {
    let node = TestNode::start(ring, &["--limits.keep_alive_idle", "100ms"]);
    let mut fresh = node.client();
    assert!(fresh.is_closed(), "one that never sent anything");
    let mut used = node.client();
    assert_eq!(used.get(&format!("/{BUCKET}/none"), &[]).status, 404);
    assert!(used.is_closed(), "one that was used");
    eventually("both are forgotten", || node.open_connections() == 0);
}

fn a_body_that_stands_still_is_refused_in_time(ring: RingBody) {
    let node = TestNode::start(ring, &["--limits.body_idle_timeout", "100ms"]);
    let mut client = node.client();
    let target = format!("/{BUCKET}/object");
    node.place("object", b"old");
    client.write(&client.signed_head("PUT", &target, &[], 1000));
    client.write(b"only the beginning");
    let answer = client.answer(false);
    assert_eq!((answer.status, answer.code().as_str()), (400, "RequestTimeout"));
    assert!(client.is_closed());
    assert_eq!(node.client().get(&target, &[]).text(), "old");
}

fn a_connection_too_many_is_told_to_slow_down(ring: RingBody) {
    let node = TestNode::start(ring, &["--limits.connections_per_shard_max", "2"]);
    let mut clients: Vec<_> = (0..40).map(|_| node.client()).collect();
    let target = format!("/{BUCKET}/none");
    let (mut served, mut turned_away) = (0, 0);
    for client in &mut clients {
        client.try_write(&client.signed_head("GET", &target, &[], 0));
        let answer = client.answer(false);
        match answer.status {
            404 => served += 1,
            503 => {
                assert_eq!(answer.code(), "SlowDown");
                assert!(answer.header("retry-after").is_some());
                assert!(client.is_closed());
                turned_away += 1;
            }
            other => panic!("{other}: {}", answer.text()),
        }
    }
    assert!((2..=4).contains(&served), "two a shard, not {served}");
    assert_eq!(served + turned_away, 40);
    drop(clients);
    eventually("places are free again", || node.open_connections() == 0);
    pause(Duration::from_millis(5));
    is_healthy(&node);
}

//! The wire as clients use it: requests one behind the other, heads in any pieces, connections that
//! live on or end as HTTP/1.1 and HTTP/1.0 say, bodies in HTTP's own chunks.

use nilas_shards::RingBody;

use crate::node::{BUCKET, TestNode};
use crate::{noise, on_both_bodies};

on_both_bodies! {
    pipelined_requests_are_answered_in_order
    what_is_pipelined_behind_a_write_is_answered_after_it
    a_head_may_arrive_in_any_two_pieces
    a_head_may_arrive_byte_by_byte
    a_connection_lives_on_as_its_version_and_its_header_say
    a_body_may_come_in_http_chunks
    empty_lines_before_a_request_are_skipped
    a_deep_pipeline_is_answered_though_nothing_is_read_yet
    a_body_where_none_is_expected_leaves_the_connection_in_step
    a_whole_address_may_be_the_target
    an_answer_may_have_a_long_head
}

fn pipelined_requests_are_answered_in_order(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    let objects: Vec<Vec<u8>> =
        (0..30).map(|seed| noise(seed, 1000 + 997 * seed as usize)).collect();
    for (number, bytes) in objects.iter().enumerate() {
        node.place(&format!("object-{number}"), bytes);
    }
    let mut client = node.client();
    for round in ["cold", "warm"] {
        let mut heads = Vec::new();
        for number in 0..objects.len() {
            let method = if number % 3 == 2 { "HEAD" } else { "GET" };
            let target = format!("/{BUCKET}/object-{number}");
            heads.extend(client.signed_head(method, &target, &[], 0));
        }
        client.write(&heads);
        for (number, bytes) in objects.iter().enumerate() {
            let is_head = number % 3 == 2;
            let answer = client.answer(is_head);
            let length = bytes.len().to_string();
            assert_eq!(answer.status, 200, "{round} {number}: {}", answer.text());
            assert_eq!(answer.header("content-length"), Some(length.as_str()), "{round} {number}");
            assert!(is_head || answer.body == *bytes, "{round} {number}");
        }
    }
}

fn what_is_pipelined_behind_a_write_is_answered_after_it(ring: RingBody) {
    let node = TestNode::start(ring, &["--cache.mutable_ttl", "1h"]);
    let target = format!("/{BUCKET}/object");
    for (seed, length) in [(1, 0), (2, 10), (3, 9_000), (4, 70_000), (5, 1 << 20)] {
        let bytes = noise(seed, length);
        let mut client = node.client();
        let mut sent = client.signed_head("PUT", &target, &[], length);
        sent.extend_from_slice(&bytes);
        for _ in 0..3 {
            sent.extend(client.signed_head("GET", &target, &[], 0));
        }
        client.write(&sent);
        assert_eq!(client.answer(false).status, 200, "{length} bytes");
        for _ in 0..3 {
            let read = client.answer(false);
            assert!(read.status == 200 && read.body == bytes, "{length} bytes");
        }
    }
}

fn a_head_may_arrive_in_any_two_pieces(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    node.place("object", b"content");
    let mut client = node.client();
    let head = client.signed_head("GET", &format!("/{BUCKET}/object"), &[], 0);
    for at in 1..head.len() {
        client.write(&head[..at]);
        std::thread::yield_now();
        client.write(&head[at..]);
        let answer = client.answer(false);
        assert_eq!((answer.status, &answer.body[..]), (200, &b"content"[..]), "cut at {at}");
    }
}

fn a_head_may_arrive_byte_by_byte(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    let mut client = node.client();
    let mut sent = client.signed_head("PUT", &format!("/{BUCKET}/object"), &[], 7);
    sent.extend_from_slice(b"content");
    sent.extend(client.signed_head("GET", &format!("/{BUCKET}/object"), &[], 0));
    for byte in sent {
        client.write(&[byte]);
    }
    assert_eq!(client.answer(false).status, 200);
    assert_eq!(client.answer(false).text(), "content");
}

fn a_connection_lives_on_as_its_version_and_its_header_say(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    node.place("object", b"content");
    for (version, connection, lives_on) in [
        ("HTTP/1.1", None, true),
        ("HTTP/1.1", Some("keep-alive"), true),
        ("HTTP/1.1", Some("close"), false),
        ("HTTP/1.1", Some("Close"), false),
        ("HTTP/1.1", Some("x, close"), false),
        ("HTTP/1.0", None, false),
        ("HTTP/1.0", Some("close"), false),
        ("HTTP/1.0", Some("Keep-Alive"), true),
    ] {
        for path in ["object", "missing", "?list-type=2"] {
            let mut client = node.client();
            let target = format!("/{BUCKET}/{path}");
            let mut wording = client.wording("GET", &target).version(version);
            wording
                .unsigned_headers
                .extend(connection.map(|value| ("Connection".into(), value.into())));
            let answer = client.send(&wording, b"");
            let told = answer.header("connection").map(str::to_ascii_lowercase);
            let expected = if lives_on { "keep-alive" } else { "close" };
            let about = format!("{version} {connection:?} {path}");
            assert_eq!(told.as_deref(), Some(expected), "{about}");
            if lives_on {
                assert_eq!(client.send(&wording, b"").status, answer.status, "{about}");
            } else {
                assert!(client.is_closed(), "{about}");
            }
        }
    }
}

fn a_body_may_come_in_http_chunks(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    let mut client = node.client();
    let target = format!("/{BUCKET}/object");
    let bytes = noise(1, 300_000);
    for chunk_bytes in [1_000, 65_536, 300_000] {
        let wording = client.wording("PUT", &target).header("Transfer-Encoding", "chunked");
        let mut body = Vec::new();
        for chunk in bytes.chunks(chunk_bytes) {
            body.extend_from_slice(format!("{:x};name=value\r\n", chunk.len()).as_bytes());
            body.extend_from_slice(chunk);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"0\r\nx-unknown: trailer\r\n\r\n");
        // The next request is already behind it.
        body.extend(client.signed_head("GET", &target, &[], 0));
        let put = client.send(&wording, &body);
        assert_eq!(put.status, 200, "{}", put.text());
        assert!(client.answer(false).body == bytes, "chunks of {chunk_bytes}");
    }
    let wording = client.wording("PUT", &target).header("Transfer-Encoding", "chunked");
    assert_eq!(client.send(&wording, b"0\r\n\r\n").status, 200);
    assert_eq!(client.get(&target, &[]).body, b"");
    let refused = client.send(&wording, b"1\r\nab\r\n0\r\n\r\n");
    assert_eq!((refused.status, refused.code().as_str()), (400, "BadRequest"));
    assert!(client.is_closed(), "nobody knows where the next request begins");
}

fn empty_lines_before_a_request_are_skipped(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    node.place("object", b"content");
    let mut client = node.client();
    let head = client.signed_head("GET", &format!("/{BUCKET}/object"), &[], 0);
    for _ in 0..2 {
        client.write(b"\r\n\r\n");
        client.write(&head);
        assert_eq!(client.answer(false).text(), "content");
    }
}

fn a_deep_pipeline_is_answered_though_nothing_is_read_yet(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    let bytes = noise(1, 100_000);
    node.place("object", &bytes);
    let mut client = node.client();
    let head = client.signed_head("GET", &format!("/{BUCKET}/object"), &[], 0);
    client.write(&head.repeat(300));
    for number in 0..300 {
        let answer = client.answer(false);
        assert!(answer.status == 200 && answer.body == bytes, "answer {number}");
    }
}

fn a_body_where_none_is_expected_leaves_the_connection_in_step(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    node.place("object", b"content");
    let target = format!("/{BUCKET}/object");
    for length in [1, 5_000, 200_000] {
        for method in ["GET", "HEAD", "DELETE", "OPTIONS", "POST", "PATCH", "BREW"] {
            let mut client = node.client();
            let wording =
                client.wording(method, &target).header("Content-Length", &length.to_string());
            client.write(&wording.head());
            client.try_write(&noise(2, length));
            let answer = client.answer(method == "HEAD");
            assert!(matches!(answer.status, 200..=499 | 501), "{method}: {}", answer.text());
            if answer.header("connection") == Some("close") {
                assert!(client.is_closed(), "{method} {length}");
                continue;
            }
            let read = client.get(&format!("/{BUCKET}/none"), &[]);
            assert_eq!(
                (read.status, read.code().as_str()),
                (404, "NoSuchKey"),
                "{method} {length}"
            );
        }
        node.place("object", b"content");
    }
}

fn a_whole_address_may_be_the_target(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    node.place("object", b"content");
    let mut client = node.client();
    let head = client.signed_head("GET", &format!("/{BUCKET}/object"), &[], 0);
    let head = String::from_utf8(head).expect("heads are text");
    let address = format!("GET http://{}/{BUCKET}", node.endpoint());
    client.write(head.replacen(&format!("GET /{BUCKET}"), &address, 1).as_bytes());
    assert_eq!(client.answer(false).text(), "content");
}

fn an_answer_may_have_a_long_head(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    let mut client = node.client();
    let target = format!("/{BUCKET}/object");
    let (long, value) = ("v".repeat(2000), "d".repeat(7000));
    let put = client.request("PUT", &target, &[("x-amz-meta-long", &long)], b"content");
    assert_eq!(put.status, 200, "{}", put.text());
    for _ in 0..2 {
        for method in ["GET", "HEAD"] {
            let query = format!("response-content-disposition={value}");
            let answer = client.request(method, &format!("{target}?{query}"), &[], b"");
            assert_eq!(answer.header("content-disposition"), Some(value.as_str()));
            assert_eq!(answer.header("x-amz-meta-long"), Some(long.as_str()));
            assert!(method == "HEAD" || answer.text() == "content");
        }
    }
}

//! Connections that begin with a PROXY header: the client is where the header says; what does not begin with one,
//! whole and in time and from where it may come, is closed without a word.

use std::time::Duration;

use nilas_engine::metrics::Failure;
use nilas_shards::RingBody;

use crate::audit::Audited;
use crate::node::{BUCKET, TestNode};
use crate::on_both_bodies;
use crate::time::eventually;

on_both_bodies! {
    a_client_is_recorded_where_its_header_says
    a_balancer_that_speaks_for_itself_is_recorded_as_who_it_is
    a_header_may_come_byte_by_byte_or_with_the_first_request
    what_does_not_begin_with_a_header_is_closed_and_counted
    a_header_that_is_late_is_closed_in_time
    a_connection_that_is_closed_before_its_header_is_no_failure
    headers_are_taken_from_the_networks_that_are_named
    without_the_key_a_header_is_no_request
}

const ON: [&str; 2] = ["--server.proxy_protocol", "v2"];
const UNSIGNED: &[u8] = b"GET /lake/k HTTP/1.1\r\nHost: h\r\n\r\n";

fn header(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let length = (block.len() as u16).to_be_bytes();
    [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[command, family], &length, block].concat()
}

/// Of a client at 203.0.113.7:41000.
fn of_client() -> Vec<u8> {
    header(0x21, 0x11, &[203, 0, 113, 7, 10, 0, 0, 1, 0xA0, 0x28, 0x23, 0x28])
}

fn failures(node: &TestNode, failure: Failure) -> u64 {
    node.node().metrics().total(|cells| cells.failures[failure.index()].get())
}

/// Asks unsigned after `header`, and gives the client that the record of that tells.
fn recorded(ring: RingBody, header: &[u8]) -> String {
    let audited = Audited::start(ring, &ON);
    let mut client = audited.node.client();
    client.write(&[header, UNSIGNED].concat());
    assert_eq!(client.answer(false).status, 403);
    audited.records(1)[0]["client"].as_str().expect("a text").to_owned()
}

fn a_client_is_recorded_where_its_header_says(ring: RingBody) {
    assert_eq!(recorded(ring, &of_client()), "203.0.113.7:41000");
    let mut addresses = [0; 36];
    addresses[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
    addresses[15] = 7;
    addresses[32..34].copy_from_slice(&41_000_u16.to_be_bytes());
    assert_eq!(recorded(ring, &header(0x21, 0x21, &addresses)), "[2001:db8::7]:41000");
}

fn a_balancer_that_speaks_for_itself_is_recorded_as_who_it_is(ring: RingBody) {
    for (command, family) in [(0x20, 0x00), (0x20, 0x11), (0x21, 0x00)] {
        let client = recorded(ring, &header(command, family, &[]));
        assert!(client.starts_with("127.0.0.1:"), "{client}");
    }
}

fn a_header_may_come_byte_by_byte_or_with_the_first_request(ring: RingBody) {
    let node = TestNode::start(ring, &ON);
    node.place("k", b"bytes");
    let target = format!("/{BUCKET}/k");
    let mut together = node.client();
    let head = together.signed_head("GET", &target, &[], 0);
    together.write(&[&of_client(), &head[..], &head].concat());
    assert_eq!(together.answer(false).text(), "bytes");
    assert_eq!(together.answer(false).text(), "bytes");
    assert_eq!(together.request("PUT", &target, &[], b"newer").status, 200);
    let mut dripping = node.client();
    for byte in [of_client(), dripping.signed_head("GET", &target, &[], 0)].concat() {
        dripping.write(&[byte]);
    }
    assert_eq!(dripping.answer(false).text(), "newer");
    assert_eq!(dripping.get(&target, &[]).text(), "newer", "one header a connection");
    assert_eq!(failures(&node, Failure::ProxyHeader), 0);
}

fn what_does_not_begin_with_a_header_is_closed_and_counted(ring: RingBody) {
    let node = TestNode::start(ring, &ON);
    node.place("k", b"bytes");
    let signed = node.client().signed_head("GET", &format!("/{BUCKET}/k"), &[], 0);
    let with = |header: Vec<u8>| [header, signed.clone()].concat();
    let addresses = [203, 0, 113, 7, 10, 0, 0, 1, 0xA0, 0x28, 0x23, 0x28];
    let of = |fields: &[u8]| with(header(0x21, 0x11, &[&addresses, fields].concat()));
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("no header", signed.clone()),
        ("version 1", with(b"PROXY TCP4 203.0.113.7 10.0.0.1 41000 9000\r\n".to_vec())),
        ("another version", with(header(0x11, 0x11, &addresses))),
        ("another command", with(header(0x22, 0x11, &addresses))),
        ("another family", with(header(0x21, 0x51, &addresses))),
        ("half an address", with(header(0x21, 0x11, &addresses[..8]))),
        ("half a field", of(&[4, 0])),
        ("a wrong checksum", of(&[3, 0, 4, 1, 2, 3, 4])),
        ("too long", of(&[&[4, 0x10, 0][..], &[0; 4096]].concat())),
    ];
    for (index, (about, bytes)) in cases.iter().enumerate() {
        let mut client = node.client();
        client.try_write(bytes);
        assert!(client.is_closed(), "{about}");
        let counted = index as u64 + 1;
        eventually("it is counted", || failures(&node, Failure::ProxyHeader) == counted);
    }
    let mut client = node.client();
    client.write(&with(of_client()));
    assert_eq!(client.answer(false).text(), "bytes");
    let mut client = node.client();
    client.write(&with([of_client(), of_client()].concat()));
    assert_eq!(client.answer(false).status, 400, "the second one is no request");
}

fn a_header_that_is_late_is_closed_in_time(ring: RingBody) {
    let flags = ["--limits.header_timeout", "200ms"];
    let node = TestNode::start(ring, &[ON, flags].concat());
    let mut silent = node.client();
    let mut half = node.client();
    half.write(&of_client()[..20]);
    assert!(silent.is_closed() && half.is_closed());
    let mut dripping = node.client();
    let mut sent = 0;
    for byte in &of_client()[..27] {
        if !dripping.is_silent_for(Duration::from_millis(20)) {
            break;
        }
        dripping.try_write(&[*byte]);
        sent += 1;
    }
    assert!(sent < 20, "each byte gained the client more time");
    eventually("all are counted", || failures(&node, Failure::ClientTimeout) == 3);
    eventually("all are forgotten", || node.open_connections() == 0);
}

fn a_connection_that_is_closed_before_its_header_is_no_failure(ring: RingBody) {
    let node = TestNode::start(ring, &ON);
    drop(node.client());
    let mut half = node.client();
    half.write(&of_client()[..20]);
    drop(half);
    eventually("both are forgotten", || {
        let opened = node.node().metrics().total(|cells| cells.connections_opened.get());
        opened == 2 && node.open_connections() == 0
    });
    for failure in Failure::ALL {
        assert_eq!(failures(&node, *failure), 0, "{failure:?}");
    }
}

fn headers_are_taken_from_the_networks_that_are_named(ring: RingBody) {
    let start = |from: &str| {
        TestNode::start(ring, &[&ON[..], &["--server.proxy_protocol_from", from]].concat())
    };
    let near = start("10.0.0.0/8,127.0.0.0/8");
    let mut client = near.client();
    client.write(&of_client());
    assert_eq!(client.get("/lake/none", &[]).status, 404);
    let far = start("10.0.0.0/8");
    let mut client = far.client();
    client.try_write(&of_client());
    assert!(client.is_closed());
    eventually("it is counted", || failures(&far, Failure::ProxyHeader) == 1);
}

fn without_the_key_a_header_is_no_request(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    let mut client = node.client();
    client.write(&of_client());
    assert_eq!(client.answer(false).status, 400);
}

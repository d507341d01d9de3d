//! Uploads and relayed answers share a memory of their own: at its ceiling they wait for one
//! another, and everybody else goes on.

use std::time::Duration;

use nilas_engine::metrics::{Failure, Resource};
use nilas_shards::RingBody;

use crate::node::{BUCKET, TestNode};
use crate::time::{eventually, pause};
use crate::{noise, on_both_bodies};

on_both_bodies! {
    uploads_beyond_the_memory_for_them_wait_and_end_well
    half_a_form_of_nobody_keeps_no_memory_from_uploads_and_not_for_long
    stalled_relayed_answers_are_closed_when_others_wait
}

fn used(node: &TestNode, resource: Resource) -> u64 {
    node.node().metrics().total(|cells| cells.used[resource.index()].get())
}

fn uploads_beyond_the_memory_for_them_wait_and_end_well(ring: RingBody) {
    // A shard's part holds one upload at a time.
    let node = TestNode::start(ring, &["--limits.buffer_bytes", "9MiB"]);
    let body = noise(1, 5 << 20);
    std::thread::scope(|scope| {
        for number in 0..24 {
            let (node, body) = (&node, &body);
            scope.spawn(move || {
                let target = format!("/{BUCKET}/upload-{number}");
                let mut client = node.client();
                assert_eq!(client.request("PUT", &target, &[], body).status, 200);
                assert!(client.get(&target, &[]).body == *body);
            });
        }
    });
    for cells in node.node().metrics().shards() {
        let place = Resource::BufferBytes.index();
        assert!(cells.used[place].get() <= cells.ceilings[place].get());
    }
    eventually("all of it is given back", || used(&node, Resource::BufferBytes) == 0);
}

fn half_a_form_of_nobody_keeps_no_memory_from_uploads_and_not_for_long(ring: RingBody) {
    let flags = ["--limits.buffer_bytes", "9MiB", "--limits.header_timeout", "1s"];
    let node = TestNode::start(ring, &flags);
    let half = format!(
        "POST /{BUCKET} HTTP/1.1\r\nHost: h\r\nContent-Type: multipart/form-data; boundary=b\r\n\
         Content-Length: 5000000\r\n\r\n--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\n"
    );
    let mut clients: Vec<_> = (0..64).map(|_| node.client()).collect();
    clients.iter_mut().for_each(|client| client.write(half.as_bytes()));
    eventually("some are being read", || used(&node, Resource::BufferBytes) > 0);
    let body = noise(1, 1 << 20);
    for number in 0..8 {
        let target = format!("/{BUCKET}/upload-{number}");
        assert_eq!(node.client().request("PUT", &target, &[], &body).status, 200);
    }
    let mut refusals: Vec<_> = clients
        .iter_mut()
        .map(|client| {
            // A byte now and then gains no time.
            client.try_write(b"a");
            let answer = client.answer(false);
            (answer.status, answer.code())
        })
        .collect();
    refusals.sort();
    refusals.dedup();
    let expected = [(400, "RequestTimeout"), (503, "SlowDown")];
    assert_eq!(refusals, expected.map(|(status, code)| (status, code.to_owned())));
    eventually("all of it is given back", || used(&node, Resource::BufferBytes) == 0);
}

fn stalled_relayed_answers_are_closed_when_others_wait(ring: RingBody) {
    let flags = ["--limits.buffer_bytes", "9MiB", "--limits.send_stall_max", "200ms"];
    let node = TestNode::start(ring, &flags);
    let body = noise(2, 24 << 20);
    node.place("large", &body);
    let target = format!("/{BUCKET}/large");
    // More ranges than one: the origin answers.
    let several = [("Range", "bytes=0-1,5-6")];
    let stalled: Vec<_> = (0..8)
        .map(|_| {
            let mut client = node.client();
            client.write(&client.signed_head("GET", &target, &several, 0));
            client
        })
        .collect();
    pause(Duration::from_millis(300));
    for _ in 0..4 {
        assert!(node.client().get(&target, &several).body == body, "a reader that reads gets on");
    }
    let closed = |node: &TestNode| {
        node.node().metrics().total(|cells| cells.failures[Failure::ClientStalled.index()].get())
    };
    assert!(closed(&node) > 0, "for that, others were closed");
    drop(stalled);
    eventually("all connections end", || node.open_connections() == 0);
    eventually("all of it is given back", || used(&node, Resource::BufferBytes) == 0);
}

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

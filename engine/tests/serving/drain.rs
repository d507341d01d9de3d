//! A node that stops: what is under way is answered whole, what is idle is closed, what is new is
//! not taken.

use std::time::Duration;

use nilas_shards::RingBody;

use crate::node::{BUCKET, TestNode};
use crate::time::pause;
use crate::{noise, on_both_bodies};

on_both_bodies! {
    answers_under_way_are_whole_and_idle_connections_end
    a_node_with_stuck_clients_stops_when_the_time_is_up
}

fn answers_under_way_are_whole_and_idle_connections_end(ring: RingBody) {
    let flags = ["--server.drain_timeout", "20s", "--origin.first_byte_latency", "60ms"];
    let node = TestNode::start(ring, &flags);
    let bytes = noise(1, 9 << 20);
    node.place("object", &bytes);
    let target = format!("/{BUCKET}/object");
    let mut idle = node.client();
    idle.get(&format!("/{BUCKET}/none"), &[]);
    let mut reader = node.client();
    reader.write(&reader.signed_head("GET", &target, &[], 0));
    let mut writer = node.client();
    writer.write(&writer.signed_head("PUT", &format!("/{BUCKET}/other"), &[], bytes.len()));
    writer.write(&bytes[..1000]);
    pause(Duration::from_millis(20));
    std::thread::scope(|scope| {
        let stopping = scope.spawn(|| drop(node));
        pause(Duration::from_millis(10));
        assert!(idle.is_closed());
        writer.write(&bytes[1000..]);
        assert!(reader.answer(false).body == bytes);
        assert!(reader.is_closed());
        assert_eq!(writer.answer(false).status, 200);
        assert!(writer.is_closed());
        stopping.join().expect("it stops");
    });
}

fn a_node_with_stuck_clients_stops_when_the_time_is_up(ring: RingBody) {
    let node = TestNode::start(ring, &["--server.drain_timeout", "100ms"]);
    node.place("object", &noise(1, 24 << 20));
    let mut reader = node.client();
    reader.write(&reader.signed_head("GET", &format!("/{BUCKET}/object"), &[], 0));
    reader.read_some(100);
    let mut writer = node.client();
    writer.write(&writer.signed_head("PUT", &format!("/{BUCKET}/other"), &[], 1000));
    let mut beginner = node.client();
    beginner.write(b"GET / HT");
    drop(node);
    assert!(writer.is_closed() && beginner.is_closed());
}

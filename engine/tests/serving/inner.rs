//! Reads that the node asks of itself: what they bring is what clients would get, and finds later readers warm.

use nilas_engine::inner::{InnerBytes, InnerRead, InnerReadError};
use nilas_net::range::{RangeForm, SingleRange};
use nilas_shards::RingBody;

use crate::node::{BUCKET, TestNode, target};
use crate::{noise, on_both_bodies};

on_both_bodies! {
    what_is_read_inside_is_warm_for_clients
    what_is_not_there_is_said_and_asked_again
    keys_are_taken_as_they_are
}

fn read(
    node: &TestNode,
    key: &str,
    range: RangeForm,
    gives_bytes: bool,
) -> Result<InnerBytes, InnerReadError> {
    let what = InnerRead {
        bucket: BUCKET.to_owned(),
        key: key.to_owned(),
        range,
        tail_start: None,
        gives_bytes,
    };
    node.node().control().block_on(node.node().inner_reads().read(what))
}

fn what_is_read_inside_is_warm_for_clients(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    let bytes = noise(1, 5 << 20);
    node.place("db/t/metadata/v1.metadata.json", &bytes);
    let key = "db/t/metadata/v1.metadata.json";
    let last = RangeForm::Single(SingleRange::Last { length: 100 });
    let tail = read(&node, key, last, true).expect("it is there");
    assert_eq!(tail.bytes, bytes[(5 << 20) - 100..]);
    assert!(tail.waited && tail.object_bytes == 5 << 20 && tail.read_bytes == 100);
    let whole = read(&node, key, RangeForm::Absent, false).expect("it is there");
    assert!(whole.bytes.is_empty() && whole.read_bytes == 5 << 20 && whole.waited);
    let asked = node.origin_requests();
    let again = read(&node, key, RangeForm::Absent, true).expect("it is there");
    assert!(again.bytes == bytes && !again.waited);
    let answer = node.client().get(&target(key), &[]);
    assert!(answer.status == 200 && answer.body == bytes);
    assert_eq!(node.origin_requests(), asked, "all of it was warm");
}

fn what_is_not_there_is_said_and_asked_again(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    let missing = read(&node, "t/metadata/a.avro", RangeForm::Absent, true);
    assert_eq!(missing, Err(InnerReadError::Status(404)));
    node.place("t/metadata/a.avro", b"here");
    let found = read(&node, "t/metadata/a.avro", RangeForm::Absent, true).expect("it is there");
    assert_eq!(found.bytes, b"here"[..]);
}

fn keys_are_taken_as_they_are(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    for key in ["t/data/p=a%2Fb/x #1.parquet", "t/data/p=\u{fc}/x+y.parquet", "t/data/a b"] {
        node.place(key, key.as_bytes());
        let found = read(&node, key, RangeForm::Absent, true).expect(key);
        assert_eq!(found.bytes, key.as_bytes());
    }
}

//! The end of a data file, which engines plan with: once the node has read it as such, it is in the metadata store,
//! whatever is read of the rest. Bytes are what they are, on which side of the border they lie or on both.

use nilas_base::{ByteRange, Rng};
use nilas_engine::inner::{InnerBytes, InnerRead};
use nilas_engine::metrics::Tier;
use nilas_net::range::{RangeForm, SingleRange};
use nilas_shards::RingBody;

use crate::node::{BUCKET, TestNode, target};
use crate::{noise, on_both_bodies};

on_both_bodies! {
    a_scan_of_ten_times_the_data_budget_leaves_the_tail
    reads_on_either_side_of_any_border_are_right
    a_tail_outlives_a_revalidation_and_not_a_write
    a_client_reads_across_the_border_without_a_question_for_the_tail
    a_tail_that_grows_stays_at_hand_as_a_whole
    a_small_file_that_is_planning_metadata_as_a_whole_stays_at_hand
    what_was_written_anew_has_no_tail
}

const MIB: u64 = 1 << 20;
const SECTOR: u64 = 4 << 10;
const SMALL: [&str; 6] = [
    "--cache.data_bytes",
    "24MiB",
    "--cache.metadata_bytes",
    "24MiB",
    "--cache.block_bytes",
    "1MiB",
];

fn read_tail(node: &TestNode, key: &str, range: ByteRange, tail_start: u64) -> InnerBytes {
    let (first, last) = (range.start, range.end - 1);
    let what = InnerRead {
        bucket: BUCKET.to_owned(),
        key: key.to_owned(),
        range: RangeForm::Single(SingleRange::FromTo { first, last }),
        tail_start: Some(tail_start),
        gives_bytes: true,
    };
    node.node().control().block_on(node.node().inner_reads().read(what)).expect("it is there")
}

fn get(node: &TestNode, key: &str, range: ByteRange) -> Vec<u8> {
    let header = format!("bytes={}-{}", range.start, range.end - 1);
    let answer = node.client().get(&target(key), &[("range", &header)]);
    assert_eq!(answer.status, 206, "{key} {header}");
    answer.body
}

fn slice(bytes: &[u8], range: ByteRange) -> &[u8] {
    &bytes[range.start as usize..range.end as usize]
}

/// Reads much else through the node.
fn scan(node: &TestNode, bytes: u64) {
    let junk = noise(9, 2 * MIB as usize);
    for number in 0..bytes / (2 * MIB) {
        let key = format!("junk/{number}");
        node.place(&key, &junk);
        assert!(node.client().get(&target(&key), &[]).body == junk);
    }
}

fn a_scan_of_ten_times_the_data_budget_leaves_the_tail(ring: RingBody) {
    let node =
        TestNode::start(ring, &[&SMALL[..], &["--cache.immutable_globs", "lake/db/**"]].concat());
    // Of three blocks, the last of them short; its tail is in two.
    let (key, length) = ("db/x.parquet", 2 * MIB + 10_000);
    let bytes = noise(1, length as usize);
    node.place(key, &bytes);
    assert!(node.client().get(&target(key), &[]).body == bytes, "all of it is in the data store");
    let tail = ByteRange::new(length - 64 * 1024, length);
    let start = tail.start / SECTOR * SECTOR;
    assert_eq!(read_tail(&node, key, tail, start).bytes, slice(&bytes, tail));
    scan(&node, 240 * MIB);
    let asked = node.origin_requests();
    for range in [tail, ByteRange::new(length - 8, length), ByteRange::new(start, start + 1)] {
        assert_eq!(get(&node, key, range), slice(&bytes, range));
    }
    assert_eq!(node.origin_requests(), asked, "the tail is at hand");
    let whole = ByteRange::new(0, length);
    assert_eq!(get(&node, key, whole), bytes);
    assert!(node.origin_requests() > asked, "the rest has left");
}

fn reads_on_either_side_of_any_border_are_right(ring: RingBody) {
    let node = TestNode::start(ring, &SMALL);
    let mut rng = Rng::from_seed(11);
    for number in 0..24 {
        let length = 1 + rng.below([20_000, 200_000, 3 * MIB][number % 3]);
        let (key, bytes) = (format!("db/{number}"), noise(number as u64, length as usize));
        node.place(&key, &bytes);
        let mut tail_start = length;
        for _ in 0..12 {
            let start = rng.below(length);
            let range = ByteRange::new(start, start + 1 + rng.below(length - start));
            if rng.below(3) == 0 {
                // It grows towards the file's beginning, and what is said of less changes nothing.
                tail_start = rng.below(length) / SECTOR * SECTOR;
                let read = read_tail(&node, &key, range, tail_start);
                assert_eq!(read.bytes, slice(&bytes, range), "{key} {range:?}");
                assert_eq!(read.object_bytes, length);
            } else {
                let found = get(&node, &key, range);
                assert_eq!(found, slice(&bytes, range), "{key} {range:?} {tail_start}");
            }
        }
        assert!(node.client().get(&target(&key), &[]).body == bytes);
    }
}

fn a_tail_outlives_a_revalidation_and_not_a_write(ring: RingBody) {
    let node = TestNode::start(ring, &[&SMALL[..], &["--cache.mutable_ttl", "0s"]].concat());
    let (key, bytes) = ("plain/x", noise(3, MIB as usize));
    node.place(key, &bytes);
    let tail = ByteRange::new(MIB - 100, MIB);
    assert_eq!(read_tail(&node, key, tail, MIB - SECTOR).bytes, slice(&bytes, tail));
    scan(&node, 60 * MIB);
    for _ in 0..2 {
        let asked = node.origin_requests();
        assert_eq!(get(&node, key, tail), slice(&bytes, tail));
        assert_eq!(node.origin_requests() - asked, 1, "only whether it is the same");
    }
    let new = noise(4, MIB as usize + 77);
    assert_eq!(node.client().request("PUT", &target(key), &[], &new).status, 200);
    for range in [tail, ByteRange::new(MIB, MIB + 77), ByteRange::new(0, MIB + 77)] {
        assert_eq!(get(&node, key, range), slice(&new, range));
    }
}

/// Bytes of data that are more than ten times what the small node holds of them.
const MUCH: u64 = 240 * MIB;
const VOUCHED: [&str; 2] = ["--cache.immutable_globs", "lake/db/**"];

fn start_small(ring: RingBody) -> TestNode {
    TestNode::start(ring, &[&SMALL[..], &VOUCHED].concat())
}

/// Bytes that were sent from a tier so far.
fn sent_bytes(node: &TestNode, tier: Tier) -> u64 {
    let shards = node.node().metrics().shards();
    shards.iter().map(|cells| cells.sent_bytes[tier.index()].get()).sum()
}

fn asks_nothing(node: &TestNode, key: &str, bytes: &[u8], range: ByteRange) {
    let asked = node.origin_requests();
    assert_eq!(get(node, key, range), slice(bytes, range), "{key} {range:?}");
    assert_eq!(node.origin_requests(), asked, "{key} {range:?} is at hand");
}

fn a_client_reads_across_the_border_without_a_question_for_the_tail(ring: RingBody) {
    let node = TestNode::start(ring, &VOUCHED);
    let length = 3 * MIB;
    // Blocks are of 2 MiB: a tail within the last one, and one that begins in the first.
    for (key, start) in [("db/one", length - 20 * SECTOR), ("db/two", 2 * MIB - 5 * SECTOR)] {
        let bytes = noise(5, length as usize);
        node.place(key, &bytes);
        let tail = ByteRange::new(start, length);
        assert_eq!(read_tail(&node, key, tail, start).bytes, slice(&bytes, tail));
        let [metadata, data] = [Tier::Metadata, Tier::Data].map(|tier| sent_bytes(&node, tier));
        asks_nothing(&node, key, &bytes, tail);
        assert_eq!(sent_bytes(&node, Tier::Metadata) - metadata, tail.len());
        assert_eq!(sent_bytes(&node, Tier::Data), data);
        asks_nothing(&node, key, &bytes, ByteRange::new(start, start + 1));
        let asked = node.origin_requests();
        let across = ByteRange::new(start - 10, start + 3 * SECTOR + 1);
        assert_eq!(get(&node, key, across), slice(&bytes, across));
        assert_eq!(node.origin_requests() - asked, 1, "what comes before the tail, in one go");
        asks_nothing(&node, key, &bytes, across);
        assert!(node.client().get(&target(key), &[]).body == bytes);
        asks_nothing(&node, key, &bytes, ByteRange::new(0, length));
    }
}

fn a_tail_that_grows_stays_at_hand_as_a_whole(ring: RingBody) {
    let node = start_small(ring);
    let (key, length) = ("db/x.parquet", MIB + 12_345);
    let bytes = noise(6, length as usize);
    node.place(key, &bytes);
    // As a footer is read that is longer than the window, and once more as is known already.
    for sectors in [16, 40, 2] {
        let start = (length - sectors * SECTOR) / SECTOR * SECTOR;
        let tail = ByteRange::new(start, length);
        assert_eq!(read_tail(&node, key, tail, start).bytes, slice(&bytes, tail));
    }
    scan(&node, MUCH);
    let start = (length - 40 * SECTOR) / SECTOR * SECTOR;
    asks_nothing(&node, key, &bytes, ByteRange::new(start, length));
}

fn a_small_file_that_is_planning_metadata_as_a_whole_stays_at_hand(ring: RingBody) {
    let node = start_small(ring);
    let (key, bytes) = ("db/deletes.parquet", noise(7, 30_000));
    node.place(key, &bytes);
    let whole = ByteRange::new(0, 30_000);
    assert_eq!(read_tail(&node, key, whole, 0).bytes, bytes);
    scan(&node, MUCH);
    asks_nothing(&node, key, &bytes, whole);
    asks_nothing(&node, key, &bytes, ByteRange::new(4095, 4097));
}

fn what_was_written_anew_has_no_tail(ring: RingBody) {
    let node = start_small(ring);
    let key = "db/x.parquet";
    let whole = ByteRange::new(0, 200_000);
    let (old, new) = (noise(8, 200_000), noise(10, 200_000));
    node.place(key, &old);
    assert_eq!(read_tail(&node, key, whole, 0).bytes, old);
    assert_eq!(node.client().request("PUT", &target(key), &[], &new).status, 200);
    assert_eq!(get(&node, key, whole), new);
    scan(&node, MUCH);
    let asked = node.origin_requests();
    assert_eq!(get(&node, key, whole), new);
    assert!(node.origin_requests() > asked, "it is data again, and has left");
}

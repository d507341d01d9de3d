//! A node that is started anew on its disk: what never changes is known at once, and nothing that the
//! node before it has seen end comes back.

use nilas_base::ByteRange;
use nilas_engine::inner::InnerRead;
use nilas_engine::metrics::{ShardCells, Tier};
use nilas_engine::purge::{Purge, PurgeScope};
use nilas_net::range::{RangeForm, SingleRange};
use nilas_shards::RingBody;
use tempfile::TempDir;

use crate::node::{BUCKET, TestNode};
use crate::origin::{Fate, WritableOrigin};
use crate::time::eventually;
use crate::{node_before, noise, on_both_bodies, target};

on_both_bodies! {
    what_never_changes_is_told_without_a_question_after_a_restart
    with_the_origin_down_a_restarted_node_tells_what_it_knows
    a_write_before_a_restart_is_seen_after_it
    a_list_of_deletes_before_a_restart_is_seen_after_it
    a_write_of_unknown_outcome_is_held_after_a_restart
    a_purge_holds_beyond_a_restart
    with_the_origin_down_a_restarted_node_serves_the_tail_of_a_data_file
}

const KEYS: [&str; 3] = ["t/metadata/a.avro", "t/metadata/b.avro", "u/metadata/c.metadata.json"];

/// An origin, and a disk for the nodes before it.
struct House {
    origin: WritableOrigin,
    disk: TempDir,
    ring: RingBody,
}

impl House {
    /// With objects, each of which a node has told once and then stopped.
    fn read_once(ring: RingBody) -> House {
        let disk = tempfile::tempdir().expect("a folder for the disk");
        let house = House { origin: WritableOrigin::start(), disk, ring };
        (1..).zip(KEYS).for_each(|(seed, key)| {
            house.origin.place(&target(key), &noise(seed, 3000));
        });
        let node = house.start();
        for key in KEYS {
            assert_eq!(node.client().get(&target(key), &[]).status, 200);
        }
        drop(node);
        house
    }

    fn start(&self) -> TestNode {
        let path = self.disk.path().to_str().expect("a temporary path is text");
        let budgets = ["--disk.data_bytes", "34MiB", "--disk.metadata_bytes", "32MiB"];
        let small = ["--disk.mapping_bytes", "16MiB", "--cache.block_bytes", "1MiB"];
        let flags = [&["--disk.path", path][..], &budgets, &small].concat();
        let node = node_before(&self.origin, self.ring, &flags);
        // It waits until the journals are read.
        purge(&node, PurgeScope::Key("none".to_owned()));
        node
    }

    fn head(&self, node: &TestNode, key: &str) -> (u16, usize) {
        let before = self.origin.reads(&target(key));
        let head = node.client().request("HEAD", &target(key), &[], b"");
        (head.status, self.origin.reads(&target(key)) - before)
    }
}

fn put(node: &TestNode, key: &str, bytes: &[u8]) -> u16 {
    node.client().request("PUT", &target(key), &[], bytes).status
}

fn purge(node: &TestNode, scope: PurgeScope) {
    let (purges, what) = (node.node().purges().clone(), Purge { bucket: BUCKET.to_owned(), scope });
    let purged = node.node().control().block_on(async move { purges.purge(what).await });
    purged.expect("the disk is sound");
}

fn what_never_changes_is_told_without_a_question_after_a_restart(ring: RingBody) {
    let house = House::read_once(ring);
    for _ in 0..2 {
        let node = house.start();
        for key in &KEYS[1..] {
            assert_eq!(house.head(&node, key), (200, 0), "{key}");
        }
        assert!(node.client().get(&target(KEYS[1]), &[]).body == noise(2, 3000));
    }
}

fn with_the_origin_down_a_restarted_node_tells_what_it_knows(ring: RingBody) {
    let house = House::read_once(ring);
    house.origin.refuse_reads(Some(503));
    let node = house.start();
    for key in KEYS {
        assert_eq!(house.head(&node, key).0, 200, "{key}");
    }
}

fn a_write_before_a_restart_is_seen_after_it(ring: RingBody) {
    let house = House::read_once(ring);
    let node = house.start();
    assert_eq!(put(&node, KEYS[1], &noise(7, 100)), 200);
    drop(node);
    let node = house.start();
    assert!(node.client().get(&target(KEYS[1]), &[]).body == noise(7, 100));
    assert_eq!(house.head(&node, KEYS[2]), (200, 0));
}

fn a_list_of_deletes_before_a_restart_is_seen_after_it(ring: RingBody) {
    let house = House::read_once(ring);
    let node = house.start();
    let objects: String =
        KEYS[1..].iter().map(|key| format!("<Object><Key>{key}</Key></Object>")).collect();
    let list = format!("<Delete>{objects}</Delete>");
    let answer = node.client().request("POST", &format!("/{BUCKET}?delete"), &[], list.as_bytes());
    assert_eq!(answer.status, 200);
    drop(node);
    let node = house.start();
    for key in &KEYS[1..] {
        assert_eq!(node.client().get(&target(key), &[]).status, 404, "{key}");
    }
}

fn a_write_of_unknown_outcome_is_held_after_a_restart(ring: RingBody) {
    let house = House::read_once(ring);
    let node = house.start();
    house.origin.next_write(Fate::Status(503, std::time::Duration::from_millis(400)));
    assert_eq!(put(&node, KEYS[1], &noise(7, 100)), 503);
    drop(node);
    let node = house.start();
    for _ in 0..3 {
        assert_eq!(house.head(&node, KEYS[1]), (200, 1), "each read asks");
    }
    assert_eq!(house.head(&node, KEYS[2]), (200, 0));
    eventually("the write is seen as soon as it happens", || {
        node.client().get(&target(KEYS[1]), &[]).body == noise(7, 100)
    });
}

fn a_purge_holds_beyond_a_restart(ring: RingBody) {
    let house = House::read_once(ring);
    let node = house.start();
    // Changed around the node, which would not have asked.
    house.origin.place(&target(KEYS[1]), &noise(8, 200));
    purge(&node, PurgeScope::Prefix("t/metadata/b".to_owned()));
    drop(node);
    let node = house.start();
    assert!(node.client().get(&target(KEYS[1]), &[]).body == noise(8, 200));
    assert_eq!(house.head(&node, KEYS[2]), (200, 0));
}

fn with_the_origin_down_a_restarted_node_serves_the_tail_of_a_data_file(ring: RingBody) {
    let house = House::read_once(ring);
    let (key, length, start) = ("t/data/x.parquet", 3 << 20, (2 << 20) - 8192);
    let bytes = noise(11, length as usize);
    house.origin.place(&target(key), &bytes);
    let node = house.start();
    // A table is seen by its metadata, then its files never change.
    house.origin.place(&target("t/metadata/v1.metadata.json"), b"{}");
    assert_eq!(node.client().get(&target("t/metadata/v1.metadata.json"), &[]).status, 200);
    let range = RangeForm::Single(SingleRange::FromTo { first: start, last: length - 1 });
    let (bucket, key) = (BUCKET.to_owned(), key.to_owned());
    let what =
        InnerRead { bucket, key: key.clone(), range, tail_start: Some(start), gives_bytes: true };
    let read = node.node().control().block_on(node.node().inner_reads().read(what));
    assert_eq!(read.expect("it is there").bytes, bytes[start as usize..]);
    drop(node);
    house.origin.refuse_reads(Some(503));
    let node = house.start();
    let get = |range: ByteRange| {
        let header = format!("bytes={}-{}", range.start, range.end - 1);
        node.client().get(&target(&key), &[("range", &header)])
    };
    let lookups = |tier: Tier| -> u64 {
        let shards = node.node().metrics().shards().iter();
        let count =
            |cells: &ShardCells| [&cells.hits, &cells.misses].map(|it| it[tier.index()].get());
        shards.flat_map(|cells| count(cells)).sum()
    };
    for (first, end) in [(start, length), (length - 8, length), (start + 4095, start + 8193)] {
        let answer = get(ByteRange::new(first, end));
        assert_eq!(answer.status, 206, "{first}");
        assert_eq!(answer.body, bytes[first as usize..end as usize]);
    }
    assert!(lookups(Tier::Metadata) > 0);
    assert_eq!(lookups(Tier::Data), 0, "it was not looked for among the data");
    assert_eq!(get(ByteRange::new(0, 100)).status, 503, "the data before it was never read");
}

//! Purges: what they name is asked for anew, bytes and all, by the next read; nothing else is, and
//! what is on its way when they come is not believed.

use std::time::Duration;

use nilas_engine::origin::OriginOperation;
use nilas_engine::purge::{Purge, PurgeScope};
use nilas_shards::RingBody;

use crate::node::{BUCKET, TestNode};
use crate::time::{eventually, pause};
use crate::{noise, on_both_bodies, target};

on_both_bodies! {
    a_purge_is_seen_by_the_next_read_and_concerns_what_it_names_only
    a_purge_takes_the_bytes_along
    a_purge_reaches_what_is_on_its_way
    a_purge_forgets_what_was_learnt_of_tables
}

const OBJECT_BYTES: usize = 300_000;

fn purge(node: &TestNode, scope: PurgeScope) {
    let what = Purge { bucket: BUCKET.to_owned(), scope };
    let purges = node.node().purges().clone();
    let purged = node.node().control().block_on(async move { purges.purge(what).await });
    purged.expect("the shards answer");
}

fn key(text: &str) -> PurgeScope {
    PurgeScope::Key(text.to_owned())
}

fn prefix(text: &str) -> PurgeScope {
    PurgeScope::Prefix(text.to_owned())
}

fn a_purge_is_seen_by_the_next_read_and_concerns_what_it_names_only(ring: RingBody) {
    let keys = ["a", "a-folder/b", "a-folder/c/d", "b", "t/metadata/x.avro", "t/metadata/y.avro"];
    let node = TestNode::start(ring, &["--cache.mutable_ttl", "1h"]);
    let mut clients: Vec<_> = (0..4).map(|_| node.client()).collect();
    let mut seed = 0;
    for (scope, purged) in [
        (key("a"), vec!["a"]),
        (key("t/metadata/x.avro"), vec!["t/metadata/x.avro"]),
        (prefix("a-folder/"), vec!["a-folder/b", "a-folder/c/d"]),
        (prefix("a"), vec!["a", "a-folder/b", "a-folder/c/d"]),
        (prefix("t/metadata/"), vec!["t/metadata/x.avro", "t/metadata/y.avro"]),
        (PurgeScope::Bucket, keys.to_vec()),
        (key("none"), vec![]),
    ] {
        let old = seed;
        for key in keys {
            node.place(key, &noise(old, 1000));
        }
        purge(&node, PurgeScope::Bucket);
        for client in &mut clients {
            for key in keys {
                assert!(client.get(&target(key), &[]).body == noise(old, 1000), "{key}");
            }
        }
        seed += 1;
        for key in keys {
            node.place(key, &noise(seed, 1000));
        }
        purge(&node, scope.clone());
        for client in &mut clients {
            for key in keys {
                let version = if purged.contains(&key) { seed } else { old };
                let read = client.get(&target(key), &[]);
                assert!(read.body == noise(version, 1000), "{key} after {scope:?}");
            }
        }
        seed += 1;
    }
}

fn a_purge_takes_the_bytes_along(ring: RingBody) {
    let node = TestNode::start(ring, &["--cache.mutable_ttl", "1h"]);
    let keys = ["object", "other/object"];
    let mut client = node.client();
    for key in keys {
        node.place(key, &noise(1, OBJECT_BYTES));
        assert_eq!(client.get(&target(key), &[]).status, 200);
    }
    for (scope, is_purged) in [
        (key("object"), [true, false]),
        (prefix("other/"), [false, true]),
        (PurgeScope::Bucket, [true; 2]),
    ] {
        purge(&node, scope.clone());
        for (key, is_purged) in keys.iter().zip(is_purged) {
            let before = node.origin_counts().bytes_received();
            assert!(client.get(&target(key), &[]).body == noise(1, OBJECT_BYTES));
            let received = node.origin_counts().bytes_received() - before;
            let expected = if is_purged { OBJECT_BYTES as u64 } else { 0 };
            assert_eq!(received, expected, "{key} after {scope:?}");
        }
    }
}

/// Purges while a cold read is on its way; what that read brings must not serve the next one.
fn a_purge_reaches_what_is_on_its_way(ring: RingBody) {
    let flags = ["--cache.mutable_ttl", "1h", "--origin.first_byte_latency", "120ms"];
    for (number, scope) in
        [key("t/metadata/x.avro"), prefix("t/meta"), PurgeScope::Bucket].into_iter().enumerate()
    {
        let node = TestNode::start(ring, &flags);
        let (key, bytes) = ("t/metadata/x.avro", noise(number as u64, OBJECT_BYTES));
        node.place(key, &bytes);
        std::thread::scope(|scope_of_threads| {
            let early = scope_of_threads.spawn(|| node.client().get(&target(key), &[]).body);
            eventually("the question is asked", || node.origin_counts().in_flight > 0);
            purge(&node, scope.clone());
            let late = node.client().get(&target(key), &[]).body;
            assert!(late == bytes && early.join().expect("it was read") == bytes);
        });
        let received = node.origin_counts().bytes_received();
        assert_eq!(received, 2 * OBJECT_BYTES as u64, "{scope:?}: each read had its own answer");
        let before = node.origin_requests();
        assert!(node.client().get(&target(key), &[]).body == bytes);
        assert_eq!(node.origin_requests(), before, "and the later one was kept");
    }
}

fn a_purge_forgets_what_was_learnt_of_tables(ring: RingBody) {
    for (scope, is_forgotten) in [
        (PurgeScope::Bucket, true),
        (prefix("db/"), true),
        (key("db/t/metadata/v1.metadata.json"), true),
        (prefix("elsewhere/"), false),
    ] {
        let node = TestNode::start(ring, &["--cache.mutable_ttl", "10ms"]);
        node.place("db/t/metadata/v1.metadata.json", b"{}");
        node.place("db/t/data/a.parquet", b"data");
        let mut client = node.client();
        let lists = || node.origin_counts().of(OriginOperation::List).requests;
        client.get(&target("db/t/data/a.parquet"), &[]);
        eventually("the table is known", || lists() == 1);
        pause(Duration::from_millis(30));
        client.get(&target("db/t/data/a.parquet"), &[]);
        purge(&node, scope.clone());
        node.place("db/t/data/b.parquet", b"data");
        client.get(&target("db/t/data/b.parquet"), &[]);
        let expected = if is_forgotten { 2 } else { 1 };
        eventually("it is settled", || lists() >= expected);
        pause(Duration::from_millis(30));
        assert_eq!(lists(), expected, "{scope:?}");
    }
}

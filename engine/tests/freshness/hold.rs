//! Writes whose outcome nobody knows: the origin was cut off, fell over, or still works on them. Until
//! their hold ends each read asks, for itself, and finds the write as soon as it has happened.

use std::time::Duration;

use nilas_shards::RingBody;

use crate::client::TestClient;
use crate::node::{BUCKET, TestNode};
use crate::origin::{Fate, WritableOrigin};
use crate::time::{eventually, pause};
use crate::{node_before, noise, on_both_bodies, target};

on_both_bodies! {
    a_write_of_unknown_outcome_is_seen_as_soon_as_it_happens
    a_delete_of_unknown_outcome_is_seen_as_soon_as_it_happens
    a_write_without_an_answer_is_of_unknown_outcome_when_its_time_is_over
    each_key_of_a_list_of_unknown_outcome_is_held_and_no_other
    a_bucket_request_of_unknown_outcome_holds_the_bucket
    a_later_write_that_succeeds_does_not_end_the_hold
    readers_of_a_held_key_share_no_question
    a_hold_outlives_what_was_known_of_its_key
    a_hold_ends_at_its_time_and_what_was_learnt_in_it_is_asked_for_once_more
    a_write_that_never_reached_the_origin_is_not_held
    a_writer_that_is_killed_before_its_answer_leaves_nobody_with_an_old_version
}

const KEYS: [&str; 2] = ["object", "t/metadata/a.avro"];
const LATE: Duration = Duration::from_millis(150);

fn check(client: &mut TestClient, key: &str, bytes: &[u8]) {
    let read = client.get(&target(key), &[]);
    assert!(read.status == 200 && read.body == bytes, "{key}: {}", read.status);
}

fn put(node: &TestNode, key: &str, bytes: &[u8]) -> u16 {
    node.client().request("PUT", &target(key), &[], bytes).status
}

/// Reads on every shard's connections until the origin's late write has happened; each read must
/// be what the origin had when it was asked.
fn follow(node: &TestNode, origin: &WritableOrigin, key: &str, old: Option<&[u8]>) {
    let mut clients: Vec<_> = (0..4).map(|_| node.client()).collect();
    for round in 0.. {
        let happened = origin.truth(&target(key)).as_deref().map(Vec::as_slice) != old;
        for client in &mut clients {
            let before = origin.truth(&target(key));
            let read = client.get(&target(key), &[]);
            let after = origin.truth(&target(key));
            let body = (read.status == 200).then_some(&read.body);
            let is_true = [before, after].iter().any(|truth| truth.as_deref() == body);
            assert!(is_true, "{key}, round {round}: {}", read.status);
        }
        if happened {
            return;
        }
        pause(Duration::from_millis(5));
    }
}

fn a_write_of_unknown_outcome_is_seen_as_soon_as_it_happens(ring: RingBody) {
    let origin = WritableOrigin::start();
    let node = node_before(&origin, ring, &[]);
    for key in KEYS {
        for (round, fate) in [Fate::Cut(LATE), Fate::Status(500, LATE), Fate::Status(503, LATE)]
            .into_iter()
            .enumerate()
        {
            let old = noise(round as u64, 100_000);
            assert_eq!(put(&node, key, &old), 200);
            check(&mut node.client(), key, &old);
            origin.next_write(fate);
            assert!(put(&node, key, &noise(10 + round as u64, 90_000)) >= 500, "{fate:?}");
            follow(&node, &origin, key, Some(&old));
        }
    }
}

fn a_write_without_an_answer_is_of_unknown_outcome_when_its_time_is_over(ring: RingBody) {
    let origin = WritableOrigin::start();
    let node = node_before(&origin, ring, &["--origin.write_timeout", "100ms"]);
    for key in KEYS {
        let old = noise(1, 10_000);
        assert_eq!(put(&node, key, &old), 200);
        check(&mut node.client(), key, &old);
        origin.next_write(Fate::Slow(Duration::from_millis(400)));
        assert_eq!(put(&node, key, &noise(2, 9_000)), 503);
        follow(&node, &origin, key, Some(&old));
    }
}

fn a_delete_of_unknown_outcome_is_seen_as_soon_as_it_happens(ring: RingBody) {
    let origin = WritableOrigin::start();
    let node = node_before(&origin, ring, &[]);
    for key in KEYS {
        let old = noise(1, 5000);
        assert_eq!(put(&node, key, &old), 200);
        check(&mut node.client(), key, &old);
        origin.next_write(Fate::Cut(LATE));
        assert!(node.client().request("DELETE", &target(key), &[], b"").status >= 500);
        follow(&node, &origin, key, Some(&old));
    }
}

/// Whether a read of a key asks the origin.
fn asks(node: &TestNode, origin: &WritableOrigin, key: &str) -> bool {
    let before = origin.reads(&target(key));
    assert_eq!(node.client().get(&target(key), &[]).status, 200, "{key}");
    origin.reads(&target(key)) > before
}

fn each_key_of_a_list_of_unknown_outcome_is_held_and_no_other(ring: RingBody) {
    let origin = WritableOrigin::start();
    let node = node_before(&origin, ring, &[]);
    let keys: Vec<String> = (0..12).map(|number| format!("t/metadata/{number}.avro")).collect();
    for key in &keys {
        origin.place(&target(key), key.as_bytes());
        check(&mut node.client(), key, key.as_bytes());
    }
    let (listed, others) = keys.split_at(6);
    let list: String =
        listed.iter().map(|key| format!("<Object><Key>{key}</Key></Object>")).collect();
    let xml = format!("<Delete>{list}</Delete>");
    for fate in [Fate::Cut(Duration::from_secs(60)), Fate::ErrorWithin(Duration::from_secs(60))] {
        origin.next_write(fate);
        let deleted = node
            .client()
            .request("POST", &format!("/{BUCKET}?delete="), &[], xml.as_bytes())
            .status;
        assert!(deleted >= 500 || matches!(fate, Fate::ErrorWithin(_)), "{deleted}");
        for _ in 0..3 {
            for key in listed {
                assert!(asks(&node, &origin, key), "{key} is held");
            }
            for key in others {
                assert!(!asks(&node, &origin, key), "{key} was not touched");
            }
        }
    }
}

fn a_bucket_request_of_unknown_outcome_holds_the_bucket(ring: RingBody) {
    let origin = WritableOrigin::start();
    let node = node_before(&origin, ring, &[]);
    for key in KEYS {
        origin.place(&target(key), key.as_bytes());
        check(&mut node.client(), key, key.as_bytes());
    }
    origin.next_write(Fate::Cut(Duration::from_secs(60)));
    assert!(node.client().request("PUT", &format!("/{BUCKET}?policy="), &[], b"{}").status >= 500);
    for _ in 0..3 {
        for key in KEYS {
            assert!(asks(&node, &origin, key), "{key}");
        }
    }
}

fn a_later_write_that_succeeds_does_not_end_the_hold(ring: RingBody) {
    let origin = WritableOrigin::start();
    let node = node_before(&origin, ring, &[]);
    for key in KEYS {
        let (late, between) = (noise(2, 70_000), noise(3, 60_000));
        assert_eq!(put(&node, key, b"old"), 200);
        origin.next_write(Fate::Cut(Duration::from_millis(300)));
        assert!(put(&node, key, &late) >= 500);
        assert_eq!(put(&node, key, &between), 200);
        check(&mut node.client(), key, &between);
        follow(&node, &origin, key, Some(&between));
        check(&mut node.client(), key, &late);
    }
}

fn readers_of_a_held_key_share_no_question(ring: RingBody) {
    let origin = WritableOrigin::start();
    let node = node_before(&origin, ring, &[]);
    for key in KEYS {
        assert_eq!(put(&node, key, b"old"), 200);
        origin.next_write(Fate::Cut(Duration::from_secs(60)));
        assert!(put(&node, key, b"new") >= 500);
        let before = origin.reads(&target(key));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| check(&mut node.client(), key, b"old"));
            }
        });
        assert!(origin.reads(&target(key)) >= before + 8, "{key}");
    }
}

fn a_hold_outlives_what_was_known_of_its_key(ring: RingBody) {
    let origin = WritableOrigin::start();
    let node = node_before(&origin, ring, &["--cache.mapping_bytes", "64KiB"]);
    let key = "t/metadata/a.avro";
    assert_eq!(put(&node, key, b"old"), 200);
    origin.next_write(Fate::Cut(Duration::from_secs(60)));
    assert!(put(&node, key, b"new") >= 500);
    check(&mut node.client(), key, b"old");
    let mut client = node.client();
    for number in 0..300 {
        let other = format!("t/metadata/other-{number}.avro");
        origin.place(&target(&other), b"other");
        check(&mut client, &other, b"other");
    }
    assert!(asks(&node, &origin, key) && asks(&node, &origin, key));
}

fn a_hold_ends_at_its_time_and_what_was_learnt_in_it_is_asked_for_once_more(ring: RingBody) {
    let origin = WritableOrigin::start();
    let node = node_before(&origin, ring, &["--cache.ambiguous_write_hold", "300ms"]);
    for key in KEYS {
        assert_eq!(put(&node, key, b"old"), 200);
        origin.next_write(Fate::Cut(Duration::from_millis(200)));
        assert!(put(&node, key, b"new") >= 500);
        assert!(asks(&node, &origin, key) && asks(&node, &origin, key));
        pause(Duration::from_millis(400));
        check(&mut node.client(), key, b"new");
        assert!(!asks(&node, &origin, key), "{key} is believed again");
    }
}

fn a_write_that_never_reached_the_origin_is_not_held(ring: RingBody) {
    let origin = WritableOrigin::start();
    let node = node_before(&origin, ring, &[]);
    for key in KEYS {
        assert_eq!(put(&node, key, b"old"), 200);
        let refused = node.client().request(
            "PUT",
            &target(key),
            &[("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA==")],
            b"new",
        );
        assert_eq!((refused.status, refused.code().as_str()), (400, "BadDigest"));
        origin.next_write(Fate::Status(412, Duration::from_secs(60)));
        assert_eq!(put(&node, key, b"new"), 412);
        check(&mut node.client(), key, b"old");
        assert!(!asks(&node, &origin, key), "{key}");
    }
}

fn a_writer_that_is_killed_before_its_answer_leaves_nobody_with_an_old_version(ring: RingBody) {
    let origin = WritableOrigin::start();
    let node = node_before(&origin, ring, &[]);
    for key in KEYS {
        for round in 0..4 {
            let (old, new) = (noise(round, 300_000), noise(10 + round, 200_000));
            assert_eq!(put(&node, key, &old), 200);
            check(&mut node.client(), key, &old);
            origin.next_write(match round % 2 {
                0 => Fate::Slow(Duration::from_millis(100)),
                _ => Fate::Cut(Duration::from_millis(100)),
            });
            let mut writer = node.client();
            writer.write(&writer.signed_head("PUT", &target(key), &[], new.len()));
            writer.write(&new);
            drop(writer);
            let mut reader = node.client();
            eventually("the write has happened", || {
                reader.get(&target(key), &[]);
                origin.truth(&target(key)).is_some_and(|bytes| *bytes == new)
            });
            // Its answer is on its way to the node, or the key is held.
            eventually("the write is seen", || reader.get(&target(key), &[]).body == new);
            for _ in 0..8 {
                check(&mut node.client(), key, &new);
            }
        }
    }
}

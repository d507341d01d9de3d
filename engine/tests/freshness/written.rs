//! Uploads that populate the cache as they pass: the first read moves no byte from the origin, and
//! gets what the origin would have given. What it has not confirmed, what is not to be kept, and what
//! another write or a purge has overtaken is read from the origin as ever.

use std::time::Duration;

use nilas_engine::metrics::WriteAllocation;
use nilas_engine::purge::{Purge, PurgeScope};
use nilas_shards::RingBody;

use crate::node::{BUCKET, TestNode};
use crate::origin::{Fate, Naming, WritableOrigin};
use crate::time::{eventually, pause};
use crate::{node_before, noise, on_both_bodies, target};

on_both_bodies! {
    the_first_read_of_what_was_written_moves_no_byte_from_the_origin
    the_setting_says_which_uploads_are_kept
    what_the_origin_does_not_confirm_is_not_kept
    what_is_not_shown_in_plain_words_is_not_kept
    a_version_that_has_taken_its_place_by_then_is_read_from_the_origin
    what_another_write_has_overtaken_is_not_kept
    what_a_purge_has_overtaken_is_not_kept
    who_may_write_and_not_read_populates_nothing
    uploads_that_find_no_room_pass_all_the_same
}

/// A key whose object never changes.
const KEY: &str = "t/metadata/v1.metadata.json";
/// One of whose name nothing is known.
const PLAIN: &str = "plain";
/// Later than any test.
const NEVER: Duration = Duration::from_secs(3600);

fn start(ring: RingBody, flags: &[&str]) -> (WritableOrigin, TestNode) {
    let origin = WritableOrigin::start();
    origin.name_versions(Naming::Strong);
    let node = node_before(&origin, ring, flags);
    (origin, node)
}

fn allocations(node: &TestNode, how: WriteAllocation) -> u64 {
    node.node().metrics().total(|shard| shard.write_allocations[how.index()].get())
}

fn put(node: &TestNode, key: &str, headers: &[(&str, &str)], bytes: &[u8]) -> u16 {
    node.client().request("PUT", &target(key), headers, bytes).status
}

fn the_first_read_of_what_was_written_moves_no_byte_from_the_origin(ring: RingBody) {
    let (origin, node) = start(ring, &["--cache.block_bytes", "1MiB"]);
    let mut client = node.client();
    for (number, length) in [1, 4095, 4096, 300_000, 1 << 20, 3_000_001].into_iter().enumerate() {
        let path = target(&format!("t/metadata/snap-{number}.avro"));
        let bytes = noise(number as u64, length);
        // At once on the same connection, so that the facts are still asked for; then on another.
        assert_eq!(client.request("PUT", &path, &[], &bytes).status, 200);
        assert!(client.get(&path, &[]).body == bytes, "{length}");
        let part = node.client().get(&path, &[("Range", "bytes=-4096")]);
        assert!(part.body == bytes[length.saturating_sub(4096)..] && part.status == 206);
        let whole = node.client().get(&path, &[("x-amz-checksum-mode", "ENABLED")]);
        assert!(whole.body == bytes && whole.header("etag").is_some());
        assert_eq!(client.request("HEAD", &path, &[], b"").status, 200);
        assert_eq!((origin.requests("GET", &path), origin.requests("HEAD", &path)), (0, 1));
        let changed = noise(number as u64 + 100, length);
        assert_eq!(client.request("PUT", &path, &[], &changed).status, 200);
        assert!(client.get(&path, &[]).body == changed, "{length} anew");
        assert_eq!(origin.requests("GET", &path), 0);
    }
    eventually("all were counted", || allocations(&node, WriteAllocation::Kept) == 12);
}

fn the_setting_says_which_uploads_are_kept(ring: RingBody) {
    let data = "t/data/a.parquet";
    for (setting, kept) in
        [("off", vec![]), ("metadata", vec![KEY]), ("all", vec![KEY, data, PLAIN])]
    {
        let (origin, node) = start(ring, &["--cache.write_allocate", setting]);
        for key in [KEY, data, PLAIN] {
            let bytes = noise(1, 200_000);
            assert_eq!(put(&node, key, &[], &bytes), 200);
            assert!(node.client().get(&target(key), &[]).body == bytes);
            let moved = origin.requests("GET", &target(key));
            assert_eq!(moved == 0, kept.contains(&key), "{setting} {key} {moved}");
        }
    }
}

fn what_the_origin_does_not_confirm_is_not_kept(ring: RingBody) {
    for (number, (fate, naming)) in [
        (Fate::Status(412, NEVER), Naming::Strong),
        (Fate::Status(403, NEVER), Naming::Strong),
        (Fate::Status(503, Duration::ZERO), Naming::Strong),
        (Fate::ErrorWithin(NEVER), Naming::Strong),
        (Fate::Cut(Duration::ZERO), Naming::Strong),
        (Fate::Happens, Naming::Silent),
        (Fate::Happens, Naming::Weak),
    ]
    .into_iter()
    .enumerate()
    {
        let (origin, node) = start(ring, &[]);
        let old = noise(100, 5000);
        origin.place(&target(KEY), &old);
        origin.name_versions(naming);
        origin.next_write(fate);
        let bytes = noise(number as u64, 5000);
        put(&node, KEY, &[], &bytes);
        assert_eq!(allocations(&node, WriteAllocation::Refused), 1, "{fate:?} {naming:?}");
        let truth = |origin: &WritableOrigin| origin.truth(&target(KEY)).expect("it is there");
        if matches!(fate, Fate::Cut(_) | Fate::Status(503, _)) {
            eventually("the write happens", || *truth(&origin) == bytes);
        }
        assert!(node.client().get(&target(KEY), &[]).body == *truth(&origin), "{fate:?}");
        assert!(origin.requests("GET", &target(KEY)) > 0, "{fate:?} {naming:?}");
        assert_eq!(allocations(&node, WriteAllocation::Kept), 0);
    }
}

fn what_is_not_shown_in_plain_words_is_not_kept(ring: RingBody) {
    let (origin, node) = start(ring, &[]);
    for (number, headers) in [
        [("x-amz-server-side-encryption-customer-algorithm", "AES256")],
        [("Content-Encoding", "gzip")],
        [("x-amz-write-offset-bytes", "0")],
    ]
    .iter()
    .enumerate()
    {
        let key = format!("t/metadata/{number}.avro");
        assert_eq!(put(&node, &key, headers, b"bytes"), 200);
        assert_eq!(node.client().get(&target(&key), &[]).text(), "bytes");
        assert!(origin.requests("GET", &target(&key)) > 0, "{headers:?}");
    }
    let part = "t/metadata/part.avro?partNumber=1&uploadId=x";
    assert_eq!(put(&node, part, &[], b"bytes"), 200);
    pause(Duration::from_millis(50));
    assert_eq!(origin.asked().iter().filter(|asked| asked.method == "HEAD").count(), 0);
}

fn a_version_that_has_taken_its_place_by_then_is_read_from_the_origin(ring: RingBody) {
    let (origin, node) = start(ring, &["--cache.write_allocate", "all"]);
    for key in [KEY, PLAIN] {
        origin.next_write(Fate::Overtaken);
        assert_eq!(put(&node, key, &[], &noise(1, 5000)), 200);
        for _ in 0..2 {
            assert!(node.client().get(&target(key), &[]).body == vec![b'!'; 5000], "{key}");
        }
        assert_eq!(origin.requests("GET", &target(key)), 1, "{key}");
    }
    eventually("both were counted", || allocations(&node, WriteAllocation::Unproven) == 2);
}

fn what_another_write_has_overtaken_is_not_kept(ring: RingBody) {
    let (origin, node) = start(ring, &[]);
    origin.next_write(Fate::Slow(Duration::from_millis(300)));
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(put(&node, KEY, &[], &noise(1, 5000)), 200));
        eventually("the first one has begun", || origin.requests("PUT", &target(KEY)) == 1);
        assert_eq!(put(&node, KEY, &[], &noise(2, 5000)), 200);
    });
    assert!(node.client().get(&target(KEY), &[]).body == noise(1, 5000), "the last to happen");
    assert_eq!(allocations(&node, WriteAllocation::Overtaken), 1, "the one that ended later");
}

fn what_a_purge_has_overtaken_is_not_kept(ring: RingBody) {
    let (origin, node) = start(ring, &[]);
    origin.next_write(Fate::Slow(Duration::from_millis(300)));
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(put(&node, KEY, &[], &noise(1, 5000)), 200));
        eventually("it has begun", || origin.requests("PUT", &target(KEY)) == 1);
        let scope = PurgeScope::Key(KEY.to_owned());
        let (purges, what) =
            (node.node().purges().clone(), Purge { bucket: BUCKET.to_owned(), scope });
        let purged = node.node().control().block_on(async move { purges.purge(what).await });
        purged.expect("the shards answer");
    });
    assert!(node.client().get(&target(KEY), &[]).body == noise(1, 5000));
    assert_eq!(origin.requests("GET", &target(KEY)), 1);
    assert_eq!(allocations(&node, WriteAllocation::Overtaken), 1);
}

fn who_may_write_and_not_read_populates_nothing(ring: RingBody) {
    let (origin, node) = start(ring, &[]);
    origin.refuse_reads(Some(403));
    assert_eq!(put(&node, KEY, &[], &noise(1, 5000)), 200);
    assert_eq!(node.client().get(&target(KEY), &[]).status, 403);
    origin.refuse_reads(None);
    assert!(node.client().get(&target(KEY), &[]).body == noise(1, 5000));
    assert!(origin.requests("GET", &target(KEY)) > 0);
    eventually("it was counted", || allocations(&node, WriteAllocation::Unproven) == 1);
}

fn uploads_that_find_no_room_pass_all_the_same(ring: RingBody) {
    // A shard may set 1 MiB aside.
    let (origin, node) = start(ring, &["--limits.buffer_bytes", "24MiB"]);
    let (fits, exceeds) = (noise(1, 1 << 20), noise(2, (1 << 20) + 1));
    assert_eq!(put(&node, "t/metadata/exceeds.avro", &[], &exceeds), 200);
    assert_eq!(allocations(&node, WriteAllocation::NoRoom), 1);
    assert!(node.client().get(&target("t/metadata/exceeds.avro"), &[]).body == exceeds);
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let (node, fits) = (&node, &fits);
            scope.spawn(move || {
                for number in 0..4 {
                    let key = format!("t/metadata/{writer}-{number}.avro");
                    assert_eq!(put(node, &key, &[], fits), 200);
                    assert!(node.client().get(&target(&key), &[]).body == *fits);
                }
            });
        }
    });
    let ends = [WriteAllocation::Kept, WriteAllocation::NoRoom, WriteAllocation::Unproven];
    eventually("all were counted", || {
        ends.iter().map(|end| allocations(&node, *end)).sum::<u64>() == 33
    });
    assert!(allocations(&node, WriteAllocation::Kept) > 0);
    assert_eq!(allocations(&node, WriteAllocation::Unproven), 0);
    let last = target("t/metadata/last.avro");
    assert_eq!(put(&node, "t/metadata/last.avro", &[], &fits), 200);
    assert!(node.client().get(&last, &[]).body == fits);
    assert_eq!(origin.requests("GET", &last), 0, "all room has come back");
}

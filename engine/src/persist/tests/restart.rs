//! What a node knows that was started anew, and what it must not know: one claim about one restart
//! each. Lives of a node at random are in `soak`.

use std::rc::Rc;
use std::task::Poll;

use super::bench::{BUCKET, Bench, Disk, Start, checkpoint_of, key, name, persist, write_to};
use crate::identity::NameRef;
use crate::invalidate::{self, Stage, Touched, Write};
use crate::persist::{Recovered, WriteId};
use crate::purge::PurgeScope;

/// A disk on which shards have learnt keys `0..count`, in version 5 each, and stopped.
fn learnt(count: usize) -> Disk {
    let disk = Disk::new(2);
    let bench = disk.start();
    bench.recover();
    (0..count).for_each(|number| drop(bench.learn(&key(number), 5)));
    bench.stop();
    disk
}

fn started(disk: &Disk) -> Bench {
    let bench = disk.start();
    assert_eq!(bench.recover(), [Recovered::Whole; 2]);
    bench
}

#[test]
fn a_restart_keeps_the_mappings_of_what_never_changes() {
    let disk = Disk::new(2);
    let bench = disk.start();
    assert_eq!(
        bench.recover(),
        [Recovered::BlocksMayBePurged; 2],
        "nothing is known of an empty disk"
    );
    let keys: Vec<String> = (0..50).map(key).collect();
    let before: Vec<_> = keys.iter().map(|key| bench.learn(key, 5)).collect();
    bench.learn("plain", 5);
    bench.stop();
    let bench = started(&disk);
    for (key, before) in keys.iter().zip(before) {
        assert_eq!(bench.find(key), Some(before), "{key}");
    }
    assert_eq!(bench.find("plain"), None, "what may change is asked for");
}

#[test]
fn a_data_file_that_was_learnt_before_its_table_was_seen_is_kept_without_a_second_read() {
    let disk = Disk::new(2);
    let bench = disk.start();
    bench.recover();
    let files: Vec<String> = (0..20).map(|number| format!("t/data/{number}.parquet")).collect();
    files.iter().for_each(|file| drop(bench.learn(file, 5)));
    for shard in &bench.shards {
        shard.judge.borrow_mut().note_root(BUCKET, "t/", true);
    }
    bench.write_then_end();
    let bench = started(&disk);
    for file in &files {
        assert!(bench.find(file).is_some(), "{file}");
    }
}

#[test]
fn what_was_learnt_before_a_new_disk_was_known_to_be_empty_is_kept_too() {
    let disk = Disk::new(2);
    let bench = disk.start();
    let before: Vec<_> = (0..20).map(|number| bench.learn(&key(number), 6)).collect();
    bench.recover();
    bench.write_then_end();
    let bench = started(&disk);
    for (number, before) in before.into_iter().enumerate() {
        assert_eq!(bench.find(&key(number)), Some(before), "{number}");
    }
}

#[test]
fn a_sudden_end_loses_only_what_was_not_written_yet() {
    let disk = Disk::new(2);
    let bench = disk.start();
    bench.recover();
    bench.learn(&key(1), 5);
    bench.write_then_end();
    let bench = started(&disk);
    assert!(bench.find(&key(1)).is_some());
    bench.learn(&key(2), 5);
    drop(bench);
    assert!(started(&disk).find(&key(1)).is_some());
}

#[test]
fn a_write_is_on_the_disk_before_it_is_relayed() {
    let disk = learnt(2);
    let bench = started(&disk);
    bench.begin_key(1, &key(1)).expect("the disk is sound");
    drop(bench);
    let bench = started(&disk);
    assert_eq!(bench.find(&key(1)), None);
    assert!(bench.is_held(&key(1)), "it may still happen");
    assert!(bench.find(&key(0)).is_some() && !bench.is_held(&key(0)));
    bench.stop();
    assert!(started(&disk).is_held(&key(1)), "and is unknown until it is learnt anew");
}

#[test]
fn a_write_that_has_ended_leaves_no_hold_and_what_is_learnt_after_it_is_kept() {
    let disk = learnt(2);
    let bench = started(&disk);
    bench.write_key(1, &key(1));
    bench.learn(&key(1), 6);
    bench.stop();
    let bench = started(&disk);
    assert!(!bench.is_held(&key(1)));
    assert_eq!(bench.find(&key(1)).map(|mapping| mapping.length), Some(6));
}

#[test]
fn what_is_learnt_while_a_write_is_under_way_is_not_kept() {
    let disk = learnt(1);
    let bench = started(&disk);
    bench.begin_key(1, &key(0)).expect("the disk is sound");
    bench.announce_key(1, &key(0), Stage::GoesOn);
    bench.learn(&key(0), 6);
    bench.write_then_end();
    let bench = started(&disk);
    assert_eq!(bench.find(&key(0)), None);
    assert!(bench.is_held(&key(0)));
}

#[test]
fn a_write_of_unknown_outcome_is_held_after_a_restart_too() {
    let disk = learnt(1);
    let bench = started(&disk);
    for key in [key(0), key(1)] {
        bench.begin_key(1, &key).expect("the disk is sound");
        bench.announce_key(1, &key, Stage::Unknown);
    }
    bench.stop();
    let bench = started(&disk);
    assert!(bench.is_held(&key(0)) && bench.is_held(&key(1)) && !bench.is_held(&key(2)));
    bench.checkpoint();
    bench.stop();
    let bench = started(&disk);
    assert!(bench.is_held(&key(0)) && bench.is_held(&key(1)) && !bench.is_held(&key(2)));
}

#[test]
fn a_list_of_deletes_is_one_commit_a_shard() {
    const KEYS: usize = 1000;
    let disk = learnt(KEYS);
    let bench = started(&disk);
    let before: Vec<u64> = (0..2).map(|shard| bench.usage(shard).syncs).collect();
    let touched = Touched::Keys(BUCKET, (0..KEYS).map(key).collect());
    bench.begin(Write { id: WriteId(1), touched }).expect("the disk is sound");
    for (shard, before) in before.iter().enumerate() {
        let syncs = bench.usage(shard).syncs - before;
        assert!((1..=4).contains(&syncs), "{syncs} syncs");
    }
    drop(bench);
    let bench = started(&disk);
    assert!(
        (0..KEYS).all(|number| bench.find(&key(number)).is_none() && bench.is_held(&key(number)))
    );
}

#[test]
fn a_write_to_a_key_without_a_mapping_waits_for_no_disk() {
    let disk = learnt(1);
    let bench = started(&disk);
    let before: Vec<u64> = (0..2).map(|shard| bench.usage(shard).syncs).collect();
    (1..100).for_each(|number| bench.write_key(number, &format!("new-{number}")));
    let after: Vec<u64> = (0..2).map(|shard| bench.usage(shard).syncs).collect();
    assert_eq!(before, after);
}

#[test]
fn a_write_to_a_bucket_concerns_all_of_it_and_no_other() {
    let disk = learnt(20);
    let bench = started(&disk);
    bench.begin(Write { id: WriteId(1), touched: Touched::Bucket("pond") }).expect("sound");
    bench.begin(Write { id: WriteId(2), touched: Touched::Bucket(BUCKET) }).expect("sound");
    drop(bench);
    let bench = started(&disk);
    assert!(
        (0..20).all(|number| bench.find(&key(number)).is_none() && bench.is_held(&key(number)))
    );
    let other = disk_with_a_bucket_written("pond");
    let bench = started(&other);
    assert!((0..20).all(|number| bench.find(&key(number)).is_some()));
}

fn disk_with_a_bucket_written(bucket: &'static str) -> Disk {
    let disk = learnt(20);
    let bench = started(&disk);
    bench.begin(Write { id: WriteId(1), touched: Touched::Bucket(bucket) }).expect("sound");
    drop(bench);
    disk
}

#[test]
fn what_was_purged_is_not_known_after_a_restart_and_nothing_of_it_is_found_again() {
    let keys = [key(0), key(1), "u/metadata/a.avro".to_owned()];
    for (scope, purged) in [
        (PurgeScope::Key(key(0)), [true, false, false]),
        (PurgeScope::Prefix("t/".to_owned()), [true, true, false]),
        (PurgeScope::Bucket, [true; 3]),
    ] {
        let disk = Disk::new(2);
        let bench = disk.start();
        bench.recover();
        let versions = |bench: &Bench| keys.each_ref().map(|key| bench.learn(key, 5).version);
        let before = versions(&bench);
        bench.stop();
        let bench = started(&disk);
        bench.purge(scope.clone()).expect("the disk is sound");
        drop(bench);
        for round in 0..2 {
            let bench = started(&disk);
            let found = keys.each_ref().map(|key| bench.find(key).is_none());
            assert_eq!(found, purged, "{scope:?}, round {round}");
            bench.checkpoint();
            bench.stop();
        }
        let bench = started(&disk);
        let after = versions(&bench);
        for (number, is_purged) in purged.into_iter().enumerate() {
            assert_eq!(before[number] != after[number], is_purged, "{scope:?} {number}");
        }
    }
}

#[test]
fn nothing_is_found_again_of_a_journal_that_cannot_be_read() {
    let disk = learnt(4);
    let bench = started(&disk);
    let before = bench.find(&key(0)).expect("it was kept").version;
    bench.purge(PurgeScope::Bucket).expect("the disk is sound");
    bench.stop();
    let bytes = std::fs::read(disk.path()).expect("the file");
    std::fs::write(disk.path(), vec![0xa5; bytes.len()]).expect("the file");
    let bench = disk.start();
    assert_eq!(bench.recover(), [Recovered::BlocksMayBePurged; 2]);
    assert_eq!(bench.find(&key(0)), None);
    let again = bench.learn(&key(0), 5).version;
    assert_ne!(again, before, "a block of the same version may have been purged");
    bench.stop();
    let bench = started(&disk);
    assert_eq!(bench.find(&key(0)).map(|mapping| mapping.version), Some(again));
}

#[test]
fn of_a_journal_that_lost_what_it_held_any_write_may_still_be_under_way() {
    let disk = learnt(4);
    let bench = disk.start();
    bench.recover();
    assert!(!bench.is_held(&key(0)));
    bench.stop();
    let mut bytes = std::fs::read(disk.path()).expect("the file");
    let holds_entries = |page: &&mut [u8]| page.windows(4).any(|it| it == b"lake");
    bytes.chunks_mut(4096).filter(holds_entries).for_each(|page| page.fill(0));
    std::fs::write(disk.path(), bytes).expect("the file");
    let bench = disk.start();
    bench.recover();
    assert_eq!(bench.find(&key(0)), None);
    assert!(
        bench.is_held(&key(0)) && bench.is_held("never/seen"),
        "as after a write of unknown outcome"
    );
    let bench = Disk::new(4).start();
    bench.recover();
    assert!(!bench.is_held(&key(0)), "a new disk has lost nothing");
}

#[test]
fn another_origin_knows_nothing_of_what_was_learnt_of_the_first() {
    let disk = learnt(4);
    let bench = Start { origin: [8; 16], ..Start::default() }.on(&disk);
    assert_eq!(bench.recover(), [Recovered::BlocksMayBePurged; 2]);
    assert!((0..4).all(|number| bench.find(&key(number)).is_none()));
    bench.learn(&key(1), 9);
    bench.stop();
    let bench = disk.start();
    assert_eq!(
        bench.recover(),
        [Recovered::BlocksMayBePurged; 2],
        "what came between is not known"
    );
    assert!((0..4).all(|number| bench.find(&key(number)).is_none()));
}

#[test]
fn what_was_evicted_is_taken_back_too() {
    const KEYS: usize = 3000;
    let disk = Disk::new(8);
    let small = Start { flags: &["--cache.mapping_bytes", "1MiB"], ..Start::default() };
    let bench = small.on(&disk);
    bench.recover();
    (0..KEYS).for_each(|number| drop(bench.learn(&key(number), 5)));
    let evicted = (0..KEYS).find(|number| bench.find(&key(*number)).is_none()).expect("too many");
    bench.stop();
    let bench = small.on(&disk);
    bench.recover();
    let held: u64 = bench.shards.iter().map(|it| it.mappings.borrow().held_bytes()).sum();
    assert!(held <= 1 << 20, "{held} bytes");
    bench.begin_key(1, &key(evicted)).expect("the disk is sound");
    bench.begin_key(2, &key(KEYS - 1)).expect("the disk is sound");
    drop(bench);
    let large = Start { flags: &["--cache.mapping_bytes", "64MiB"], ..Start::default() };
    let bench = large.on(&disk);
    bench.recover();
    assert!(bench.find(&key(evicted)).is_none() && bench.find(&key(KEYS - 1)).is_none());
    let known = (0..KEYS).filter(|number| bench.find(&key(*number)).is_some()).count();
    assert_eq!(known, KEYS - 2, "there is room for all now");
}

/// Whoever is unsigned is nobody there, all others are the node.
const TWO_IDENTITIES: &[&str] = &[
    "--auth.anonymous",
    "relay",
    "--origin.kind",
    "s3",
    "--origin.endpoint",
    "http://127.0.0.1:1",
    "--origin.credentials",
    "anonymous",
];

#[test]
fn of_two_identities_neither_is_shown_what_the_origin_has_not_shown_it_since() {
    let disk = learnt(1);
    let bench = Start { flags: TWO_IDENTITIES, ..Start::default() }.on(&disk);
    assert_eq!(bench.recover(), [Recovered::Whole; 2]);
    assert_eq!(bench.find(&key(0)), None);
    let entry_is_there = bench.home(&key(0)).mappings.borrow_mut().peek(name(&key(0))).is_some();
    assert!(entry_is_there, "its ETag is there to ask with");
}

#[test]
fn what_the_rules_no_longer_vouch_for_is_not_believed_even_when_they_do_again() {
    let flags: &[&str] = &["--cache.immutable_globs", "lake/archive/**"];
    let archive = Start { flags, ..Start::default() };
    let disk = Disk::new(2);
    let bench = archive.on(&disk);
    bench.recover();
    bench.learn("archive/a", 5);
    bench.stop();
    let bench = archive.on(&disk);
    bench.recover();
    assert!(bench.find("archive/a").is_some());
    bench.stop();
    let bench = started(&disk);
    assert_eq!(bench.find("archive/a"), None);
    bench.stop();
    let bench = archive.on(&disk);
    bench.recover();
    assert_eq!(bench.find("archive/a"), None);
}

#[test]
fn a_disk_that_cannot_be_written_has_only_writes_refused_that_it_could_bring_back() {
    let disk = learnt(2);
    let bench = Start { is_read_only: true, ..Start::default() }.on(&disk);
    assert_eq!(bench.recover(), [Recovered::BlocksMayBePurged; 2]);
    assert_eq!(bench.find(&key(1)), None, "nor is it believed");
    assert!(
        bench.begin_key(1, &key(1)).is_err(),
        "it would be believed again when it can be written"
    );
    assert!(bench.begin(Write { id: WriteId(2), touched: Touched::Bucket(BUCKET) }).is_err());
    assert!(bench.purge(PurgeScope::Bucket).is_err());
    drop(bench);
    assert!(started(&disk).find(&key(1)).is_some(), "no write was relayed");
}

#[test]
fn a_refused_write_is_under_way_nowhere() {
    let disk = learnt(2);
    let bench = Start { is_read_only: true, ..Start::default() }.on(&disk);
    bench.recover();
    let touched = Touched::Keys(BUCKET, vec![key(0), key(1), key(2), key(3)]);
    assert!(bench.begin(Write { id: WriteId(1), touched }).is_err());
    let is_open = |number| {
        let (home, key) = (bench.home(&key(number)), key(number));
        let hash = home.geometry.home_hash(name(&key));
        persist(home).writes.borrow().concern(hash, BUCKET)
    };
    assert!(!(0..4).any(is_open));
}

#[test]
fn what_is_found_gone_is_not_known_after_a_restart() {
    let disk = learnt(2);
    let bench = started(&disk);
    // As a relayed read does that the origin refused.
    bench.announce_key(1, &key(1), Stage::Settled);
    drop(bench);
    let bench = started(&disk);
    assert!(bench.find(&key(1)).is_none() && bench.find(&key(0)).is_some());
    assert!(!bench.is_held(&key(1)), "it was no write");
}

#[test]
fn a_write_that_comes_before_the_journal_is_read_waits_for_it() {
    let disk = learnt(2);
    let bench = disk.start();
    assert!(persist(bench.home(&key(1))).journal.get().is_none());
    bench.begin_key(1, &key(1)).expect("the disk is sound");
    bench.recover();
    assert!(bench.find(&key(1)).is_none() && bench.find(&key(0)).is_some());
    drop(bench);
    let bench = started(&disk);
    assert!(bench.find(&key(1)).is_none() && bench.is_held(&key(1)));
}

#[test]
fn what_is_learnt_before_the_journal_is_read_is_not_put_back_and_not_taken_for_older() {
    let disk = learnt(3);
    let bench = disk.start();
    let early = bench.learn(&key(1), 9);
    assert_eq!(bench.find(&key(1)), Some(early.clone()), "it serves at once");
    bench.home(&key(2)).mappings.borrow_mut().forget(name(&key(2)));
    bench.announce_key(7, &key(2), Stage::Settled);
    assert_eq!(bench.recover(), [Recovered::Whole; 2]);
    assert_eq!(bench.find(&key(1)), None, "which purges concern it was not known");
    assert_ne!(bench.learn(&key(1), 9).version, early.version);
    assert_eq!(bench.find(&key(2)), None, "it was found gone");
    assert!(bench.find(&key(0)).is_some());
    bench.stop();
    let bench = started(&disk);
    assert_eq!(bench.find(&key(1)).map(|mapping| mapping.length), Some(9));
    assert_eq!(bench.find(&key(2)), None);
}

#[test]
fn a_checkpoint_keeps_what_is_live_and_what_changes_beside_it() {
    const KEYS: usize = 2000;
    let disk = Disk::new(8);
    let bench = disk.start();
    bench.recover();
    (0..KEYS).for_each(|number| drop(bench.learn(&key(number), 5)));
    bench.begin_key(1, &key(0)).expect("the disk is sound");
    for round in 0..3 {
        let before = [0, 1].map(|shard| bench.usage(shard).log_bytes);
        let checkpoints: Vec<_> = bench.shards.iter().map(Rc::clone).collect();
        let writing = Rc::clone(&bench.shards[0]);
        bench.run(async move {
            let both = crate::both::all(checkpoints.iter().map(checkpoint_of));
            let writes = async {
                for number in (1..KEYS).step_by(50) {
                    let (id, key) = (1000 + number as u64, key(number));
                    invalidate::begin(&writing, &write_to(id, &key)).await.expect("sound");
                    invalidate::announce(&writing, &write_to(id, &key), Stage::Settled).await;
                }
                Ok::<(), ()>(())
            };
            crate::both::both_unless_failed(writes, both).await.expect("neither fails");
        });
        let after = [0, 1].map(|shard| bench.usage(shard).log_bytes);
        assert!(round == 0 || after[0] < 2 * before[0], "{before:?} {after:?}");
    }
    drop(bench);
    let bench = started(&disk);
    for number in 0..KEYS {
        let is_written = number == 0 || number % 50 == 1;
        assert_eq!(bench.find(&key(number)).is_none(), is_written, "{number}");
    }
    assert!(bench.is_held(&key(0)), "a write that was under way through all of them");
}

#[test]
fn a_checkpoint_forgets_which_evicted_keys_had_a_mapping() {
    let disk = learnt(10);
    let bench = started(&disk);
    let home = bench.home(&key(3));
    let hash = home.geometry.home_hash(name(&key(3)));
    home.mappings.borrow_mut().forget(name(&key(3)));
    assert!(persist(home).kept.borrow().may_have(hash));
    bench.checkpoint();
    assert!(!persist(home).kept.borrow().may_have(hash));
    drop(bench);
    let bench = started(&disk);
    assert!(bench.find(&key(3)).is_none() && bench.find(&key(4)).is_some());
}

#[test]
fn another_bucket_of_the_same_key_is_another_object() {
    let disk = learnt(1);
    let bench = started(&disk);
    let (key, other) = (key(0), NameRef { bucket: "pond", key: &key(0) }.to_name());
    let write = Write { id: WriteId(1), touched: Touched::Bucket("pond") };
    bench.begin(write).expect("the disk is sound");
    drop((bench, other));
    assert!(started(&disk).find(&key).is_some());
}

#[test]
fn more_mappings_than_the_journal_has_room_for_leave_it_room_to_work() {
    const KEYS: usize = 9000;
    let disk = Disk::simulated(1, 1);
    let bench = disk.start();
    bench.recover();
    for number in 0..KEYS {
        bench.learn(&key(number), 5);
        if number % 200 == 199 {
            disk.world().0.run_for(std::time::Duration::from_secs(2));
        }
    }
    bench.write_key(1, &key(KEYS - 1));
    let usage = [0, 1].map(|shard| bench.usage(shard));
    assert!(usage.iter().all(|usage| !usage.is_full && usage.entries > 4000), "{usage:?}");
    bench.stop();
    let bench = started(&disk);
    let known = (0..KEYS).filter(|number| bench.find(&key(*number)).is_some()).count();
    assert!((KEYS / 10..KEYS - 1).contains(&known), "{known}");
    assert_eq!(bench.find(&key(KEYS - 1)), None);
}

#[test]
fn a_hold_of_before_a_restart_is_over_for_all_later_ones_when_it_is_over() {
    let disk = Disk::simulated(1, 1);
    let bench = disk.start();
    bench.recover();
    bench.begin_key(1, "plain").expect("the disk is sound");
    bench.stop();
    let bench = started(&disk);
    assert!(bench.is_held("plain"));
    disk.world().0.run_for(std::time::Duration::from_secs(16 * 60));
    assert!(!bench.is_held("plain"));
    bench.stop();
    assert!(!started(&disk).is_held("plain"));
}

#[test]
fn until_a_checkpoint_has_ended_what_it_leaves_behind_is_taken_back() {
    let disk = learnt(10);
    let bench = started(&disk);
    let (home, key) = (Rc::clone(bench.home(&key(3))), key(3));
    home.mappings.borrow_mut().forget(name(&key));
    bench.run({
        let (home, key) = (Rc::clone(&home), key.clone());
        async move {
            let mut checkpoint = Box::pin(checkpoint_of(&home));
            let has_ended = std::future::poll_fn(|context| {
                Poll::Ready(checkpoint.as_mut().poll(context).is_ready())
            });
            assert!(!has_ended.await, "it has begun");
            invalidate::begin(&home, &write_to(1, &key)).await.expect("the disk is sound");
        }
    });
    drop(bench);
    let bench = started(&disk);
    assert!(bench.find(&key).is_none() && bench.is_held(&key));
}

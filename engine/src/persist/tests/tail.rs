//! How much of a file's end is planning metadata, which is said of a mapping that is known already: all else that is
//! known of it stays as it is, and the disk is told.

use std::sync::Arc;

use super::bench::{BUCKET, Bench, Disk, key, name};
use crate::mapping::StoreClass;

const FILE: &str = "t/data/1.parquet";
const LENGTH: u64 = 50_000;

/// Shards that have learnt a data file of a table.
fn learnt(disk: &Disk) -> Bench {
    let bench = disk.start();
    bench.recover();
    for shard in &bench.shards {
        shard.judge.borrow_mut().note_root(BUCKET, "t/", true);
    }
    assert_eq!(bench.learn_as(FILE, LENGTH, StoreClass::Data).tail_start, LENGTH);
    bench
}

fn tail_start(bench: &Bench, said: Option<u64>) -> u64 {
    bench.find_tailed(FILE, said).expect("it is known").tail_start
}

#[test]
fn a_tail_grows_towards_the_front_and_outlives_restarts() {
    let disk = Disk::new(2);
    let mut bench = learnt(&disk);
    for (said, known) in [(40_960, 40_960), (45_056, 40_960), (8192, 8192), (0, 0)] {
        assert_eq!(tail_start(&bench, Some(said)), known);
        assert_eq!(tail_start(&bench, None), known, "clients find it so");
        bench.stop();
        bench = disk.start();
        bench.recover();
        assert_eq!(tail_start(&bench, None), known, "it is known after a restart");
    }
}

#[test]
fn a_tail_begins_where_a_sector_does() {
    let disk = Disk::new(2);
    let bench = learnt(&disk);
    for (said, known) in [(LENGTH - 1, 49_152), (49_153, 49_152), (10_000, 8192)] {
        assert_eq!(tail_start(&bench, Some(said)), known);
    }
}

#[test]
fn what_is_known_on_a_catalogs_word_alone_stays_so_when_its_tail_is_said() {
    let disk = Disk::new(2);
    let bench = learnt(&disk);
    let home = bench.home(FILE);
    let is_hearsay =
        || home.mappings.borrow_mut().peek(name(FILE)).expect("it is known").is_hearsay;
    home.mappings.borrow_mut().peek(name(FILE)).expect("it is known").is_hearsay = true;
    assert_eq!(tail_start(&bench, Some(4096)), 4096);
    assert!(is_hearsay(), "else nobody would look whether it was taken back");
}

#[test]
fn what_is_metadata_as_a_whole_has_no_tail() {
    let disk = Disk::new(2);
    let bench = disk.start();
    bench.recover();
    let known = bench.learn(&key(1), LENGTH);
    let found = bench.find_tailed(&key(1), Some(0)).expect("it is known");
    assert!(Arc::ptr_eq(&known, &found), "nothing is replaced or written anew");
}

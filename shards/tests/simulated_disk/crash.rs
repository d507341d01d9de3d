//! What a crash leaves: all that was synced, and of the rest whatever the seed says.

use crate::scene::Scene;
use nilas_shards::{Buffer, DiskCondition, DiskEvents};
use std::collections::BTreeSet;
use std::time::Duration;

const SECTOR: usize = 512;
const WRITE: usize = 8 * SECTOR;

/// Which sectors of the first writes are there, as bits.
fn sectors_there(scene: &Scene, count: usize) -> u64 {
    let bytes = scene.bytes();
    let sectors = bytes.chunks(SECTOR).take(count);
    sectors.enumerate().map(|(at, sector)| u64::from(sector == [1; SECTOR]) << at).sum()
}

#[test]
fn what_was_synced_stays() {
    for seed in 0..100 {
        let scene = Scene::new(seed);
        scene.write(0, &[1; WRITE]).expect("no fault");
        scene.sync().expect("no fault");
        scene.write(WRITE as u64, &[2; WRITE]).expect("no fault");
        scene.crash();
        assert_eq!(scene.bytes()[..WRITE], [1; WRITE]);
        assert_eq!(scene.read(0, WRITE).expect("it works again"), [1; WRITE]);
    }
}

#[test]
fn unsynced_writes_are_kept_lost_or_torn_in_any_subset() {
    let mut outcomes = BTreeSet::new();
    let mut total = DiskEvents::default();
    for seed in 0..400 {
        let scene = Scene::new(seed);
        for write in 0..3 {
            scene.write(write * WRITE as u64, &[1; WRITE]).expect("no fault");
        }
        scene.crash();
        let there = sectors_there(&scene, 24);
        outcomes.insert([there & 0xFF, there >> 8 & 0xFF, there >> 16].map(|part| match part {
            0 => "lost",
            0xFF => "kept",
            _ => "torn",
        }));
        let events = scene.events();
        total.kept_writes += events.kept_writes;
        total.lost_writes += events.lost_writes;
        total.torn_writes += events.torn_writes;
    }
    assert_eq!(outcomes.len(), 27, "each of three writes, independently: {outcomes:?}");
    assert!(total.kept_writes > 300 && total.lost_writes > 300 && total.torn_writes > 200);
    assert_eq!(total.kept_writes + total.lost_writes + total.torn_writes, 1200);
}

#[test]
fn a_tear_takes_any_sectors() {
    let torn = (0..400).map(|seed| {
        let scene = Scene::new(seed);
        scene.write(0, &[1; 4 * SECTOR]).expect("no fault");
        scene.crash();
        sectors_there(&scene, 4)
    });
    assert_eq!(torn.collect::<BTreeSet<_>>().len(), 16, "every subset of four sectors");
}

#[test]
fn of_two_writes_to_one_place_any_may_be_left() {
    let left = (0..100).map(|seed| {
        let scene = Scene::new(seed);
        scene.write(0, &[1; SECTOR]).expect("no fault");
        scene.sync().expect("no fault");
        scene.write(0, &[2; SECTOR]).expect("no fault");
        scene.write(0, &[3; SECTOR]).expect("no fault");
        assert_eq!(scene.bytes()[0], 3, "reads see the last");
        scene.crash();
        scene.bytes()[0]
    });
    assert_eq!(left.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn a_sync_covers_no_write_that_ended_after_it_began() {
    let slow_sync = DiskCondition { sync_delay_us_max: 1_000_000, ..Default::default() };
    let mut lost = 0;
    for seed in 0..100 {
        let scene = Scene::new(seed);
        scene.world.set_disk(&scene.file, slow_sync);
        let (reactor, file) = (scene.reactor.clone(), scene.file.clone());
        reactor.clone().spawn(async move { reactor.sync(&file).await.expect("no fault") });
        scene.world.run_for(Duration::ZERO);
        scene.write(0, &[1; SECTOR]).expect("no fault");
        scene.world.run_for(Duration::from_secs(2));
        assert_eq!((scene.events().syncs, scene.events().writes), (1, 1));
        scene.crash();
        lost += usize::from(scene.bytes()[0] == 0);
    }
    assert!(lost > 10, "{lost}");
}

#[test]
fn what_a_failed_sync_has_lost_no_later_sync_brings_back() {
    let mut lost = 0;
    for seed in 0..100 {
        let scene = Scene::new(seed);
        scene.write(0, &[1; SECTOR]).expect("no fault");
        let fails = DiskCondition { sync_error_one_in: Some(1), ..Default::default() };
        scene.world.set_disk(&scene.file, fails);
        let error = scene.sync().expect_err("the fault strikes");
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
        scene.world.set_disk(&scene.file, DiskCondition::default());
        scene.sync().expect("no fault any more");
        assert_eq!(scene.bytes()[0], 1, "reads see it all the while");
        scene.crash();
        lost += usize::from(scene.bytes()[0] == 0);
        assert_eq!(scene.events().sync_errors, 1);
    }
    assert!(lost > 10 && lost < 90, "{lost}");
}

#[test]
fn writes_in_flight_at_a_crash_land_in_part_and_fail() {
    let mut outcomes = [0; 3];
    for seed in 0..200 {
        let scene = Scene::new(seed);
        scene.begin_write(0, vec![1; WRITE]);
        scene.crash();
        outcomes[match sectors_there(&scene, 8) {
            0 => 0,
            0xFF => 1,
            _ => 2,
        }] += 1;
        scene.world.run_for(Duration::ZERO);
        assert_eq!(scene.reactor.operation_count(), 0, "its waiter was told");
        assert_eq!(scene.events().cut_short, 1);
    }
    assert!(outcomes.iter().all(|&count| count > 20), "none, all, some: {outcomes:?}");
}

#[test]
fn operations_in_flight_at_a_crash_fail_with_eio() {
    let scene = Scene::new(1);
    let (reactor, file) = (&scene.reactor, &scene.file);
    let read = reactor.read_at(file, Buffer::with_capacity(512), 0);
    let write = reactor.write_at(file, Buffer::from_vec(vec![1; 512]), 0);
    let (mut read, mut write) = (std::pin::pin!(read), std::pin::pin!(write));
    let mut sync = std::pin::pin!(reactor.sync(file));
    scene.world.block_on(async {
        assert!(reactor.timeout(Duration::ZERO, read.as_mut()).await.is_err());
        assert!(reactor.timeout(Duration::ZERO, write.as_mut()).await.is_err());
        assert!(reactor.timeout(Duration::ZERO, sync.as_mut()).await.is_err());
    });
    scene.crash();
    let results = scene.world.block_on(async { (read.await.0, write.await.0, sync.await) });
    let eio = Some(libc::EIO);
    assert_eq!(results.0.expect_err("cut short").raw_os_error(), eio);
    assert_eq!(results.1.expect_err("cut short").raw_os_error(), eio);
    assert_eq!(results.2.expect_err("cut short").raw_os_error(), eio);
}

#[test]
fn a_dropped_write_is_withdrawn_or_goes_on() {
    let mut went_on = 0;
    for seed in 0..100 {
        let scene = Scene::new(seed);
        let write = scene.reactor.write_at(&scene.file, Buffer::from_vec(vec![1; WRITE]), 0);
        let timed_out = scene.reactor.timeout(Duration::ZERO, write);
        assert!(scene.world.block_on(timed_out).is_err());
        assert_eq!(scene.bytes()[0], 0, "it has not ended");
        scene.world.run_for(Duration::from_secs(1));
        assert_eq!(scene.reactor.operation_count(), 0);
        let is_there = sectors_there(&scene, 8) == 0xFF;
        assert_eq!(scene.events().withdrawn, u64::from(!is_there));
        went_on += usize::from(is_there);
    }
    assert!(went_on > 20 && went_on < 80, "{went_on}");
}

#[test]
fn damage_stays_whatever_a_crash_does() {
    for seed in 0..50 {
        let scene = Scene::new(seed);
        scene.write(0, &[1; WRITE]).expect("no fault");
        scene.world.overwrite_disk(&scene.file, 100, &[9; 1000]);
        assert_eq!(scene.read(100, 1000).expect("no fault"), [9; 1000]);
        scene.crash();
        assert_eq!(scene.bytes()[100..1100], [9; 1000]);
        assert!(scene.bytes()[..100].iter().all(|byte| *byte < 2));
    }
}

//! Each fault of a disk strikes when it is asked for, does what it says, and is counted.

use crate::scene::{DISK_BYTES, Scene};
use nilas_shards::{Buffer, DiskCondition, SimulatedWorld};
use std::time::Duration;

const PAGE: usize = 4096;
const ALWAYS: Option<u64> = Some(1);

/// Pages that all differ.
fn pages(count: usize) -> Vec<u8> {
    (0..count * PAGE).map(|at| (at / PAGE + 1) as u8).collect()
}

fn different_bits(one: &[u8], other: &[u8]) -> u32 {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).map(|(one, other)| (one ^ other).count_ones()).sum()
}

fn errno(result: std::io::Result<impl std::fmt::Debug>) -> Option<i32> {
    result.expect_err("the fault strikes").raw_os_error()
}

#[test]
fn a_disk_in_good_health_gives_back_what_was_written() {
    let scene = Scene::new(1);
    assert_eq!(scene.read(100, 1000).expect("no fault"), vec![0; 1000]);
    assert_eq!(scene.write(4096, &pages(3)).expect("no fault"), 3 * PAGE);
    scene.sync().expect("no fault");
    assert_eq!(scene.read(4096, 3 * PAGE).expect("no fault"), pages(3));
    let events = scene.events();
    assert_eq!((events.reads, events.writes, events.syncs), (2, 1, 1));
    assert_eq!((events.read_errors, events.short_reads, events.lost_writes), (0, 0, 0));
}

#[test]
fn a_disk_does_not_grow() {
    let scene = Scene::new(1);
    assert_eq!(scene.write(DISK_BYTES - 512, &[1; 1024]).expect("half fits"), 512);
    assert_eq!(errno(scene.write(DISK_BYTES, &[1; 512])), Some(libc::ENOSPC));
    assert_eq!(errno(scene.write(u64::MAX, &[1; 512])), Some(libc::ENOSPC));
    assert_eq!(scene.read(DISK_BYTES, 512).expect("the end is no error"), []);
    assert_eq!(scene.bytes().len() as u64, DISK_BYTES);
}

#[test]
fn reads_fail() {
    let scene = Scene::under(DiskCondition { read_error_one_in: ALWAYS, ..Default::default() });
    scene.write(0, &pages(1)).expect("writes do not fail");
    assert_eq!(errno(scene.read(0, PAGE)), Some(libc::EIO));
    assert_eq!(scene.events().read_errors, 1);
}

#[test]
fn a_write_that_fails_may_have_written_a_part() {
    let scene = Scene::under(DiskCondition { write_error_one_in: ALWAYS, ..Default::default() });
    let mut written = [0; 3];
    for number in 1..=100_u8 {
        let before = scene.bytes();
        assert_eq!(errno(scene.write(0, &[number; PAGE])), Some(libc::EIO));
        let new = scene.bytes().chunks(512).filter(|sector| *sector == [number; 512]).count();
        let old = scene.bytes().chunks(512).zip(before.chunks(512)).filter(|(a, b)| a == b).count();
        assert_eq!(new + old, scene.bytes().len() / 512, "sectors are old or new");
        written[if new == 0 { 0 } else { 1 + usize::from(new == PAGE / 512) }] += 1;
    }
    assert!(written.iter().all(|&count| count > 5), "nothing, a part, all: {written:?}");
    assert_eq!(scene.events().write_errors, 100);
}

#[test]
fn a_full_disk_writes_nothing() {
    let scene = Scene::under(DiskCondition { no_space_one_in: ALWAYS, ..Default::default() });
    assert_eq!(errno(scene.write(0, &pages(1))), Some(libc::ENOSPC));
    assert_eq!(scene.bytes(), vec![0; DISK_BYTES as usize]);
    assert_eq!(scene.events().no_space, 1);
}

#[test]
fn a_flipped_bit_is_gone_at_the_next_read() {
    let scene = Scene::new(3);
    scene.write(0, &pages(2)).expect("no fault yet");
    let flips = DiskCondition { flip_one_in: ALWAYS, ..Default::default() };
    scene.world.set_disk(&scene.file, flips);
    for _ in 0..20 {
        let read = scene.read(0, 2 * PAGE).expect("it is not noticed");
        assert_eq!(different_bits(&read, &pages(2)), 1);
    }
    assert_eq!(scene.bytes()[..2 * PAGE], pages(2));
    assert_eq!(scene.events().flipped_bits, 20);
}

#[test]
fn a_rotten_bit_stays() {
    let scene = Scene::new(4);
    scene.write(0, &pages(2)).expect("no fault yet");
    scene.world.set_disk(&scene.file, DiskCondition { rot_one_in: ALWAYS, ..Default::default() });
    let read = scene.read(0, 2 * PAGE).expect("it is not noticed");
    assert_eq!(different_bits(&read, &pages(2)), 1);
    scene.world.set_disk(&scene.file, DiskCondition::default());
    scene.sync().expect("no fault");
    scene.crash();
    assert_eq!(scene.read(0, 2 * PAGE).expect("no fault"), read);
    assert_eq!(scene.events().rotten_bits, 1);
}

#[test]
fn a_misdirected_read_gives_whole_pages_of_another_place() {
    let scene = Scene::new(5);
    scene.write(0, &pages(16)).expect("no fault yet");
    let misdirects = DiskCondition { misdirected_read_one_in: ALWAYS, ..Default::default() };
    scene.world.set_disk(&scene.file, misdirects);
    let mut wrong_counts = std::collections::BTreeSet::new();
    for _ in 0..50 {
        let read = scene.read(0, 4 * PAGE).expect("it is not noticed");
        let wrong = (0..4).filter(|&page| {
            let bytes = &read[page * PAGE..(page + 1) * PAGE];
            assert!(bytes.iter().all(|byte| *byte == bytes[0]), "pages are whole");
            bytes[0] != page as u8 + 1
        });
        wrong_counts.insert(wrong.count());
    }
    assert_eq!(wrong_counts.into_iter().collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(scene.bytes(), pages(16));
    assert_eq!(scene.events().misdirected_reads, 50);
}

#[test]
fn a_misdirected_write_leaves_its_place_and_spoils_another() {
    let scene = Scene::new(6);
    let misdirects = DiskCondition { misdirected_write_one_in: ALWAYS, ..Default::default() };
    scene.world.set_disk(&scene.file, misdirects);
    for number in 1..=20_u8 {
        let zeros = vec![0; DISK_BYTES as usize];
        scene.world.overwrite_disk(&scene.file, 0, &zeros);
        assert_eq!(scene.write(0, &[number; PAGE]).expect("it is not noticed"), PAGE);
        assert_eq!(scene.bytes()[..PAGE], [0; PAGE]);
        let spoilt = scene.bytes().chunks(PAGE).filter(|page| *page == [number; PAGE]).count();
        assert_eq!(spoilt, 1);
    }
    assert_eq!(scene.events().misdirected_writes, 20);
}

#[test]
fn operations_may_be_short_by_sectors() {
    let scene = Scene::under(DiskCondition {
        short_read_one_in: ALWAYS,
        short_write_one_in: ALWAYS,
        ..Default::default()
    });
    let count = scene.write(0, &[1; PAGE]).expect("shortness is no error");
    assert!(count > 0 && count < PAGE && count.is_multiple_of(512), "{count}");
    let written = scene.bytes().iter().filter(|byte| **byte == 1).count();
    assert_eq!(written, count);
    let read = scene.read(0, PAGE).expect("shortness is no error");
    assert!(!read.is_empty() && read.len() < PAGE && read.len().is_multiple_of(512));
    assert_eq!(scene.read(0, 512).expect("one sector comes whole").len(), 512);
    let events = scene.events();
    assert_eq!((events.short_reads, events.short_writes), (1, 1));
}

#[test]
fn a_stall_takes_seconds() {
    let scene = Scene::under(DiskCondition { stall_one_in: ALWAYS, ..Default::default() });
    let begin = scene.world.clock().now();
    for _ in 0..10 {
        scene.read(0, PAGE).expect("it ends");
        scene.sync().expect("it ends");
    }
    let took = scene.world.clock().now().since(begin);
    assert!(took > Duration::from_secs(10), "{took:?}");
    assert_eq!(scene.events().stalls, 20);
}

#[test]
fn a_disk_may_ask_for_alignment() {
    let scene = Scene::under(DiskCondition { alignment_bytes: 512, ..Default::default() });
    assert_eq!(errno(scene.read(100, 512)), Some(libc::EINVAL));
    assert_eq!(errno(scene.read(512, 100)), Some(libc::EINVAL));
    assert_eq!(errno(scene.write(1, &[1; 512])), Some(libc::EINVAL));
    assert_eq!(scene.write(512, &[1; 512]).expect("it is aligned"), 512);
    let mut buffer = Buffer::aligned(1024, 512);
    buffer.extend_from_slice(&[1; 8]);
    let read = scene.reactor.read_at(&scene.file, buffer, 0);
    assert_eq!(errno(scene.world.block_on(read).0), Some(libc::EINVAL));
    assert_eq!(scene.events().misaligned, 4);
}

#[test]
fn each_disk_has_its_own_condition_and_bytes() {
    let scene = Scene::new(8);
    let other = scene.world.create_file(4096);
    scene
        .world
        .set_disk(&scene.file, DiskCondition { read_error_one_in: ALWAYS, ..Default::default() });
    assert_eq!(errno(scene.read(0, 512)), Some(libc::EIO));
    let buffer = Buffer::with_capacity(512);
    let read = scene.world.block_on(scene.reactor.read_at(&other, buffer, 0));
    assert_eq!(read.0.expect("this one is in good health"), 512);
    assert_eq!(scene.world.disk_events(&other).reads, 1);
}

#[test]
#[should_panic(expected = "a file is used in its own world")]
fn a_file_of_another_world_is_a_mistake() {
    let file = SimulatedWorld::new(1).create_file(512);
    SimulatedWorld::new(2).disk_bytes(&file);
}

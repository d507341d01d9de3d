//! What a journal does that is not damaged.

use std::cell::Cell;
use std::rc::Rc;

use super::bench::{Bench, OWNER, Opened, Replay, SEGMENT_PAGES, whole};
use crate::journal::{Damage, ENTRY_BYTES_MAX, JournalFailed};
use crate::ring::RingBody;

pub(super) fn a_new_area_is_fresh_and_then_whole(body: RingBody) {
    let bench = Bench::new(body);
    assert_eq!(bench.replay(), Replay::Fresh);
    assert_eq!(bench.replay(), whole(&[]));
}

pub(super) fn what_is_durable_is_found_again_in_order(body: RingBody) {
    let bench = Bench::new(body);
    let (opened, _) = bench.open();
    opened.append_durably(&[b"one", b"", b"three"]);
    let many: [&[u8]; 2] = [b"four", &[5; ENTRY_BYTES_MAX]];
    let appended = opened.reactor.block_on(opened.journal.append_durably(&many));
    assert_eq!(appended, Ok(()));
    opened.kill();
    let all: [&[u8]; 5] = [b"one", b"", b"three", b"four", &[5; ENTRY_BYTES_MAX]];
    assert_eq!(bench.replay(), whole(&all));
    let (opened, replay) = bench.open();
    assert_eq!(replay, whole(&all));
    opened.append_durably(&[b"six"]);
    opened.kill();
    assert_eq!(bench.replay(), whole(&[&all[..], &[b"six"]].concat()));
}

pub(super) fn what_was_only_appended_is_found_after_a_flush(body: RingBody) {
    let bench = Bench::new(body);
    let (opened, _) = bench.open();
    assert!(opened.journal.append(b"one"));
    opened.append_durably(&[b"two"]);
    assert!(opened.journal.append(b"three"));
    assert!(!opened.journal.append(&[0; ENTRY_BYTES_MAX + 1]));
    opened.stop();
    assert_eq!(bench.replay(), whole(&[b"one", b"two", b"three"]));
}

pub(super) fn appenders_share_syncs(body: RingBody) {
    let bench = Bench::new(body);
    let (opened, _) = bench.open();
    let Opened { reactor, journal } = &opened;
    let before = journal.usage();
    let left = Rc::new(Cell::new(100));
    for number in 0..100_u8 {
        let (journal, left) = (journal.clone(), Rc::clone(&left));
        reactor.spawn(async move {
            journal.append_durably(&[&[number]]).await.expect("the file is writable");
            left.set(left.get() - 1);
        });
    }
    reactor.block_on(async {
        while left.get() > 0 {
            reactor.sleep(std::time::Duration::from_millis(1)).await;
        }
    });
    let after = journal.usage();
    assert_eq!(after.entries - before.entries, 100);
    assert!(after.syncs - before.syncs <= 6, "{} syncs", after.syncs - before.syncs);
    opened.kill();
    let Replay::Whole(entries) = bench.replay() else { panic!("nothing was damaged") };
    assert!(entries.iter().map(|entry| entry[0]).eq(0..100));
}

pub(super) fn a_checkpoint_forgets_what_came_before_it(body: RingBody) {
    let bench = Bench::new(body);
    let (opened, _) = bench.open();
    opened.append_durably(&[b"one", b"two"]);
    assert!(opened.journal.append(b"three"));
    let checkpoint = opened.journal.begin_checkpoint();
    assert!(opened.journal.append(b"live"));
    assert_eq!(opened.reactor.block_on(checkpoint.finish()), Ok(()));
    assert_eq!(opened.journal.usage().log_bytes, 4096);
    assert!(opened.journal.append(b"later"));
    opened.stop();
    assert_eq!(bench.replay(), whole(&[b"live", b"later"]));
    let (opened, _) = bench.open();
    let checkpoint = opened.journal.begin_checkpoint();
    assert_eq!(opened.reactor.block_on(checkpoint.finish()), Ok(()));
    opened.kill();
    assert_eq!(bench.replay(), whole(&[]));
}

/// Appends an entry durably, with a checkpoint of one entry before it where one is due; whether one was.
fn append_with_checkpoints(opened: &Opened, live: &[u8], entry: &[u8]) -> bool {
    let Opened { reactor, journal } = opened;
    let is_due = journal.wants_checkpoint();
    if is_due {
        let checkpoint = journal.begin_checkpoint();
        assert!(!journal.wants_checkpoint(), "one is under way");
        assert_eq!(reactor.block_on(journal.room(live.len())), Ok(()));
        assert!(journal.append(live));
        assert_eq!(reactor.block_on(checkpoint.finish()), Ok(()));
    }
    opened.append_durably(&[entry]);
    is_due
}

pub(super) fn a_log_goes_round_its_area_many_times(body: RingBody) {
    let bench = Bench::new(body);
    let mut expected: Vec<Box<[u8]>> = Vec::new();
    let mut checkpoints = 0;
    for opening in 0..6_u8 {
        let (opened, replay) = bench.open();
        if opening > 0 {
            assert_eq!(replay, Replay::Whole(expected.clone()));
        }
        for step in 0..60_u8 {
            let live = vec![opening; 5000];
            let entry = vec![step; 100 + usize::from(step) * 90];
            if append_with_checkpoints(&opened, &live, &entry) {
                expected = vec![live.into()];
                checkpoints += 1;
            }
            expected.push(entry.into());
        }
        opened.kill();
    }
    assert!(checkpoints > 15, "{checkpoints}");
}

pub(super) fn an_unfinished_checkpoint_forgets_nothing(body: RingBody) {
    let bench = Bench::new(body);
    let (opened, _) = bench.open();
    opened.append_durably(&[b"one"]);
    let dropped = opened.journal.begin_checkpoint();
    opened.append_durably(&[b"two"]);
    drop(dropped);
    let replaced = opened.journal.begin_checkpoint();
    opened.append_durably(&[b"three"]);
    let last = opened.journal.begin_checkpoint();
    drop(replaced);
    opened.append_durably(&[b"four"]);
    opened.kill();
    drop(last);
    assert_eq!(bench.replay(), whole(&[b"one", b"two", b"three", b"four"]));
}

pub(super) fn another_owner_begins_anew(body: RingBody) {
    let bench = Bench::new(body);
    let (opened, _) = bench.open();
    opened.append_durably(&[b"one", b"two"]);
    opened.kill();
    let (opened, replay) = bench.open_as([1; 16]);
    assert_eq!(replay, Replay::Another);
    opened.append_durably(&[b"other"]);
    opened.kill();
    let (opened, replay) = bench.open_as([1; 16]);
    assert_eq!(replay, whole(&[b"other"]));
    opened.kill();
    assert_eq!(bench.replay(), Replay::Another, "of the first owner nothing is left");
}

pub(super) fn a_full_queue_drops_and_who_waits_gets_room(body: RingBody) {
    let bench = Bench::new(body);
    let (opened, _) = bench.open();
    let Opened { reactor, journal } = &opened;
    let mut appended = 0;
    while journal.append(&[3; 1000]) {
        appended += 1;
    }
    let usage = journal.usage();
    assert_eq!((usage.entries, usage.dropped_entries), (appended, 1));
    assert!(usage.queued_bytes <= usage.area_bytes / 4);
    reactor.block_on(async {
        assert_eq!(journal.room(1000).await, Ok(()));
        assert!(journal.append(&[4; 1000]));
        journal.append_durably(&[&[5; 1000]]).await.expect("the file is writable");
    });
    assert_eq!(journal.usage().queued_bytes, 0);
    opened.kill();
    let Replay::Whole(entries) = bench.replay() else { panic!("nothing was damaged") };
    assert_eq!(entries.len() as u64, appended + 2);
}

pub(super) fn a_full_area_fails_and_is_not_believed_again(body: RingBody) {
    let bench = Bench::new(body);
    let (opened, _) = bench.open();
    let Opened { reactor, journal } = &opened;
    let mut appended = 0;
    while reactor.block_on(journal.append_durably(&[&[1; 4000]])).is_ok() {
        appended += 1;
        assert!(!journal.has_failed());
    }
    assert!((50..=60).contains(&appended), "{appended}");
    assert!(journal.has_failed() && journal.usage().is_full && journal.usage().is_void);
    assert!(!journal.append(b"late") && !journal.wants_checkpoint());
    reactor.block_on(async {
        assert_eq!(journal.room(1).await, Err(JournalFailed));
        assert_eq!(journal.begin_checkpoint().finish().await, Err(JournalFailed));
        journal.flush().await;
    });
    opened.kill();
    let (opened, replay) = bench.open();
    assert_eq!(replay, Replay::Damaged(Damage::Void));
    opened.append_durably(&[b"again"]);
    opened.kill();
    assert_eq!(bench.replay(), whole(&[b"again"]));
}

pub(super) fn a_file_that_cannot_be_written_is_not_believed(body: RingBody) {
    let bench = Bench::new(body);
    let (opened, _) = bench.open();
    opened.append_durably(&[b"one"]);
    opened.kill();
    let file = std::fs::File::open(bench.path()).expect("the file is there");
    let (opened, replay) = bench.open_file(file, OWNER);
    assert_eq!(replay, Replay::Damaged(Damage::Unwritable));
    assert!(opened.journal.has_failed() && !opened.journal.usage().is_void);
    assert!(!opened.journal.append(b"two"));
    let appended = opened.reactor.block_on(opened.journal.append_durably(&[b"two"]));
    assert_eq!(appended, Err(JournalFailed));
    opened.kill();
}

/// Longer than several reads that are in flight at once, and begun within the area.
pub(super) fn a_log_of_many_pieces_is_read_back(body: RingBody) {
    let bench = Bench::of_segments(body, 6 * 128 * 4 / SEGMENT_PAGES);
    let (opened, _) = bench.open();
    let Opened { reactor, journal } = &opened;
    let entry = |number: u32| {
        let mut entry = vec![number as u8; 1 + (number * 37 % 16_000) as usize];
        entry.extend_from_slice(&number.to_le_bytes());
        entry
    };
    let append = async |numbers: std::ops::Range<u32>| {
        for number in numbers {
            let entry = entry(number);
            journal.room(entry.len()).await.expect("the file is writable");
            assert!(journal.append(&entry));
        }
        journal.flush().await;
    };
    let used = reactor.block_on(async {
        append(0..500).await;
        let checkpoint = journal.begin_checkpoint();
        append(500..1350).await;
        checkpoint.finish().await.expect("the file is writable");
        journal.usage()
    });
    assert!(used.log_bytes > used.area_bytes / 2, "{used:?}");
    opened.kill();
    let Replay::Whole(entries) = bench.replay() else { panic!("nothing was damaged") };
    assert_eq!(entries.len(), 850);
    let mut numbered = (500..).zip(&entries);
    assert!(numbered.all(|(number, found)| found[..] == entry(number)));
}

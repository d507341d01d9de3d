//! The cache device as an operator should hear of it, for all shards together: one line when it begins to fail, one
//! when it works again, one when its file is removed or cut off, one when mappings are kept on it no more. Looks at
//! what the shards count, now and then, and is in nobody's way.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use nilas_shards::device::OpenDevice;

use crate::metrics::{DiskCount, Metrics};

/// How often it is looked.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Looks without a fault before it is said to work again: as long as it may be left alone after a write that failed.
const QUIET_LOOKS: u32 = 60;
/// What the kernel counts a file's place in.
const PLACE_UNIT_BYTES: u64 = 512;

/// What was counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    /// Records and segments that were not what they should be.
    damaged: u64,
    read_failures: u64,
    read_timeouts: u64,
    write_failures: u64,
    /// What the journal did not take in time.
    journal_timeouts: u64,
    journal_failures: u64,
    /// What tells that it works.
    hits: u64,
    written_bytes: u64,
}

/// A change that is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// It begins to fail, in this way.
    Fails(Counts),
    /// It works again, after so much.
    Works(Counts),
}

/// Whether the device fails.
#[derive(Debug, Default)]
struct Health {
    last: Counts,
    illness: Option<Illness>,
}

#[derive(Debug)]
struct Illness {
    before: Counts,
    /// What must be seen to work before it is well.
    reads_fail: bool,
    writes_fail: bool,
    quiet_looks: u32,
}

impl Counts {
    fn of(metrics: &Metrics) -> Counts {
        let total = |what: DiskCount| metrics.total(|shard| shard.disk[what.index()].get());
        Counts {
            damaged: total(DiskCount::Damaged) + total(DiskCount::DamagedSegments),
            read_failures: total(DiskCount::ReadFailures),
            read_timeouts: total(DiskCount::ReadTimeouts),
            write_failures: total(DiskCount::WriteFailures),
            journal_timeouts: total(DiskCount::JournalTimeouts),
            journal_failures: total(DiskCount::JournalFailures),
            hits: total(DiskCount::Hits),
            written_bytes: total(DiskCount::WrittenBytes),
        }
    }

    fn since(self, before: Counts) -> Counts {
        Counts {
            damaged: self.damaged - before.damaged,
            read_failures: self.read_failures - before.read_failures,
            read_timeouts: self.read_timeouts - before.read_timeouts,
            write_failures: self.write_failures - before.write_failures,
            journal_timeouts: self.journal_timeouts - before.journal_timeouts,
            journal_failures: self.journal_failures - before.journal_failures,
            hits: self.hits - before.hits,
            written_bytes: self.written_bytes - before.written_bytes,
        }
    }

    fn read_faults(self) -> u64 {
        self.damaged + self.read_failures + self.read_timeouts
    }

    fn write_faults(self) -> u64 {
        self.write_failures + self.journal_timeouts
    }

    fn text(self) -> String {
        let Counts { damaged, read_failures, read_timeouts, write_failures, .. } = self;
        let late = self.journal_timeouts;
        format!(
            "reads refused: {read_failures}, not answered in time: {read_timeouts}, not what was \
             written: {damaged}; writes refused: {write_failures}, of mappings not done in time: {late}"
        )
    }
}

impl Health {
    /// Takes in what is counted now; gives the change, if there is one.
    fn look(&mut self, now: Counts) -> Option<Turn> {
        let before = std::mem::replace(&mut self.last, now);
        let new = now.since(before);
        let (reads_fail, writes_fail) = (new.read_faults() > 0, new.write_faults() > 0);
        let Some(illness) = &mut self.illness else {
            if !reads_fail && !writes_fail {
                return None;
            }
            self.illness = Some(Illness { before, reads_fail, writes_fail, quiet_looks: 0 });
            return Some(Turn::Fails(new));
        };
        illness.reads_fail = reads_fail || illness.reads_fail && new.hits == 0;
        illness.writes_fail = writes_fail || illness.writes_fail && new.written_bytes == 0;
        let is_quiet = !reads_fail && !writes_fail;
        illness.quiet_looks = if is_quiet { illness.quiet_looks + 1 } else { 0 };
        if illness.reads_fail || illness.writes_fail || illness.quiet_looks < QUIET_LOOKS {
            return None;
        }
        let meanwhile = now.since(illness.before);
        self.illness = None;
        Some(Turn::Works(meanwhile))
    }
}

/// Tells what becomes of the device, as long as the node runs.
pub async fn watch(metrics: Metrics, mut place: DevicePlace) {
    let mut health = Health::default();
    let mut are_mappings_kept = true;
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let now = Counts::of(&metrics);
        if let Some(turn) = health.look(now) {
            metrics.cache_device().set_failing(matches!(turn, Turn::Fails(_)));
            tell(&place, turn, &cause(&metrics));
        }
        if are_mappings_kept && now.journal_failures > 0 {
            are_mappings_kept = false;
            tell_of_mappings(&place, &cause(&metrics));
        }
        let looked = tokio::task::spawn_blocking(move || (place.look(), place)).await;
        let Ok((loss, same)) = looked else { return };
        place = same;
        if let Some(loss) = loss {
            metrics.cache_device().note_file_lost();
            tell_of_loss(&place, loss);
        }
    }
}

/// What the kernel said last to one of the shards, in parentheses; nothing where it has refused nothing.
fn cause(metrics: &Metrics) -> String {
    let mut numbers = metrics.shards().iter().map(|shard| shard.disk_error.get());
    let last = numbers.find(|number| *number > 0);
    last.map_or_else(String::new, |number| {
        format!(" ({})", io::Error::from_raw_os_error(number as i32))
    })
}

fn tell(place: &DevicePlace, turn: Turn, cause: &str) {
    let path = place.path.display();
    match turn {
        Turn::Fails(counts) => tracing::warn!(
            "the cache device {path} fails{cause}: {}. What it does not give is asked of the origin, what it does not \
             take is not kept, and it is tried again by itself; nilas_disk_faults_total counts on",
            counts.text()
        ),
        Turn::Works(counts) => {
            tracing::warn!("the cache device {path} works again. Meanwhile: {}", counts.text())
        }
    }
}

fn tell_of_mappings(place: &DevicePlace, cause: &str) {
    tracing::error!(
        "the cache device {} does not take mappings any more{cause}. None is kept beyond the node's end; reads go on. \
         As long as those on it cannot be marked as void, writes to what they are of are refused (503), and purges \
         hold until the node ends. When the device can be written again, start the node anew",
        place.path.display()
    );
}

fn tell_of_loss(place: &DevicePlace, loss: FileLoss) {
    let path = place.path.display();
    match loss {
        FileLoss::Removed => tracing::warn!(
            "the file of the cache device, {path}, was removed or replaced. It is used on, and takes its place on the \
             disk, until the node ends; the next start finds nothing of it"
        ),
        FileLoss::Cut(bytes) => tracing::warn!(
            "the file of the cache device, {path}, was cut off or has holes: {bytes} bytes of it are there. What is \
             gone is asked of the origin again; it has no place on the disk kept for it before the node is started anew"
        ),
    }
}

/// What became of the device's file by somebody's hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileLoss {
    Removed,
    /// So many bytes of it are there now.
    Cut(u64),
}

/// Where the device's file is, if it is one.
pub struct DevicePlace {
    path: PathBuf,
    /// Device and inode; nothing where it is no file, or has gone already.
    file: Option<(u64, u64)>,
    /// Whether all of it has its place on the disk: then what it lost is seen although it was made longer again.
    is_preallocated: bool,
    bytes: u64,
}

impl DevicePlace {
    /// That of a device that was just opened.
    pub fn of(device: &OpenDevice) -> DevicePlace {
        let facts = device.file.as_std().and_then(std::fs::File::metadata).ok();
        DevicePlace::new(device.path.clone(), facts.as_ref(), device.is_preallocated)
    }

    fn new(path: PathBuf, facts: Option<&Metadata>, is_preallocated: bool) -> DevicePlace {
        let facts = facts.filter(|facts| facts.is_file());
        let file = facts.map(|facts| (facts.dev(), facts.ino()));
        let bytes = facts.map_or(0, |facts| bytes_there(facts, is_preallocated));
        DevicePlace { path, file, is_preallocated, bytes }
    }

    /// Looks whether the file is there, as long as it was; gives what is new.
    fn look(&mut self) -> Option<FileLoss> {
        let file = self.file?;
        let facts = std::fs::metadata(&self.path);
        match facts {
            Ok(facts) if (facts.dev(), facts.ino()) == file => {
                let bytes = bytes_there(&facts, self.is_preallocated);
                // What is written where it was lost brings some of it back.
                let before = std::mem::replace(&mut self.bytes, bytes);
                (bytes < before).then_some(FileLoss::Cut(bytes))
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => None,
            _ => {
                self.file = None;
                Some(FileLoss::Removed)
            }
        }
    }
}

fn bytes_there(facts: &Metadata, is_preallocated: bool) -> u64 {
    let placed = if is_preallocated { facts.blocks() * PLACE_UNIT_BYTES } else { u64::MAX };
    facts.len().min(placed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Counts = Counts {
        damaged: 0,
        read_failures: 1,
        read_timeouts: 0,
        write_failures: 0,
        journal_timeouts: 0,
        journal_failures: 0,
        hits: 0,
        written_bytes: 0,
    };

    fn sum(one: Counts, other: Counts) -> Counts {
        Counts {
            damaged: one.damaged + other.damaged,
            read_failures: one.read_failures + other.read_failures,
            read_timeouts: one.read_timeouts + other.read_timeouts,
            write_failures: one.write_failures + other.write_failures,
            journal_timeouts: one.journal_timeouts + other.journal_timeouts,
            journal_failures: one.journal_failures + other.journal_failures,
            hits: one.hits + other.hits,
            written_bytes: one.written_bytes + other.written_bytes,
        }
    }

    /// A device of which each look finds something new.
    #[derive(Default)]
    struct World {
        health: Health,
        now: Counts,
    }

    impl World {
        fn look(&mut self, new: Counts) -> Option<Turn> {
            self.now = sum(self.now, new);
            self.health.look(self.now)
        }

        fn looks(&mut self, count: u32, new: Counts) -> Vec<Turn> {
            (0..count).filter_map(|_| self.look(new)).collect()
        }
    }

    #[test]
    fn a_device_that_goes_on_failing_is_told_of_once() {
        let mut world = World::default();
        let works = Counts { hits: 3, written_bytes: 4096, ..Counts::default() };
        assert_eq!(world.looks(100, works), []);
        assert_eq!(world.look(READ), Some(Turn::Fails(READ)));
        assert_eq!(world.looks(1000, sum(READ, works)), []);
        // Writes are tried once in a minute, and some reads hit.
        for _ in 0..10 {
            let write = Counts { write_failures: 1, ..Counts::default() };
            assert_eq!(world.look(write), None);
            assert_eq!(world.looks(QUIET_LOOKS + 5, Counts { hits: 1, ..Counts::default() }), []);
        }
    }

    #[test]
    fn it_works_again_when_it_has_done_what_it_had_failed_at_for_a_while() {
        let mut world = World::default();
        let late = Counts { journal_timeouts: 1, ..Counts::default() };
        assert_eq!(World::default().look(late), Some(Turn::Fails(late)));
        let both = Counts { write_failures: 2, ..READ };
        assert_eq!(world.look(both), Some(Turn::Fails(both)));
        assert_eq!(world.looks(2 * QUIET_LOOKS, Counts::default()), [], "nothing was asked of it");
        let hit = Counts { hits: 1, ..Counts::default() };
        assert_eq!(world.looks(2 * QUIET_LOOKS, hit), [], "nothing was written");
        let written = Counts { written_bytes: 4096, ..Counts::default() };
        let told = world.look(written);
        assert!(
            matches!(told, Some(Turn::Works(counts)) if counts.write_failures == 2),
            "{told:?}"
        );
        assert_eq!(world.look(both), Some(Turn::Fails(both)), "it is well, and fails once more");
    }

    #[test]
    fn a_fault_among_many_hits_does_not_end_and_begin_it_each_time() {
        let mut world = World::default();
        let hits = Counts { hits: 100, ..Counts::default() };
        assert_eq!(world.looks(500, sum(READ, hits)).len(), 1);
        assert_eq!(world.looks(QUIET_LOOKS - 1, hits), []);
        assert_eq!(world.look(READ), None);
        assert_eq!(world.looks(QUIET_LOOKS, hits).len(), 1);
    }

    #[test]
    fn a_file_that_is_cut_or_removed_is_told_of_once() {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        let path = folder.path().join("file");
        std::fs::write(&path, [0; 100]).expect("it can be written");
        let facts = std::fs::metadata(&path).expect("it is there");
        let mut place = DevicePlace::new(path.clone(), Some(&facts), false);
        let cut = |bytes| {
            let file = std::fs::File::options().write(true).open(&path).expect("it is there");
            file.set_len(bytes).expect("it can be cut");
        };
        assert_eq!(place.look(), None);
        cut(10);
        assert_eq!((place.look(), place.look()), (Some(FileLoss::Cut(10)), None));
        cut(50);
        assert_eq!(place.look(), None, "it was written behind the cut");
        cut(20);
        assert_eq!((place.look(), place.look()), (Some(FileLoss::Cut(20)), None));
        std::fs::rename(&path, folder.path().join("other")).expect("it can be renamed");
        std::fs::write(&path, [0; 100]).expect("it can be written");
        assert_eq!((place.look(), place.look()), (Some(FileLoss::Removed), None));
    }

    #[test]
    fn a_file_that_was_cut_and_made_longer_again_has_lost_its_place() {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7; 1 << 20]).expect("it can be written");
        let file = std::fs::File::options().write(true).open(&path).expect("it is there");
        file.sync_all().expect("it has its place then");
        let facts = file.metadata().expect("it is open");
        let mut place = DevicePlace::new(path, Some(&facts), true);
        assert_eq!(place.look(), None);
        file.set_len(4096).and_then(|()| file.set_len(1 << 20)).expect("it can be cut");
        file.sync_all().expect("it can be synced");
        let loss = place.look();
        assert!(matches!(loss, Some(FileLoss::Cut(bytes)) if bytes < 1 << 19), "{loss:?}");
    }
}

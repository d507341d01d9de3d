//! The naive model of a disk: for each sector what reads see and what a crash may leave; and the
//! harness that holds a simulated disk to it after every step.

use crate::scene::{DISK_BYTES, Scene};
use nilas_shards::DiskCondition;
use std::collections::BTreeSet;
use std::time::Duration;

const SECTOR: usize = 512;
pub(crate) const SECTORS: usize = DISK_BYTES as usize / SECTOR;

/// Sectors hold the number of the write that wrote them, over and over; zero before the first.
type Stamp = u64;

#[derive(Clone, Default)]
struct Sector {
    seen: Stamp,
    /// What a crash may leave: the last one that is surely durable, and all written since.
    possible: BTreeSet<Stamp>,
    /// Written since the last sync, whether that succeeded or not.
    unsynced: bool,
}

pub(crate) struct Harness {
    scene: Scene,
    sectors: Vec<Sector>,
    writes: Stamp,
}

fn content(stamp: Stamp, sectors: usize) -> Vec<u8> {
    stamp.to_le_bytes().repeat(sectors * SECTOR / 8)
}

/// The stamp of each sector. Half of one sector and half of another is never there.
fn stamps(bytes: &[u8]) -> Vec<Stamp> {
    let sectors = bytes.chunks_exact(SECTOR);
    let stamp = |sector: &[u8]| {
        let (first, rest) = sector.split_at(8);
        assert!(rest.chunks_exact(8).all(|word| word == first), "a sector is whole");
        Stamp::from_le_bytes(first.try_into().expect("eight bytes"))
    };
    sectors.map(stamp).collect()
}

impl Scene {
    fn stamps(&self) -> Vec<Stamp> {
        stamps(&self.bytes())
    }
}

impl Harness {
    pub(crate) fn new(seed: u64) -> Harness {
        let blank = Sector { possible: BTreeSet::from([0]), ..Sector::default() };
        Harness { scene: Scene::new(seed), sectors: vec![blank; SECTORS], writes: 0 }
    }

    pub(crate) fn read(&self, first: usize, count: usize) {
        let count = count.min(SECTORS - first);
        let read = self.scene.read((first * SECTOR) as u64, count * SECTOR).expect("no fault");
        let seen: Vec<Stamp> =
            self.sectors[first..first + count].iter().map(|sector| sector.seen).collect();
        assert_eq!(stamps(&read), seen);
    }

    pub(crate) fn write(&mut self, first: usize, count: usize) {
        let bytes = self.next_write(first, count);
        let written = self.scene.write((first * SECTOR) as u64, &bytes).expect("no fault");
        assert_eq!(written, bytes.len());
        self.note_write(first, bytes.len());
    }

    /// A write that is in flight when the next sync begins, and ends before or after it.
    pub(crate) fn write_during_sync(&mut self, first: usize, count: usize) {
        let bytes = self.next_write(first, count);
        let (length, offset) = (bytes.len(), (first * SECTOR) as u64);
        self.scene.begin_write(offset, bytes);
        self.sync();
        self.scene.world.run_for(Duration::from_secs(1));
        self.note_write(first, length);
    }

    pub(crate) fn sync(&mut self) {
        self.scene.sync().expect("no fault");
        for sector in self.sectors.iter_mut().filter(|sector| sector.unsynced) {
            sector.possible = BTreeSet::from([sector.seen]);
            sector.unsynced = false;
        }
    }

    pub(crate) fn fail_sync(&mut self) {
        let fails = DiskCondition { sync_error_one_in: Some(1), ..Default::default() };
        self.scene.world.set_disk(&self.scene.file, fails);
        self.scene.sync().expect_err("the fault strikes");
        self.scene.world.set_disk(&self.scene.file, DiskCondition::default());
        self.sectors.iter_mut().for_each(|sector| sector.unsynced = false);
    }

    /// Cuts the power while these writes are in flight.
    pub(crate) fn crash(&mut self, in_flight: &[(usize, usize)]) {
        self.begin_writes(in_flight);
        self.scene.crash();
        for (at, (sector, left)) in self.sectors.iter_mut().zip(self.scene.stamps()).enumerate() {
            let Sector { possible, .. } = &*sector;
            assert!(possible.contains(&left), "sector {at} holds {left}, not of {possible:?}");
            *sector = Sector { seen: left, possible: BTreeSet::from([left]), unsynced: false };
        }
    }

    /// Ends the shard while these writes are in flight, and begins another. What was in the disk's
    /// cache stays there, so only of the writes in flight something may be missing.
    pub(crate) fn restart(&mut self, in_flight: &[(usize, usize)]) {
        let (before, writes_before) = (self.sectors.clone(), self.writes);
        self.begin_writes(in_flight);
        self.scene.world.remove_reactor(&self.scene.reactor);
        self.scene.reactor = self.scene.world.reactor();
        let sectors = self.sectors.iter_mut().zip(before).zip(self.scene.stamps());
        for (at, ((sector, before), left)) in sectors.enumerate() {
            if left == before.seen {
                *sector = before;
            } else {
                let has_landed = left > writes_before && sector.possible.contains(&left);
                assert!(has_landed, "sector {at} holds {left}, {} before", before.seen);
                sector.seen = left;
            }
        }
    }

    fn begin_writes(&mut self, writes: &[(usize, usize)]) {
        for &(first, count) in writes {
            let bytes = self.next_write(first, count);
            let length = bytes.len();
            self.scene.begin_write((first * SECTOR) as u64, bytes);
            self.note_write(first, length);
        }
    }

    fn next_write(&mut self, first: usize, count: usize) -> Vec<u8> {
        self.writes += 1;
        content(self.writes, count.min(SECTORS - first))
    }

    fn note_write(&mut self, first: usize, length: usize) {
        for sector in &mut self.sectors[first..first + length / SECTOR] {
            sector.seen = self.writes;
            sector.possible.insert(self.writes);
            sector.unsynced = true;
        }
    }

    pub(crate) fn check(&self) {
        let seen: Vec<Stamp> = self.sectors.iter().map(|sector| sector.seen).collect();
        assert_eq!(self.scene.stamps(), seen);
    }
}

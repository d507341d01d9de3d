//! What a test does to the disks of its world: makes them, spoils them, cuts their power, and looks
//! at their bytes. What a shard does to them goes through its reactor.

use super::condition::DiskCondition;
use super::event::DiskEvents;
use crate::file::File;
use crate::ring::simulated::SimulatedWorld;

impl SimulatedWorld {
    /// A disk of so many bytes, zeros at first. It neither grows nor shrinks: there is no space for
    /// writes beyond its end. It outlives the reactors that use it.
    pub fn create_file(&self, bytes: u64) -> File {
        let bytes = usize::try_from(bytes).expect("a simulated disk fits in memory");
        self.disks.borrow_mut().create(bytes)
    }

    /// How well a disk works from now on.
    pub fn set_disk(&self, file: &File, condition: DiskCondition) {
        self.disks.borrow_mut().drive(file).condition = condition;
    }

    /// Cuts a disk's power, and puts it on again. What was synced stays. Of writes that no sync has
    /// covered, of those that a failed sync was to cover and of those in flight, each is kept, lost or
    /// torn between sectors of 512 bytes, as the seed says; what is in flight fails with `EIO`.
    pub fn crash_disk(&self, file: &File) {
        let mut disks = self.disks.borrow_mut();
        let disk = file.disk().expect("a world is asked about its own files");
        let number = disks.number(disk);
        disks.crash(&mut self.network.borrow_mut(), number);
    }

    /// What reads of a whole disk in good health would give now.
    pub fn disk_bytes(&self, file: &File) -> Vec<u8> {
        self.disks.borrow_mut().drive(file).medium.seen().to_vec()
    }

    /// Puts these bytes on a disk, past its cache, as damage or to bring back what was there once: no
    /// crash takes them away, nor brings back what they cover.
    pub fn overwrite_disk(&self, file: &File, offset: u64, bytes: &[u8]) {
        let mut disks = self.disks.borrow_mut();
        let medium = &mut disks.drive(file).medium;
        let start = usize::try_from(offset).expect("within a simulated disk");
        let end = start + bytes.len();
        assert!(end <= medium.seen().len(), "damage lies within the disk");
        medium.change(start..end, |at, byte| *byte = bytes[at]);
    }

    /// What has happened on a disk so far.
    pub fn disk_events(&self, file: &File) -> DiskEvents {
        self.disks.borrow_mut().drive(file).events
    }
}

//! What is put into an area, what is done to it, and what every answer is held against: bytes that follow from the
//! block they belong to.

use std::cell::Cell;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::time::Duration;

use nilas_base::{ByteRange, Rng};
use nilas_shards::area::{
    AreaConfig, AreaStore, AreaUsage, DiskBytes, IoQueue, Offered, RECORD_DATA_BYTES_MAX, Recovered,
};
use nilas_shards::disk::{AreaPlace, DeviceId, PAGE_BYTES};
use nilas_shards::store::BlockId;
use nilas_shards::{DiskCondition, File, Reactor, SimulatedWorld};

use crate::stage::Stage;

const SEGMENT_BYTES: u32 = 1 << 20;
/// What lies before and behind the area, and is nobody's to write.
const FENCE_BYTES: u64 = 1 << 20;
const FENCE: u8 = 0x5a;
/// A block of the stories.
const BLOCK_BYTES: u64 = 1 << 20;
const INDEX_BYTES_MAX: u64 = 64 << 10;
const HEADER_BYTES_MAX: u64 = 16 << 10;
/// So often may what was found be nothing, one record after the other.
const READS_MAX: u32 = 100;

/// The device, which outlives the stores on it.
pub(crate) struct Medium {
    disk: Disk,
    segments: u64,
    /// Nobody writes outside the area but a device that writes elsewhere than it was told to.
    has_fences: Cell<bool>,
}

enum Disk {
    Real(std::fs::File, fn() -> Stage),
    Simulated(Rc<SimulatedWorld>, File),
}

impl Medium {
    /// A file of this machine, for stages of a real body.
    pub(crate) fn real(body: fn() -> Stage, segments: u64) -> Medium {
        let file = tempfile::tempfile().expect("a temporary file can be made");
        Medium::new(Disk::Real(file, body), segments)
    }

    /// A disk of the world of `seed`.
    pub(crate) fn simulated(seed: u64, segments: u64) -> Medium {
        let world = Rc::new(SimulatedWorld::new(seed));
        let file = world.create_file(2 * FENCE_BYTES + segments * u64::from(SEGMENT_BYTES));
        let condition = DiskCondition { alignment_bytes: PAGE_BYTES, ..DiskCondition::default() };
        world.set_disk(&file, condition);
        Medium::new(Disk::Simulated(world, file), segments)
    }

    fn new(disk: Disk, segments: u64) -> Medium {
        let medium = Medium { disk, segments, has_fences: Cell::new(true) };
        let fence = vec![FENCE; FENCE_BYTES as usize];
        medium.write(0, &fence);
        medium.write(FENCE_BYTES + medium.place().length, &fence);
        medium.wipe();
        medium
    }

    fn stage(&self) -> Stage {
        match &self.disk {
            Disk::Real(_, body) => body(),
            Disk::Simulated(world, _) => Stage::in_world(world),
        }
    }

    /// What may go wrong from now on, and how often.
    pub(crate) fn set_faults(&self, condition: DiskCondition) {
        let writes_elsewhere = condition.misdirected_write_one_in.is_some();
        self.has_fences.set(self.has_fences.get() && !writes_elsewhere);
        if let Disk::Simulated(world, file) = &self.disk {
            let condition = DiskCondition { alignment_bytes: PAGE_BYTES, ..condition };
            world.set_disk(file, condition);
        }
    }

    /// A power cut; nothing on a real one.
    pub(crate) fn crash(&self) {
        if let Disk::Simulated(world, file) = &self.disk {
            world.crash_disk(file);
        }
    }

    /// Blank, as it was when it was laid out.
    pub(crate) fn wipe(&self) {
        self.write(FENCE_BYTES, &vec![0; self.place().length as usize]);
    }

    /// Every page is another.
    pub(crate) fn spoil_everything(&self) {
        let length = self.place().length as usize;
        let mut bytes = self.read(FENCE_BYTES, length);
        bytes.iter_mut().for_each(|byte| *byte ^= 0x11);
        self.write(FENCE_BYTES, &bytes);
    }

    fn place(&self) -> AreaPlace {
        AreaPlace {
            device: DeviceId([7; 16]),
            number: 3,
            offset: FENCE_BYTES,
            length: self.segments * u64::from(SEGMENT_BYTES),
            segment_bytes: SEGMENT_BYTES,
        }
    }

    fn handle(&self) -> File {
        match &self.disk {
            Disk::Real(file, _) => File::from(file.try_clone().expect("a descriptor is to be had")),
            Disk::Simulated(_, file) => file.clone(),
        }
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        match &self.disk {
            Disk::Real(file, _) => file.write_all_at(bytes, offset).expect("the disk has room"),
            Disk::Simulated(world, file) => world.overwrite_disk(file, offset, bytes),
        }
    }

    fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        match &self.disk {
            Disk::Real(file, _) => {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, offset).expect("it is as long");
                bytes
            }
            Disk::Simulated(world, file) => {
                let mut bytes = world.disk_bytes(file);
                bytes.drain(..offset as usize);
                bytes.truncate(length);
                bytes
            }
        }
    }

    /// Nobody has written outside the area.
    fn check_fences(&self) {
        if !self.has_fences.get() {
            return;
        }
        for offset in [0, FENCE_BYTES + self.place().length] {
            let fence = self.read(offset, FENCE_BYTES as usize);
            assert!(fence.iter().all(|byte| *byte == FENCE), "a fence at {offset} was written");
        }
    }

    /// A bit flips in the pages of a segment's end, where summaries are.
    pub(crate) fn spoil_summaries(&self, rng: &mut Rng) {
        for segment in 0..self.segments {
            let end = FENCE_BYTES + (segment + 1) * u64::from(SEGMENT_BYTES);
            let mut page = self.read(end - PAGE_BYTES as u64, PAGE_BYTES);
            page[rng.below(PAGE_BYTES as u64) as usize] ^= 1 << rng.below(8);
            self.write(end - PAGE_BYTES as u64, &page);
        }
    }

    /// A flipped bit, a page of zeros, a copy of another page, or a segment over another.
    fn damage(&self, rng: &mut Rng) {
        let area = self.place();
        let pages = area.length / PAGE_BYTES as u64;
        let page = |rng: &mut Rng| FENCE_BYTES + rng.below(pages) * PAGE_BYTES as u64;
        let at = page(rng);
        match rng.below(8) {
            0..3 => {
                let mut bytes = self.read(at, PAGE_BYTES);
                bytes[rng.below(PAGE_BYTES as u64) as usize] ^= 1 << rng.below(8);
                self.write(at, &bytes);
            }
            3..5 => self.write(at, &[0; PAGE_BYTES]),
            5..7 => {
                let other = self.read(page(rng), PAGE_BYTES);
                self.write(at, &other);
            }
            _ => {
                let segment = |rng: &mut Rng| {
                    FENCE_BYTES + rng.below(self.segments) * u64::from(SEGMENT_BYTES)
                };
                let bytes = self.read(segment(rng), SEGMENT_BYTES as usize);
                self.write(segment(rng), &bytes);
            }
        }
    }
}

/// A store from its start to its end.
pub(crate) struct Life {
    stage: Stage,
    medium: Rc<Medium>,
    reactor: Reactor,
    area: AreaStore,
    pub(crate) recovered: Recovered,
}

impl Life {
    pub(crate) fn begin(medium: &Rc<Medium>) -> Life {
        let stage = medium.stage();
        let reactor = stage.reactor();
        let area = AreaStore::new(AreaConfig {
            reactor: reactor.clone(),
            file: medium.handle(),
            place: medium.place(),
            queue: IoQueue::default(),
            index_bytes_max: INDEX_BYTES_MAX,
            header_bytes_max: HEADER_BYTES_MAX,
        });
        let recovered = stage.block_on(area.recover());
        Life { stage, medium: Rc::clone(medium), reactor, area, recovered }
    }

    /// Keeps these blocks whole, and waits until they are written; how many were taken.
    pub(crate) fn keep_all(&mut self, blocks: std::ops::Range<u32>) -> usize {
        let area = self.area.clone();
        self.stage.block_on(async {
            let mut taken = 0;
            for number in blocks {
                let range = ByteRange::new(0, 200_000);
                while keep(&area, number, range) == Offered::Busy {
                    area.room().await;
                }
                taken += 1;
            }
            area.flush().await;
            taken
        })
    }

    /// How many of these blocks are there, by reading their first bytes.
    pub(crate) fn hits(&mut self, blocks: std::ops::Range<u32>) -> usize {
        let area = self.area.clone();
        self.stage.block_on(async {
            let mut hits = 0;
            for number in blocks {
                hits += usize::from(read(&area, number, ByteRange::new(0, 200_000)).await);
            }
            hits
        })
    }

    /// Reads in flight while so much is written that segments are reused.
    fn read_while_writing(&mut self, number: u32, rng: &mut Rng) {
        let seeds: Vec<u64> = (0..8).map(|_| rng.next_u64()).collect();
        let (area, reactor) = (self.area.clone(), self.reactor.clone());
        self.stage.block_on(async {
            for seed in &seeds {
                let (area, mut rng) = (area.clone(), Rng::from_seed(*seed));
                self.reactor.spawn(async move {
                    for _ in 0..8 {
                        let number = rng.below(60) as u32;
                        read(&area, number, ByteRange::new(0, 300_000)).await;
                    }
                });
            }
            for step in 0..24 {
                let range = ByteRange::new(0, u64::from(RECORD_DATA_BYTES_MAX));
                keep(&area, (number + step) % 60, range);
                reactor.sleep(Duration::from_micros(seeds[0] % 3000)).await;
            }
        });
    }

    pub(crate) fn flush(&mut self) {
        self.stage.block_on(self.area.flush());
    }

    pub(crate) fn close(&mut self) {
        self.stage.block_on(self.area.close());
    }

    pub(crate) fn usage(&self) -> AreaUsage {
        self.area.usage()
    }

    fn check_ceilings(&self) {
        let usage = self.usage();
        // One buffer's records are indexed together.
        assert!(usage.index_bytes <= INDEX_BYTES_MAX + (16 << 10), "{usage:?}");
        assert!(usage.header_bytes <= HEADER_BYTES_MAX, "{usage:?}");
        assert!(usage.buffer_bytes <= 2 << 20, "{usage:?}");
        assert!(usage.used_bytes <= usage.area_bytes, "{usage:?}");
    }

    /// Ends as a process does that is killed: what is on its way may have arrived or not.
    pub(crate) fn end(self) {
        self.check_ceilings();
        drop(self.area);
        self.stage.end();
    }
}

fn block(number: u32) -> BlockId {
    let mut version = [0; 16];
    version[..4].copy_from_slice(&(number / 4).to_le_bytes());
    BlockId { version, index: number % 4 }
}

fn identity(number: u32) -> Vec<u8> {
    format!("bucket/key-{}", number / 4).into_bytes()
}

fn content(number: u32, range: ByteRange) -> Vec<u8> {
    let byte = |at: u64| {
        let mixed = (at ^ (u64::from(number) << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40) as u8
    };
    (range.start..range.end).map(byte).collect()
}

fn keep(area: &AreaStore, number: u32, range: ByteRange) -> Offered {
    let bytes = content(number, range);
    let (first, second) = bytes.split_at(bytes.len() / 3);
    area.offer(block(number), &identity(number), range.start as u32, &[first, second])
}

/// Whether the first wanted byte is there; whatever comes is right. What could not be read is not found again.
async fn read(area: &AreaStore, number: u32, wanted: ByteRange) -> bool {
    for _ in 0..READS_MAX {
        if area.find(block(number), wanted).is_none() {
            return false;
        }
        if let Ok(bytes) = area.read(block(number), &identity(number), wanted).await {
            check(number, wanted, &bytes);
            return true;
        }
    }
    panic!("block {number} is found again and again, and cannot be read");
}

fn check(number: u32, wanted: ByteRange, bytes: &DiskBytes) {
    let range = bytes.range();
    assert!(range.start == wanted.start && wanted.contains(range) && !range.is_empty());
    assert!(
        bytes.pieces().collect::<Vec<_>>().concat() == content(number, range),
        "block {number}: wrong bytes in {range:?}"
    );
}

/// Random lives of one area.
pub(crate) struct Story {
    rng: Rng,
    medium: Rc<Medium>,
    /// Whether anything is damaged but by crashes.
    has_damage: bool,
}

/// What has come of a story.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ending {
    pub(crate) hits: u64,
    pub(crate) damaged: u64,
    pub(crate) failures: u64,
}

/// What is done next.
enum Step {
    Keep(u32, ByteRange),
    Read(u32, ByteRange),
    ReadMany(u32),
    Others(u32),
    Flush,
    Damage,
    Faults,
    Restart { closes: bool, crashes: bool },
}

impl Story {
    /// On a real body, with damage between and under the operations.
    pub(crate) fn real(seed: u64, body: fn() -> Stage) -> Story {
        let mut rng = Rng::from_seed(seed);
        let medium = Rc::new(Medium::real(body, 8 + rng.below(8)));
        Story { rng, medium, has_damage: true }
    }

    /// On a simulated disk, with faults of every kind or, without damage, with crashes alone.
    pub(crate) fn simulated(seed: u64, has_damage: bool) -> Story {
        let mut rng = Rng::from_seed(seed);
        let medium = Rc::new(Medium::simulated(rng.next_u64(), 8 + rng.below(8)));
        Story { rng, medium, has_damage }
    }

    pub(crate) fn play(mut self, steps: u32) -> Ending {
        let mut ending = Ending::default();
        let mut left = steps;
        while left > 0 {
            let mut life = Life::begin(&self.medium);
            let crashes = loop {
                left = left.saturating_sub(1);
                let step = if left == 0 { self.last_step() } else { self.step() };
                if let Some(crashes) = self.act(&mut life, step) {
                    break crashes;
                }
                life.check_ceilings();
            };
            let counts = life.usage().counts;
            ending.hits += counts.hits;
            ending.damaged += counts.damaged;
            ending.failures += counts.read_failures + counts.write_failures + counts.read_timeouts;
            life.end();
            if crashes {
                self.medium.crash();
            }
            self.change_faults();
        }
        self.medium.check_fences();
        ending
    }

    /// Does it; says how the life ends if it does.
    fn act(&mut self, life: &mut Life, step: Step) -> Option<bool> {
        match step {
            Step::Keep(number, range) => {
                keep(&life.area, number, range);
            }
            Step::Read(number, range) => {
                life.stage.block_on(read(&life.area, number, range));
            }
            Step::ReadMany(number) => life.read_while_writing(number, &mut self.rng),
            Step::Others(number) => {
                // Another object whose hash is the same.
                let wanted = ByteRange::new(0, BLOCK_BYTES);
                let reading = life.area.read(block(number), b"another", wanted);
                assert!(life.stage.block_on(reading).is_err());
            }
            Step::Flush => life.flush(),
            Step::Damage => life.medium.damage(&mut self.rng),
            Step::Faults => {}
            Step::Restart { closes, crashes } => {
                if closes {
                    life.close();
                }
                return Some(crashes);
            }
        }
        None
    }

    fn change_faults(&mut self) {
        if !self.has_damage {
            return;
        }
        let rng = &mut self.rng;
        let mut often = |one_in: u64| rng.chance(1, 3).then(|| 1 + one_in);
        self.medium.set_faults(DiskCondition {
            stall_one_in: often(200),
            read_error_one_in: often(20),
            write_error_one_in: often(20),
            no_space_one_in: often(20),
            flip_one_in: often(20),
            rot_one_in: often(50),
            misdirected_read_one_in: often(20),
            misdirected_write_one_in: often(20),
            short_read_one_in: often(20),
            short_write_one_in: often(20),
            ..DiskCondition::default()
        });
    }

    fn last_step(&mut self) -> Step {
        Step::Restart { closes: false, crashes: false }
    }

    fn step(&mut self) -> Step {
        let has_damage = self.has_damage;
        let rng = &mut self.rng;
        // Some blocks are wanted more often.
        let number = match rng.below(3) {
            0 => rng.below(6) as u32,
            _ => rng.below(60) as u32,
        };
        let first = rng.below(BLOCK_BYTES / PAGE_BYTES as u64) * PAGE_BYTES as u64;
        let most = (BLOCK_BYTES - first).min(u64::from(RECORD_DATA_BYTES_MAX));
        let range = |length: u64| ByteRange::new(first, first + length);
        match rng.below(1000) {
            0..400 => Step::Keep(number, range(1 + rng.below(most))),
            400..930 => Step::Read(number, range(1 + rng.below(most))),
            930..940 => Step::ReadMany(number),
            940..950 => Step::Others(number),
            950..970 => Step::Flush,
            970..990 if has_damage => Step::Damage,
            970..990 => Step::Faults,
            _ => Step::Restart { closes: rng.chance(1, 2), crashes: rng.chance(1, 2) },
        }
    }
}

//! What is put into an area, what is done to it, and what every answer is held against: bytes that follow from the
//! block they belong to.

use std::cell::{Cell, RefCell};
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::time::Duration;

use nilas_base::{ByteRange, Rng};
use nilas_shards::admission::AdmissionKind;
use nilas_shards::area::{
    AreaConfig, AreaPolicies, AreaStore, AreaUsage, DiskBytes, IoQueue, NotOnDisk, Offered,
    RECORD_DATA_BYTES_MAX, Recovered,
};
use nilas_shards::carry_over::CarryOverKind;
use nilas_shards::disk::{AreaPlace, DeviceId, Generation, PAGE_BYTES, SegmentHeader};
use nilas_shards::{DiskCondition, File, Reactor, SimulatedWorld};

use crate::content::{block, content, identity, whatever_summary};
use crate::stage::Stage;

pub(crate) const SEGMENT_BYTES: u32 = 1 << 20;
/// What lies before and behind the area, and is nobody's to write.
const FENCE_BYTES: u64 = 1 << 20;
const FENCE: u8 = 0x5a;
/// A block of the stories.
const BLOCK_BYTES: u64 = 1 << 20;
/// So often may what was found be nothing, one record after the other.
const READS_MAX: u32 = 100;

/// What the tables of a store may take of memory, bytes.
#[derive(Clone, Copy)]
pub(crate) struct Ceilings {
    pub(crate) index_bytes: u64,
    pub(crate) header_bytes: u64,
    pub(crate) buffer_bytes: u64,
}

impl Ceilings {
    /// So much that nothing is refused.
    pub(crate) const WIDE: Ceilings =
        Ceilings { index_bytes: 64 << 10, header_bytes: 16 << 10, buffer_bytes: 2 << 20 };

    /// In every second story so little that they are reached. From a stream of its own.
    fn draw(seed: u64) -> Ceilings {
        let mut rng = Rng::from_seed(Rng::from_seed(!seed).next_u64());
        if rng.chance(1, 2) {
            return Ceilings::WIDE;
        }
        let mut one_of = |choices: [u64; 3]| choices[rng.below(3) as usize];
        let index_bytes = one_of([2 << 10, 4 << 10, 64 << 10]);
        let header_bytes = one_of([0, 2 << 10, 16 << 10]);
        Ceilings { index_bytes, header_bytes, buffer_bytes: one_of([512 << 10, 2 << 20, 8 << 20]) }
    }
}

/// In every second story others than usual. From a stream of its own.
fn draw_policies(seed: u64) -> AreaPolicies {
    let mut rng = Rng::from_seed(Rng::from_seed(!seed).next_u64() ^ 1);
    if rng.chance(1, 2) {
        return AreaPolicies::default();
    }
    let (admissions, carry_overs) = (AdmissionKind::ALL, CarryOverKind::ALL);
    AreaPolicies {
        admission: admissions[rng.below(admissions.len() as u64) as usize],
        carry_over: carry_overs[rng.below(carry_overs.len() as u64) as usize],
    }
}

/// The device, which outlives the stores on it.
pub(crate) struct Medium {
    disk: Disk,
    segments: u64,
    ceilings: Cell<Ceilings>,
    policies: Cell<AreaPolicies>,
    /// A segment as it was once.
    old: RefCell<Option<(u64, Vec<u8>)>>,
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
        let (ceilings, has_fences) = (Cell::new(Ceilings::WIDE), Cell::new(true));
        let (policies, old) = (Cell::default(), RefCell::default());
        let medium = Medium { disk, segments, ceilings, policies, old, has_fences };
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

    /// What stores that begin from now on may take of memory.
    pub(crate) fn set_ceilings(&self, ceilings: Ceilings) {
        self.ceilings.set(ceilings);
    }

    /// What decides in stores that begin from now on.
    pub(crate) fn set_policies(&self, policies: AreaPolicies) {
        self.policies.set(policies);
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

    /// Reads that a simulated disk has done.
    pub(crate) fn reads(&self) -> u64 {
        match &self.disk {
            Disk::Real(..) => 0,
            Disk::Simulated(world, file) => world.disk_events(file).reads,
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
        self.put_all(&vec![0; self.place().length as usize]);
    }

    /// All bytes of the area.
    pub(crate) fn all(&self) -> Vec<u8> {
        self.read(FENCE_BYTES, self.place().length as usize)
    }

    /// All bytes of the area are these.
    pub(crate) fn put_all(&self, bytes: &[u8]) {
        self.write(FENCE_BYTES, bytes);
    }

    /// Every page is another.
    pub(crate) fn spoil_everything(&self) {
        let mut bytes = self.all();
        bytes.iter_mut().for_each(|byte| *byte ^= 0x11);
        self.put_all(&bytes);
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

    /// What a faulty program might write: heads and summaries that are whole and make no sense, and noise.
    pub(crate) fn write_whatever(&self, seed: u64) {
        let (mut rng, place) = (Rng::from_seed(seed), self.place());
        for number in 0..self.segments as u32 {
            let begins = FENCE_BYTES + u64::from(number) * u64::from(SEGMENT_BYTES);
            let generation = match rng.below(3) {
                0 => u64::MAX - rng.below(3),
                1 => (u64::MAX >> 1) - rng.below(3),
                _ => rng.below(9),
            };
            let generation = Generation(generation);
            let life =
                SegmentHeader { device: place.device, area: place.number, number, generation };
            let noise: Vec<u8> =
                (0..SEGMENT_BYTES / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
            self.write(begins, &noise);
            if rng.chance(3, 4) {
                self.write(begins, &life.encode());
            }
            if rng.chance(3, 4) {
                let summary = whatever_summary(&mut rng, life).encode();
                let end = begins + u64::from(SEGMENT_BYTES);
                self.write(end - summary.len() as u64, &summary);
            }
        }
    }

    /// A segment is put back to what it once was, and another remembered, to be put back later.
    fn put_back(&self, rng: &mut Rng) {
        if let Some((offset, bytes)) = self.old.take() {
            self.write(offset, &bytes);
        }
        let offset = FENCE_BYTES + rng.below(self.segments) * u64::from(SEGMENT_BYTES);
        let bytes = self.read(offset, SEGMENT_BYTES as usize);
        *self.old.borrow_mut() = Some((offset, bytes));
    }

    /// A flipped bit, a page of zeros, a copy of another page, a segment over another, or as it was once.
    fn damage(&self, rng: &mut Rng) {
        let area = self.place();
        let pages = area.length / PAGE_BYTES as u64;
        let page = |rng: &mut Rng| FENCE_BYTES + rng.below(pages) * PAGE_BYTES as u64;
        let at = page(rng);
        match rng.below(9) {
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
            7 => {
                let segment = |rng: &mut Rng| {
                    FENCE_BYTES + rng.below(self.segments) * u64::from(SEGMENT_BYTES)
                };
                let bytes = self.read(segment(rng), SEGMENT_BYTES as usize);
                self.write(segment(rng), &bytes);
            }
            _ => self.put_back(rng),
        }
    }
}

/// A store from its start to its end.
pub(crate) struct Life {
    stage: Stage,
    medium: Rc<Medium>,
    reactor: Reactor,
    kept: Kept,
    pub(crate) recovered: Recovered,
}

/// A store, whose ceilings are looked at whenever anything was asked of it.
#[derive(Clone)]
struct Kept {
    area: AreaStore,
    ceilings: Ceilings,
}

impl Life {
    pub(crate) fn begin(medium: &Rc<Medium>) -> Life {
        let mut life = Life::unaware(medium);
        life.recovered = life.stage.block_on(life.kept.area.recover());
        life.kept.check_ceilings();
        life
    }

    /// A store that is asked to keep blocks while it looks at what the device holds.
    pub(crate) fn begin_keeping(medium: &Rc<Medium>, blocks: std::ops::Range<u32>) -> Life {
        let mut life = Life::unaware(medium);
        let area = life.kept.area.clone();
        life.reactor.spawn(async move {
            area.recover().await;
        });
        life.keep_all(blocks);
        life
    }

    /// A store that does not know yet what the device holds.
    fn unaware(medium: &Rc<Medium>) -> Life {
        let stage = medium.stage();
        let reactor = stage.reactor();
        let ceilings = medium.ceilings.get();
        let area = AreaStore::new(AreaConfig {
            reactor: reactor.clone(),
            file: medium.handle(),
            place: medium.place(),
            queue: IoQueue::default(),
            index_bytes_max: ceilings.index_bytes,
            header_bytes_max: ceilings.header_bytes,
            buffer_bytes_max: ceilings.buffer_bytes,
            policies: medium.policies.get(),
        });
        let kept = Kept { area, ceilings };
        let recovered = Recovered::default();
        Life { stage, medium: Rc::clone(medium), reactor, kept, recovered }
    }

    /// Keeps these blocks whole, and waits until they are written; how many were taken.
    pub(crate) fn keep_all(&mut self, blocks: std::ops::Range<u32>) -> usize {
        let kept = self.kept.clone();
        self.stage.block_on(async {
            let mut taken = 0;
            for number in blocks {
                let range = ByteRange::new(0, 200_000);
                while kept.offer(number, range) == Offered::Busy {
                    kept.area.room().await;
                }
                taken += 1;
            }
            kept.area.flush().await;
            taken
        })
    }

    /// The origin brings these blocks, which are kept if they are worth it; how many are.
    pub(crate) fn bring_all(&mut self, blocks: std::ops::Range<u32>) -> usize {
        let mut admitted = 0;
        for number in blocks {
            if self.kept.area.admits(block(number), ByteRange::new(0, 200_000)) {
                admitted += self.keep_all(number..number + 1);
            }
        }
        admitted
    }

    /// How many of these blocks are there, by reading their first bytes.
    pub(crate) fn hits(&mut self, blocks: impl IntoIterator<Item = u32>) -> usize {
        let kept = self.kept.clone();
        self.stage.block_on(async {
            let mut hits = 0;
            for number in blocks {
                hits += usize::from(kept.read(number, ByteRange::new(0, 200_000)).await);
            }
            hits
        })
    }

    /// Reads a part of a block that is there.
    pub(crate) fn read(&mut self, number: u32, wanted: ByteRange) {
        let kept = self.kept.clone();
        assert!(self.stage.block_on(kept.read(number, wanted)), "a part of block {number}");
    }

    /// Reads a block on behalf of another object whose hash is the same.
    pub(crate) fn read_as_another(
        &mut self,
        number: u32,
        wanted: ByteRange,
    ) -> Result<DiskBytes, NotOnDisk> {
        let reading = self.kept.area.read(block(number), b"another", wanted);
        self.stage.block_on(reading)
    }

    /// Reads in flight while so much is written that segments are reused.
    fn read_while_writing(&mut self, number: u32, rng: &mut Rng) {
        let seeds: Vec<u64> = (0..8).map(|_| rng.next_u64()).collect();
        let (kept, reactor) = (self.kept.clone(), self.reactor.clone());
        self.stage.block_on(async {
            for seed in &seeds {
                let (kept, mut rng) = (kept.clone(), Rng::from_seed(*seed));
                self.reactor.spawn(async move {
                    for _ in 0..8 {
                        let number = rng.below(60) as u32;
                        kept.read(number, ByteRange::new(0, 300_000)).await;
                    }
                });
            }
            for step in 0..24 {
                let range = ByteRange::new(0, u64::from(RECORD_DATA_BYTES_MAX));
                kept.offer((number + step) % 60, range);
                reactor.sleep(Duration::from_micros(seeds[0] % 3000)).await;
            }
        });
    }

    pub(crate) fn flush(&mut self) {
        self.stage.block_on(self.kept.area.flush());
    }

    pub(crate) fn close(&mut self) {
        self.stage.block_on(self.kept.area.close());
    }

    pub(crate) fn usage(&self) -> AreaUsage {
        self.kept.area.usage()
    }

    /// Ends as a process does that is killed: what is on its way may have arrived or not.
    pub(crate) fn end(self) {
        self.kept.check_ceilings();
        drop(self.kept);
        self.stage.end();
    }
}

impl Kept {
    fn offer(&self, number: u32, range: ByteRange) -> Offered {
        let bytes = content(number, range);
        let (first, second) = bytes.split_at(bytes.len() / 3);
        let (identity, pieces) = (identity(number), [first, second]);
        let offered = self.area.offer(block(number), &identity, range.start as u32, &pieces);
        self.check_ceilings();
        offered
    }

    /// Whether the first wanted byte is there; whatever comes is right. What could not be read is not found again.
    async fn read(&self, number: u32, wanted: ByteRange) -> bool {
        for _ in 0..READS_MAX {
            if self.area.find(block(number), wanted).is_none() {
                return false;
            }
            let read = self.area.read(block(number), &identity(number), wanted).await;
            self.check_ceilings();
            if let Ok(bytes) = read {
                check(number, wanted, &bytes);
                return true;
            }
        }
        panic!("block {number} is found again and again, and cannot be read");
    }

    fn check_ceilings(&self) {
        let (usage, ceilings) = (self.area.usage(), self.ceilings);
        assert!(usage.index_bytes <= ceilings.index_bytes, "{usage:?}");
        assert!(usage.header_bytes <= ceilings.header_bytes, "{usage:?}");
        assert!(usage.buffer_bytes <= ceilings.buffer_bytes, "{usage:?}");
        assert!(usage.used_bytes <= usage.area_bytes, "{usage:?}");
    }
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
        medium.set_ceilings(Ceilings::draw(seed));
        medium.set_policies(draw_policies(seed));
        Story { rng, medium, has_damage: true }
    }

    /// On a simulated disk, with faults of every kind or, without damage, with crashes alone.
    pub(crate) fn simulated(seed: u64, has_damage: bool) -> Story {
        let mut rng = Rng::from_seed(seed);
        let medium = Rc::new(Medium::simulated(rng.next_u64(), 8 + rng.below(8)));
        medium.set_ceilings(Ceilings::draw(seed));
        medium.set_policies(draw_policies(seed));
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
                life.kept.check_ceilings();
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
                if life.kept.area.admits(block(number), range) {
                    life.kept.offer(number, range);
                }
            }
            Step::Read(number, range) => {
                life.stage.block_on(life.kept.read(number, range));
            }
            Step::ReadMany(number) => life.read_while_writing(number, &mut self.rng),
            Step::Others(number) => {
                let wanted = ByteRange::new(0, BLOCK_BYTES);
                assert!(life.read_as_another(number, wanted).is_err());
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

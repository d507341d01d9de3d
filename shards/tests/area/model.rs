//! What is put into an area, what is done to it, and what every answer is held against: bytes that follow from the
//! block they belong to.

use std::os::unix::fs::FileExt;

use nilas_base::{ByteRange, Rng};
use nilas_shards::area::{
    AreaConfig, AreaCounts, AreaStore, AreaUsage, IoQueue, Offered, RECORD_DATA_BYTES_MAX,
    Recovered,
};
use nilas_shards::disk::{AreaPlace, DeviceId, PAGE_BYTES};
use nilas_shards::store::BlockId;
use nilas_shards::{File, Reactor};

use crate::stage::Stage;

const SEGMENT_BYTES: u32 = 1 << 20;
/// What lies before and behind the area, and is nobody's to write.
const FENCE_BYTES: u64 = 1 << 20;
const FENCE: u8 = 0x5a;
/// A block of the stories.
const BLOCK_BYTES: u64 = 1 << 20;
const INDEX_BYTES_MAX: u64 = 64 << 10;
const HEADER_BYTES_MAX: u64 = 16 << 10;

/// The device, which outlives the stores on it.
pub(crate) struct Medium {
    file: std::fs::File,
    segments: u64,
}

impl Medium {
    pub(crate) fn new(segments: u64) -> Medium {
        let file = tempfile::tempfile().expect("a temporary file can be made");
        let medium = Medium { file, segments };
        let length = FENCE_BYTES + medium.place().length + FENCE_BYTES;
        medium.write(0, &vec![FENCE; length as usize]);
        medium.wipe();
        medium
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
        File::from(self.file.try_clone().expect("a descriptor is to be had"))
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        self.file.write_all_at(bytes, offset).expect("the disk has room");
    }

    fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, offset).expect("it is as long");
        bytes
    }

    /// Nobody has written outside the area.
    fn check_fences(&self) {
        for offset in [0, FENCE_BYTES + self.place().length] {
            let fence = self.read(offset, FENCE_BYTES as usize);
            assert!(fence.iter().all(|byte| *byte == FENCE), "a fence at {offset} was written");
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
pub(crate) struct Life<'a> {
    stage: Stage,
    medium: &'a Medium,
    reactor: Reactor,
    area: AreaStore,
    pub(crate) recovered: Recovered,
}

impl<'a> Life<'a> {
    pub(crate) fn begin(stage: Stage, medium: &'a Medium) -> Life<'a> {
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
        Life { stage, medium, reactor, area, recovered }
    }

    /// Keeps these blocks whole, and waits until they are written; how many were taken.
    pub(crate) fn keep_all(&mut self, blocks: std::ops::Range<u32>) -> usize {
        let (area, reactor) = (self.area.clone(), self.reactor.clone());
        self.stage.block_on(async {
            let mut taken = 0;
            for number in blocks {
                let range = ByteRange::new(0, 200_000);
                while keep(&area, number, range) == Offered::Refused {
                    reactor.sleep(std::time::Duration::from_millis(1)).await;
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
        self.medium.check_fences();
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

/// Whether the first wanted byte is there; whatever comes is right.
async fn read(area: &AreaStore, number: u32, wanted: ByteRange) -> bool {
    let Ok(bytes) = area.read(block(number), &identity(number), wanted).await else { return false };
    let range = bytes.range();
    assert!(range.start == wanted.start && wanted.contains(range) && !range.is_empty());
    assert!(
        bytes.pieces().collect::<Vec<_>>().concat() == content(number, range),
        "block {number}: wrong bytes in {range:?}"
    );
    true
}

/// Random lives of one area.
pub(crate) struct Story {
    rng: Rng,
    body: fn() -> Stage,
}

/// What is done next.
enum Step {
    Keep(u32, ByteRange),
    Read(u32, ByteRange),
    Others(u32),
    Flush,
    Damage,
    Restart { closes: bool },
}

impl Story {
    pub(crate) fn new(seed: u64, body: fn() -> Stage) -> Story {
        Story { rng: Rng::from_seed(seed), body }
    }

    pub(crate) fn play(mut self, steps: u32) -> AreaCounts {
        let medium = Medium::new(8 + self.rng.below(8));
        let mut counts = AreaCounts::default();
        let mut life = Life::begin((self.body)(), &medium);
        for _ in 0..steps {
            match self.step() {
                Step::Keep(number, range) => {
                    keep(&life.area, number, range);
                }
                Step::Read(number, range) => {
                    life.stage.block_on(read(&life.area, number, range));
                }
                Step::Others(number) => {
                    // Another object whose hash is the same.
                    let wanted = ByteRange::new(0, BLOCK_BYTES);
                    let reading = life.area.read(block(number), b"another", wanted);
                    assert!(life.stage.block_on(reading).is_err());
                }
                Step::Flush => life.flush(),
                Step::Damage => medium.damage(&mut self.rng),
                Step::Restart { closes } => {
                    if closes {
                        life.close();
                    }
                    let lived = life.usage().counts;
                    counts.hits += lived.hits;
                    counts.damaged += lived.damaged;
                    life.end();
                    life = Life::begin((self.body)(), &medium);
                }
            }
            life.check_ceilings();
        }
        counts.hits += life.usage().counts.hits;
        counts.damaged += life.usage().counts.damaged;
        life.end();
        counts
    }

    fn step(&mut self) -> Step {
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
            400..940 => Step::Read(number, range(1 + rng.below(most))),
            940..950 => Step::Others(number),
            950..970 => Step::Flush,
            970..992 => Step::Damage,
            _ => Step::Restart { closes: rng.chance(1, 2) },
        }
    }
}

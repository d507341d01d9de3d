//! One area of a cache device: blocks that a shard keeps on NVMe, in log-structured segments. What is written is read
//! back whole or not at all: a page whose checksum fails is a miss. It never waits for the device on behalf of a
//! reader: what finds no buffer is not kept. What is worth keeping is for policies: `admission` says what comes in once
//! there is no room without others leaving, `carry_over` what stays.
//! `writer` appends, `reader` reads and checks, `reclaim` makes room, `recovery` finds what was there before.

mod headers;
mod join;
mod reader;
mod reclaim;
mod recovery;
mod scan;
mod segments;
mod turn;
mod writer;

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use nilas_base::{ByteRange, Monotonic};

use crate::admission::{Admission, AdmissionKind};
use crate::carry_over::{CarryOver, CarryOverKind};
use crate::disk::{AreaPlace, DiskIndex};
use crate::file::File;
use crate::reactor::Reactor;
use crate::signal::Signal;
use crate::store::BlockId;

use headers::Headers;
use segments::Segments;
use writer::Writer;

pub use reader::{DiskBytes, NotOnDisk};
pub use recovery::Recovered;
pub use turn::{IoClass, IoQueue, IoTurn};
pub use writer::{Offered, RECORD_DATA_BYTES_MAX};

/// The part of the index, one in so many, that is left to what reclaim carries over while it makes room in the rest.
const INDEX_SPARE_DIVISOR: u64 = 16;
/// What a policy may take of the memory for the index, one part in so many: it then remembers about as many pieces as
/// the index may have records.
const POLICY_DIVISOR: u64 = 8;

/// What an area's store is made from.
#[derive(Clone)]
pub struct AreaConfig {
    /// Runs its operations.
    pub reactor: Reactor,
    /// The device.
    pub file: File,
    /// Where the area lies on it.
    pub place: AreaPlace,
    /// The turns of all operations of the shard at this device.
    pub queue: IoQueue,
    /// Memory for the index and for policies, bytes: where it is full, the oldest records make room.
    pub index_bytes_max: u64,
    /// Memory for headers of records, bytes.
    pub header_bytes_max: u64,
    /// Memory for buffers of what is written, in whole buffers, one at least: of records that come faster than they
    /// are written, no more than this has room is on its way.
    pub buffer_bytes_max: u64,
    /// What is worth keeping.
    pub policies: AreaPolicies,
}

/// What decides over what an area keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AreaPolicies {
    /// What is written, once others must leave for it.
    pub admission: AdmissionKind,
    /// What stays when the segment is emptied that it lies in.
    pub carry_over: CarryOverKind,
}

impl AreaPolicies {
    /// Those that ask the origin least in replays, for what they write.
    pub const DEFAULT: AreaPolicies =
        AreaPolicies { admission: AdmissionKind::SecondTouch, carry_over: CarryOverKind::Touched };
}

impl Default for AreaPolicies {
    fn default() -> AreaPolicies {
        AreaPolicies::DEFAULT
    }
}

/// What has happened since the start, and what is so now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AreaUsage {
    /// Bytes of the area.
    pub area_bytes: u64,
    /// Bytes of segments that hold records.
    pub used_bytes: u64,
    /// Blocks that can be found.
    pub blocks: u64,
    /// Memory of the index and of policies.
    pub index_bytes: u64,
    /// Memory of headers.
    pub header_bytes: u64,
    /// Memory of buffers for what is written.
    pub buffer_bytes: u64,
    /// What the kernel said to the last operation that it refused, by its number.
    pub last_error: Option<i32>,
    /// What was counted.
    pub counts: AreaCounts,
}

/// What was counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AreaCounts {
    /// Bytes written to the device.
    pub written_bytes: u64,
    /// Bytes read from it.
    pub read_bytes: u64,
    /// Records that can be found since they were written, or were found at the start.
    pub records: u64,
    /// Reads that gave bytes.
    pub hits: u64,
    /// Records that were not what they should be, and were dropped.
    pub damaged: u64,
    /// Segments of which the start could not read the head or the summary, or that had a damaged one.
    pub damaged_segments: u64,
    /// Reads that the device refused.
    pub read_failures: u64,
    /// Reads that it did not answer in time.
    pub read_timeouts: u64,
    /// Writes that it refused.
    pub write_failures: u64,
    /// Runs that were not kept, for want of a buffer, a segment or memory.
    pub refused: u64,
    /// Runs that were not worth being written.
    pub unadmitted: u64,
    /// Bytes that were.
    pub admitted_bytes: u64,
    /// Segments that were emptied.
    pub reclaimed: u64,
    /// Records that went with them.
    pub evicted: u64,
    /// Bytes that were carried over.
    pub carried_bytes: u64,
}

/// The store of one area; clones are the same one. For its shard's thread alone.
#[derive(Clone)]
pub struct AreaStore(Rc<Area>);

struct Area {
    reactor: Reactor,
    file: File,
    place: AreaPlace,
    queue: IoQueue,
    index_bytes_max: u64,
    index: RefCell<DiskIndex>,
    admission: RefCell<Box<dyn Admission>>,
    carry_over: RefCell<Box<dyn CarryOver>>,
    headers: RefCell<Headers>,
    segments: RefCell<Segments>,
    writer: RefCell<Writer>,
    /// A buffer, a segment or a pin has become free.
    changed: Signal,
    /// The device did not answer in time: until then it is asked for nothing.
    rests_until: Cell<Monotonic>,
    is_recovered: Cell<bool>,
    recovered: Cell<Recovered>,
    /// The longest summary that was seen.
    summary_bytes: Cell<usize>,
    /// A segment is being read through, far ahead.
    is_reading_through: Cell<bool>,
    is_reclaiming: Cell<bool>,
    last_error: Cell<Option<i32>>,
    counts: Cell<AreaCounts>,
}

/// An operation on a segment, which is not reused before it has ended.
struct Pin {
    area: Rc<Area>,
    segment: u32,
}

impl AreaStore {
    /// The store of an area of which nothing is known yet: all misses, and nothing is kept before
    /// [`AreaStore::recover`] has ended.
    pub fn new(config: AreaConfig) -> AreaStore {
        let AreaConfig { reactor, file, place, queue, .. } = config;
        let AreaConfig { index_bytes_max, header_bytes_max, policies, .. } = config;
        let policy_bytes_max = index_bytes_max / POLICY_DIVISOR;
        let admission = policies.admission.build(policy_bytes_max);
        let carry_over = policies.carry_over.build(policy_bytes_max);
        let policy_bytes = admission.memory_bytes() + carry_over.memory_bytes();
        AreaStore(Rc::new(Area {
            reactor,
            file,
            place,
            queue,
            index_bytes_max: index_bytes_max.saturating_sub(policy_bytes),
            index: RefCell::default(),
            admission: RefCell::new(admission),
            carry_over: RefCell::new(carry_over),
            headers: RefCell::new(Headers::new(header_bytes_max)),
            segments: RefCell::new(Segments::new(place)),
            writer: RefCell::new(Writer::new(config.buffer_bytes_max)),
            changed: Signal::default(),
            rests_until: Cell::new(Monotonic(0)),
            is_recovered: Cell::new(false),
            recovered: Cell::default(),
            summary_bytes: Cell::new(0),
            is_reading_through: Cell::new(false),
            is_reclaiming: Cell::new(false),
            last_error: Cell::default(),
            counts: Cell::default(),
        }))
    }

    /// The part of `wanted`, from its first byte on, that one record holds; nothing while the device is not asked.
    pub fn find(&self, block: BlockId, wanted: ByteRange) -> Option<ByteRange> {
        let found = self.0.index.borrow().find(block, wanted)?.1;
        (!self.0.is_resting()).then_some(found)
    }

    /// Bytes of `wanted` before the first that is held; all of them while the device is not asked.
    pub fn gap(&self, block: BlockId, wanted: ByteRange) -> u64 {
        match self.0.is_resting() {
            true => wanted.len(),
            false => self.0.index.borrow().gap(block, wanted),
        }
    }

    /// Whether bytes of a block that the origin has brought are to be offered: all of them while there is room, then
    /// what the policy admits. To be asked once for each time that they came.
    pub fn admits(&self, block: BlockId, bytes: ByteRange) -> bool {
        // It is to have seen what came while there was room.
        let is_worth_it = self.0.admission.borrow_mut().admits(block, bytes);
        let admits = is_worth_it || !self.0.is_under_pressure();
        self.0.count(|counts| match admits {
            true => counts.admitted_bytes += bytes.len(),
            false => counts.unadmitted += 1,
        });
        admits
    }

    /// What is so now.
    pub fn usage(&self) -> AreaUsage {
        let area = &self.0;
        let (index, segments) = (area.index.borrow(), area.segments.borrow());
        let used = segments.count() as usize - segments.free();
        AreaUsage {
            area_bytes: area.place.length,
            used_bytes: used as u64 * u64::from(area.place.segment_bytes),
            blocks: index.len() as u64,
            index_bytes: index.memory_bytes() + area.policy_bytes(),
            header_bytes: area.headers.borrow().memory_bytes(),
            buffer_bytes: area.writer.borrow().buffer_bytes(),
            last_error: area.last_error.get(),
            counts: area.counts.get(),
        }
    }
}

impl Area {
    fn count(&self, add: impl FnOnce(&mut AreaCounts)) {
        let mut counts = self.counts.get();
        add(&mut counts);
        self.counts.set(counts);
    }

    fn policy_bytes(&self) -> u64 {
        self.admission.borrow().memory_bytes() + self.carry_over.borrow().memory_bytes()
    }

    /// Whether the index has room for one record more, beside those that are on their way to the device.
    fn index_has_room(&self) -> bool {
        let coming = self.writer.borrow().unindexed() + 1;
        self.index_bytes_with(coming) <= self.index_bytes_max
    }

    /// Whether the index is nearly full, so that records must go though there may be room for them on the device.
    fn index_is_short(&self) -> bool {
        let bytes = self.index_bytes_with(self.writer.borrow().unindexed() + 1);
        let spare = self.index_bytes_max / INDEX_SPARE_DIVISOR;
        bytes + spare > self.index_bytes_max && !self.index.borrow().is_empty()
    }

    fn index_bytes_with(&self, records: u64) -> u64 {
        self.index.borrow().memory_bytes() + records * DiskIndex::RECORD_BYTES_MAX
    }

    /// Notes why the kernel refused an operation.
    fn note_error(&self, error: &io::Error) {
        self.last_error.set(error.raw_os_error().or(self.last_error.get()));
    }

    fn is_resting(&self) -> bool {
        self.rests_until.get() > self.reactor.clock().now()
    }

    fn pin(self: &Rc<Self>, segment: u32) -> Pin {
        self.segments.borrow_mut().pin(segment);
        Pin { area: Rc::clone(self), segment }
    }

    /// Forgets a record.
    fn drop_record(&self, block: BlockId, place: crate::disk::Place) {
        self.index.borrow_mut().remove(block, place);
        self.headers.borrow_mut().forget(place);
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if self.area.segments.borrow_mut().unpin(self.segment) {
            self.area.changed.raise();
        }
    }
}

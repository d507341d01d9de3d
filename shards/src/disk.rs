//! What lies on a cache device, a file or a raw one: a superblock with a table of areas, in each area segments of
//! immutable records; and the index of what lies where. Here are only the bytes and how they are checked: nothing
//! reads or writes a device, and nothing decides what to keep. All is little-endian, begins at a page, and has a
//! checksum that is bound to its place: what was written, read or copied elsewhere is as damaged as what has flipped.
//! Begin at `superblock`, then `segment`, then `record`, with `scan` and `index`; or at `log`, then `batch` and `ledger`.

mod batch;
mod field;
mod index;
mod ledger;
mod log;
mod page;
mod record;
mod scan;
mod segment;
mod superblock;

pub use batch::{BATCH_PAGES_MAX, Batch, BatchHeader, ENTRY_BYTES_MAX, Entries};
pub use index::{DiskIndex, Place, RECORDS_PER_BLOCK_MAX, Run, Superseded};
pub use ledger::Ledger;
pub use log::LogShape;
pub use page::{PAGE_BYTES, PageSeed, pages_of};
pub use record::{IDENTITY_BYTES_MAX, RECORD_BYTES_MAX, RecordHeader, header_pages, record_bytes};
pub use scan::{PageFault, ScanFault, ScanStep, ScannedSegment, SegmentScan};
pub use segment::{SegmentHeader, Summary, SummaryEntry};
pub use superblock::{
    AREAS_MAX, Area, AreaKind, HEAD_BYTES, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, Superblock,
};

/// Identifies a device: random, drawn when it is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceId(pub [u8; 16]);

/// Counts the lives of an area's segments: every time one is opened it gets the next. Never used twice, so that
/// what is left of a segment's former life is not taken for its present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generation(pub u64);

/// Where an area lies: what its shard needs to know of the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AreaPlace {
    /// The device.
    pub device: DeviceId,
    /// The area's number in the superblock's table.
    pub number: u16,
    /// Where it begins, bytes from the device's beginning.
    pub offset: u64,
    /// Its bytes: a whole number of segments.
    pub length: u64,
    /// Bytes of a segment.
    pub segment_bytes: u32,
}

/// Why bytes of a device are not what they should be. They are to be forgotten, unless a newer program wrote them:
/// see [`Unreadable::is_of_newer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// They do not begin as such a structure does: nothing was written there, or something else.
    #[error("something else is there")]
    Foreign,
    /// Another version of the format.
    #[error("it is of version {0} of the format, this program knows version {known}", known = FORMAT_VERSION)]
    Version(u16),
    /// The checksum does not hold: torn, flipped, or another place's.
    #[error("its checksum does not hold")]
    Checksum,
    /// It is whole, and of another place or time: of another device, area, segment or generation.
    #[error("it belongs elsewhere")]
    Misplaced,
    /// It is whole, and its numbers cannot be: written by a faulty program.
    #[error("its numbers cannot be")]
    Impossible,
    /// An area of a kind that this program does not know, which may hold what exists nowhere else. Not to be
    /// overwritten: the node must not start on it.
    #[error("it has an area of kind {0}, which this program does not know")]
    UnknownArea(u16),
}

impl Unreadable {
    /// Whether a newer program wrote it, perhaps for what exists nowhere else: not to be overwritten.
    pub fn is_of_newer(&self) -> bool {
        match self {
            Unreadable::Version(version) => *version > FORMAT_VERSION,
            Unreadable::UnknownArea(_) => true,
            _ => false,
        }
    }
}

/// The version of all structures together. An older one is an empty cache.
pub const FORMAT_VERSION: u16 = 1;

/// Generations, and numbers of batches, openings and ledgers go no further, so that one more can always be counted.
const NUMBER_MAX: u64 = u64::MAX >> 1;

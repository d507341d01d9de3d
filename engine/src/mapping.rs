//! The mapping: the one mutable fact of the cache, `(origin, bucket, key) → version, headers`.
//! It is replaced whole and never changed in place. `table` keeps those of one home shard.
//! How one is learnt from an origin's answer, or refused for want of proof, is `learned`; what was told
//! of an object's parts is in `part`.

mod learned;
mod part;
mod readers;
mod table;

pub use learned::{Asked, Learned, Subject, learn, strong_etag};
pub use part::{Part, PartAsked, PartTable};
pub use readers::Readers;
pub use table::{CheckpointNumber, Entry, Freshness, MappingTable, Walk};

use std::sync::Arc;

use nilas_base::ByteRange;
use nilas_shards::store::BlockId;

use crate::identity::{Digest16, Geometry, HomeHash, ObjectName, block_id};
use crate::purge::Era;

/// Which of a shard's stores holds an object's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreClass {
    /// What engines plan with; no data can evict it.
    Metadata,
    /// Everything else.
    Data,
}

/// What is known of one version of an object.
#[derive(Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Whose.
    pub name: Arc<ObjectName>,
    /// Chooses the shards of its blocks.
    pub home_hash: HomeHash,
    /// The version as its blocks know it: a digest of name, ETag, length and geometry.
    pub version: Digest16,
    /// The ETag, quoted as the origin gave it.
    pub etag: Box<str>,
    /// The object's length in bytes.
    pub length: u64,
    /// `Last-Modified` as the origin gave it.
    pub last_modified: Option<Box<str>>,
    /// The header lines that every answer carries, `name: value\r\n` each, as the origin gave them.
    pub headers: Box<[u8]>,
    /// The header lines of the whole object's checksums, for readers that ask for them. `None` when
    /// they were never asked of the origin: the mapping is partial.
    pub checksums: Option<Box<[u8]>>,
    /// After which purge it was asked for.
    pub era: Era,
    /// Which store its blocks are in.
    pub class: StoreClass,
    /// From where on its bytes are in the metadata store all the same: the footer of a data file. A multiple of that
    /// store's sector, or the length, where there is no such part.
    pub tail_start: u64,
}

impl Mapping {
    /// A block of this version.
    pub fn block(&self, index: u32) -> BlockId {
        block_id(self.version, index)
    }

    /// The beginning of a slice that lies in one store, and in which.
    pub fn first_of_a_class(&self, slice: ByteRange) -> (StoreClass, ByteRange) {
        if slice.start >= self.tail_start {
            (StoreClass::Metadata, slice)
        } else {
            (self.class, ByteRange::new(slice.start, slice.end.min(self.tail_start)))
        }
    }

    /// The same, more of whose end is in the metadata store: from `tail_start` on.
    pub fn with_tail(&self, tail_start: u64) -> Mapping {
        Mapping {
            name: Arc::clone(&self.name),
            home_hash: self.home_hash,
            version: self.version,
            etag: self.etag.clone(),
            length: self.length,
            last_modified: self.last_modified.clone(),
            headers: self.headers.clone(),
            checksums: self.checksums.clone(),
            era: self.era,
            class: self.class,
            tail_start: tail_start.min(self.tail_start),
        }
    }

    /// What its version is a digest of.
    pub fn full_identity(&self, geometry: &Geometry) -> Vec<u8> {
        geometry.full_identity(self.name.as_ref().as_ref(), &self.etag, self.length, self.era)
    }

    /// Whether it can answer a reader who asks for the whole object's checksums.
    pub fn is_complete(&self) -> bool {
        self.checksums.is_some()
    }

    /// Memory that it holds, in bytes, beside its name, its headers and what else has a length of its own.
    pub const FIXED_BYTES: usize =
        size_of::<Mapping>() + size_of::<ObjectName>() + MAPPING_OVERHEAD_BYTES;

    /// Memory that it holds, in bytes, with its allocations' overhead.
    pub fn weight_bytes(&self) -> u64 {
        let parts = [
            self.name.bucket.len() + self.name.key.len(),
            self.etag.len() + self.last_modified.as_deref().map_or(0, str::len),
            self.headers.len() + self.checksums.as_deref().map_or(0, <[u8]>::len),
            Mapping::FIXED_BYTES,
        ];
        parts.iter().sum::<usize>() as u64
    }
}

/// What an allocation takes beside its bytes, about, and how many a mapping is made of.
const ALLOCATION_BYTES: usize = 20;
const ALLOCATIONS: usize = 7;
/// A place in the table and in its order, where both have just grown: of sixteen places seven are taken then.
const TABLE_BYTES: usize =
    (size_of::<(Arc<ObjectName>, Entry)>() + 1 + size_of::<usize>()) * 16 / 7;
/// Allocator headers and the table's share. Held against ten million by hand; see `persist::tests::size`.
const MAPPING_OVERHEAD_BYTES: usize = ALLOCATIONS * ALLOCATION_BYTES + TABLE_BYTES;

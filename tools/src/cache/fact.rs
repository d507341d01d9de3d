//! What both commands tell of a device and its parts, as it goes into JSON.

use nilas_shards::disk::{Area, AreaKind, ScanFault, Superblock};
use nilas_shards::store::BlockId;
use serde::Serialize;

use super::device::CacheDevice;

/// A superblock.
#[derive(Debug, Serialize)]
pub(super) struct SuperblockFact {
    /// The device's id, in hex.
    pub(super) device: String,
    /// Bytes that areas and head take.
    pub(super) bytes: u64,
    pub(super) segment_bytes: u32,
    pub(super) block_bytes: u32,
    pub(super) copies: Vec<CopyFact>,
    pub(super) areas: Vec<AreaFact>,
}

/// A copy of the superblock.
#[derive(Debug, Serialize)]
pub(super) struct CopyFact {
    pub(super) offset: u64,
    /// What is wrong with it, if anything is.
    pub(super) wrong: Option<String>,
}

/// An area.
#[derive(Clone, Debug, Serialize)]
pub(super) struct AreaFact {
    /// Its number.
    pub(super) area: u16,
    pub(super) kind: &'static str,
    pub(super) shard: u16,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) segments: u64,
}

impl SuperblockFact {
    pub(super) fn of(device: &CacheDevice) -> SuperblockFact {
        let superblock = &device.superblock;
        let copy = |(offset, state): (u64, Result<(), ScanFault>)| CopyFact {
            offset,
            wrong: state.err().map(|fault| fault.to_string()),
        };
        let areas = (0..).zip(&superblock.areas);
        SuperblockFact {
            device: hex::encode(superblock.device.0),
            bytes: superblock.device_bytes,
            segment_bytes: superblock.segment_bytes,
            block_bytes: superblock.block_bytes,
            copies: Superblock::COPIES_AT.into_iter().zip(device.copies).map(copy).collect(),
            areas: areas
                .map(|(area, it)| AreaFact::of(area, it, superblock.segment_bytes))
                .collect(),
        }
    }
}

impl AreaFact {
    pub(super) fn of(number: u16, area: &Area, segment_bytes: u32) -> AreaFact {
        let Area { kind, shard, offset, length } = *area;
        let segments = length / u64::from(segment_bytes);
        AreaFact { area: number, kind: kind_name(kind), shard, offset, length, segments }
    }
}

fn kind_name(kind: AreaKind) -> &'static str {
    match kind {
        AreaKind::Data => "data",
        AreaKind::Metadata => "metadata",
        AreaKind::Mappings => "mappings",
    }
}

/// Whether an area consists of records; a log of mappings is none of those.
pub(super) fn has_records(kind: AreaKind) -> bool {
    match kind {
        AreaKind::Data | AreaKind::Metadata => true,
        AreaKind::Mappings => false,
    }
}

/// A block's version, in hex.
pub(super) fn version_text(block: BlockId) -> String {
    hex::encode(block.version)
}

/// An identity as text, with what cannot be printed escaped: keys are their writers' to choose, terminals are not.
pub(super) fn identity_text(identity: &[u8]) -> String {
    match std::str::from_utf8(identity) {
        Ok(text) if !text.contains(char::is_control) => text.to_owned(),
        _ => identity.escape_ascii().to_string(),
    }
}

//! The superblock: whose device it is, how long its segments are, and the table of its areas. It is written when a
//! device is laid out and never changed, twice, so that a page that goes bad costs nothing.

use super::field::{FieldReader, FieldWriter};
use super::page::{PAGE_BYTES, is_sealed, seal};
use super::{AreaPlace, DeviceId, FORMAT_VERSION, Unreadable};

const MAGIC: [u8; 8] = *b"NILASDEV";
const CHECKSUM_PLACE: usize = 12;
const FIXED_BYTES: usize = 48;
const AREA_BYTES: usize = 24;
/// Bytes of one copy.
const COPY_BYTES: usize = 2 * PAGE_BYTES;
/// Bytes before the first area: two copies, and room for what a later version may need.
pub const HEAD_BYTES: u64 = 1 << 20;
/// Where the copies begin. They are far apart, so that they share no unit of a device's that may go bad as a whole.
const COPIES_AT: [u64; 2] = [0, HEAD_BYTES / 2];
/// Areas of a device at most.
pub const AREAS_MAX: usize = (COPY_BYTES - FIXED_BYTES) / AREA_BYTES;
/// Segments are powers of two from this length.
pub const SEGMENT_BYTES_MIN: u32 = 1 << 20;
/// To this length.
pub const SEGMENT_BYTES_MAX: u32 = 1 << 30;

/// What an area holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AreaKind {
    /// Blocks of the data store.
    Data,
    /// Blocks of the metadata store.
    Metadata,
    /// Mappings, tombstones and purges.
    Mappings,
}

/// A part of the device that one shard alone writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// What it holds.
    pub kind: AreaKind,
    /// Whose it is.
    pub shard: u16,
    /// Where it begins, bytes from the device's beginning.
    pub offset: u64,
    /// Its bytes: a whole number of segments.
    pub length: u64,
}

/// The superblock.
///
/// | bytes | field |
/// |---|---|
/// | 8 | magic |
/// | 2 | version of the format |
/// | 2 | number of areas |
/// | 4 | checksum of the whole head |
/// | 16 | the device's id |
/// | 8 | bytes of the device that are in use |
/// | 4 | bytes of a segment |
/// | 4 | bytes of a data block |
/// | 24 each | areas: kind, shard, version of the area's own format, zeros, offset, length |
///
/// Magic and version come first, so that another program's device is told before anything is believed; the number of
/// areas before the checksum only because it fits there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Whose device it is.
    pub device: DeviceId,
    /// Bytes of the device that are in use, the head included.
    pub device_bytes: u64,
    /// Bytes of a segment, in all areas.
    pub segment_bytes: u32,
    /// Bytes of a block of the data areas: a record of another length is of no block that is asked for.
    pub block_bytes: u32,
    /// The areas, in order of their places.
    pub areas: Vec<Area>,
}

impl AreaKind {
    fn code(self) -> u16 {
        match self {
            AreaKind::Data => 1,
            AreaKind::Metadata => 2,
            AreaKind::Mappings => 3,
        }
    }

    fn of_code(code: u16) -> Result<AreaKind, Unreadable> {
        match code {
            1 => Ok(AreaKind::Data),
            2 => Ok(AreaKind::Metadata),
            3 => Ok(AreaKind::Mappings),
            other => Err(Unreadable::UnknownArea(other)),
        }
    }
}

impl Superblock {
    /// Where its two copies go, bytes from the device's beginning; each is as long as what [`Superblock::encode`]
    /// gives.
    pub const COPIES_AT: [u64; 2] = COPIES_AT;
    /// Bytes of a copy.
    pub const COPY_BYTES: usize = COPY_BYTES;

    /// The areas of `wanted` (kind, shard, bytes), one behind the other, each rounded down to whole segments but
    /// given one at least.
    ///
    /// # Panics
    /// Where a segment's length is no power of two within its limits, or there are more than [`AREAS_MAX`] areas.
    pub fn lay_out(
        device: DeviceId,
        segment_bytes: u32,
        block_bytes: u32,
        wanted: &[(AreaKind, u16, u64)],
    ) -> Superblock {
        assert!(wanted.len() <= AREAS_MAX, "{} areas", wanted.len());
        assert!(is_segment_length(segment_bytes), "segments of {segment_bytes} bytes");
        let segment = u64::from(segment_bytes);
        let mut offset = HEAD_BYTES.next_multiple_of(segment);
        let area = |&(kind, shard, bytes): &(AreaKind, u16, u64)| {
            let length = (bytes / segment).max(1) * segment;
            let area = Area { kind, shard, offset, length };
            offset += length;
            area
        };
        let areas = wanted.iter().map(area).collect();
        Superblock { device, device_bytes: offset, segment_bytes, block_bytes, areas }
    }

    /// Where the area of a kind lies that a shard writes, if it has one.
    pub fn place(&self, kind: AreaKind, shard: u16) -> Option<AreaPlace> {
        let is_it = |area: &Area| area.kind == kind && area.shard == shard;
        let number = self.areas.iter().position(is_it)?;
        self.place_of(number as u16)
    }

    /// Where the area with this number in the table lies, if there are as many.
    pub fn place_of(&self, number: u16) -> Option<AreaPlace> {
        let Area { offset, length, .. } = *self.areas.get(usize::from(number))?;
        let (device, segment_bytes) = (self.device, self.segment_bytes);
        Some(AreaPlace { device, number, offset, length, segment_bytes })
    }

    /// One copy, as it is written.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; COPY_BYTES];
        let mut fields = FieldWriter::new(&mut bytes);
        fields.bytes(&MAGIC).u16(FORMAT_VERSION).u16(self.areas.len() as u16).u32(0);
        fields
            .bytes(&self.device.0)
            .u64(self.device_bytes)
            .u32(self.segment_bytes)
            .u32(self.block_bytes);
        for area in &self.areas {
            fields.u16(area.kind.code()).u16(area.shard).u16(FORMAT_VERSION).u16(0);
            fields.u64(area.offset).u64(area.length);
        }
        seal(&mut bytes, CHECKSUM_PLACE);
        bytes
    }

    /// Reads a copy.
    ///
    /// # Errors
    /// What [is of a newer program](Unreadable::is_of_newer) is not to be overwritten; anything else is no superblock
    /// of this one.
    pub fn decode(bytes: &[u8]) -> Result<Superblock, Unreadable> {
        if !bytes.starts_with(&MAGIC) {
            return Err(Unreadable::Foreign);
        }
        // One that was cut off is damaged, and ours.
        let bytes = bytes.get(..COPY_BYTES).ok_or(Unreadable::Checksum)?;
        let mut fields = FieldReader::new(&bytes[MAGIC.len()..]);
        let (version, count) = (fields.u16(), usize::from(fields.u16()));
        if version != FORMAT_VERSION {
            return Err(Unreadable::Version(version));
        }
        if !is_sealed(bytes, CHECKSUM_PLACE) {
            return Err(Unreadable::Checksum);
        }
        if count > AREAS_MAX {
            return Err(Unreadable::Impossible);
        }
        let _checksum = fields.u32();
        let (device, device_bytes) = (DeviceId(fields.array()), fields.u64());
        let (segment_bytes, block_bytes) = (fields.u32(), fields.u32());
        let mut areas = Vec::with_capacity(count);
        for _ in 0..count {
            areas.push(decode_area(&mut fields)?);
        }
        let superblock = Superblock { device, device_bytes, segment_bytes, block_bytes, areas };
        if superblock.is_possible() { Ok(superblock) } else { Err(Unreadable::Impossible) }
    }

    /// The one that two copies tell of: the first that can be read, unless the other has an unknown area. Where neither
    /// can, why: that a newer program wrote it comes before all else.
    ///
    /// # Errors
    /// As [`Superblock::decode`].
    pub fn of_copies(first: &[u8], second: &[u8]) -> Result<Superblock, Unreadable> {
        let forbids = |copy: &Result<_, _>| matches!(copy, Err(Unreadable::UnknownArea(_)));
        match (Superblock::decode(first), Superblock::decode(second)) {
            (copy, _) | (_, copy) if forbids(&copy) => copy,
            (Ok(copy), _) | (_, Ok(copy)) => Ok(copy),
            (Err(first), Err(second)) if first == Unreadable::Foreign || second.is_of_newer() => {
                Err(if first.is_of_newer() { first } else { second })
            }
            (Err(first), Err(_)) => Err(first),
        }
    }

    /// Whether areas are whole segments behind the head, in order, apart, and within the device.
    fn is_possible(&self) -> bool {
        if !is_segment_length(self.segment_bytes) {
            return false;
        }
        let segment = u64::from(self.segment_bytes);
        let mut free_from = HEAD_BYTES;
        for area in &self.areas {
            let is_whole = area.offset % segment == 0 && area.length % segment == 0;
            let Some(end) = area.offset.checked_add(area.length) else { return false };
            if !is_whole || area.length == 0 || area.offset < free_from || end > self.device_bytes {
                return false;
            }
            free_from = end;
        }
        true
    }
}

fn decode_area(fields: &mut FieldReader<'_>) -> Result<Area, Unreadable> {
    let kind = AreaKind::of_code(fields.u16())?;
    let (shard, version, _zeros) = (fields.u16(), fields.u16(), fields.u16());
    let (offset, length) = (fields.u64(), fields.u64());
    match version {
        FORMAT_VERSION => Ok(Area { kind, shard, offset, length }),
        other => Err(Unreadable::Version(other)),
    }
}

fn is_segment_length(bytes: u32) -> bool {
    bytes.is_power_of_two() && (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes)
}

#[cfg(test)]
impl Superblock {
    /// One copy as a program would write it that knows more, and has given the first area this kind.
    pub(crate) fn encode_with_kind(&self, kind: u16) -> Vec<u8> {
        let mut bytes = self.encode();
        bytes[FIXED_BYTES..FIXED_BYTES + 2].copy_from_slice(&kind.to_le_bytes());
        seal(&mut bytes, CHECKSUM_PLACE);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn laid_out() -> Superblock {
        let wanted = [
            (AreaKind::Mappings, 0, 5 * MIB),
            (AreaKind::Metadata, 0, 100 * MIB),
            (AreaKind::Data, 0, 1),
            (AreaKind::Data, 1, 1000 * MIB + 7),
        ];
        Superblock::lay_out(DeviceId([9; 16]), 8 << 20, 2 << 20, &wanted)
    }

    fn with_kind(kind: u16) -> Vec<u8> {
        laid_out().encode_with_kind(kind)
    }

    #[test]
    fn areas_are_whole_segments_one_behind_the_other() {
        let superblock = laid_out();
        let places: Vec<(u64, u64)> =
            superblock.areas.iter().map(|it| (it.offset / MIB, it.length / MIB)).collect();
        assert_eq!(places, [(8, 8), (16, 96), (112, 8), (120, 1000)]);
        assert_eq!(superblock.device_bytes, 1120 * MIB);
        assert!(superblock.is_possible());
    }

    #[test]
    fn an_area_is_found_by_its_kind_and_shard() {
        let place = laid_out().place(AreaKind::Data, 1).expect("it was laid out");
        assert_eq!((place.number, place.offset, place.length), (3, 120 * MIB, 1000 * MIB));
        assert_eq!(laid_out().place(AreaKind::Metadata, 1), None);
    }

    #[test]
    fn what_was_written_is_read_back() {
        let superblock = laid_out();
        assert_eq!(Superblock::decode(&superblock.encode()), Ok(superblock));
    }

    #[test]
    fn an_unknown_area_forbids_the_start_whichever_copy_tells_of_it() {
        let (known, unknown) = (laid_out().encode(), with_kind(4));
        let refusal = Err(Unreadable::UnknownArea(4));
        assert_eq!(Superblock::decode(&unknown), refusal);
        assert_eq!(Superblock::of_copies(&unknown, &known), refusal);
        assert_eq!(Superblock::of_copies(&known, &unknown), refusal);
        assert_eq!(Superblock::of_copies(&[0; COPY_BYTES], &unknown), refusal);
    }

    #[test]
    fn one_good_copy_is_enough() {
        let good = laid_out().encode();
        let mut bad = good.clone();
        bad[5000] ^= 4;
        assert_eq!(Superblock::of_copies(&bad, &good), Ok(laid_out()));
        assert_eq!(Superblock::of_copies(&good, &bad), Ok(laid_out()));
        assert_eq!(Superblock::of_copies(&[], &good), Ok(laid_out()));
        assert_eq!(Superblock::of_copies(&bad, &bad), Err(Unreadable::Checksum));
        assert_eq!(Superblock::of_copies(&bad, &[0; COPY_BYTES]), Err(Unreadable::Checksum));
        let blank = [0; COPY_BYTES];
        assert_eq!(Superblock::of_copies(&blank, &blank), Err(Unreadable::Foreign));
    }

    #[test]
    fn another_version_is_told_before_its_checksum_is_looked_at() {
        let mut bytes = laid_out().encode();
        bytes[8] = 2;
        assert_eq!(Superblock::decode(&bytes), Err(Unreadable::Version(2)));
    }

    #[test]
    fn as_many_areas_as_fit_are_written_and_read_back() {
        let wanted = vec![(AreaKind::Data, 3, MIB); AREAS_MAX];
        let superblock = Superblock::lay_out(DeviceId([1; 16]), 1 << 20, 1 << 19, &wanted);
        assert_eq!(Superblock::decode(&superblock.encode()), Ok(superblock));
    }

    fn impossible(spoil: impl FnOnce(&mut Superblock)) {
        let mut superblock = laid_out();
        spoil(&mut superblock);
        assert_eq!(Superblock::decode(&superblock.encode()), Err(Unreadable::Impossible));
    }

    #[test]
    fn areas_that_overlap_or_leave_the_device_are_impossible() {
        impossible(|it| it.areas[1].offset -= 8 * MIB);
        impossible(|it| it.areas[0].offset = 0);
        impossible(|it| it.areas[3].length += 8 * MIB);
        impossible(|it| it.areas[3].length = u64::MAX - 8 * MIB + 1);
        impossible(|it| it.areas[2].length = 0);
        impossible(|it| it.areas[2].length = 8 * MIB - 4096);
        impossible(|it| it.segment_bytes = 3 << 20);
        impossible(|it| it.segment_bytes = 0);
        impossible(|it| it.areas.swap(0, 1));
    }

    proptest! {
        #[test]
        fn no_single_flipped_bit_is_believed(at in 0..COPY_BYTES, bit in 0_u8..8) {
            let mut bytes = laid_out().encode();
            bytes[at] ^= 1 << bit;
            prop_assert!(Superblock::decode(&bytes).is_err());
        }

        #[test]
        fn any_bytes_are_refused_without_a_panic(mut bytes: Vec<u8>, count: u16) {
            bytes.resize(COPY_BYTES, 0);
            bytes[..8].copy_from_slice(&MAGIC);
            bytes[8..10].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
            bytes[10..12].copy_from_slice(&count.to_le_bytes());
            prop_assert!(Superblock::decode(&bytes).is_err());
            // As if a faulty program had written it.
            seal(&mut bytes, CHECKSUM_PLACE);
            let _ = Superblock::decode(&bytes);
        }
    }
}

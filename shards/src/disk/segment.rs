//! Segments: equal parts of an area, filled from front to back and reused whole. The first page says which segment
//! it is and in which life; records follow; the last pages of a sealed one are its summary, so that it need not be
//! read through when the index is rebuilt. A segment without a summary is read through, as far as its records are
//! of its life.

use super::field::{FieldReader, FieldWriter};
use super::page::{PAGE_BYTES, is_sealed, is_sealed_bound, pages_of, seal, seal_bound};
use super::{DeviceId, FORMAT_VERSION, Generation, NUMBER_MAX, Unreadable};
use crate::store::BlockId;

const MAGIC: [u8; 4] = *b"NSEG";
const CHECKSUM_PLACE: usize = 8;
const SUMMARY_MAGIC: [u8; 4] = *b"NSUM";
const ENTRY_BYTES: usize = 36;
const FOOT_BYTES: usize = 32;
/// Bytes that a checksum of what lies in a segment begins with.
pub(super) const SEED_BYTES: usize = 30;
/// The summary's checksum, counted from its foot's beginning.
const FOOT_CHECKSUM_PLACE: usize = 8;
/// The generation, counted from there too.
const FOOT_GENERATION_PLACE: usize = 16;

/// Which segment it is, and in which life. The checksums of all that lies in it are bound to that. Clients, whose bytes
/// a former life may have left there, know all of it but the device's id.
///
/// | bytes | field |
/// |---|---|
/// | 4 | magic |
/// | 2 | version of the format |
/// | 2 | number of the area in the superblock's table |
/// | 4 | checksum of the page |
/// | 4 | number of the segment in its area |
/// | 8 | generation |
/// | 16 | the device's id |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The device.
    pub device: DeviceId,
    /// The area's number in the superblock's table.
    pub area: u16,
    /// The segment's number in its area.
    pub number: u32,
    /// Its life.
    pub generation: Generation,
}

/// A record as a summary has it: enough to find it, not to believe it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryEntry {
    /// Whose bytes.
    pub block: BlockId,
    /// Where the record begins, in pages from the segment's beginning.
    pub page: u32,
    /// Where in the block its run begins.
    pub first_byte: u32,
    /// Bytes of the run.
    pub data_bytes: u32,
    /// Pages of its header.
    pub header_pages: u32,
}

/// What a sealed segment holds.
///
/// A summary is its entries, 36 bytes each, and at its very end 32 bytes that say how many there are: there, because
/// only the segment's end is known to who has not read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The segment in its life.
    pub life: SegmentHeader,
    /// Its records, in order.
    pub entries: Vec<SummaryEntry>,
}

impl SegmentHeader {
    /// The segment's first page.
    pub fn encode(&self) -> Vec<u8> {
        let mut page = vec![0; PAGE_BYTES];
        let mut fields = FieldWriter::new(&mut page);
        fields.bytes(&MAGIC).u16(FORMAT_VERSION).u16(self.area).u32(0);
        fields.u32(self.number).u64(self.generation.0).bytes(&self.device.0);
        seal(&mut page, CHECKSUM_PLACE);
        page
    }

    /// What the checksums of what lies in the segment are bound to.
    pub(super) fn seed(&self) -> [u8; SEED_BYTES] {
        let mut seed = [0; SEED_BYTES];
        let mut fields = FieldWriter::new(&mut seed);
        fields.bytes(&self.device.0).u16(self.area).u32(self.number).u64(self.generation.0);
        seed
    }

    /// Reads the first page of the segment `number` of `area` on `device`.
    ///
    /// # Errors
    /// Where it is not that segment's.
    pub fn decode(
        page: &[u8],
        device: DeviceId,
        area: u16,
        number: u32,
    ) -> Result<SegmentHeader, Unreadable> {
        let header = SegmentHeader::told_by(page)?;
        let is_there = (header.device, header.area, header.number) == (device, area, number);
        if is_there { Ok(header) } else { Err(Unreadable::Misplaced) }
    }

    /// Reads a segment's first page, whichever segment it is of: for those who want to know what lies in a wrong place.
    ///
    /// # Errors
    /// Where it is no segment's.
    pub fn told_by(page: &[u8]) -> Result<SegmentHeader, Unreadable> {
        if page.len() < PAGE_BYTES || page[..MAGIC.len()] != MAGIC {
            return Err(Unreadable::Foreign);
        }
        let page = &page[..PAGE_BYTES];
        let mut fields = FieldReader::new(&page[MAGIC.len()..]);
        let (version, area, _checksum) = (fields.u16(), fields.u16(), fields.u32());
        if version != FORMAT_VERSION {
            return Err(Unreadable::Version(version));
        }
        if !is_sealed(page, CHECKSUM_PLACE) {
            return Err(Unreadable::Checksum);
        }
        let (number, generation) = (fields.u32(), Generation(fields.u64()));
        if generation.0 > NUMBER_MAX {
            return Err(Unreadable::Impossible);
        }
        Ok(SegmentHeader { device: DeviceId(fields.array()), area, number, generation })
    }
}

impl SummaryEntry {
    /// Pages of the whole record.
    pub fn pages(&self) -> u32 {
        self.header_pages + pages_of(self.data_bytes as usize) as u32
    }

    /// The first page behind it.
    pub fn pages_end(&self) -> u32 {
        self.page + self.pages()
    }
}

impl Summary {
    /// Bytes of a summary of so many records: whole pages.
    pub const fn bytes_of(records: usize) -> usize {
        pages_of(records * ENTRY_BYTES + FOOT_BYTES) * PAGE_BYTES
    }

    /// The segment's last bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; Summary::bytes_of(self.entries.len())];
        let foot_at = bytes.len() - FOOT_BYTES;
        let mut fields = FieldWriter::new(&mut bytes);
        for entry in &self.entries {
            fields.bytes(&entry.block.version).u32(entry.block.index).u32(entry.page);
            fields.u32(entry.first_byte).u32(entry.data_bytes).u32(entry.header_pages);
        }
        let mut fields = FieldWriter::new(&mut bytes[foot_at..]);
        fields.bytes(&SUMMARY_MAGIC).u16(FORMAT_VERSION).u16(0).u32(0);
        fields.u32(self.entries.len() as u32).u64(self.life.generation.0);
        seal_bound(&self.life.seed(), &mut bytes, foot_at + FOOT_CHECKSUM_PLACE);
        bytes
    }

    /// How many bytes of the segment's end its summary has, by the segment's last page. A guess until it is decoded.
    ///
    /// # Errors
    /// Where no summary ends so.
    pub fn bytes_told_by(last_page: &[u8], segment_bytes: u32) -> Result<usize, Unreadable> {
        let foot = last_page.last_chunk::<FOOT_BYTES>().ok_or(Unreadable::Foreign)?;
        if foot[..SUMMARY_MAGIC.len()] != SUMMARY_MAGIC {
            return Err(Unreadable::Foreign);
        }
        let mut fields = FieldReader::new(&foot[SUMMARY_MAGIC.len()..]);
        let (version, _zeros, _checksum) = (fields.u16(), fields.u16(), fields.u32());
        if version != FORMAT_VERSION {
            return Err(Unreadable::Version(version));
        }
        let records = fields.u32() as usize;
        // Each record has a page of header and one of data at least.
        let records_max = segment_bytes as usize / (2 * PAGE_BYTES);
        if records > records_max {
            Err(Unreadable::Impossible)
        } else {
            Ok(Summary::bytes_of(records))
        }
    }

    /// The life whose summary ends with this page. A guess until it is decoded: it tells a former life's summary even
    /// where records of the present one have overwritten the rest of it.
    pub fn life_told_by(last_page: &[u8]) -> Option<Generation> {
        let foot = last_page.last_chunk::<FOOT_BYTES>()?;
        let is_summary = foot[..SUMMARY_MAGIC.len()] == SUMMARY_MAGIC;
        is_summary.then(|| Generation(FieldReader::new(&foot[FOOT_GENERATION_PLACE..]).u64()))
    }

    /// Reads the summary that ends a segment of `segment_bytes` in its present life; `bytes` are the segment's last ones, as many as [`Summary::bytes_told_by`] says or more.
    ///
    /// # Errors
    /// Where it is no whole summary of that life.
    pub fn decode(
        bytes: &[u8],
        segment_bytes: u32,
        life: SegmentHeader,
    ) -> Result<Summary, Unreadable> {
        let length = Summary::bytes_told_by(bytes, segment_bytes)?;
        let start = bytes.len().checked_sub(length).ok_or(Unreadable::Checksum)?;
        let bytes = &bytes[start..];
        let foot_at = length - FOOT_BYTES;
        let mut foot = FieldReader::new(&bytes[foot_at + FOOT_CHECKSUM_PLACE + 4..]);
        let (records, generation) = (foot.u32(), Generation(foot.u64()));
        let seed = SegmentHeader { generation, ..life }.seed();
        let is_sealed = is_sealed_bound(&seed, bytes, foot_at + FOOT_CHECKSUM_PLACE);
        if !is_sealed && !is_believed_unchecked() {
            return Err(Unreadable::Checksum);
        }
        if generation != life.generation {
            return Err(Unreadable::Misplaced);
        }
        let mut fields = FieldReader::new(bytes);
        let entries: Vec<SummaryEntry> = (0..records).map(|_| decode_entry(&mut fields)).collect();
        let summary = Summary { life, entries };
        let is_possible = summary.is_possible((segment_bytes as usize - length) / PAGE_BYTES);
        if is_possible { Ok(summary) } else { Err(Unreadable::Impossible) }
    }

    /// Whether the records lie in order and apart, behind the first page and before `pages_end`.
    fn is_possible(&self, pages_end: usize) -> bool {
        let mut free_from = 1_u64;
        for entry in &self.entries {
            let pages = u64::from(entry.header_pages) + pages_of(entry.data_bytes as usize) as u64;
            let (page, end) = (u64::from(entry.page), u64::from(entry.page) + pages);
            let has_bytes = entry.header_pages > 0 && entry.data_bytes > 0;
            let begins_well = (entry.first_byte as usize).is_multiple_of(PAGE_BYTES);
            if page < free_from || end > pages_end as u64 || !has_bytes || !begins_well {
                return false;
            }
            free_from = end;
        }
        true
    }
}

fn decode_entry(fields: &mut FieldReader<'_>) -> SummaryEntry {
    let block = BlockId { version: fields.array(), index: fields.u32() };
    let (page, first_byte) = (fields.u32(), fields.u32());
    let (data_bytes, header_pages) = (fields.u32(), fields.u32());
    SummaryEntry { block, page, first_byte, data_bytes, header_pages }
}

#[cfg(not(feature = "mutations"))]
fn is_believed_unchecked() -> bool {
    false
}

/// The planted fault.
#[cfg(feature = "mutations")]
fn is_believed_unchecked() -> bool {
    crate::mutation::DiskMutation::SummaryUnchecked.is_planted()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DEVICE: DeviceId = DeviceId([5; 16]);
    const GENERATION: Generation = Generation(31);
    const SEGMENT_BYTES: u32 = 1 << 20;

    fn header() -> SegmentHeader {
        SegmentHeader { device: DEVICE, area: 2, number: 6, generation: GENERATION }
    }

    fn summary(records: u32) -> Summary {
        let entry = |number: u32| SummaryEntry {
            block: BlockId { version: [number as u8; 16], index: number },
            page: 1 + 2 * number,
            first_byte: 4096 * number,
            data_bytes: 1 + number,
            header_pages: 1,
        };
        Summary { life: header(), entries: (0..records).map(entry).collect() }
    }

    #[test]
    fn a_first_page_is_that_of_its_segment_alone() {
        let page = header().encode();
        assert_eq!(SegmentHeader::decode(&page, DEVICE, 2, 6), Ok(header()));
        let elsewhere = Err(Unreadable::Misplaced);
        assert_eq!(SegmentHeader::decode(&page, DEVICE, 2, 7), elsewhere);
        assert_eq!(SegmentHeader::decode(&page, DEVICE, 1, 6), elsewhere);
        assert_eq!(SegmentHeader::decode(&page, DeviceId([6; 16]), 2, 6), elsewhere);
        assert_eq!(SegmentHeader::told_by(&page), Ok(header()));
        assert_eq!(SegmentHeader::decode(&[0; 4096], DEVICE, 2, 6), Err(Unreadable::Foreign));
    }

    #[test]
    fn a_summary_is_read_back_from_the_segments_end() {
        for records in [0, 1, 100, 113, 114, 120] {
            let summary = summary(records);
            let mut segment = vec![0xee; SEGMENT_BYTES as usize];
            let bytes = summary.encode();
            let start = segment.len() - bytes.len();
            segment[start..].copy_from_slice(&bytes);
            let last_page = &segment[segment.len() - PAGE_BYTES..];
            let told = Summary::bytes_told_by(last_page, SEGMENT_BYTES);
            assert_eq!(told, Ok(bytes.len()), "{records}");
            assert_eq!(Summary::life_told_by(last_page), Some(GENERATION), "{records}");
            for read in [&segment[..], &bytes] {
                let read = Summary::decode(read, SEGMENT_BYTES, header());
                assert_eq!(read.as_ref(), Ok(&summary), "{records}");
            }
        }
    }

    #[test]
    fn a_summary_of_another_life_belongs_elsewhere() {
        let next = SegmentHeader { generation: Generation(32), ..header() };
        let read = Summary::decode(&summary(3).encode(), SEGMENT_BYTES, next);
        assert_eq!(read, Err(Unreadable::Misplaced));
    }

    #[test]
    fn a_summary_of_another_device_or_segment_is_not_believed() {
        let bytes = summary(3).encode();
        for elsewhere in [
            SegmentHeader { device: DeviceId([6; 16]), ..header() },
            SegmentHeader { area: 1, ..header() },
            SegmentHeader { number: 7, ..header() },
        ] {
            let read = Summary::decode(&bytes, SEGMENT_BYTES, elsewhere);
            assert_eq!(read, Err(Unreadable::Checksum));
        }
    }

    #[test]
    fn a_summary_of_which_pages_are_missing_is_torn() {
        let bytes = summary(120).encode();
        let read = Summary::decode(&bytes[PAGE_BYTES..], SEGMENT_BYTES, header());
        assert_eq!(read, Err(Unreadable::Checksum));
    }

    #[test]
    fn records_that_overlap_or_leave_the_segment_are_impossible() {
        let impossible = |spoil: fn(&mut SummaryEntry)| {
            let mut summary = summary(5);
            spoil(&mut summary.entries[2]);
            let read = Summary::decode(&summary.encode(), SEGMENT_BYTES, header());
            assert_eq!(read, Err(Unreadable::Impossible));
        };
        impossible(|entry| entry.page = 0);
        impossible(|entry| entry.page -= 1);
        impossible(|entry| entry.data_bytes = 4097);
        impossible(|entry| entry.data_bytes = 0);
        impossible(|entry| entry.data_bytes = u32::MAX);
        impossible(|entry| entry.header_pages = 0);
        impossible(|entry| entry.header_pages = u32::MAX);
        impossible(|entry| entry.page = u32::MAX);
        impossible(|entry| entry.first_byte = 1);
    }

    proptest! {
        #[test]
        fn no_single_flipped_bit_is_believed(
            records in 0_u32..130,
            at in any::<prop::sample::Index>(),
            bit in 0_u8..8,
        ) {
            let mut page = header().encode();
            page[at.index(PAGE_BYTES)] ^= 1 << bit;
            prop_assert!(SegmentHeader::decode(&page, DEVICE, 2, 6).is_err());
            let mut bytes = summary(records).encode();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(Summary::decode(&bytes, SEGMENT_BYTES, header()).is_err());
        }

        #[test]
        fn any_bytes_are_refused_without_a_panic(mut bytes: Vec<u8>, records in 0_u32..400) {
            bytes.resize(4 * PAGE_BYTES, 3);
            let foot_at = bytes.len() - FOOT_BYTES;
            let mut fields = FieldWriter::new(&mut bytes[foot_at..]);
            fields.bytes(&SUMMARY_MAGIC).u16(FORMAT_VERSION).u16(0).u32(0);
            fields.u32(records).u64(GENERATION.0);
            prop_assert!(Summary::decode(&bytes, SEGMENT_BYTES, header()).is_err());
            // As if a faulty program had written it.
            let length = Summary::bytes_of(records as usize).min(bytes.len());
            let start = bytes.len() - length;
            let place = length - FOOT_BYTES + FOOT_CHECKSUM_PLACE;
            seal_bound(&header().seed(), &mut bytes[start..], place);
            let _ = Summary::decode(&bytes, SEGMENT_BYTES, header());
        }
    }
}

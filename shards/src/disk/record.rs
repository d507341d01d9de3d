//! Records: a run of one block's bytes, with all that is needed to believe it. A record is written once, whole, and
//! never changed; it goes when its segment is reused.

use super::field::{FieldReader, FieldWriter};
use super::page::{PAGE_BYTES, PageSeed, is_sealed_bound, is_unbound, pages_of, seal_bound};
use super::segment::SEED_BYTES;
use super::{DeviceId, FORMAT_VERSION, Generation, SegmentHeader, Unreadable};
use crate::store::BlockId;

const MAGIC: [u8; 4] = *b"NREC";
const CHECKSUM_PLACE: usize = 8;
const FIXED_BYTES: usize = 66;
/// Bytes of a run at most: the longest block.
const DATA_BYTES_MAX: usize = 8 << 20;
/// Bytes of a full identity at most: a key has 1,024, a bucket 63; an ETag and an origin are short.
pub const IDENTITY_BYTES_MAX: usize = 2048;
/// Pages of a header at most.
pub(super) const HEADER_PAGES_MAX: usize = header_pages(IDENTITY_BYTES_MAX, DATA_BYTES_MAX);
/// Bytes of a record at most.
pub const RECORD_BYTES_MAX: usize = record_bytes(IDENTITY_BYTES_MAX, DATA_BYTES_MAX);

/// What an allocator adds to a header in memory, about.
const ALLOCATIONS_BYTES: u64 = 96;

/// Pages of a record's header, by the bytes of its identity and of its data.
pub const fn header_pages(identity_bytes: usize, data_bytes: usize) -> usize {
    pages_of(FIXED_BYTES + 4 * pages_of(data_bytes) + identity_bytes)
}

/// Bytes of a whole record.
pub const fn record_bytes(identity_bytes: usize, data_bytes: usize) -> usize {
    (header_pages(identity_bytes, data_bytes) + pages_of(data_bytes)) * PAGE_BYTES
}

/// What a record says of itself.
///
/// | bytes | field |
/// |---|---|
/// | 4 | magic |
/// | 2 | version of the format |
/// | 2 | pages of this header |
/// | 4 | checksum of the whole header, bound to segment, life and page |
/// | 16 | the device's id |
/// | 4 | where in its block the run begins |
/// | 4 | bytes of the run |
/// | 4 | number of the block in its object |
/// | 8 | the segment's generation |
/// | 16 | hash of the full identity |
/// | 2 | bytes of the full identity |
/// | 4 each | checksums of the pages of data |
/// | … | the full identity |
///
/// The data follow from the next page on, the last page filled up with zeros. The length of the header comes early, so
/// that its first page says how much more of it there is. The identity comes last, because it alone has no length
/// that the other fields decide; to the shard it is only bytes, which its owner compares.
///
/// The device's id stands there whole, because a record must not be believed that a client wrote into its own bytes: a
/// checksum that was bound to the id and no more would be guessed once in 2³² pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// The segment that it was written in, in its life.
    pub life: SegmentHeader,
    /// The block.
    pub block: BlockId,
    /// The full identity of which the block has the hash.
    pub identity: Box<[u8]>,
    /// Where in the block the run begins: at a page.
    pub first_byte: u32,
    /// Bytes of the run.
    pub data_bytes: u32,
    /// The checksums of its pages.
    pub page_checksums: Box<[u32]>,
}

impl RecordHeader {
    /// The header of a record with these bytes.
    ///
    /// # Panics
    /// Where there is no byte, or there are more than a block has, or the run does not begin at a page, or the
    /// identity is too long.
    pub fn new(seed: PageSeed, identity: &[u8], first_byte: u32, data: &[u8]) -> RecordHeader {
        assert!((1..=DATA_BYTES_MAX).contains(&data.len()), "{} bytes in a record", data.len());
        assert!(
            (first_byte as usize).is_multiple_of(PAGE_BYTES),
            "a run that begins at {first_byte}"
        );
        assert!(identity.len() <= IDENTITY_BYTES_MAX, "an identity of {} bytes", identity.len());
        RecordHeader {
            life: seed.life,
            block: seed.block,
            identity: identity.into(),
            first_byte,
            data_bytes: data.len() as u32,
            page_checksums: page_checksums(seed, data),
        }
    }

    /// The record that begins at `page` of its segment: header, data, and what fills its last page up.
    ///
    /// # Panics
    /// Where the data are not as long as the header says.
    pub fn encode(&self, page: u32, data: &[u8]) -> Vec<u8> {
        assert_eq!(data.len(), self.data_bytes as usize, "the data that the header was made of");
        let header_bytes = self.pages() * PAGE_BYTES;
        let mut bytes = vec![0; record_bytes(self.identity.len(), data.len())];
        self.encode_into(page, &mut bytes[..header_bytes]);
        bytes[header_bytes..header_bytes + data.len()].copy_from_slice(data);
        bytes
    }

    /// The header alone, into as many zeroed pages as it has, from `page` of its segment on.
    pub fn encode_into(&self, page: u32, bytes: &mut [u8]) {
        let header_pages = self.pages();
        let mut fields = FieldWriter::new(bytes);
        fields.bytes(&MAGIC).u16(FORMAT_VERSION).u16(header_pages as u16).u32(0);
        fields.bytes(&self.life.device.0);
        fields.u32(self.first_byte).u32(self.data_bytes).u32(self.block.index);
        fields
            .u64(self.life.generation.0)
            .bytes(&self.block.version)
            .u16(self.identity.len() as u16);
        for checksum in &self.page_checksums {
            fields.u32(*checksum);
        }
        fields.bytes(&self.identity);
        let bytes = &mut bytes[..header_pages * PAGE_BYTES];
        seal_bound(&seed(self.life, page), bytes, CHECKSUM_PLACE);
    }

    /// Memory that it holds, bytes, about.
    pub fn memory_bytes(&self) -> u64 {
        let held = size_of::<RecordHeader>() + self.identity.len() + 4 * self.page_checksums.len();
        held as u64 + ALLOCATIONS_BYTES
    }

    /// How many pages a header has that begins with this page. A guess until the header is decoded.
    ///
    /// # Errors
    /// Where no header begins so.
    pub fn pages_told_by(first_page: &[u8]) -> Result<usize, Unreadable> {
        if first_page.len() < PAGE_BYTES || first_page[..MAGIC.len()] != MAGIC {
            return Err(Unreadable::Foreign);
        }
        let mut fields = FieldReader::new(&first_page[MAGIC.len()..]);
        let (version, pages) = (fields.u16(), usize::from(fields.u16()));
        if version != FORMAT_VERSION {
            return Err(Unreadable::Version(version));
        }
        if (1..=HEADER_PAGES_MAX).contains(&pages) {
            Ok(pages)
        } else {
            Err(Unreadable::Impossible)
        }
    }

    /// Reads the header that begins at `page` of a segment in its present life, from its first byte on.
    ///
    /// # Errors
    /// Where it is no whole header of that place and life.
    pub fn decode(
        bytes: &[u8],
        life: SegmentHeader,
        page: u32,
    ) -> Result<RecordHeader, Unreadable> {
        let header_bytes = RecordHeader::pages_told_by(bytes)? * PAGE_BYTES;
        let bytes = bytes.get(..header_bytes).ok_or(Unreadable::Checksum)?;
        let mut fields = FieldReader::new(&bytes[CHECKSUM_PLACE + 4..]);
        let device = DeviceId(fields.array());
        // What another device's life left, or a client made up, is not even damage.
        if device != life.device && !is_unbound() {
            return Err(Unreadable::Misplaced);
        }
        let (first_byte, data_bytes, index) = (fields.u32(), fields.u32(), fields.u32());
        let generation = Generation(fields.u64());
        let block = BlockId { version: fields.array(), index };
        let identity_bytes = usize::from(fields.u16());
        let seed = seed(SegmentHeader { generation, ..life }, page);
        if !is_sealed_bound(&seed, bytes, CHECKSUM_PLACE) {
            return Err(Unreadable::Checksum);
        }
        if generation != life.generation {
            return Err(Unreadable::Misplaced);
        }
        let length = data_bytes as usize;
        let is_possible = (1..=DATA_BYTES_MAX).contains(&length)
            && (first_byte as usize).is_multiple_of(PAGE_BYTES)
            && identity_bytes <= IDENTITY_BYTES_MAX
            && header_pages(identity_bytes, length) * PAGE_BYTES == header_bytes;
        if !is_possible {
            return Err(Unreadable::Impossible);
        }
        let page_checksums = (0..pages_of(length)).map(|_| fields.u32()).collect();
        let identity = fields.bytes(identity_bytes).into();
        Ok(RecordHeader { life, block, identity, first_byte, data_bytes, page_checksums })
    }

    /// Pages of this header.
    pub fn pages(&self) -> usize {
        header_pages(self.identity.len(), self.data_bytes as usize)
    }

    /// Whether `bytes` are the record's page with this number, counted from its first page of data.
    pub fn page_is_right(&self, page: u32, bytes: &[u8]) -> bool {
        self.pages_are_right(page, std::iter::once(bytes))
    }

    /// Whether `pages` are the record's from this one on.
    pub fn pages_are_right<'a>(&self, first: u32, pages: impl Iterator<Item = &'a [u8]>) -> bool {
        #[cfg(feature = "mutations")]
        if crate::mutation::DiskMutation::ChecksumUnread.is_planted() {
            return true;
        }
        let checksums = PageSeed { block: self.block, life: self.life }.checksums();
        (first..).zip(pages).all(|(page, bytes)| {
            let expected = self.page_checksums.get(page as usize);
            expected.is_some_and(|expected| *expected == checksums.of(page, bytes))
        })
    }
}

/// What the checksum of a header that begins at `page` is bound to.
fn seed(life: SegmentHeader, page: u32) -> [u8; SEED_BYTES + 4] {
    let mut seed = [0; SEED_BYTES + 4];
    FieldWriter::new(&mut seed).bytes(&life.seed()).u32(page);
    seed
}

/// The checksums of all pages of `data`, the last filled up with zeros.
fn page_checksums(seed: PageSeed, data: &[u8]) -> Box<[u32]> {
    let checksums = seed.checksums();
    let checksum = |(number, piece): (u32, &[u8])| {
        if piece.len() == PAGE_BYTES {
            return checksums.of(number, piece);
        }
        let mut page = [0; PAGE_BYTES];
        page[..piece.len()].copy_from_slice(piece);
        checksums.of(number, &page)
    };
    (0..).zip(data.chunks(PAGE_BYTES)).map(checksum).collect()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const LIFE: SegmentHeader =
        SegmentHeader { device: DeviceId([5; 16]), area: 2, number: 6, generation: Generation(77) };
    const SEED: PageSeed = PageSeed { block: BlockId { version: [3; 16], index: 12 }, life: LIFE };
    const PAGE: u32 = 9;

    fn header(identity: &[u8], data: &[u8]) -> RecordHeader {
        RecordHeader::new(SEED, identity, 8192, data)
    }

    fn decode(bytes: &[u8]) -> Result<RecordHeader, Unreadable> {
        RecordHeader::decode(bytes, LIFE, PAGE)
    }

    #[test]
    fn the_longest_record_has_a_header_of_three_pages() {
        let (identity, data) = (vec![1; IDENTITY_BYTES_MAX], vec![2; DATA_BYTES_MAX]);
        let header = header(&identity, &data);
        assert_eq!(header.pages(), 3);
        let bytes = header.encode(PAGE, &data);
        assert_eq!(bytes.len(), RECORD_BYTES_MAX);
        assert_eq!(RecordHeader::pages_told_by(&bytes[..PAGE_BYTES]), Ok(3));
        assert_eq!(decode(&bytes), Ok(header));
    }

    #[test]
    fn a_header_of_another_life_of_its_segment_belongs_elsewhere() {
        let bytes = header(b"identity", b"data").encode(PAGE, b"data");
        let next = SegmentHeader { generation: Generation(78), ..LIFE };
        let read = RecordHeader::decode(&bytes, next, PAGE);
        assert_eq!(read, Err(Unreadable::Misplaced));
    }

    #[test]
    fn a_header_of_another_device_belongs_elsewhere_also_where_it_names_this_one() {
        let bytes = header(b"identity", b"data").encode(PAGE, b"data");
        let device = DeviceId([6; 16]);
        let here = SegmentHeader { device, ..LIFE };
        let read = RecordHeader::decode(&bytes, here, PAGE);
        assert_eq!(read, Err(Unreadable::Misplaced));
        let mut renamed = bytes;
        renamed[CHECKSUM_PLACE + 4..][..16].copy_from_slice(&device.0);
        let read = RecordHeader::decode(&renamed, here, PAGE);
        assert_eq!(read, Err(Unreadable::Checksum));
    }

    #[test]
    fn a_header_is_that_of_its_place_alone() {
        let bytes = header(b"identity", b"data").encode(PAGE, b"data");
        let elsewhere = [
            (SegmentHeader { area: 1, ..LIFE }, PAGE),
            (SegmentHeader { number: 7, ..LIFE }, PAGE),
            (LIFE, PAGE + 1),
        ];
        for (life, page) in elsewhere {
            let read = RecordHeader::decode(&bytes, life, page);
            assert_eq!(read, Err(Unreadable::Checksum));
        }
    }

    #[test]
    fn its_fields_take_as_many_bytes_as_are_reckoned() {
        let identity = vec![0xff; PAGE_BYTES / 2];
        let pages = (PAGE_BYTES - FIXED_BYTES - identity.len()) / 4;
        let data = vec![1; pages * PAGE_BYTES];
        let bytes = header(&identity, &data).encode(PAGE, &data);
        assert_eq!(RecordHeader::pages_told_by(&bytes), Ok(1));
        let used = FIXED_BYTES + 4 * pages + identity.len();
        assert_eq!((used - identity.len()..used).map(|at| bytes[at]).min(), Some(0xff));
        assert!(bytes[used..PAGE_BYTES].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_header_of_which_a_page_is_missing_is_torn() {
        let data = vec![0; DATA_BYTES_MAX];
        let bytes = header(b"identity", &data).encode(PAGE, &data);
        let read = decode(&bytes[..2 * PAGE_BYTES]);
        assert_eq!(read, Err(Unreadable::Checksum));
    }

    #[test]
    fn a_blank_page_is_nothing() {
        let read = decode(&[0; PAGE_BYTES]);
        assert_eq!(read, Err(Unreadable::Foreign));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_back_and_every_page_is_right(
            identity in vec(any::<u8>(), 0..300),
            data in vec(any::<u8>(), 1..3 * PAGE_BYTES),
        ) {
            let header = header(&identity, &data);
            let bytes = header.encode(PAGE, &data);
            let read = decode(&bytes);
            prop_assert_eq!(read.as_ref(), Ok(&header));
            let pages = &bytes[header.pages() * PAGE_BYTES..];
            prop_assert_eq!(pages.len(), pages_of(data.len()) * PAGE_BYTES);
            prop_assert_eq!(&pages[..data.len()], &data[..]);
            for (number, page) in (0..).zip(pages.chunks(PAGE_BYTES)) {
                prop_assert!(header.page_is_right(number, page));
                prop_assert!(!header.page_is_right(number + 1, page));
            }
        }

        #[test]
        fn no_single_flipped_bit_is_believed(
            data in vec(any::<u8>(), 1..2 * PAGE_BYTES),
            at in any::<prop::sample::Index>(),
            bit in 0_u8..8,
        ) {
            let header = header(b"identity", &data);
            let mut bytes = header.encode(PAGE, &data);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let header_bytes = header.pages() * PAGE_BYTES;
            if at < header_bytes {
                prop_assert!(decode(&bytes).is_err());
            } else {
                let number = (at - header_bytes) / PAGE_BYTES;
                let page = &bytes[header_bytes..][number * PAGE_BYTES..][..PAGE_BYTES];
                prop_assert!(!header.page_is_right(number as u32, page));
            }
        }

        #[test]
        fn any_bytes_are_refused_without_a_panic(mut bytes: Vec<u8>, pages in 0_u16..6) {
            bytes.resize(3 * PAGE_BYTES, 1);
            bytes[..4].copy_from_slice(&MAGIC);
            bytes[4..6].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
            bytes[6..8].copy_from_slice(&pages.to_le_bytes());
            prop_assert!(decode(&bytes).is_err());
            // As if a faulty program had written it.
            let header_bytes = (usize::from(pages) * PAGE_BYTES).clamp(PAGE_BYTES, bytes.len());
            bytes[CHECKSUM_PLACE + 4..][..16].copy_from_slice(&LIFE.device.0);
            seal_bound(&seed(LIFE, PAGE), &mut bytes[..header_bytes], CHECKSUM_PLACE);
            let _ = decode(&bytes);
        }
    }
}

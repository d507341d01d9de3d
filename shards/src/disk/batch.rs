//! Batches: what a journal writes at once, some entries that are its owner's alone to understand. Batches have
//! consecutive numbers, and each names the checksum of the one before it: so a chain of them is whole, or it is seen
//! where it is not.

use super::field::{FieldReader, FieldWriter};
use super::page::{PAGE_BYTES, is_sealed, pages_of, seal};
use super::{DeviceId, FORMAT_VERSION, Generation, NUMBER_MAX, Unreadable};

const MAGIC: [u8; 4] = *b"NBAT";
const CHECKSUM_PLACE: usize = 8;
const FIXED_BYTES: usize = 76;
/// What an entry takes beside its bytes.
const LENGTH_BYTES: usize = 2;
/// Bytes of an entry at most.
pub const ENTRY_BYTES_MAX: usize = 16 << 10;
/// Pages of a batch at most, in any area.
pub const BATCH_PAGES_MAX: usize = 32;

/// Bytes of a batch that holds the longest entry: every area takes those.
pub(super) const fn batch_bytes_min() -> usize {
    FIXED_BYTES + LENGTH_BYTES + ENTRY_BYTES_MAX
}

/// Entries of a batch, one behind the other as they are written: the length of each, then its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    bytes: Vec<u8>,
    count: u32,
}

impl Entries {
    /// Appends one, if a batch of `pages_max` then still has room for all.
    ///
    /// # Panics
    /// Where it is longer than [`ENTRY_BYTES_MAX`].
    pub fn push(&mut self, entry: &[u8], pages_max: u32) -> bool {
        assert!(entry.len() <= ENTRY_BYTES_MAX, "an entry of {} bytes", entry.len());
        let bytes = self.bytes.len() + Entries::bytes_of(entry.len());
        if pages_of(FIXED_BYTES + bytes) > pages_max as usize {
            return false;
        }
        self.bytes.extend_from_slice(&(entry.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(entry);
        self.count += 1;
        true
    }

    /// What an entry of so many bytes takes.
    pub const fn bytes_of(entry_bytes: usize) -> usize {
        LENGTH_BYTES + entry_bytes
    }

    /// What they take together.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.count
    }
}

/// What a batch says of itself.
///
/// | bytes | field |
/// |---|---|
/// | 4 | magic |
/// | 2 | version of the format |
/// | 2 | number of the area in the superblock's table |
/// | 4 | checksum of the whole batch |
/// | 16 | the device's id |
/// | 16 | whose entries these are |
/// | 4 | where it lies: page of the area |
/// | 4 | number of entries |
/// | 4 | bytes of the entries, with their lengths |
/// | 8 | number of the batch |
/// | 8 | generation: in which opening of the journal it was written |
/// | 4 | checksum of the batch before it |
/// | … | entries: the length of each in 2 bytes, then its bytes |
///
/// The last page is filled up with zeros. What tells whose it is comes first and at the same bytes as in a ledger, so
/// that remains of another device are told from damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// The device.
    pub device: DeviceId,
    /// The area's number in the superblock's table.
    pub area: u16,
    /// Whose entries these are.
    pub owner: [u8; 16],
    /// Where it lies: page of the area.
    pub page: u32,
    /// Its number, from 1 on.
    pub number: u64,
    /// The opening of the journal that wrote it.
    pub generation: Generation,
    /// Checksum of the batch before it.
    pub previous: u32,
}

/// A whole batch, as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    /// What it says of itself.
    pub header: BatchHeader,
    /// Its checksum.
    pub checksum: u32,
    /// Its pages.
    pub pages: u32,
    entries: &'a [u8],
}

impl BatchHeader {
    /// The batch as it is written, whole pages, and its checksum.
    pub fn encode(&self, entries: &Entries) -> (Vec<u8>, u32) {
        let mut bytes = vec![0; pages_of(FIXED_BYTES + entries.bytes()) * PAGE_BYTES];
        let mut fields = FieldWriter::new(&mut bytes);
        fields.bytes(&MAGIC).u16(FORMAT_VERSION).u16(self.area).u32(0);
        fields.bytes(&self.device.0).bytes(&self.owner).u32(self.page);
        fields.u32(entries.count).u32(entries.bytes.len() as u32);
        fields.u64(self.number).u64(self.generation.0).u32(self.previous);
        fields.bytes(&entries.bytes);
        seal(&mut bytes, CHECKSUM_PLACE);
        let checksum = checksum_of(&bytes);
        (bytes, checksum)
    }
}

impl<'a> Batch<'a> {
    /// Whether a page begins as a batch of this device does, of this version; whether it is whole is not looked at.
    pub fn is_begun(page: &[u8], device: DeviceId) -> bool {
        is_begun(page, MAGIC, device)
    }

    /// How many pages a batch has that begins with this page. A guess until it is decoded.
    ///
    /// # Errors
    /// Where no batch begins so.
    pub fn pages_told_by(first_page: &[u8]) -> Result<u32, Unreadable> {
        if first_page.len() < PAGE_BYTES || first_page[..MAGIC.len()] != MAGIC {
            return Err(Unreadable::Foreign);
        }
        let mut fields = FieldReader::new(&first_page[MAGIC.len()..]);
        let version = fields.u16();
        if version != FORMAT_VERSION {
            return Err(Unreadable::Version(version));
        }
        let _skipped = fields.bytes(2 + 4 + 16 + 16 + 4 + 4);
        let pages = pages_of(FIXED_BYTES + fields.u32() as usize);
        if pages <= BATCH_PAGES_MAX { Ok(pages as u32) } else { Err(Unreadable::Impossible) }
    }

    /// Reads the batch of `area` on `device` that begins at `page`, from its first byte on.
    ///
    /// # Errors
    /// Where there is no whole batch of that place.
    pub fn decode(
        bytes: &'a [u8],
        device: DeviceId,
        area: u16,
        page: u32,
    ) -> Result<Batch<'a>, Unreadable> {
        let pages = Batch::pages_told_by(bytes)?;
        let bytes = bytes.get(..pages as usize * PAGE_BYTES).ok_or(Unreadable::Checksum)?;
        if !is_sealed(bytes, CHECKSUM_PLACE) {
            return Err(Unreadable::Checksum);
        }
        let mut fields = FieldReader::new(&bytes[MAGIC.len() + 2..]);
        let (told_area, checksum) = (fields.u16(), fields.u32());
        let (told_device, owner) = (DeviceId(fields.array()), fields.array());
        let told_page = fields.u32();
        let (count, length) = (fields.u32(), fields.u32() as usize);
        let (number, generation) = (fields.u64(), Generation(fields.u64()));
        let previous = fields.u32();
        if (told_device, told_area, told_page) != (device, area, page) {
            return Err(Unreadable::Misplaced);
        }
        let entries = &bytes[FIXED_BYTES..][..length];
        let is_possible = (1..=NUMBER_MAX).contains(&number) && generation.0 <= NUMBER_MAX;
        if !is_possible || !are_possible(entries, count) {
            return Err(Unreadable::Impossible);
        }
        let header = BatchHeader { device, area, owner, page, number, generation, previous };
        Ok(Batch { header, checksum, pages, entries })
    }

    /// Its entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = self.entries;
        std::iter::from_fn(move || {
            let (entry, behind) = split_entry(rest)?;
            rest = behind;
            Some(entry)
        })
    }
}

/// Whether a page begins with a magic, this version, and the device's id where batches and ledgers have it.
pub(super) fn is_begun(page: &[u8], magic: [u8; 4], device: DeviceId) -> bool {
    page.len() >= PAGE_BYTES
        && page[..4] == magic
        && page[4..6] == FORMAT_VERSION.to_le_bytes()
        && page[12..28] == device.0
}

fn checksum_of(bytes: &[u8]) -> u32 {
    FieldReader::new(&bytes[CHECKSUM_PLACE..]).u32()
}

/// The first entry and what is behind it; none at the end, and where an entry is longer than what is left.
fn split_entry(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>()?;
    rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))
}

/// Whether these bytes are so many entries of possible lengths, to the last byte.
fn are_possible(mut bytes: &[u8], count: u32) -> bool {
    let mut found = 0;
    while let Some((entry, behind)) = split_entry(bytes) {
        if entry.len() > ENTRY_BYTES_MAX {
            return false;
        }
        bytes = behind;
        found += 1;
    }
    bytes.is_empty() && found == count
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const DEVICE: DeviceId = DeviceId([5; 16]);
    const HEADER: BatchHeader = BatchHeader {
        device: DEVICE,
        area: 2,
        owner: [8; 16],
        page: 77,
        number: 12,
        generation: Generation(3),
        previous: 0x0102_0304,
    };

    fn entries(of: &[Vec<u8>]) -> Entries {
        let mut entries = Entries::default();
        of.iter().for_each(|entry| assert!(entries.push(entry, BATCH_PAGES_MAX as u32)));
        entries
    }

    fn decode(bytes: &[u8]) -> Result<Batch<'_>, Unreadable> {
        Batch::decode(bytes, DEVICE, 2, 77)
    }

    #[test]
    fn a_batch_is_that_of_its_place_alone() {
        let (bytes, _) = HEADER.encode(&entries(&[b"entry".to_vec()]));
        let elsewhere = Err(Unreadable::Misplaced);
        assert_eq!(Batch::decode(&bytes, DEVICE, 2, 78), elsewhere);
        assert_eq!(Batch::decode(&bytes, DEVICE, 1, 77), elsewhere);
        assert_eq!(Batch::decode(&bytes, DeviceId([6; 16]), 2, 77), elsewhere);
        assert!(Batch::is_begun(&bytes, DEVICE));
        assert!(!Batch::is_begun(&bytes, DeviceId([6; 16])));
    }

    #[test]
    fn a_batch_of_which_pages_are_missing_is_torn() {
        let (bytes, _) = HEADER.encode(&entries(&[vec![1; 6000]]));
        assert_eq!(bytes.len(), 2 * PAGE_BYTES);
        assert_eq!(decode(&bytes[..PAGE_BYTES]), Err(Unreadable::Checksum));
        assert_eq!(decode(&[0; PAGE_BYTES]), Err(Unreadable::Foreign));
        assert_eq!(decode(&[]), Err(Unreadable::Foreign));
    }

    #[test]
    fn the_longest_entry_fits_and_what_does_not_is_left_out() {
        let pages = pages_of(batch_bytes_min());
        let mut entries = Entries::default();
        assert!(entries.push(&[7; ENTRY_BYTES_MAX], pages as u32));
        while entries.push(&[1; 100], pages as u32) {}
        let (bytes, _) = HEADER.encode(&entries);
        assert_eq!(bytes.len(), pages * PAGE_BYTES);
        let read = decode(&bytes).expect("it was just written");
        assert_eq!(read.entries().count(), entries.count() as usize);
    }

    #[test]
    fn lengths_that_do_not_fill_the_batch_are_impossible() {
        let impossible = |at: usize, to: u8| {
            let (mut bytes, _) = HEADER.encode(&entries(&[vec![9; 20], vec![9; 30]]));
            bytes[at] = to;
            seal(&mut bytes, CHECKSUM_PLACE);
            assert_eq!(decode(&bytes), Err(Unreadable::Impossible), "{at}");
        };
        impossible(FIXED_BYTES, 21);
        impossible(FIXED_BYTES + 1, 1);
        impossible(FIXED_BYTES + 22, 29);
        impossible(48, 3);
        impossible(52, 53);
        impossible(56, 0);
        impossible(71, 0x80);
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_back(of in vec(vec(any::<u8>(), 0..600), 0..60)) {
            let written = entries(&of);
            let (bytes, checksum) = HEADER.encode(&written);
            prop_assert_eq!(
                Batch::pages_told_by(&bytes[..PAGE_BYTES]),
                Ok((bytes.len() / PAGE_BYTES) as u32)
            );
            let read = decode(&bytes).expect("it was just written");
            prop_assert_eq!((read.header, read.checksum), (HEADER, checksum));
            prop_assert!(read.entries().eq(of.iter().map(Vec::as_slice)));
        }

        #[test]
        fn no_single_flipped_bit_is_believed(
            of in vec(vec(any::<u8>(), 0..600), 0..20),
            at in any::<prop::sample::Index>(),
            bit in 0_u8..8,
        ) {
            let (mut bytes, _) = HEADER.encode(&entries(&of));
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(decode(&bytes).is_err());
        }

        #[test]
        fn any_bytes_are_refused_without_a_panic(
            mut bytes: Vec<u8>,
            count in 0_u32..50,
            length in 0_u32..10_000,
        ) {
            bytes.resize(3 * PAGE_BYTES, 3);
            FieldWriter::new(&mut bytes).bytes(&MAGIC).u16(FORMAT_VERSION);
            FieldWriter::new(&mut bytes[48..]).u32(count).u32(length);
            prop_assert!(decode(&bytes).is_err());
            // As if a faulty program had written it.
            FieldWriter::new(&mut bytes).bytes(&MAGIC).u16(FORMAT_VERSION).u16(2);
            FieldWriter::new(&mut bytes[12..]).bytes(&DEVICE.0);
            FieldWriter::new(&mut bytes[44..]).u32(77);
            let end = pages_of(FIXED_BYTES + length as usize) * PAGE_BYTES;
            seal(&mut bytes[..end], CHECKSUM_PLACE);
            let _ = decode(&bytes);
        }
    }
}

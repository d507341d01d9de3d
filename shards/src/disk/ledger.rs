//! The ledger of a journal: which of its batches count, and which of them must be there. What it names has been made
//! durable before it was written, so a batch of its that is missing was lost.

use super::batch::is_begun;
use super::field::{FieldReader, FieldWriter};
use super::page::{PAGE_BYTES, is_sealed, seal};
use super::{DeviceId, FORMAT_VERSION, Generation, NUMBER_MAX, Unreadable};

const MAGIC: [u8; 4] = *b"NLDG";
const CHECKSUM_PLACE: usize = 8;

/// A ledger: one page, written to two places. Of several the latest counts, by generation and then sequence.
///
/// | bytes | field |
/// |---|---|
/// | 4 | magic |
/// | 2 | version of the format |
/// | 2 | number of the area in the superblock's table |
/// | 4 | checksum of the page |
/// | 16 | the device's id |
/// | 16 | whose journal it is |
/// | 4 | where it lies: page of the area |
/// | 4 | 0, or 1 where no batch counts any more |
/// | 8 | generation: the opening of the journal that wrote it |
/// | 8 | sequence: ledgers of the journal before it |
/// | 8 | number of the first batch that counts |
/// | 8 | number of the last batch that must be there |
/// | 4 | page of the first |
/// | 4 | checksum of the last |
///
/// All is in the first 512 bytes, so no device tears it. The checksum of the last batch vouches for all before it,
/// since each names that of the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ledger {
    /// The device.
    pub device: DeviceId,
    /// The area's number in the superblock's table.
    pub area: u16,
    /// Whose journal it is.
    pub owner: [u8; 16],
    /// The opening of the journal that wrote it. Batches behind the last durable one are of the same.
    pub generation: Generation,
    /// Ledgers before it.
    pub sequence: u64,
    /// Number of the first batch that counts; the one behind `durable` where there is none yet.
    pub first: u64,
    /// Where that one begins, or will.
    pub first_page: u32,
    /// Number of the last batch that must be there; the one before `first` where there is none.
    pub durable: u64,
    /// Its checksum.
    pub durable_checksum: u32,
    /// Whether no batch counts: the journal could not be written, so what it held is outdated, or it was damaged.
    pub is_void: bool,
}

impl Ledger {
    /// Whether a page begins as a ledger of this device does, of this version; whether it is whole is not looked at.
    pub fn is_begun(page: &[u8], device: DeviceId) -> bool {
        is_begun(page, MAGIC, device)
    }

    /// Its age among others of the same area.
    pub fn age(&self) -> (Generation, u64) {
        (self.generation, self.sequence)
    }

    /// The copy that lies at `page`.
    pub fn encode(&self, page: u32) -> Vec<u8> {
        let mut bytes = vec![0; PAGE_BYTES];
        let mut fields = FieldWriter::new(&mut bytes);
        fields.bytes(&MAGIC).u16(FORMAT_VERSION).u16(self.area).u32(0);
        fields.bytes(&self.device.0).bytes(&self.owner).u32(page).u32(self.is_void.into());
        fields.u64(self.generation.0).u64(self.sequence);
        fields.u64(self.first).u64(self.durable);
        fields.u32(self.first_page).u32(self.durable_checksum);
        seal(&mut bytes, CHECKSUM_PLACE);
        bytes
    }

    /// Reads the copy at `page` of `area` on `device`.
    ///
    /// # Errors
    /// Where there is no whole ledger of that place.
    pub fn decode(
        bytes: &[u8],
        device: DeviceId,
        area: u16,
        page: u32,
    ) -> Result<Ledger, Unreadable> {
        if bytes.len() < PAGE_BYTES || bytes[..MAGIC.len()] != MAGIC {
            return Err(Unreadable::Foreign);
        }
        let bytes = &bytes[..PAGE_BYTES];
        let mut fields = FieldReader::new(&bytes[MAGIC.len()..]);
        let (version, told_area, _checksum) = (fields.u16(), fields.u16(), fields.u32());
        if version != FORMAT_VERSION {
            return Err(Unreadable::Version(version));
        }
        if !is_sealed(bytes, CHECKSUM_PLACE) {
            return Err(Unreadable::Checksum);
        }
        let (told_device, owner) = (DeviceId(fields.array()), fields.array());
        let (told_page, void) = (fields.u32(), fields.u32());
        if (told_device, told_area, told_page) != (device, area, page) {
            return Err(Unreadable::Misplaced);
        }
        let (generation, sequence) = (Generation(fields.u64()), fields.u64());
        let (first, durable) = (fields.u64(), fields.u64());
        let (first_page, durable_checksum) = (fields.u32(), fields.u32());
        let ledger = Ledger {
            device,
            area,
            owner,
            generation,
            sequence,
            first,
            first_page,
            durable,
            durable_checksum,
            is_void: void == 1,
        };
        if void <= 1 && ledger.is_possible() { Ok(ledger) } else { Err(Unreadable::Impossible) }
    }

    fn is_possible(&self) -> bool {
        let numbers = [self.generation.0, self.sequence, self.durable];
        numbers.iter().all(|number| *number <= NUMBER_MAX)
            && (1..=self.durable + 1).contains(&self.first)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DEVICE: DeviceId = DeviceId([5; 16]);
    const LEDGER: Ledger = Ledger {
        device: DEVICE,
        area: 2,
        owner: [8; 16],
        generation: Generation(4),
        sequence: 90,
        first: 17,
        first_page: 33,
        durable: 20,
        durable_checksum: 0x0102_0304,
        is_void: false,
    };

    fn decode(bytes: &[u8]) -> Result<Ledger, Unreadable> {
        Ledger::decode(bytes, DEVICE, 2, 1)
    }

    #[test]
    fn a_ledger_is_that_of_its_place_alone() {
        let bytes = LEDGER.encode(1);
        assert_eq!(decode(&bytes), Ok(LEDGER));
        let elsewhere = Err(Unreadable::Misplaced);
        assert_eq!(Ledger::decode(&bytes, DEVICE, 2, 0), elsewhere);
        assert_eq!(Ledger::decode(&bytes, DEVICE, 1, 1), elsewhere);
        assert_eq!(Ledger::decode(&bytes, DeviceId([6; 16]), 2, 1), elsewhere);
        assert_eq!(decode(&[0; PAGE_BYTES]), Err(Unreadable::Foreign));
        assert_eq!(decode(&bytes[..PAGE_BYTES - 1]), Err(Unreadable::Foreign));
        assert!(Ledger::is_begun(&bytes, DEVICE));
        assert!(!Ledger::is_begun(&bytes, DeviceId([6; 16])));
    }

    #[test]
    fn a_void_ledger_says_so() {
        let void = Ledger { is_void: true, ..LEDGER };
        assert_eq!(decode(&void.encode(1)), Ok(void));
    }

    #[test]
    fn one_that_names_no_batch_yet_is_possible_and_stranger_ones_are_not() {
        let with = |first, durable| decode(&Ledger { first, durable, ..LEDGER }.encode(1));
        assert!(with(1, 0).is_ok());
        assert!(with(21, 20).is_ok());
        let impossible = Err(Unreadable::Impossible);
        assert_eq!(with(22, 20), impossible);
        assert_eq!(with(0, 0), impossible);
        assert_eq!(with(0, 20), impossible);
        assert_eq!(with(1, u64::MAX), impossible);
        assert_eq!(decode(&Ledger { sequence: u64::MAX, ..LEDGER }.encode(1)), impossible);
    }

    #[test]
    fn all_of_it_is_in_the_first_sector() {
        let bytes = Ledger { durable_checksum: u32::MAX, ..LEDGER }.encode(1);
        assert!(bytes[512..].iter().all(|byte| *byte == 0));
    }

    proptest! {
        #[test]
        fn no_single_flipped_bit_is_believed(at in 0..PAGE_BYTES, bit in 0_u8..8) {
            let mut bytes = LEDGER.encode(1);
            bytes[at] ^= 1 << bit;
            prop_assert!(decode(&bytes).is_err());
        }

        #[test]
        fn any_bytes_are_refused_without_a_panic(mut bytes: Vec<u8>) {
            bytes.resize(PAGE_BYTES, 3);
            FieldWriter::new(&mut bytes).bytes(&MAGIC).u16(FORMAT_VERSION).u16(2);
            prop_assert!(decode(&bytes).is_err());
            // As if a faulty program had written it.
            FieldWriter::new(&mut bytes[12..]).bytes(&DEVICE.0);
            FieldWriter::new(&mut bytes[44..]).u32(1);
            seal(&mut bytes, CHECKSUM_PLACE);
            let _ = decode(&bytes);
        }
    }
}

//! Pages: the unit of what a device reads and writes, and of what has a checksum.

use crc_fast::{CrcAlgorithm, Digest};

use super::SegmentHeader;
use crate::store::BlockId;

/// Bytes of a page: no device in use writes less at once, and `O_DIRECT` asks for nothing finer.
pub const PAGE_BYTES: usize = 4096;

/// Pages that hold so many bytes.
pub const fn pages_of(bytes: usize) -> usize {
    bytes.div_ceil(PAGE_BYTES)
}

/// What the checksums of a record's pages are bound to: whose bytes they are, and in which life of which segment. The
/// number of the page in its record is the third.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSeed {
    /// The block.
    pub block: BlockId,
    /// The segment in its life.
    pub life: SegmentHeader,
}

impl PageSeed {
    /// CRC-32C of a page of the record, which has the number `page` among those of its data.
    pub fn checksum(&self, page: u32, bytes: &[u8]) -> u32 {
        self.checksums().of(page, bytes)
    }

    /// The same for many pages: what they are bound to in common is reckoned once.
    pub(super) fn checksums(&self) -> PageChecksums {
        let mut common = Digest::new(CrcAlgorithm::Crc32Iscsi);
        if !is_unbound() {
            common.update(&self.life.seed());
            common.update(&self.block.version);
            common.update(&self.block.index.to_le_bytes());
        }
        PageChecksums { common }
    }
}

/// Checksums of the pages of one record.
#[derive(Clone, Copy)]
pub(super) struct PageChecksums {
    common: Digest,
}

impl PageChecksums {
    /// CRC-32C of the page with this number.
    pub(super) fn of(&self, page: u32, bytes: &[u8]) -> u32 {
        let mut digest = self.common;
        if !is_unbound() {
            digest.update(&page.to_le_bytes());
        }
        digest.update(bytes);
        digest.finalize() as u32
    }
}

/// CRC-32C of a structure behind its seed, with its own checksum, four bytes at `place`, counted as zeros.
fn structure_checksum(seed: &[u8], bytes: &[u8], place: usize) -> u32 {
    let (before, rest) = bytes.split_at(place);
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    if !is_unbound() {
        digest.update(seed);
    }
    digest.update(before);
    digest.update(&[0; 4]);
    digest.update(&rest[4..]);
    digest.finalize() as u32
}

/// Writes the checksum of a structure to its place.
pub(super) fn seal(bytes: &mut [u8], place: usize) {
    seal_bound(&[], bytes, place);
}

/// Whether the checksum at its place holds.
pub(super) fn is_sealed(bytes: &[u8], place: usize) -> bool {
    is_sealed_bound(&[], bytes, place)
}

/// Writes the checksum of a structure to its place, bound to a seed that does not stand in it.
pub(super) fn seal_bound(seed: &[u8], bytes: &mut [u8], place: usize) {
    let checksum = structure_checksum(seed, bytes, place);
    bytes[place..place + 4].copy_from_slice(&checksum.to_le_bytes());
}

/// Whether the checksum at its place holds with that seed.
pub(super) fn is_sealed_bound(seed: &[u8], bytes: &[u8], place: usize) -> bool {
    bytes[place..place + 4] == structure_checksum(seed, bytes, place).to_le_bytes()
}

#[cfg(not(feature = "mutations"))]
pub(super) fn is_unbound() -> bool {
    false
}

/// The planted fault.
#[cfg(feature = "mutations")]
pub(super) fn is_unbound() -> bool {
    crate::mutation::DiskMutation::ChecksumUnbound.is_planted()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{DeviceId, Generation};

    const LIFE: SegmentHeader =
        SegmentHeader { device: DeviceId([0; 16]), area: 0, number: 0, generation: Generation(0) };

    #[test]
    fn a_pages_checksum_is_that_of_its_bytes_at_its_place_alone() {
        let block = BlockId { version: [7; 16], index: 3 };
        let seed = PageSeed { block, life: LIFE };
        let page = [0x5a; PAGE_BYTES];
        let right = seed.checksum(1, &page);
        let mut flipped = page;
        flipped[4095] ^= 1;
        let other_block = BlockId { version: [7; 16], index: 4 };
        for wrong in [
            seed.checksum(1, &flipped),
            seed.checksum(2, &page),
            PageSeed { block: other_block, ..seed }.checksum(1, &page),
            PageSeed { life: SegmentHeader { device: DeviceId([1; 16]), ..LIFE }, ..seed }
                .checksum(1, &page),
            PageSeed { life: SegmentHeader { area: 1, ..LIFE }, ..seed }.checksum(1, &page),
            PageSeed { life: SegmentHeader { number: 1, ..LIFE }, ..seed }.checksum(1, &page),
            PageSeed { life: SegmentHeader { generation: Generation(1), ..LIFE }, ..seed }
                .checksum(1, &page),
        ] {
            assert_ne!(right, wrong);
        }
        assert_eq!(right, seed.checksum(1, &page));
    }

    #[test]
    fn a_page_of_zeros_is_not_what_a_device_of_zeros_would_prove() {
        let seed = PageSeed { block: BlockId { version: [0; 16], index: 0 }, life: LIFE };
        assert_ne!(seed.checksum(0, &[0; PAGE_BYTES]), 0);
    }
}

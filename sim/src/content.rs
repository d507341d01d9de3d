//! The bytes of a version: a function of its number and of where they lie, so that no copy of an
//! object is ever kept and any byte can be checked alone.

use bytes::Bytes;
use nilas_base::ByteRange;

use crate::history::VersionId;

/// The bytes of a range.
pub fn bytes_of(version: VersionId, range: ByteRange) -> Bytes {
    let mut bytes = Vec::with_capacity(range.len() as usize + 16);
    let first_word = range.start / 8;
    let mut word = first_word;
    while word * 8 < range.end {
        bytes.extend_from_slice(&word_of(version, word).to_le_bytes());
        word += 1;
    }
    let skipped = (range.start - first_word * 8) as usize;
    Bytes::from(bytes).slice(skipped..skipped + range.len() as usize)
}

/// Where the first of these bytes lies that is not the version's; they begin at `start`.
pub fn first_difference(version: VersionId, start: u64, bytes: &[u8]) -> Option<u64> {
    let expected = bytes_of(version, ByteRange::new(start, start + bytes.len() as u64));
    if expected == bytes {
        return None;
    }
    let at = expected.iter().zip(bytes).position(|(one, other)| one != other)?;
    Some(start + at as u64)
}

/// One draw of SplitMix64 for each eight bytes.
fn word_of(version: VersionId, word: u64) -> u64 {
    let mut mixed = (version.0.wrapping_mul(0xD6E8_FEB8_6659_FD93)).wrapping_add(word);
    mixed = mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_the_same_alone_as_in_the_whole() {
        let whole = bytes_of(VersionId(7), ByteRange::new(0, 100));
        for start in 0..40 {
            let part = bytes_of(VersionId(7), ByteRange::new(start, start + 33));
            assert_eq!(part, whole[start as usize..start as usize + 33]);
            assert_eq!(first_difference(VersionId(7), start, &part), None);
        }
    }

    #[test]
    fn a_foreign_byte_is_found_where_it_lies() {
        let mut bytes = bytes_of(VersionId(7), ByteRange::new(10, 50)).to_vec();
        bytes[5] ^= 1;
        assert_eq!(first_difference(VersionId(7), 10, &bytes), Some(15));
        assert!(first_difference(VersionId(8), 10, &bytes).is_some());
    }
}

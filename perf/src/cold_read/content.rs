//! The bytes of the origin's files: SplitMix64 by place, so that any piece of any file can be
//! written or checked without keeping a file in memory.

use std::io::{BufWriter, Write};
use std::path::Path;

use nilas_base::Rng;

use crate::error::{Doing, Result};

const WORD_BYTES: usize = 8;
/// What one draw adds to the generator's state: word `n` is the first draw of state `seed + n` times this.
const STATE_STEP: u64 = 0x9E37_79B9_7F4A_7C15;
/// Bytes that are made at once.
const PIECE_BYTES: usize = 64 << 10;

/// A file of seeded bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Decides its bytes.
    pub seed: u64,
    /// Bytes.
    pub length: u64,
}

impl Content {
    /// Writes it to `path`.
    pub fn write_to(&self, path: &Path) -> Result<()> {
        let file = std::fs::File::create(path).doing("making an origin's file")?;
        let mut writer = BufWriter::with_capacity(PIECE_BYTES, file);
        let mut piece = vec![0; PIECE_BYTES];
        let mut at = 0;
        while at < self.length {
            let count = (self.length - at).min(PIECE_BYTES as u64) as usize;
            self.fill(at, &mut piece[..count]);
            writer.write_all(&piece[..count]).doing("writing an origin's file")?;
            at += count as u64;
        }
        writer.flush().doing("writing an origin's file")
    }

    /// Whether `piece` is what the file holds from `offset` on.
    pub fn matches(&self, offset: u64, piece: &[u8]) -> bool {
        let mut expected = vec![0; piece.len()];
        self.fill(offset, &mut expected);
        expected == piece
    }

    fn fill(&self, offset: u64, mut piece: &mut [u8]) {
        let (first_word, skipped_bytes) =
            (offset / WORD_BYTES as u64, (offset % WORD_BYTES as u64) as usize);
        let mut rng = Rng::from_seed(self.seed.wrapping_add(first_word.wrapping_mul(STATE_STEP)));
        let mut skipped_bytes = skipped_bytes;
        while !piece.is_empty() {
            let word = rng.next_u64().to_le_bytes();
            let bytes = &word[skipped_bytes..];
            let count = bytes.len().min(piece.len());
            let (filled, rest) = piece.split_at_mut(count);
            filled.copy_from_slice(&bytes[..count]);
            (piece, skipped_bytes) = (rest, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_written_file_is_what_its_pieces_are_checked_against() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("file");
        let content = Content { seed: 7, length: 200_003 };
        content.write_to(&path).expect("a writable folder");
        let bytes = std::fs::read(&path).expect("what was written");
        assert_eq!(bytes.len() as u64, content.length);
        assert!(content.matches(0, &bytes));
        assert!(!Content { seed: 8, ..content }.matches(0, &bytes));
    }

    proptest! {
        #[test]
        fn a_piece_matches_at_its_own_place_alone(
            seed: u64,
            offset in 0_u64..1 << 40,
            length in 9_usize..300,
        ) {
            let content = Content { seed, length: 1 << 41 };
            let mut piece = vec![0; length];
            content.fill(offset, &mut piece);
            prop_assert!(content.matches(offset, &piece));
            prop_assert!(!content.matches(offset + 1, &piece));
            let last = length - 1;
            piece[last] ^= 1;
            prop_assert!(!content.matches(offset, &piece));
        }
    }
}

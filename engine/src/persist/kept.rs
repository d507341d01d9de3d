//! Which keys may have a mapping in the journal: bits that are set by hash when one is appended, and
//! forgotten when a checkpoint has left behind what they stand for. Its memory is fixed. A key that
//! shares its bits with others costs a write to it one wait for the disk, never a wrong answer.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::identity::HomeHash;

/// Bits that stand for one key.
const BITS_A_KEY: u64 = 4;
/// One part in so many of the memory for mappings: two bytes for a mapping of the usual length.
const BUDGET_DIVISOR: u64 = 256;
const WORDS_MIN: usize = 512;
/// Keeps buckets apart from keys.
const BUCKET_SEED: u64 = 0x6275_636b_6574;

/// The keys, and the buckets, that may have one.
#[derive(Debug)]
pub struct KeptKeys {
    /// Since the last checkpoint began.
    now: Bits,
    /// Since the present one began.
    next: Option<Bits>,
    /// Set where nobody knows what is in the journal.
    is_unknown: bool,
}

#[derive(Debug)]
struct Bits(Box<[u64]>);

impl KeptKeys {
    /// None, in memory that suits so many bytes for mappings.
    pub fn new(mapping_bytes: u64) -> KeptKeys {
        KeptKeys { now: Bits::new(words(mapping_bytes)), next: None, is_unknown: false }
    }

    /// What it takes of the memory for mappings at most.
    pub fn bytes_max(mapping_bytes: u64) -> u64 {
        2 * (words(mapping_bytes) * size_of::<u64>()) as u64
    }

    /// None has one: nothing of the journal is believed, at no later start either.
    pub fn clear(&mut self) {
        self.now.0.fill(0);
    }

    /// Every key may have one.
    pub fn set_unknown(&mut self) {
        self.is_unknown = true;
    }

    /// A mapping of this key was appended.
    pub fn add(&mut self, hash: HomeHash, bucket: &str) {
        for bits in [Some(&mut self.now), self.next.as_mut()].into_iter().flatten() {
            bits.set(hash.0);
            bits.set(of_bucket(bucket));
        }
    }

    /// Whether a key may have one.
    pub fn may_have(&self, hash: HomeHash) -> bool {
        self.is_unknown || self.now.has(hash.0)
    }

    /// Whether any key of a bucket may.
    pub fn may_have_any(&self, bucket: &str) -> bool {
        self.is_unknown || self.now.has(of_bucket(bucket))
    }

    /// A checkpoint begins: what is added from now on is all that will be left.
    pub fn begin(&mut self) {
        self.next = Some(Bits::new(self.now.0.len()));
    }

    /// It has ended, and the journal holds nothing older.
    pub fn finish(&mut self) {
        if let Some(next) = self.next.take() {
            self.now = next;
            self.is_unknown = false;
        }
    }
}

fn words(mapping_bytes: u64) -> usize {
    let words = mapping_bytes / BUDGET_DIVISOR / size_of::<u64>() as u64 / 2;
    // A power of two, so that the bits of a hash choose a place.
    (words as usize).next_power_of_two().max(WORDS_MIN)
}

fn of_bucket(bucket: &str) -> u64 {
    xxh3_64_with_seed(bucket.as_bytes(), BUCKET_SEED)
}

impl Bits {
    fn new(words: usize) -> Bits {
        Bits(vec![0; words].into_boxed_slice())
    }

    fn set(&mut self, hash: u64) {
        let words = self.0.len();
        places(hash, words).for_each(|(word, bit)| self.0[word] |= bit);
    }

    fn has(&self, hash: u64) -> bool {
        places(hash, self.0.len()).all(|(word, bit)| self.0[word] & bit != 0)
    }
}

/// The places of a hash's bits. Its low bits have chosen the shard, so that all of it is mixed.
fn places(hash: u64, words: usize) -> impl Iterator<Item = (usize, u64)> {
    let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let step = mixed.rotate_left(32) | 1;
    (0..BITS_A_KEY).map(move |number| {
        let place = (mixed >> 20).wrapping_add(number.wrapping_mul(step >> 7 | 1));
        (place as usize / 64 % words, 1 << (place % 64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> HomeHash {
        // As of the keys of one of two shards.
        HomeHash(xxh3_64_with_seed(&number.to_le_bytes(), 7) & !1)
    }

    #[test]
    fn what_was_added_may_be_there_and_most_else_is_not() {
        let mapping_bytes = 8 << 20;
        let mut kept = KeptKeys::new(mapping_bytes);
        let usual = mapping_bytes / 700;
        (0..usual).for_each(|number| kept.add(hash(number), "lake"));
        assert!((0..usual).all(|number| kept.may_have(hash(number))));
        assert!(kept.may_have_any("lake") && !kept.may_have_any("pond"));
        let mistaken = (usual..3 * usual).filter(|number| kept.may_have(hash(*number))).count();
        assert!(mistaken as u64 * 20 < 2 * usual, "{mistaken} of {}", 2 * usual);
    }

    #[test]
    fn a_checkpoint_leaves_what_was_added_since_it_began() {
        let mut kept = KeptKeys::new(0);
        kept.add(hash(1), "old");
        kept.begin();
        kept.add(hash(2), "new");
        assert!(kept.may_have(hash(1)) && kept.may_have(hash(2)), "until it has ended");
        kept.finish();
        assert!(!kept.may_have(hash(1)) && kept.may_have(hash(2)));
        assert!(!kept.may_have_any("old") && kept.may_have_any("new"));
        kept.set_unknown();
        assert!(kept.may_have(hash(1)) && kept.may_have_any("old"));
        kept.begin();
        kept.finish();
        assert!(!kept.may_have(hash(1)) && !kept.may_have_any("old"));
        kept.add(hash(3), "new");
        kept.clear();
        assert!(!kept.may_have(hash(3)) && !kept.may_have_any("new"));
    }

    #[test]
    fn it_takes_a_small_part_of_the_memory_for_mappings() {
        for mapping_bytes in [1 << 20, 8 << 20, 100 << 20, 5 << 30] {
            assert!(KeptKeys::bytes_max(mapping_bytes) * 100 <= mapping_bytes, "{mapping_bytes}");
        }
    }
}

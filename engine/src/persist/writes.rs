//! The writes that are under way to the keys of one home, from before they are relayed until what has
//! become of them is known. No mapping of theirs goes into the journal meanwhile. Their number is bound
//! by the requests that are under way.

use nilas_base::HashMap;

use super::entry::{KEYS_MAX, Reach, WriteId};
use super::outline::Outline;
use crate::identity::HomeHash;

/// What one write concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// These keys.
    Keys(Box<[HomeHash]>),
    /// A whole bucket.
    Bucket(Box<str>),
}

/// The writes under way.
#[derive(Debug, Default)]
pub struct OpenWrites {
    writes: HashMap<WriteId, Written>,
    /// How many of them concern a key, and a bucket.
    keys: HashMap<u64, u32>,
    buckets: HashMap<Box<str>, u32>,
}

impl OpenWrites {
    /// A write begins.
    pub fn begin(&mut self, write: WriteId, written: Written) {
        self.end(write);
        match &written {
            Written::Keys(hashes) => {
                hashes.iter().for_each(|hash| *self.keys.entry(hash.0).or_default() += 1);
            }
            Written::Bucket(bucket) => *self.buckets.entry_ref(&**bucket).or_default() += 1,
        }
        self.writes.insert(write, written);
    }

    /// A write has ended; gives what it concerned, where it was under way.
    pub fn end(&mut self, write: WriteId) -> Option<Written> {
        let written = self.writes.remove(&write)?;
        match &written {
            Written::Keys(hashes) => hashes.iter().for_each(|hash| self.leave_key(hash.0)),
            Written::Bucket(bucket) => self.leave_bucket(bucket),
        }
        Some(written)
    }

    fn leave_key(&mut self, hash: u64) {
        if let Some(count) = self.keys.get_mut(&hash) {
            *count -= 1;
            if *count == 0 {
                self.keys.remove(&hash);
            }
        }
    }

    fn leave_bucket(&mut self, bucket: &str) {
        if let Some(count) = self.buckets.get_mut(bucket) {
            *count -= 1;
            if *count == 0 {
                self.buckets.remove(bucket);
            }
        }
    }

    /// Whether a write to a key is under way.
    pub fn concern(&self, hash: HomeHash, bucket: &str) -> bool {
        self.keys.contains_key(&hash.0) || self.buckets.contains_key(bucket)
    }

    /// What a write that is under way concerns.
    pub fn get(&self, write: WriteId) -> Option<&Written> {
        self.writes.get(&write)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (WriteId, &Written)> {
        self.writes.iter().map(|(write, written)| (*write, written))
    }
}

impl Written {
    /// It comes after all that an outline knows.
    pub fn overtake(&self, outline: &mut Outline) {
        match self {
            Written::Keys(hashes) => hashes.iter().for_each(|hash| outline.overtake(*hash)),
            Written::Bucket(bucket) => outline.overtake_bucket(bucket),
        }
    }

    /// What it concerns, in the words of as many entries as it takes.
    pub fn reaches(&self) -> Vec<Reach<'_>> {
        match self {
            Written::Keys(hashes) => reaches(hashes),
            Written::Bucket(bucket) => vec![Reach::Bucket((&**bucket).into())],
        }
    }
}

/// Keys, in the words of as many entries as it takes.
pub fn reaches(hashes: &[HomeHash]) -> Vec<Reach<'_>> {
    hashes.chunks(KEYS_MAX).map(|some| Reach::Keys(some.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: WriteId = WriteId(1);
    const TWO: WriteId = WriteId(2);

    fn keys(hashes: &[u64]) -> Written {
        Written::Keys(hashes.iter().map(|hash| HomeHash(*hash)).collect())
    }

    #[test]
    fn a_key_is_written_until_the_last_write_to_it_has_ended() {
        let mut writes = OpenWrites::default();
        writes.begin(ONE, keys(&[7, 8]));
        writes.begin(TWO, keys(&[7, 7]));
        assert_eq!(writes.end(ONE), Some(keys(&[7, 8])));
        assert!(writes.concern(HomeHash(7), "lake") && !writes.concern(HomeHash(8), "lake"));
        assert_eq!(writes.end(ONE), None, "it has ended already");
        writes.end(TWO);
        assert!(!writes.concern(HomeHash(7), "lake"));
        assert!(writes.keys.is_empty() && writes.writes.is_empty());
    }

    #[test]
    fn a_write_to_a_bucket_concerns_its_keys() {
        let mut writes = OpenWrites::default();
        writes.begin(ONE, Written::Bucket("lake".into()));
        assert!(writes.concern(HomeHash(7), "lake") && !writes.concern(HomeHash(7), "pond"));
        writes.end(ONE);
        assert!(!writes.concern(HomeHash(7), "lake") && writes.buckets.is_empty());
    }

    #[test]
    fn many_keys_are_told_in_several_entries() {
        let many = keys(&(0..2 * KEYS_MAX as u64 + 1).collect::<Vec<_>>());
        let lengths: Vec<usize> = many
            .reaches()
            .iter()
            .map(|reach| match reach {
                Reach::Keys(hashes) => hashes.len(),
                _ => 0,
            })
            .collect();
        assert_eq!(lengths, [KEYS_MAX, KEYS_MAX, 1]);
    }
}

//! Write epochs and bucket generations: what makes a late answer of the origin too late.
//! A home bumps a key's epoch before a write is relayed and again before it is answered; a mapping
//! is installed only if the epoch is still what it was when its question was sent. What was purged
//! in the meantime is late too, and what was asked in a hold that has ended since: the write of
//! unknown outcome may have happened after the origin looked.

use nilas_base::HashMap;

use crate::identity::HomeHash;
use crate::purge::Era;

/// Epochs of a shard. Keys share them by hash: a neighbour's write costs a question, never a byte.
const EPOCHS: usize = 4096;

/// Buckets whose generation is kept apart. Above it all others share one, with the same effect.
const BUCKETS_MAX: usize = 4096;

/// The epochs of one home shard.
#[derive(Debug)]
pub struct WriteEpochs {
    keys: Box<[u64]>,
    buckets: HashMap<Box<str>, u64>,
    other_buckets: u64,
}

impl Default for WriteEpochs {
    fn default() -> WriteEpochs {
        WriteEpochs {
            keys: vec![0; EPOCHS].into_boxed_slice(),
            buckets: HashMap::default(),
            other_buckets: 0,
        }
    }
}

/// What the epochs of a key and its bucket were at one moment, after which purge, and whether the key
/// was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    key: u64,
    bucket: u64,
    era: Era,
    is_held: bool,
}

impl Moment {
    /// The era of what is learnt from a question asked now.
    pub fn era(self) -> Era {
        self.era
    }
}

impl WriteEpochs {
    /// The present moment of a key.
    pub fn moment(&self, hash: HomeHash, bucket: &str, era: Era, is_held: bool) -> Moment {
        Moment { key: self.keys[slot(hash)], bucket: self.bucket_generation(bucket), era, is_held }
    }

    /// The generation of a bucket.
    pub fn bucket_generation(&self, bucket: &str) -> u64 {
        self.buckets.get(bucket).copied().unwrap_or(0) + self.other_buckets
    }

    /// A write to a key begins or ends.
    pub fn bump_key(&mut self, hash: HomeHash) {
        self.keys[slot(hash)] += 1;
    }

    /// Something that may concern every key of a bucket begins or ends.
    pub fn bump_bucket(&mut self, bucket: &str) {
        if self.buckets.len() >= BUCKETS_MAX && !self.buckets.contains_key(bucket) {
            self.other_buckets += 1;
        } else {
            *self.buckets.entry_ref(bucket).or_insert(0) += 1;
        }
    }
}

fn slot(hash: HomeHash) -> usize {
    // The low bits chose the shard; the high ones choose the epoch.
    (hash.0 >> 52) as usize % EPOCHS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_changes_the_moment_of_its_key() {
        let mut epochs = WriteEpochs::default();
        let before = epochs.moment(HomeHash(7), "lake", Era(0), false);
        epochs.bump_key(HomeHash(7));
        assert_ne!(epochs.moment(HomeHash(7), "lake", Era(0), false), before);
    }

    #[test]
    fn a_purge_changes_the_moment_of_what_it_concerns() {
        let epochs = WriteEpochs::default();
        let before = epochs.moment(HomeHash(7), "lake", Era(0), false);
        assert_ne!(epochs.moment(HomeHash(7), "lake", Era(1), false), before);
    }

    #[test]
    fn the_end_of_a_hold_changes_the_moment_of_its_key() {
        let epochs = WriteEpochs::default();
        let held = epochs.moment(HomeHash(7), "lake", Era(0), true);
        assert_ne!(epochs.moment(HomeHash(7), "lake", Era(0), false), held);
    }

    #[test]
    fn a_bucket_request_changes_the_moment_of_its_keys_only() {
        let mut epochs = WriteEpochs::default();
        let (lake, pond) = (
            epochs.moment(HomeHash(7), "lake", Era(0), false),
            epochs.moment(HomeHash(7), "pond", Era(0), false),
        );
        epochs.bump_bucket("lake");
        assert_ne!(epochs.moment(HomeHash(7), "lake", Era(0), false), lake);
        assert_eq!(epochs.moment(HomeHash(7), "pond", Era(0), false), pond);
    }
}

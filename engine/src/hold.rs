//! Keys whose last write may or may not have happened, and may still happen: the origin fell silent,
//! or broke off before its answer. Until the hold ends they are not believed for any time, whatever
//! their name; each read asks, for itself. Nothing ends a hold early: the write may come last.
//! Memory is bounded: keys are kept by hash, and too many widen to their bucket, then to all.

use nilas_base::{HashMap, Monotonic};

use crate::identity::HomeHash;

/// Keys held apart on one shard; one more holds its bucket.
const KEYS_HELD_MAX: usize = 16_384;
/// Buckets held apart on one shard; one more holds them all.
const BUCKETS_HELD_MAX: usize = 256;

/// The holds of one home shard.
#[derive(Debug, Default)]
pub struct WriteHolds {
    /// By hash: who shares it with a held key costs the origin questions, nothing else.
    keys: HashMap<u64, Monotonic>,
    buckets: HashMap<Box<str>, Monotonic>,
    all: Option<Monotonic>,
}

/// What is held after a write of unknown outcome to one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The key alone.
    Key,
    /// Its whole bucket, or more: there was no room.
    Wider,
}

impl WriteHolds {
    /// Whether nothing has ever been held: the usual case, which costs not even a look at the clock.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.buckets.is_empty() && self.all.is_none()
    }

    /// Whether a key is held at `now`.
    pub fn is_held(&self, hash: HomeHash, bucket: &str, now: Monotonic) -> bool {
        let holds = |until: &Monotonic| now < *until;
        self.keys.get(&hash.0).is_some_and(holds)
            || self.buckets.get(bucket).is_some_and(holds)
            || self.all.as_ref().is_some_and(holds)
    }

    /// Holds a key from `now` until `until`.
    pub fn hold_key(
        &mut self,
        hash: HomeHash,
        bucket: &str,
        now: Monotonic,
        until: Monotonic,
    ) -> Held {
        if !self.keys.contains_key(&hash.0) && self.keys.len() >= KEYS_HELD_MAX {
            self.keys.retain(|_, until| now < *until);
            if self.keys.len() >= KEYS_HELD_MAX {
                self.hold_bucket(bucket, now, until);
                return Held::Wider;
            }
        }
        extend(self.keys.entry(hash.0).or_insert(until), until);
        Held::Key
    }

    /// Holds every key of a bucket from `now` until `until`.
    pub fn hold_bucket(&mut self, bucket: &str, now: Monotonic, until: Monotonic) {
        if !self.buckets.contains_key(bucket) && self.buckets.len() >= BUCKETS_HELD_MAX {
            self.buckets.retain(|_, until| now < *until);
            if self.buckets.len() >= BUCKETS_HELD_MAX {
                extend(self.all.get_or_insert(until), until);
                return;
            }
        }
        extend(self.buckets.entry_ref(bucket).or_insert(until), until);
    }

    /// Holds a key of which the bucket is not known: where there is no room, everything.
    pub fn hold_hash(&mut self, hash: HomeHash, until: Monotonic) {
        if !self.keys.contains_key(&hash.0) && self.keys.len() >= KEYS_HELD_MAX {
            return self.hold_all(until);
        }
        extend(self.keys.entry(hash.0).or_insert(until), until);
    }

    /// Holds everything.
    pub fn hold_all(&mut self, until: Monotonic) {
        extend(self.all.get_or_insert(until), until);
    }

    /// The keys that are held at `now`, by hash.
    pub fn keys_at(&self, now: Monotonic) -> Vec<HomeHash> {
        let held = self.keys.iter().filter(|(_, until)| now < **until);
        held.map(|(hash, _)| HomeHash(*hash)).collect()
    }

    /// The buckets that are held at `now`.
    pub fn buckets_at(&self, now: Monotonic) -> Vec<Box<str>> {
        let held = self.buckets.iter().filter(|(_, until)| now < **until);
        held.map(|(bucket, _)| bucket.clone()).collect()
    }

    /// Whether everything is held at `now`.
    pub fn holds_all_at(&self, now: Monotonic) -> bool {
        self.all.is_some_and(|until| now < until)
    }
}

fn extend(hold: &mut Monotonic, until: Monotonic) {
    *hold = (*hold).max(until);
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Monotonic = Monotonic(100);
    const END: Monotonic = Monotonic(200);

    #[test]
    fn a_hold_is_of_its_key_and_ends_at_its_time() {
        let mut holds = WriteHolds::default();
        assert_eq!(holds.hold_key(HomeHash(7), "lake", NOW, END), Held::Key);
        assert!(holds.is_held(HomeHash(7), "lake", NOW));
        assert!(holds.is_held(HomeHash(7), "lake", Monotonic(199)));
        assert!(!holds.is_held(HomeHash(7), "lake", END));
        assert!(!holds.is_held(HomeHash(8), "lake", NOW));
    }

    #[test]
    fn a_second_write_of_unknown_outcome_lengthens_the_hold_and_never_shortens_it() {
        let mut holds = WriteHolds::default();
        holds.hold_key(HomeHash(7), "lake", NOW, END);
        holds.hold_key(HomeHash(7), "lake", NOW, Monotonic(150));
        assert!(holds.is_held(HomeHash(7), "lake", Monotonic(199)));
        holds.hold_key(HomeHash(7), "lake", NOW, Monotonic(300));
        assert!(holds.is_held(HomeHash(7), "lake", Monotonic(299)));
    }

    #[test]
    fn more_keys_than_there_is_room_for_hold_their_bucket() {
        let mut holds = WriteHolds::default();
        for key in 0..KEYS_HELD_MAX as u64 {
            assert_eq!(holds.hold_key(HomeHash(key), "lake", NOW, END), Held::Key);
        }
        assert!(!holds.is_held(HomeHash(u64::MAX), "lake", NOW));
        assert_eq!(holds.hold_key(HomeHash(u64::MAX), "lake", NOW, END), Held::Wider);
        assert!(holds.is_held(HomeHash(u64::MAX - 1), "lake", NOW));
        assert!(!holds.is_held(HomeHash(u64::MAX), "pond", NOW));
        let later = Monotonic(201);
        assert_eq!(holds.hold_key(HomeHash(u64::MAX), "pond", later, Monotonic(300)), Held::Key);
        assert_eq!(holds.keys.len(), 1, "what has ended makes room");
    }

    #[test]
    fn more_buckets_than_there_is_room_for_hold_everything() {
        let mut holds = WriteHolds::default();
        for number in 0..=BUCKETS_HELD_MAX {
            assert!(!holds.is_held(HomeHash(1), "other", NOW));
            holds.hold_bucket(&format!("bucket-{number}"), NOW, END);
        }
        assert!(holds.is_held(HomeHash(1), "other", NOW));
        assert!(!holds.is_held(HomeHash(1), "other", END));
        assert_eq!(holds.buckets.len(), BUCKETS_HELD_MAX);
    }
}

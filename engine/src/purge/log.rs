//! Which purges concern a key, as numbers that only grow. A version carries the number of the last
//! purge before it was asked for (its era), in its digest too: what was learnt or fetched before a
//! purge, or is still on its way, cannot be found after it. A purge writes one entry; nothing is
//! searched for.

use nilas_base::HashMap;

use super::PurgeScope;
use crate::identity::{HomeHash, NameRef};

/// Keys share their entries by hash: a neighbour of a purged key may lose bytes when it is learnt
/// anew, nothing before.
const KEY_ENTRIES: usize = 4096;
/// Prefixes kept apart in one bucket; one more purges the bucket.
const PREFIXES_MAX: usize = 64;
/// Buckets kept apart; one more purges them all.
const BUCKETS_MAX: usize = 64;

/// The number of a purge, from one; zero stands for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Era(pub u64);

/// The purges that one shard has heard of.
#[derive(Debug, Default)]
pub struct PurgeLog {
    last: Era,
    keys: Vec<Era>,
    buckets: HashMap<Box<str>, BucketPurges>,
    all: Era,
}

#[derive(Debug, Default)]
struct BucketPurges {
    whole: Era,
    prefixes: Vec<(Box<str>, Era)>,
}

impl PurgeLog {
    /// The number of the last purge of anything.
    pub fn last(&self) -> Era {
        self.last
    }

    /// The era of what is learnt of a key from a question that is asked now.
    pub fn era(&self, name: NameRef<'_>, hash: HomeHash) -> Era {
        let of_key = self.keys.get(slot(hash)).copied().unwrap_or_default();
        of_key.max(self.era_of_folder(name))
    }

    /// Whether what was learnt of a key in an era has been purged since by prefix, bucket, or for
    /// want of room. A purge of the key alone has made its home forget it already.
    pub fn is_purged(&self, name: NameRef<'_>, learnt: Era) -> bool {
        self.last > learnt && self.era_of_folder(name) > learnt
    }

    fn era_of_folder(&self, name: NameRef<'_>) -> Era {
        let Some(bucket) = self.buckets.get(name.bucket) else { return self.all };
        let fits = |(prefix, _): &&(Box<str>, Era)| name.key.starts_with(&**prefix);
        let prefixes = bucket.prefixes.iter().filter(fits).map(|(_, era)| *era);
        prefixes.fold(self.all.max(bucket.whole), Era::max)
    }

    /// Notes a purge; a key's where it is at home here.
    pub fn note(&mut self, bucket: &str, scope: &PurgeScope, key_at_home: Option<HomeHash>) {
        self.last = Era(self.last.0 + 1);
        match (scope, key_at_home) {
            (PurgeScope::Key(_), Some(hash)) => {
                self.keys.resize(KEY_ENTRIES, Era::default());
                self.keys[slot(hash)] = self.last;
            }
            (PurgeScope::Key(_), None) => {}
            (PurgeScope::Prefix(prefix), _) => self.note_prefix(bucket, prefix),
            (PurgeScope::Bucket, _) => self.note_bucket(bucket),
        }
    }

    fn note_prefix(&mut self, bucket: &str, prefix: &str) {
        let last = self.last;
        let Some(purges) = self.bucket(bucket) else { return };
        // An older purge of less is contained in this one.
        purges.prefixes.retain(|(older, _)| !older.starts_with(prefix));
        if purges.prefixes.len() < PREFIXES_MAX {
            purges.prefixes.push((prefix.into(), last));
        } else {
            *purges = BucketPurges { whole: last, prefixes: Vec::new() };
        }
    }

    fn note_bucket(&mut self, bucket: &str) {
        let last = self.last;
        if let Some(purges) = self.bucket(bucket) {
            *purges = BucketPurges { whole: last, prefixes: Vec::new() };
        }
    }

    /// The purges of a bucket; `None` where there was no room, and all have been purged.
    fn bucket(&mut self, bucket: &str) -> Option<&mut BucketPurges> {
        if !self.buckets.contains_key(bucket) && self.buckets.len() >= BUCKETS_MAX {
            self.buckets.clear();
            self.all = self.last;
            return None;
        }
        Some(self.buckets.entry_ref(bucket).or_default())
    }
}

fn slot(hash: HomeHash) -> usize {
    // The low bits chose the shard.
    (hash.0 >> 52) as usize % KEY_ENTRIES
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: HomeHash = HomeHash(7 << 52);

    fn name(key: &str) -> NameRef<'_> {
        NameRef { bucket: "lake", key }
    }

    fn prefix(text: &str) -> PurgeScope {
        PurgeScope::Prefix(text.to_owned())
    }

    #[test]
    fn a_purge_ends_the_era_of_what_it_names_and_of_nothing_else() {
        let mut log = PurgeLog::default();
        let before = log.era(name("a/b"), HASH);
        log.note("lake", &prefix("a/"), None);
        assert!(log.is_purged(name("a/b"), before));
        assert!(!log.is_purged(name("a/b"), log.era(name("a/b"), HASH)), "learnt anew");
        assert!(!log.is_purged(name("b"), before));
        assert!(!log.is_purged(NameRef { bucket: "pond", key: "a/b" }, before));
        log.note("lake", &PurgeScope::Bucket, None);
        assert!(log.is_purged(name("b"), before));
        assert!(log.is_purged(name("a/b"), Era(1)));
        assert!(!log.is_purged(NameRef { bucket: "pond", key: "a/b" }, before));
    }

    #[test]
    fn a_purged_key_is_learnt_in_a_new_era() {
        let mut log = PurgeLog::default();
        let before = log.era(name("a"), HASH);
        log.note("lake", &PurgeScope::Key("a".to_owned()), Some(HASH));
        assert_ne!(log.era(name("a"), HASH), before);
        assert_eq!(log.era(name("b"), HomeHash(8 << 52)), before);
        assert!(!log.is_purged(name("b"), before));
    }

    #[test]
    fn a_key_purged_elsewhere_moves_the_number_and_no_era() {
        let mut log = PurgeLog::default();
        log.note("lake", &PurgeScope::Key("a".to_owned()), None);
        assert_eq!(log.last(), Era(1));
        assert_eq!(log.era(name("a"), HASH), Era(0));
    }

    #[test]
    fn more_prefixes_than_there_is_room_for_purge_the_bucket() {
        let mut log = PurgeLog::default();
        for number in 0..PREFIXES_MAX {
            log.note("lake", &prefix(&format!("folder-{number}/")), None);
        }
        assert!(!log.is_purged(name("other"), Era(0)));
        log.note("lake", &prefix("one-more/"), None);
        assert!(log.is_purged(name("other"), Era(0)));
        assert!(log.is_purged(name("folder-3/a"), Era(4)));
    }

    #[test]
    fn a_wider_prefix_takes_the_place_of_those_within_it() {
        let mut log = PurgeLog::default();
        for number in 0..1000 {
            log.note("lake", &prefix(&format!("a/{}/", number % 50)), None);
        }
        log.note("lake", &prefix("a/"), None);
        assert_eq!(log.buckets["lake"].prefixes.len(), 1);
        assert!(log.is_purged(name("a/7/x"), Era(1000)));
        assert!(!log.is_purged(name("b"), Era(0)));
    }

    #[test]
    fn more_buckets_than_there_is_room_for_purge_everything() {
        let mut log = PurgeLog::default();
        for number in 0..BUCKETS_MAX {
            log.note(&format!("bucket-{number}"), &PurgeScope::Bucket, None);
        }
        assert!(!log.is_purged(name("a"), Era(0)));
        log.note("one-more", &PurgeScope::Bucket, None);
        assert!(log.is_purged(name("a"), Era(0)));
        assert!(!log.is_purged(name("a"), log.era(name("a"), HASH)));
    }
}

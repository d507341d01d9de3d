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

/// What a purge named, as it is kept beyond the node's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purged<'a> {
    /// A key that is at home here, by its hash.
    Key(HomeHash),
    /// The keys that share this entry: what is left of purges of single ones.
    Slot(u16),
    /// In this bucket the keys that begin so.
    Prefix(&'a str, &'a str),
    /// This bucket.
    Bucket(&'a str),
    /// Everything.
    All,
}

/// How many purges a shard has heard of since it was started: the same on every shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Heard(u64);

/// The purges that one shard has heard of.
#[derive(Debug, Default)]
pub struct PurgeLog {
    heard: Heard,
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
    /// The log of a shard that does not know yet what was purged before it was started, or never
    /// will. Nothing was ever learnt in this era: what is learnt in it finds no bytes of earlier ones.
    pub fn beginning_at(era: Era) -> PurgeLog {
        PurgeLog { last: era, all: era, ..PurgeLog::default() }
    }

    /// How many purges it has heard of.
    pub fn heard(&self) -> Heard {
        self.heard
    }

    /// Whether it says of anything that it was purged.
    pub fn is_empty(&self) -> bool {
        self.last == Era::default()
    }

    /// The era of what is learnt of a key from a question that is asked now.
    pub fn era(&self, name: NameRef<'_>, hash: HomeHash) -> Era {
        let of_key = self.keys.get(slot(hash)).copied().unwrap_or_default();
        of_key.max(self.era_of_folder(name))
    }

    /// Whether what was learnt of a key in an era has been purged since by prefix, bucket, or for
    /// want of room. A purge of the key alone has made its home forget it already. What was learnt in
    /// an era that is not known here was learnt before this log was.
    pub fn is_purged(&self, name: NameRef<'_>, learnt: Era) -> bool {
        learnt > self.last || (self.last > learnt && self.era_of_folder(name) > learnt)
    }

    fn era_of_folder(&self, name: NameRef<'_>) -> Era {
        let Some(bucket) = self.buckets.get(name.bucket) else { return self.all };
        let fits = |(prefix, _): &&(Box<str>, Era)| name.key.starts_with(&**prefix);
        let prefixes = bucket.prefixes.iter().filter(fits).map(|(_, era)| *era);
        prefixes.fold(self.all.max(bucket.whole), Era::max)
    }

    /// Notes a purge, a key's where it is at home here, and gives its number.
    pub fn note(&mut self, bucket: &str, scope: &PurgeScope, key_at_home: Option<HomeHash>) -> Era {
        self.heard.0 += 1;
        let era = Era(self.last.0 + 1);
        let purged = Purged::of(bucket, scope, key_at_home);
        self.last = era;
        purged.into_iter().for_each(|purged| self.keep(era, purged));
        era
    }

    /// Whatever was learnt so far is not to be believed any more.
    pub fn begin_anew(&mut self) {
        self.last.0 += 1;
        self.all = self.last;
    }

    /// Notes a purge of an earlier time; in whatever order they come, the outcome is the same.
    pub fn keep(&mut self, era: Era, purged: Purged<'_>) {
        self.last = self.last.max(era);
        match purged {
            Purged::Key(hash) => self.keep_slot(era, slot(hash)),
            Purged::Slot(slot) => self.keep_slot(era, usize::from(slot) % KEY_ENTRIES),
            Purged::Prefix(bucket, prefix) => self.keep_prefix(era, bucket, prefix),
            Purged::Bucket(bucket) => self.keep_bucket(era, bucket),
            Purged::All => self.all = self.all.max(era),
        }
    }

    /// All that a log needs to be told to know what this one knows.
    pub fn each(&self, mut tell: impl FnMut(Era, Purged<'_>)) {
        if self.all > Era::default() {
            tell(self.all, Purged::All);
        }
        for (slot, era) in (0..).zip(&self.keys).filter(|(_, era)| **era > Era::default()) {
            tell(*era, Purged::Slot(slot));
        }
        for (name, bucket) in &self.buckets {
            if bucket.whole > Era::default() {
                tell(bucket.whole, Purged::Bucket(name));
            }
            for (prefix, era) in &bucket.prefixes {
                tell(*era, Purged::Prefix(name, prefix));
            }
        }
    }

    fn keep_slot(&mut self, era: Era, slot: usize) {
        self.keys.resize(KEY_ENTRIES, Era::default());
        self.keys[slot] = self.keys[slot].max(era);
    }

    fn keep_prefix(&mut self, era: Era, bucket: &str, prefix: &str) {
        let Some(purges) = self.bucket(bucket) else { return };
        let is_contained = purges.whole >= era
            || purges
                .prefixes
                .iter()
                .any(|(wider, its)| prefix.starts_with(&**wider) && *its >= era);
        if is_contained {
            return;
        }
        // An older purge of less is contained in this one.
        purges.prefixes.retain(|(older, its)| !older.starts_with(prefix) || *its > era);
        if purges.prefixes.len() < PREFIXES_MAX {
            purges.prefixes.push((prefix.into(), era));
        } else {
            let newest = purges.prefixes.iter().fold(era, |newest, (_, era)| newest.max(*era));
            *purges = BucketPurges { whole: newest, prefixes: Vec::new() };
        }
    }

    fn keep_bucket(&mut self, era: Era, bucket: &str) {
        if let Some(purges) = self.bucket(bucket) {
            purges.whole = purges.whole.max(era);
            purges.prefixes.retain(|(_, its)| *its > era);
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

impl<'a> Purged<'a> {
    /// What a purge names; nothing of a key that is at home elsewhere.
    pub fn of(bucket: &'a str, scope: &'a PurgeScope, at_home: Option<HomeHash>) -> Option<Self> {
        match scope {
            PurgeScope::Key(_) => at_home.map(Purged::Key),
            PurgeScope::Prefix(prefix) => Some(Purged::Prefix(bucket, prefix)),
            PurgeScope::Bucket => Some(Purged::Bucket(bucket)),
        }
    }
}

fn slot(hash: HomeHash) -> usize {
    // The low bits chose the shard.
    (hash.0 >> 52) as usize % KEY_ENTRIES
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HASH: HomeHash = HomeHash(7 << 52);

    fn name(key: &str) -> NameRef<'_> {
        NameRef { bucket: "lake", key }
    }

    fn prefix(text: &str) -> PurgeScope {
        PurgeScope::Prefix(text.to_owned())
    }

    #[test]
    fn what_was_learnt_before_a_new_beginning_is_void() {
        let mut log = PurgeLog::beginning_at(Era(7));
        let before = log.era(name("a/b"), HASH);
        log.begin_anew();
        assert!(log.is_purged(name("a/b"), before));
        assert!(!log.is_purged(name("a/b"), log.era(name("a/b"), HASH)));
        assert_eq!(log.heard(), Heard::default());
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
        assert_eq!((log.last, log.heard()), (Era(1), Heard(1)));
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

    #[derive(Clone, Debug)]
    enum Step {
        Key(u8),
        Prefix(u8, String),
        Bucket(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        let bucket = || prop_oneof![4 => 0..3_u8, 1 => 0..80_u8];
        prop_oneof![
            1 => any::<u8>().prop_map(Step::Key),
            3 => (bucket(), "[ab]{0,3}").prop_map(|(bucket, prefix)| Step::Prefix(bucket, prefix)),
            1 => bucket().prop_map(Step::Bucket),
        ]
    }

    fn note(log: &mut PurgeLog, step: &Step) {
        match step {
            Step::Key(key) => {
                let hash = HomeHash(u64::from(*key) << 52);
                log.note("lake", &PurgeScope::Key("k".to_owned()), Some(hash))
            }
            Step::Prefix(bucket, text) => log.note(&format!("b{bucket}"), &prefix(text), None),
            Step::Bucket(bucket) => log.note(&format!("b{bucket}"), &PurgeScope::Bucket, None),
        };
    }

    proptest! {
        #[test]
        fn what_is_told_of_a_log_makes_one_that_says_the_same(
            steps in proptest::collection::vec(step(), 0..200),
            begins_at in 0..3_u64,
            is_reversed: bool,
        ) {
            let mut log = PurgeLog::beginning_at(Era(begins_at));
            steps.iter().for_each(|step| note(&mut log, step));
            let mut told: Vec<(Era, String, Option<String>, Option<Purged<'static>>)> = Vec::new();
            log.each(|era, purged| told.push(match purged {
                Purged::Prefix(bucket, prefix) => (era, bucket.into(), Some(prefix.into()), None),
                Purged::Bucket(bucket) => (era, bucket.into(), None, None),
                Purged::Key(hash) => (era, String::new(), None, Some(Purged::Key(hash))),
                Purged::Slot(slot) => (era, String::new(), None, Some(Purged::Slot(slot))),
                Purged::All => (era, String::new(), None, Some(Purged::All)),
            }));
            if is_reversed {
                told.reverse();
            }
            let mut again = PurgeLog::default();
            for (era, bucket, prefix, other) in &told {
                let purged = match (prefix, other) {
                    (_, Some(other)) => *other,
                    (Some(prefix), None) => Purged::Prefix(bucket, prefix),
                    (None, None) => Purged::Bucket(bucket),
                };
                again.keep(*era, purged);
            }
            for (bucket, key, hash) in
                (0..80).flat_map(|bucket| [(bucket, "aab", 3), (bucket, "b", 9), (bucket, "", 0)])
            {
                let bucket = format!("b{bucket}");
                let name = NameRef { bucket: &bucket, key };
                let hash = HomeHash(hash << 52);
                prop_assert_eq!(log.era(name, hash), again.era(name, hash), "{} {}", bucket, key);
            }
        }
    }
}

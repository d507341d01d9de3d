//! What a journal's entries come to: which mappings are to be believed, which writes may still happen,
//! and what was purged. Entries pass once, in the order in which they were appended; the last word on
//! a key counts. It knows no shard and does no I/O.
//!
//! A mapping is appended only while no write to its key is under way and its outcome is not unknown. So
//! one that comes after a write's beginning also says that this write has ended, though its end be lost.

use nilas_base::{HashMap, HashSet};

use super::entry::{End, Entry, Learnt, Reach, WriteId};
use crate::identity::{Geometry, HomeHash, NameRef};
use crate::purge::{PurgeLog, Purged};

/// The place of an entry among all.
pub type Place = u32;

/// What has passed so far.
#[derive(Debug, Default)]
pub struct Outline {
    /// The last word on each key.
    keys: HashMap<u64, LastWord>,
    /// The last beginning of a write to a whole bucket.
    buckets: HashMap<Box<str>, Place>,
    /// Writes that have begun and of whose end nothing is known.
    writes: HashMap<WriteId, Vec<(Place, Open)>>,
    holds: Holds,
    /// What was purged.
    pub purges: PurgeLog,
}

#[derive(Clone, Copy, Debug)]
struct LastWord {
    place: Place,
    is_mapping: bool,
}

#[derive(Debug)]
enum Open {
    Key(u64),
    Bucket(Box<str>),
    All,
}

/// Of what nobody knows what became of the last write to it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Holds {
    /// Keys, by hash.
    pub keys: HashSet<u64>,
    /// Buckets.
    pub buckets: HashSet<Box<str>>,
    /// Everything.
    pub all: bool,
}

impl Outline {
    /// The next entry.
    pub fn pass(&mut self, place: Place, entry: Entry<'_>, geometry: &Geometry) {
        match entry {
            Entry::Started => {
                self.lose_writes();
            }
            Entry::Learnt(learnt) => {
                let hash = geometry.home_hash(learnt.name());
                self.keys.insert(hash.0, LastWord { place, is_mapping: true });
                self.holds.keys.remove(&hash.0);
            }
            Entry::Began(write, reach) => self.begin(place, write, &reach),
            Entry::Ended(write, end) => {
                let ended = self.writes.remove(&write).unwrap_or_default();
                if end == End::Unknown {
                    ended.into_iter().for_each(|open| self.hold(open));
                }
            }
            Entry::Held(reach) => {
                self.take_back(place, &reach);
                opens(&reach).for_each(|open| self.holds.add(open));
            }
            Entry::Gone(hash) => self.take_back_key(place, hash),
            Entry::Purged(era, purged) => {
                if let Purged::Key(hash) = purged {
                    self.take_back_key(place, hash);
                }
                self.purges.keep(era, purged);
            }
        }
    }

    fn begin(&mut self, place: Place, write: WriteId, reach: &Reach<'_>) {
        self.take_back(place, reach);
        self.writes.entry(write).or_default().extend(opens(reach).map(|open| (place, open)));
    }

    fn take_back(&mut self, place: Place, reach: &Reach<'_>) {
        match reach {
            Reach::Keys(hashes) => hashes.iter().for_each(|hash| self.take_back_key(place, *hash)),
            Reach::Bucket(bucket) => {
                self.buckets.insert((&**bucket).into(), place);
            }
            // What is held altogether is not served, and not asked about one by one.
            Reach::All => {}
        }
    }

    fn take_back_key(&mut self, place: Place, hash: HomeHash) {
        self.keys.insert(hash.0, LastWord { place, is_mapping: false });
    }

    /// Of these nobody will hear any more.
    fn lose_writes(&mut self) {
        let lost = std::mem::take(&mut self.writes);
        lost.into_values().flatten().for_each(|open| self.hold(open));
    }

    fn hold(&mut self, (began, open): (Place, Open)) {
        let has_ended = match &open {
            Open::Key(hash) => {
                self.keys.get(hash).is_some_and(|last| last.is_mapping && last.place > began)
            }
            Open::Bucket(_) | Open::All => false,
        };
        if !has_ended {
            self.holds.add(open);
        }
    }

    /// All have passed: the writes whose end did not come are lost with their node. Gives what is to
    /// be held.
    pub fn end(&mut self) -> Holds {
        self.lose_writes();
        std::mem::take(&mut self.holds)
    }

    /// Whether the mapping at a place is the last word on its key.
    pub fn believes(&self, place: Place, name: NameRef<'_>, hash: HomeHash) -> bool {
        self.keys.get(&hash.0).is_some_and(|last| last.is_mapping && last.place == place)
            && self.buckets.get(name.bucket).is_none_or(|taken_back| *taken_back < place)
    }

    /// Whether any mapping of a key is.
    pub fn believes_any(&self, hash: HomeHash) -> bool {
        self.keys.get(&hash.0).is_some_and(|last| last.is_mapping)
    }

    /// Something newer is known of a key than all that has passed.
    pub fn overtake(&mut self, hash: HomeHash) {
        self.keys.remove(&hash.0);
    }

    /// Too much was learnt since to say of what.
    pub fn overtake_everything(&mut self) {
        self.keys.clear();
    }

    /// Something newer has happened to a bucket.
    pub fn overtake_bucket(&mut self, bucket: &str) {
        *self.buckets.entry_ref(bucket).or_default() = Place::MAX;
    }
}

impl Learnt<'_> {
    /// Whose it is.
    pub fn name(&self) -> NameRef<'_> {
        NameRef { bucket: self.bucket, key: self.key }
    }
}

impl Holds {
    fn add(&mut self, open: Open) {
        match open {
            Open::Key(hash) => {
                self.keys.insert(hash);
            }
            Open::Bucket(bucket) => {
                self.buckets.insert(bucket);
            }
            Open::All => self.all = true,
        }
    }
}

fn opens<'a>(reach: &'a Reach<'_>) -> Box<dyn Iterator<Item = Open> + 'a> {
    match reach {
        Reach::Keys(hashes) => Box::new(hashes.iter().map(|hash| Open::Key(hash.0))),
        Reach::Bucket(bucket) => Box::new(std::iter::once(Open::Bucket((&**bucket).into()))),
        Reach::All => Box::new(std::iter::once(Open::All)),
    }
}

#[cfg(test)]
mod tests;

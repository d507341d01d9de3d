//! What a journal's entries come to: which mappings are to be believed, which writes may still happen,
//! and what was purged. Entries pass once, in order; the last word on a key counts. It knows no shard, does
//! no I/O, and keeps no entry: of so many keys it knows where their last mapping stands, and believes no
//! other. A mapping is appended only while no write to its key is under way and its outcome is not
//! unknown: so one that comes after a write's beginning says that this write has ended, though its end be
//! lost.

use nilas_base::{HashMap, HashSet};

use super::entry::{End, Entry, Learnt, Reach, WriteId};
use crate::identity::{Geometry, HomeHash, NameRef};
use crate::purge::{PurgeLog, Purged};

/// The place of an entry among all.
pub type Place = u32;

/// Memory of a key at most: in a table that has just grown, beside the one that it grows from.
const KEY_BYTES_MAX: u64 = 64;
/// Parts of all places that are told apart where only the last of them can be kept.
const PARTS: u64 = 256;

/// What has passed so far.
#[derive(Debug)]
pub struct Outline {
    /// Of each key whose last word is a mapping, that mapping.
    keys: HashMap<u64, LastWord>,
    keys_max: usize,
    /// The place of the next entry.
    next: Place,
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
    /// Bytes of its entry.
    bytes: u16,
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
    /// Nothing yet, in so much memory at most, bytes, for keys.
    pub fn new(bytes_max: u64) -> Outline {
        Outline {
            keys: HashMap::default(),
            keys_max: usize::try_from(bytes_max / KEY_BYTES_MAX).unwrap_or(usize::MAX),
            next: 0,
            buckets: HashMap::default(),
            writes: HashMap::default(),
            holds: Holds::default(),
            purges: PurgeLog::default(),
        }
    }

    /// The next entry, of so many bytes.
    pub fn pass(&mut self, bytes: usize, entry: Entry<'_>, geometry: &Geometry) {
        let place = self.next;
        self.next += 1;
        match entry {
            Entry::Started => {
                self.lose_writes();
            }
            Entry::Learnt(learnt) => {
                let hash = geometry.home_hash(learnt.name());
                self.holds.keys.remove(&hash.0);
                self.learn(hash, LastWord { place, bytes: bytes as u16 });
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
            Entry::Gone(hash) => self.overtake(hash),
            Entry::Purged(era, purged) => {
                if let Purged::Key(hash) = purged {
                    self.overtake(hash);
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
            Reach::Keys(hashes) => hashes.iter().for_each(|hash| self.overtake(*hash)),
            Reach::Bucket(bucket) => {
                self.buckets.insert((&**bucket).into(), place);
            }
            // What is held altogether is not served, and not asked about one by one.
            Reach::All => {}
        }
    }

    /// Where there are too many keys, those whose mapping is older than the newest half are forgotten.
    fn learn(&mut self, hash: HomeHash, mapping: LastWord) {
        if self.keys.len() >= self.keys_max {
            let first = self.first_of_newest(self.keys_max as u64 / 2, |_| 1);
            self.keys.retain(|_, last| last.place >= first);
        }
        self.keys.insert(hash.0, mapping);
    }

    /// The first place from which on all mappings together are not more than `most`.
    fn first_of_newest(&self, most: u64, size: impl Fn(&LastWord) -> u64) -> Place {
        let part = u64::from(self.next).div_ceil(PARTS).max(1);
        let mut sizes = [0_u64; PARTS as usize];
        for last in self.keys.values() {
            sizes[(u64::from(last.place) / part) as usize] += size(last);
        }
        let mut left = most;
        let is_too_much = |size: &u64| match left.checked_sub(*size) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        };
        let too_much = sizes.iter().rposition(is_too_much);
        too_much.map_or(0, |too_much| ((too_much as u64 + 1) * part) as Place)
    }

    /// The first place whose mapping, with all that come after it, has room in so many bytes, where a
    /// mapping takes `beside` more than its entry.
    pub fn first_with_room(&self, bytes: u64, beside: u64) -> Place {
        self.first_of_newest(bytes, |last| u64::from(last.bytes) + beside)
    }

    /// Of these nobody will hear any more.
    fn lose_writes(&mut self) {
        let lost = std::mem::take(&mut self.writes);
        lost.into_values().flatten().for_each(|open| self.hold(open));
    }

    fn hold(&mut self, (began, open): (Place, Open)) {
        let has_ended = match &open {
            Open::Key(hash) => self.keys.get(hash).is_some_and(|last| last.place > began),
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

    /// What the keys take of memory now, bytes; no more are to come.
    pub fn shrink(&mut self) -> u64 {
        self.keys.shrink_to_fit();
        self.keys.allocation_size() as u64
    }

    /// Whether the mapping at a place is the last word on its key.
    pub fn believes(&self, place: Place, name: NameRef<'_>, hash: HomeHash) -> bool {
        self.keys.get(&hash.0).is_some_and(|last| last.place == place)
            && self.buckets.get(name.bucket).is_none_or(|taken_back| *taken_back < place)
    }

    /// Whether any mapping of a key is.
    pub fn believes_any(&self, hash: HomeHash) -> bool {
        self.keys.contains_key(&hash.0)
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

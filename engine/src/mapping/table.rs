//! The mappings of one home shard, under a budget in bytes. Evicts by second chance: an entry that
//! was read since the hand last passed is spared once. Losing one costs a question to the origin.

use std::collections::VecDeque;
use std::sync::Arc;

use nilas_base::{HashMap, Monotonic};

use super::{Mapping, Readers};
use crate::identity::{NameRef, ObjectName};
use crate::origin::IdentityId;

/// How long a mapping may be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// For as long as no write to the key is seen.
    Immutable,
    /// Until then; after it the origin is asked.
    Until(Monotonic),
    /// Not at all: it was learnt while a write of unknown outcome could still happen.
    Never,
}

/// A mapping, and what its home knows about it.
#[derive(Debug)]
pub struct Entry {
    /// The mapping.
    pub mapping: Arc<Mapping>,
    /// How long to believe it.
    pub freshness: Freshness,
    /// The bucket's generation when it was learnt; another one now, and it is void.
    pub bucket_generation: u64,
    /// To whom the origin has shown it; told only where not everybody is the same to the origin.
    readers: Readers,
    read_since: bool,
    /// The checkpoint of the journal since which it is there; none where it is not.
    pub journaled: Option<CheckpointNumber>,
    /// Whether it came back from the journal on the word of a catalog, which may have taken that back since.
    pub is_hearsay: bool,
}

/// Counts the checkpoints of a journal, from the node's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointNumber(pub u32);

/// Who walks past all entries. Each at its own pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// A checkpoint of the journal.
    Checkpoint,
    /// A look for what no table lists any more.
    Unlisted,
}

const WALKS: usize = 2;

impl Entry {
    /// A fresh entry, shown to nobody yet.
    pub fn new(mapping: Arc<Mapping>, freshness: Freshness, bucket_generation: u64) -> Entry {
        let readers = Readers::default();
        Entry {
            mapping,
            freshness,
            bucket_generation,
            readers,
            read_since: false,
            journaled: None,
            is_hearsay: false,
        }
    }

    /// Until when an identity is believed to be allowed it; `None` of one that it was not shown to.
    pub fn allows_until(&self, identity: IdentityId) -> Option<Monotonic> {
        self.readers.until(identity)
    }

    /// Whether it says the same of the same time as another.
    fn is_as_good_as(&self, other: &Entry) -> bool {
        self.bucket_generation == other.bucket_generation
            && self.freshness == other.freshness
            && self.mapping == other.mapping
    }

    fn weight_bytes(&self) -> u64 {
        self.mapping.weight_bytes() + self.readers.weight_bytes()
    }
}

/// Mappings by name.
#[derive(Debug)]
pub struct MappingTable {
    entries: HashMap<Arc<ObjectName>, Entry>,
    hand: VecDeque<Arc<ObjectName>>,
    /// How far walks have come that are under way.
    walks: [Option<usize>; WALKS],
    held_bytes: u64,
    budget_bytes: u64,
    /// Of the budget, what somebody else has for a while.
    lent_bytes: u64,
    evicted: u64,
}

impl MappingTable {
    /// An empty table that never holds more than `budget_bytes`.
    pub fn new(budget_bytes: u64) -> MappingTable {
        MappingTable {
            entries: HashMap::default(),
            hand: VecDeque::new(),
            walks: [None; WALKS],
            held_bytes: 0,
            budget_bytes,
            lent_bytes: 0,
            evicted: 0,
        }
    }

    /// The entry of a name.
    pub fn get(&mut self, name: NameRef<'_>) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(&name)?;
        entry.read_since = true;
        Some(entry)
    }

    /// The same, by one that is no reader.
    pub fn peek(&mut self, name: NameRef<'_>) -> Option<&mut Entry> {
        self.entries.get_mut(&name)
    }

    /// Whether a version is believed until something is heard of it. The node's own reads see to it: what a
    /// catalog vouches for is to be asked about no more once it is warm.
    pub fn is_immutable(&self, name: NameRef<'_>) -> bool {
        self.entries.get(&name).is_some_and(|entry| entry.freshness == Freshness::Immutable)
    }

    /// Lends so much of the budget to one who needs memory for a while; with nothing, all is back.
    pub fn lend(&mut self, bytes: u64) {
        self.lent_bytes = bytes.min(self.budget_bytes);
        self.evict_to_budget();
    }

    /// Bytes of mappings that could be installed without evicting others.
    pub fn room_bytes(&self) -> u64 {
        (self.budget_bytes - self.lent_bytes).saturating_sub(self.held_bytes)
    }

    /// Whether a mapping could be installed that would evict no other.
    pub fn has_room(&self, mapping: &Mapping) -> bool {
        mapping.weight_bytes() <= self.room_bytes()
    }

    /// Begins a walk past all entries.
    pub fn begin_walk(&mut self, walk: Walk) {
        self.walks[walk as usize] = Some(0);
    }

    /// Walks on past so many places at most, as long as `visit` says so; whether the end was reached.
    /// An entry that was there when the walk began and still is, is visited once at least.
    pub fn walk(
        &mut self,
        walk: Walk,
        places: usize,
        mut visit: impl FnMut(&mut Entry) -> bool,
    ) -> bool {
        let reached = &mut self.walks[walk as usize];
        let Some(start) = *reached else { return true };
        for place in start..start + places {
            *reached = Some(place);
            let Some(name) = self.hand.get(place) else {
                *reached = None;
                return true;
            };
            if self.entries.get_mut(name).is_some_and(|entry| !visit(entry)) {
                return false;
            }
        }
        *reached = Some(start + places);
        false
    }

    /// Replaces the mapping of a name, whole. Who was shown this version is still allowed it.
    pub fn install(&mut self, mut entry: Entry) {
        let name = Arc::clone(&entry.mapping.name);
        match self.entries.remove(&name) {
            Some(old) => {
                self.held_bytes -= old.weight_bytes();
                if old.is_as_good_as(&entry) {
                    entry.journaled = old.journaled;
                }
                if old.mapping.version == entry.mapping.version {
                    entry.readers = old.readers;
                }
            }
            None => self.hand.push_back(Arc::clone(&name)),
        }
        self.held_bytes += entry.weight_bytes();
        self.entries.insert(name, entry);
        self.evict_to_budget();
    }

    /// Replaces a mapping by one that says the same of the same version, but for which bytes are in which store: all
    /// that its home knows about it stays. Gives the entry, which the journal does not have as it is now; `None`
    /// where another mapping is known by now.
    pub fn replace(&mut self, mapping: &Arc<Mapping>, by: Arc<Mapping>) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(&mapping.name.as_ref().as_ref())?;
        if !Arc::ptr_eq(&entry.mapping, mapping) {
            return None;
        }
        assert!(
            by.version == mapping.version && by.weight_bytes() == mapping.weight_bytes(),
            "the same fact about the same object"
        );
        (entry.mapping, entry.journaled) = (by, None);
        Some(entry)
    }

    /// Notes that the origin has shown a version to an identity.
    pub fn allow(&mut self, mapping: &Mapping, identity: IdentityId, until: Monotonic) {
        let name = mapping.name.as_ref().as_ref();
        if let Some(entry) = self.entries.get_mut(&name)
            && entry.mapping.version == mapping.version
        {
            let before = entry.readers.weight_bytes();
            entry.readers.allow(identity, until);
            self.held_bytes = self.held_bytes - before + entry.readers.weight_bytes();
            self.evict_to_budget();
        }
    }

    /// Notes that the origin has refused an object to an identity; says whether somebody else is
    /// still allowed it.
    pub fn refuse(&mut self, name: NameRef<'_>, identity: IdentityId) -> bool {
        let Some(entry) = self.entries.get_mut(&name) else { return false };
        entry.readers.refuse(identity);
        !entry.readers.is_empty()
    }

    /// Forgets a name; says whether it was known.
    pub fn forget(&mut self, name: NameRef<'_>) -> bool {
        let Some(entry) = self.entries.remove(&name) else { return false };
        self.held_bytes -= entry.weight_bytes();
        if self.hand.len() > 2 * self.entries.len() + HAND_SLACK {
            let entries = &self.entries;
            let mut seen = nilas_base::HashSet::default();
            let (mut place, mut swept) = (0, [0; WALKS]);
            self.hand.retain(|name| {
                let is_kept = entries.contains_key(name) && seen.insert(Arc::clone(name));
                for (swept, walk) in swept.iter_mut().zip(&self.walks) {
                    *swept += usize::from(!is_kept && walk.is_some_and(|walk| place < walk));
                }
                place += 1;
                is_kept
            });
            for (walk, swept) in self.walks.iter_mut().zip(swept) {
                *walk = walk.map(|walk| walk - swept);
            }
        }
        true
    }

    fn evict_to_budget(&mut self) {
        while self.held_bytes > self.budget_bytes - self.lent_bytes {
            let Some(name) = self.hand.pop_front() else { return };
            self.walks = self.walks.map(|walk| walk.map(|walk| walk.saturating_sub(1)));
            let Some(entry) = self.entries.get_mut(&name) else { continue };
            if std::mem::take(&mut entry.read_since) && self.entries.len() > 1 {
                self.hand.push_back(name);
                continue;
            }
            if let Some(entry) = self.entries.remove(&name) {
                self.held_bytes -= entry.weight_bytes();
                self.evicted += 1;
            }
        }
    }

    /// Bytes held, never above the budget.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Mappings held.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Mappings evicted so far.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }
}

/// Names of forgotten entries that may wait in the hand before it is swept.
const HAND_SLACK: usize = 1024;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::identity::HomeHash;
    use crate::mapping::StoreClass;
    use crate::purge::Era;

    fn name(number: u8) -> Arc<ObjectName> {
        Arc::new(ObjectName { bucket: "lake".into(), key: format!("key-{number}").into() })
    }

    fn mapping(number: u8, version: u8, header_bytes: usize) -> Arc<Mapping> {
        Arc::new(Mapping {
            name: name(number),
            home_hash: HomeHash(u64::from(number)),
            version: [version; 16],
            etag: format!("\"{version}\"").into(),
            length: u64::from(version),
            last_modified: None,
            headers: vec![b'h'; header_bytes].into(),
            checksums: None,
            era: Era(0),
            class: StoreClass::Data,
            tail_start: 1,
        })
    }

    fn entry(mapping: Arc<Mapping>) -> Entry {
        Entry::new(mapping, Freshness::Immutable, 0)
    }

    #[derive(Clone, Debug)]
    enum Step {
        Install { number: u8, version: u8, header_bytes: usize },
        Read(u8),
        Forget(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        let number = 0..24_u8;
        prop_oneof![
            3 => (number.clone(), any::<u8>(), 0..3000_usize).prop_map(
                |(number, version, header_bytes)| Step::Install { number, version, header_bytes }
            ),
            2 => number.clone().prop_map(Step::Read),
            1 => number.prop_map(Step::Forget),
        ]
    }

    proptest! {
        #[test]
        fn the_budget_holds_and_only_the_newest_mapping_is_found(
            steps in proptest::collection::vec(step(), 1..300),
            budget_bytes in prop_oneof![0..2_000_u64, 4_000..20_000_u64],
        ) {
            let mut table = MappingTable::new(budget_bytes);
            // Who was installed last under a name; the table may have less, never another.
            let mut newest = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Install { number, version, header_bytes } => {
                        let mapping = mapping(number, version, header_bytes);
                        newest.insert(number, Arc::clone(&mapping));
                        table.install(entry(mapping));
                    }
                    Step::Read(number) => {
                        if let Some(found) = table.get(name(number).as_ref().as_ref()) {
                            prop_assert_eq!(Some(&found.mapping), newest.get(&number));
                        }
                    }
                    Step::Forget(number) => {
                        let was_known = table.forget(name(number).as_ref().as_ref());
                        prop_assert!(!was_known || newest.contains_key(&number));
                        newest.remove(&number);
                    }
                }
                prop_assert!(table.held_bytes() <= budget_bytes);
                let held: u64 =
                    table.entries.values().map(Entry::weight_bytes).sum();
                prop_assert_eq!(held, table.held_bytes());
                prop_assert!(table.hand.len() <= 2 * table.len() + HAND_SLACK + 1);
            }
        }
    }

    #[test]
    fn what_is_lent_is_not_there_for_mappings_until_it_is_back() {
        let one = mapping(0, 1, 100).weight_bytes();
        let mut table = MappingTable::new(4 * one);
        (0..4).for_each(|number| table.install(entry(mapping(number, 1, 100))));
        table.lend(2 * one);
        assert_eq!((table.len(), table.room_bytes()), (2, 0));
        table.install(entry(mapping(4, 1, 100)));
        assert_eq!(table.held_bytes(), 2 * one);
        table.lend(0);
        assert_eq!(table.room_bytes(), 2 * one);
        table.lend(100 * one);
        assert!(table.is_empty());
    }

    #[test]
    fn what_is_read_outlives_what_is_not() {
        let one = mapping(0, 1, 100).weight_bytes();
        let mut table = MappingTable::new(3 * one);
        for number in 0..3 {
            table.install(entry(mapping(number, 1, 100)));
        }
        assert!(table.get(name(0).as_ref().as_ref()).is_some());
        table.install(entry(mapping(3, 1, 100)));
        let is_held =
            |table: &mut MappingTable, number| table.get(name(number).as_ref().as_ref()).is_some();
        assert!(is_held(&mut table, 0) && !is_held(&mut table, 1));
        assert_eq!((table.len(), table.evicted()), (3, 1));
    }

    #[test]
    fn names_that_come_and_go_leave_nothing_behind() {
        let mut table = MappingTable::new(1 << 20);
        for round in 0..20_000_u32 {
            table.install(entry(mapping((round % 7) as u8, 1, 10)));
            assert!(table.forget(name((round % 7) as u8).as_ref().as_ref()));
        }
        assert!(table.is_empty() && table.held_bytes() == 0);
        assert!(table.hand.len() <= HAND_SLACK + 1, "{} names wait", table.hand.len());
    }
}

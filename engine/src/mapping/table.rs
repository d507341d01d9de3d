//! The mappings of one home shard, under a budget in bytes. Evicts by second chance: an entry that
//! was read since the hand last passed is spared once. Losing one costs a question to the origin.

use std::collections::VecDeque;
use std::sync::Arc;

use nilas_base::{HashMap, Monotonic};

use super::Mapping;
use crate::identity::{NameRef, ObjectName};

/// How long a mapping may be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// For as long as no write to the key is seen.
    Immutable,
    /// Until then; after it the origin is asked.
    Until(Monotonic),
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
    read_since: bool,
}

impl Entry {
    /// A fresh entry.
    pub fn new(mapping: Arc<Mapping>, freshness: Freshness, bucket_generation: u64) -> Entry {
        Entry { mapping, freshness, bucket_generation, read_since: false }
    }
}

/// Mappings by name.
#[derive(Debug)]
pub struct MappingTable {
    entries: HashMap<Arc<ObjectName>, Entry>,
    hand: VecDeque<Arc<ObjectName>>,
    held_bytes: u64,
    budget_bytes: u64,
    evicted: u64,
}

impl MappingTable {
    /// An empty table that never holds more than `budget_bytes`.
    pub fn new(budget_bytes: u64) -> MappingTable {
        MappingTable {
            entries: HashMap::default(),
            hand: VecDeque::new(),
            held_bytes: 0,
            budget_bytes,
            evicted: 0,
        }
    }

    /// The entry of a name.
    pub fn get(&mut self, name: NameRef<'_>) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(&name)?;
        entry.read_since = true;
        Some(entry)
    }

    /// Replaces the mapping of a name, whole.
    pub fn install(&mut self, entry: Entry) {
        let name = Arc::clone(&entry.mapping.name);
        self.held_bytes += entry.mapping.weight_bytes();
        match self.entries.insert(Arc::clone(&name), entry) {
            Some(old) => self.held_bytes -= old.mapping.weight_bytes(),
            None => self.hand.push_back(name),
        }
        self.evict_to_budget();
    }

    /// Forgets a name; says whether it was known.
    pub fn forget(&mut self, name: NameRef<'_>) -> bool {
        let Some(entry) = self.entries.remove(&name) else { return false };
        self.held_bytes -= entry.mapping.weight_bytes();
        if self.hand.len() > 2 * self.entries.len() + HAND_SLACK {
            let entries = &self.entries;
            let mut seen = nilas_base::HashSet::default();
            self.hand.retain(|name| entries.contains_key(name) && seen.insert(Arc::clone(name)));
        }
        true
    }

    fn evict_to_budget(&mut self) {
        while self.held_bytes > self.budget_bytes {
            let Some(name) = self.hand.pop_front() else { return };
            let Some(entry) = self.entries.get_mut(&name) else { continue };
            if std::mem::take(&mut entry.read_since) && self.entries.len() > 1 {
                self.hand.push_back(name);
                continue;
            }
            if let Some(entry) = self.entries.remove(&name) {
                self.held_bytes -= entry.mapping.weight_bytes();
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

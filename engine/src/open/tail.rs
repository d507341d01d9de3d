//! Which of an object's end is planning metadata. The node's own reads say it, of files whose tables are known; it is
//! kept with the version and grows towards the front only, so that no byte of it moves back among the data.

use std::sync::Arc;

use crate::identity::Digest16;
use crate::mapping::{Entry, Mapping};
use crate::persist;
use crate::shard::Shard;

/// From where on an object is planning metadata.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tails {
    /// As is said now, of whichever version is current.
    said: Option<u64>,
    /// As is known of one.
    known: Option<(Digest16, u64)>,
}

impl Tails {
    /// Of what is said now, and of what is known.
    pub(super) fn of(said: Option<u64>, known: Option<&Mapping>) -> Tails {
        Tails { said, known: known.map(|known| (known.version, known.tail_start)) }
    }

    /// A version with as much of its end in the metadata store as is known of it.
    pub(super) fn tailed(&self, mapping: Arc<Mapping>) -> Arc<Mapping> {
        let Tails { said, known } = *self;
        let known = known.filter(|(version, _)| *version == mapping.version);
        let starts = [said, known.map(|(_, start)| start)];
        match starts.into_iter().flatten().min() {
            Some(start) if start < mapping.tail_start => Arc::new(mapping.with_tail(start)),
            _ => mapping,
        }
    }
}

/// Notes how much of an object's end is planning metadata, where that is more than was known.
pub(super) fn note(shard: &Shard, mapping: Arc<Mapping>, tail_start: Option<u64>) -> Arc<Mapping> {
    let Some(tail_start) = tail_start.filter(|start| *start < mapping.tail_start) else {
        return mapping;
    };
    let tailed = Arc::new(mapping.with_tail(tail_start));
    let mut mappings = shard.mappings.borrow_mut();
    let name = mapping.name.as_ref().as_ref();
    let known = mappings.peek(name).filter(|entry| Arc::ptr_eq(&entry.mapping, &mapping));
    let Some((freshness, generation)) =
        known.map(|entry| (entry.freshness, entry.bucket_generation))
    else {
        return tailed;
    };
    mappings.install(Entry::new(Arc::clone(&tailed), freshness, generation));
    if let Some(entry) = mappings.peek(name) {
        persist::keep(shard, entry);
    }
    tailed
}

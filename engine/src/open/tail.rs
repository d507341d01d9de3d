//! Which of an object's end is planning metadata. The node's own reads say it, of files whose tables are known; it is
//! kept with the version and grows towards the front only, so that no byte of it moves back among the data.

use std::sync::Arc;

use crate::identity::Digest16;
use crate::mapping::{Mapping, StoreClass};
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
    pub(super) fn of(shard: &Shard, said: Option<u64>, known: Option<&Mapping>) -> Tails {
        let said = said.map(|start| sector_start(shard, start));
        Tails { said, known: known.map(|known| (known.version, known.tail_start)) }
    }

    /// A version with as much of its end in the metadata store as is known of it.
    pub(super) fn tailed(&self, mapping: Arc<Mapping>) -> Arc<Mapping> {
        let Tails { said, known } = *self;
        let known = known.filter(|(version, _)| *version == mapping.version);
        let starts = [said, known.map(|(_, start)| start)];
        match starts.into_iter().flatten().min() {
            Some(start) if is_news(&mapping, start) => Arc::new(mapping.with_tail(start)),
            _ => mapping,
        }
    }
}

/// Notes how much of an object's end is planning metadata, where that is more than was known.
pub(super) fn note(shard: &Shard, mapping: Arc<Mapping>, tail_start: Option<u64>) -> Arc<Mapping> {
    let said = tail_start.map(|start| sector_start(shard, start));
    let Some(start) = said.filter(|start| is_news(&mapping, *start)) else { return mapping };
    let tailed = Arc::new(mapping.with_tail(start));
    let mut mappings = shard.mappings.borrow_mut();
    if let Some(entry) = mappings.replace(&mapping, Arc::clone(&tailed)) {
        persist::keep(shard, entry);
    }
    tailed
}

/// Whether that is more of an object's end than was known. What is metadata as a whole has no such part.
fn is_news(mapping: &Mapping, tail_start: u64) -> bool {
    mapping.class == StoreClass::Data && tail_start < mapping.tail_start
}

/// Where the sector of the metadata store begins that a tail begins in.
fn sector_start(shard: &Shard, tail_start: u64) -> u64 {
    let sector_bytes = shard.settings.sector_bytes(StoreClass::Metadata);
    tail_start / sector_bytes * sector_bytes
}

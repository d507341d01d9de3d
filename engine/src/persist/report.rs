//! What is told of the journal: how full it is, what it has done, and what it was worth at the start.

use crate::metrics::{JournalCount, Resource};
use crate::shard::Shard;

/// Tells the counters what has happened so far, and what is in use.
pub fn report(shard: &Shard) {
    let Some(persist) = &shard.persist else { return };
    let counters = &shard.counters;
    counters.journal_so_far(JournalCount::Replayed, persist.replayed.get());
    counters.journal_so_far(JournalCount::Damaged, persist.is_damaged.get().into());
    let Some(journal) = persist.journal.get() else { return };
    let usage = journal.usage();
    counters.in_use(Resource::DiskMappingBytes, usage.log_bytes);
    for (what, count) in [
        (JournalCount::Entries, usage.entries),
        (JournalCount::Dropped, usage.dropped_entries),
        (JournalCount::Batches, usage.batches),
        (JournalCount::Syncs, usage.syncs),
        (JournalCount::Checkpoints, usage.checkpoints),
        (JournalCount::Failed, journal.has_failed().into()),
    ] {
        counters.journal_so_far(what, count);
    }
}

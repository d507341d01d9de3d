//! What a snapshot is worth to readers: most ask for the current one.

use nilas_base::HashSet;

use crate::metadata::{Snapshot, TableMetadata};

/// Groups of snapshots, the most asked for first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// The snapshot of `main`.
    Current,
    /// Those that other branches and tags name.
    Named,
    /// The rest: time travel, and readers that began earlier.
    History,
}

/// All snapshots, within a tier the latest first.
pub(super) fn tiers(metadata: &TableMetadata) -> Vec<(Tier, &Snapshot)> {
    let named: HashSet<i64> = metadata.references.iter().map(|named| named.snapshot_id).collect();
    let mut tiers: Vec<(Tier, &Snapshot)> = metadata
        .snapshots
        .iter()
        .map(|snapshot| {
            let tier = if metadata.current_snapshot_id == Some(snapshot.id) {
                Tier::Current
            } else if named.contains(&snapshot.id) {
                Tier::Named
            } else {
                Tier::History
            };
            (tier, snapshot)
        })
        .collect();
    let age = |snapshot: &Snapshot| (snapshot.sequence_number, snapshot.timestamp_ms);
    tiers.sort_by_key(|(tier, snapshot)| (*tier, std::cmp::Reverse(age(snapshot))));
    tiers
}

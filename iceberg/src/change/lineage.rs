//! Where `main` went: from one snapshot to another along their parents.

use nilas_base::{HashMap, HashSet};

use crate::metadata::TableMetadata;

/// Where `main` went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lineage {
    /// It stayed.
    Same,
    /// To a descendant, or to the first snapshot: commits.
    Forward,
    /// To an ancestor: a rollback.
    Back,
    /// To a snapshot on another branch, such as after a rollback and a commit between two polls.
    Aside,
    /// To nothing.
    Emptied,
    /// Snapshots in between have expired unseen, and nothing tells the way.
    Untold,
}

pub(super) fn lineage(old: &TableMetadata, new: &TableMetadata) -> Lineage {
    let (from, to) = match (old.current_snapshot_id, new.current_snapshot_id) {
        (from, to) if from == to => return Lineage::Same,
        (_, None) => return Lineage::Emptied,
        (None, Some(_)) => return Lineage::Forward,
        (Some(from), Some(to)) => (from, to),
    };
    // Expired ancestors are still known to the old state.
    let snapshots = old.snapshots.iter().chain(&new.snapshots);
    let parents: HashMap<i64, Option<i64>> =
        snapshots.map(|snapshot| (snapshot.id, snapshot.parent_id)).collect();
    let (after, after_whole) = ancestors(&parents, to);
    let (before, before_whole) = ancestors(&parents, from);
    if after.contains(&from) {
        Lineage::Forward
    } else if before.contains(&to) {
        Lineage::Back
    } else if after_whole && before_whole || !after.is_disjoint(&before) {
        Lineage::Aside
    } else {
        Lineage::Untold
    }
}

/// A snapshot and those before it, and whether they reach back to a first one.
fn ancestors(parents: &HashMap<i64, Option<i64>>, from: i64) -> (HashSet<i64>, bool) {
    let mut seen = HashSet::default();
    let mut next = Some(from);
    while let Some(id) = next {
        // A ring of parents is nonsense, and has no first one.
        if !seen.insert(id) {
            return (seen, false);
        }
        match parents.get(&id) {
            Some(parent) => next = *parent,
            None => return (seen, false),
        }
    }
    (seen, true)
}

//! What became of a table between two states: files and metadata that came and went, every commit in
//! between, and what moved. Manifests are compared by path first; unchanged ones are only asked
//! whether they, too, have a file that came or went elsewhere.
//! → `commit` for one snapshot against its parent, `lineage` for where `main` went.

mod commit;
mod lineage;
#[cfg(test)]
mod model;
#[cfg(test)]
mod speed;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use nilas_base::{HashMap, HashSet};

use crate::manifest::{File, FileKey, Manifest};
use crate::metadata::{Reference, TableMetadata};
use crate::state::TableState;

pub use commit::{Commit, Shown};
pub use lineage::Lineage;
#[cfg(test)]
pub(crate) use model::supplied;

/// A file of a manifest, held on to.
#[derive(Clone, Debug)]
pub struct FileRef {
    manifest: Arc<Manifest>,
    index: u32,
}

impl FileRef {
    /// The entry.
    pub fn file(&self) -> File<'_> {
        self.manifest.file(self.index as usize)
    }

    /// The manifest that lists it.
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }
}

/// What became of a table.
#[derive(Clone, Debug)]
pub struct Change {
    /// Another table has taken the name: nothing of the old one is of use.
    pub is_another_table: bool,
    /// Every list and manifest of the new state was held. Without them it cannot be known that a file
    /// is listed nowhere, and `removed` is empty.
    pub is_complete: bool,
    /// Files that some snapshot has and none had, as far as the old state held its manifests: what it
    /// lacked counts as added.
    pub added: Vec<FileRef>,
    /// Files that some snapshot had and none has.
    pub removed: Vec<FileRef>,
    /// Metadata files that the table names and did not name.
    pub objects_added: Vec<Arc<str>>,
    /// Metadata files that the table named and names no more.
    pub objects_removed: Vec<Arc<str>>,
    /// Metadata files that it named and still names.
    pub objects_kept: usize,
    /// Snapshots that are new, the oldest first.
    pub commits: Vec<Commit>,
    /// Snapshots that are no more.
    pub expired: Vec<i64>,
    /// Branches and tags that came, went or moved.
    pub references: Vec<ReferenceChange>,
    /// Where `main` went.
    pub lineage: Lineage,
}

/// A branch or a tag that came, went or moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceChange {
    /// Its name.
    pub name: Box<str>,
    /// The snapshot that it named.
    pub from: Option<i64>,
    /// The snapshot that it names.
    pub to: Option<i64>,
}

impl Change {
    /// The change from one state of a table to another, later or earlier.
    pub fn between(old: &TableState, new: &TableState) -> Change {
        let is_complete = new.is_complete();
        let (added, mut removed) = files(old, new);
        if !is_complete {
            removed.clear();
        }
        let (old_objects, new_objects) = (old.objects(), new.objects());
        let objects_added = difference(&new_objects, &old_objects);
        Change {
            is_another_table: is_another_table(old.metadata(), new.metadata()),
            is_complete,
            added,
            removed,
            objects_kept: new_objects.len() - objects_added.len(),
            objects_added,
            objects_removed: difference(&old_objects, &new_objects),
            commits: commit::commits(old, new),
            expired: expired(old.metadata(), new.metadata()),
            references: references(&old.metadata().references, &new.metadata().references),
            lineage: lineage::lineage(old.metadata(), new.metadata()),
        }
    }

    /// Files that some snapshot had and some snapshot has; `new` is the state that the change leads to.
    pub fn kept<'a>(&self, new: &'a TableState) -> impl Iterator<Item = File<'a>> {
        let added: HashSet<FileKey<'_>> =
            self.added.iter().map(|added| added.file().key()).collect();
        new.live_files().filter(move |file| !added.contains(&file.key()))
    }

    /// Whether nothing that a cache cares for has changed.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty()
            && self.removed.is_empty()
            && self.objects_added.is_empty()
            && self.objects_removed.is_empty()
            && self.references.is_empty()
    }
}

/// Whether another table has taken a name. Without uuids, as in some tables of format 1, the root tells.
pub fn is_another_table(old: &TableMetadata, new: &TableMetadata) -> bool {
    match (&old.uuid, &new.uuid) {
        (Some(old), Some(new)) => !old.eq_ignore_ascii_case(new),
        _ => old.location != new.location,
    }
}

fn files(old: &TableState, new: &TableState) -> (Vec<FileRef>, Vec<FileRef>) {
    let (came, went) = (only_in(new, old), only_in(old, new));
    let (mut added, mut removed) = (live_keys(&came), live_keys(&went));
    // Rewritten manifests list again what was there.
    added.retain(|key, _| removed.remove(key).is_none());
    if !(added.is_empty() && removed.is_empty()) {
        for (_, manifest) in old.manifests().filter(|(file, _)| new.manifest(&file.path).is_some())
        {
            for (_, file) in manifest.live_files() {
                let key = file.key();
                added.remove(&key);
                removed.remove(&key);
            }
        }
    }
    (in_order(&came, added), in_order(&went, removed))
}

/// Manifests that one state holds and the other does not, the oldest first.
fn only_in<'a>(one: &'a TableState, other: &TableState) -> Vec<&'a Arc<Manifest>> {
    let mut only: Vec<_> =
        one.manifests().filter(|(file, _)| other.manifest(&file.path).is_none()).collect();
    only.sort_by_key(|(file, _)| (file.sequence_number, file.path.clone()));
    only.into_iter().map(|(_, manifest)| manifest).collect()
}

/// The files of some manifests that are live there, each once: by the manifest's number and its own.
fn live_keys<'a>(manifests: &[&'a Arc<Manifest>]) -> HashMap<FileKey<'a>, (u32, u32)> {
    let mut keys = HashMap::default();
    for (number, manifest) in manifests.iter().enumerate() {
        for (index, file) in manifest.live_files() {
            keys.entry(file.key()).or_insert((number as u32, index as u32));
        }
    }
    keys
}

fn in_order(manifests: &[&Arc<Manifest>], keys: HashMap<FileKey<'_>, (u32, u32)>) -> Vec<FileRef> {
    let mut places: Vec<(u32, u32)> = keys.into_values().collect();
    places.sort_unstable();
    let refer = |(number, index): (u32, u32)| {
        let manifest = manifests[number as usize].clone();
        FileRef { manifest, index }
    };
    places.into_iter().map(refer).collect()
}

fn difference(one: &HashSet<&Arc<str>>, other: &HashSet<&Arc<str>>) -> Vec<Arc<str>> {
    let mut only: Vec<Arc<str>> = one.difference(other).map(|path| (*path).clone()).collect();
    only.sort();
    only
}

fn expired(old: &TableMetadata, new: &TableMetadata) -> Vec<i64> {
    let there: HashSet<i64> = new.snapshots.iter().map(|snapshot| snapshot.id).collect();
    let ids = old.snapshots.iter().map(|snapshot| snapshot.id);
    ids.filter(|id| !there.contains(id)).collect()
}

/// Both are ordered by name but for a `main` that nobody wrote down.
fn references(old: &[Reference], new: &[Reference]) -> Vec<ReferenceChange> {
    let target = |references: &[Reference], name: &str| {
        let found = references.iter().find(|reference| &*reference.name == name);
        found.map(|reference| reference.snapshot_id)
    };
    let mut names: Vec<&str> = old.iter().chain(new).map(|reference| &*reference.name).collect();
    names.sort_unstable();
    names.dedup();
    let changes = names.into_iter().map(|name| ReferenceChange {
        name: name.into(),
        from: target(old, name),
        to: target(new, name),
    });
    changes.filter(|change| change.from != change.to).collect()
}

//! One commit: what its snapshot has that its parent had not, held against what its summary claims.
//! Where the parent has expired unseen, the entries' own statuses tell.

use std::sync::Arc;

use nilas_base::{HashMap, HashSet};

use super::{FileRef, in_order, live_keys};
use crate::fault::Fault;
use crate::manifest::{Content, FileStatus, Manifest, ManifestFile, ManifestList};
use crate::metadata::{Operation, Snapshot, Summary};
use crate::state::TableState;

/// A snapshot that is new, and what its commit did.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The snapshot.
    pub snapshot_id: i64,
    /// The one that it was made from.
    pub parent_id: Option<i64>,
    /// When, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// Branches and tags in whose history it is; none for a staged one.
    pub branches: Vec<Box<str>>,
    /// What its writer says that it is.
    pub claimed: Option<Operation>,
    /// What its manifests show; `None` as long as some of them are lacking.
    pub shown: Option<Shown>,
    /// What to act on: the claim, unless the manifests contradict it.
    pub operation: Operation,
    /// Each claim that the manifests contradict.
    pub lies: Vec<Fault>,
    /// Files that it added.
    pub added: Vec<FileRef>,
    /// Files that it removed.
    pub removed: Vec<FileRef>,
}

/// What the manifests of a commit show, in files and rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Data files that came.
    pub data_added: u64,
    /// Data files that went.
    pub data_removed: u64,
    /// Delete files and deletion vectors that came.
    pub deletes_added: u64,
    /// Delete files and deletion vectors that went.
    pub deletes_removed: u64,
    /// Rows of the data files that came.
    pub rows_added: u64,
    /// Rows of the data files that went, deleted ones included.
    pub rows_removed: u64,
}

impl Shown {
    fn of(added: &[FileRef], removed: &[FileRef]) -> Shown {
        let count = |files: &[FileRef]| {
            files.iter().map(FileRef::file).fold((0, 0, 0_u64), |(data, deletes, rows), file| {
                match file.content {
                    Content::Data => (data + 1, deletes, rows.saturating_add(file.records)),
                    _ => (data, deletes + 1, rows),
                }
            })
        };
        let (data_added, deletes_added, rows_added) = count(added);
        let (data_removed, deletes_removed, rows_removed) = count(removed);
        Shown { data_added, data_removed, deletes_added, deletes_removed, rows_added, rows_removed }
    }

    /// The operation that the files look like. A commit that changes none looks like one that
    /// rewrites manifests.
    pub fn operation(&self) -> Operation {
        let takes_rows = self.data_removed + self.deletes_added > 0;
        match (self.data_added > 0, takes_rows) {
            (true, false) if self.deletes_removed == 0 => Operation::Append,
            (true, _) => Operation::Overwrite,
            (false, true) => Operation::Delete,
            (false, false) => Operation::Replace,
        }
    }

    /// Why the files cannot be of that operation, as the format describes it ("Snapshots"). An
    /// overwrite may do anything: one of empty partitions only adds.
    fn contradicts(&self, operation: &Operation) -> Option<&'static str> {
        let removed = self.data_removed + self.deletes_removed;
        match operation {
            Operation::Append if removed > 0 => Some("files were removed"),
            Operation::Append if self.deletes_added > 0 => Some("deletes were added"),
            Operation::Delete if self.data_added > 0 => Some("data files were added"),
            Operation::Replace if self.rows_added > self.rows_removed => Some("rows were added"),
            Operation::Replace if self.data_added > 0 && self.data_removed == 0 => {
                Some("data files were added and none removed")
            }
            Operation::Replace if self.deletes_added > 0 && removed == 0 => {
                Some("deletes were added and nothing removed")
            }
            _ => None,
        }
    }
}

/// Every snapshot of the new state that the old one has not, the oldest first.
pub(super) fn commits(old: &TableState, new: &TableState) -> Vec<Commit> {
    let known: HashSet<i64> = old.metadata().snapshots.iter().map(|snapshot| snapshot.id).collect();
    let snapshots = &new.metadata().snapshots;
    let mut fresh: Vec<&Snapshot> =
        snapshots.iter().filter(|snapshot| !known.contains(&snapshot.id)).collect();
    fresh.sort_by_key(|snapshot| (snapshot.sequence_number, snapshot.timestamp_ms, snapshot.id));
    let by_id = |state: &TableState| -> HashMap<i64, Arc<ManifestList>> {
        let snapshots = state.metadata().snapshots.iter();
        snapshots.filter_map(|of| Some((of.id, state.list(of)?.clone()))).collect()
    };
    let lists = Lists { old, new, old_lists: by_id(old), new_lists: by_id(new) };
    let branches = branches(new, &fresh);
    let commit = |snapshot: &&Snapshot| {
        let branches = branches.get(&snapshot.id).cloned().unwrap_or_default();
        lists.commit(snapshot, branches)
    };
    fresh.iter().map(commit).collect()
}

/// For each new snapshot, the branches and tags in whose history it is.
fn branches(new: &TableState, fresh: &[&Snapshot]) -> HashMap<i64, Vec<Box<str>>> {
    let parents: HashMap<i64, Option<i64>> =
        fresh.iter().map(|snapshot| (snapshot.id, snapshot.parent_id)).collect();
    let mut branches: HashMap<i64, Vec<Box<str>>> = HashMap::default();
    for reference in &new.metadata().references {
        let mut next = Some(reference.snapshot_id);
        while let Some(id) = next
            && let Some(parent) = parents.get(&id)
        {
            let names = branches.entry(id).or_default();
            if names.last() == Some(&reference.name) {
                break; // A ring of parents.
            }
            names.push(reference.name.clone());
            next = *parent;
        }
    }
    branches
}

struct Lists<'a> {
    old: &'a TableState,
    new: &'a TableState,
    old_lists: HashMap<i64, Arc<ManifestList>>,
    new_lists: HashMap<i64, Arc<ManifestList>>,
}

impl Lists<'_> {
    fn commit(&self, snapshot: &Snapshot, branches: Vec<Box<str>>) -> Commit {
        let files = self.files(snapshot);
        let shown = files.as_ref().map(|(added, removed)| Shown::of(added, removed));
        let claimed = snapshot.summary.operation.clone();
        let lies = shown.map_or(Vec::new(), |shown| lies(snapshot, &shown));
        let lied = shown.zip(claimed.as_ref());
        let lied = lied.is_some_and(|(shown, claimed)| shown.contradicts(claimed).is_some());
        let seen = || shown.map_or(Operation::Overwrite, |shown| shown.operation());
        let (added, removed) = files.unwrap_or_default();
        Commit {
            snapshot_id: snapshot.id,
            parent_id: snapshot.parent_id,
            timestamp_ms: snapshot.timestamp_ms,
            branches,
            operation: claimed.clone().filter(|_| !lied).unwrap_or_else(seen),
            claimed,
            shown,
            lies,
            added,
            removed,
        }
    }

    /// Files that a snapshot's commit added and removed, if all of the manifests that tell are held.
    fn files(&self, snapshot: &Snapshot) -> Option<(Vec<FileRef>, Vec<FileRef>)> {
        let list = self.new_lists.get(&snapshot.id)?;
        let Some(parent_id) = snapshot.parent_id else {
            return self.against(list, &[]);
        };
        let parent = self.new_lists.get(&parent_id).or_else(|| self.old_lists.get(&parent_id));
        match parent {
            Some(parent) => self.against(list, &parent.manifests),
            None => self.by_status(snapshot, list),
        }
    }

    fn against(
        &self,
        list: &ManifestList,
        parent: &[Arc<ManifestFile>],
    ) -> Option<(Vec<FileRef>, Vec<FileRef>)> {
        let came = self.only_in(&list.manifests, parent)?;
        let went = self.only_in(parent, &list.manifests)?;
        let (mut added, mut removed) = (live_keys(&came), live_keys(&went));
        added.retain(|key, _| removed.remove(key).is_none());
        Some((in_order(&came, added), in_order(&went, removed)))
    }

    fn only_in(
        &self,
        one: &[Arc<ManifestFile>],
        other: &[Arc<ManifestFile>],
    ) -> Option<Vec<&Arc<Manifest>>> {
        let others: HashSet<&str> = other.iter().map(|file| &*file.path).collect();
        let only = one.iter().filter(|file| !others.contains(&*file.path));
        only.map(|file| self.manifest(&file.path)).collect()
    }

    fn manifest(&self, path: &str) -> Option<&Arc<Manifest>> {
        self.new.manifest(path).or_else(|| self.old.manifest(path))
    }

    fn by_status(
        &self,
        snapshot: &Snapshot,
        list: &ManifestList,
    ) -> Option<(Vec<FileRef>, Vec<FileRef>)> {
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        for listed in &list.manifests {
            let manifest = self.manifest(&listed.path)?;
            for (index, file) in manifest.files().enumerate() {
                if file.snapshot_id.or(listed.added_snapshot_id) != Some(snapshot.id) {
                    continue;
                }
                let file_ref = FileRef { manifest: manifest.clone(), index: index as u32 };
                match file.status {
                    FileStatus::Added => added.push(file_ref),
                    FileStatus::Deleted => removed.push(file_ref),
                    FileStatus::Existing => {}
                }
            }
        }
        Some((added, removed))
    }
}

/// The claims of a summary that the manifests do not bear out.
fn lies(snapshot: &Snapshot, shown: &Shown) -> Vec<Fault> {
    let path = snapshot.manifest_list.as_deref().unwrap_or("");
    let id = snapshot.id;
    let Summary { operation, added_data_files, deleted_data_files } = &snapshot.summary;
    let mut lies = Vec::new();
    if let Some(operation) = operation
        && let Some(why) = shown.contradicts(operation)
    {
        let what = format!("snapshot {id} calls itself `{}`, but {why}", operation.text());
        lies.push(Fault::contradicted(path, what));
    }
    let counts = [
        ("added", *added_data_files, shown.data_added),
        ("deleted", *deleted_data_files, shown.data_removed),
    ];
    for (word, claimed, found) in counts {
        if let Some(claimed) = claimed.filter(|claimed| *claimed != found) {
            let what =
                format!("snapshot {id} claims {claimed} data files {word}, there are {found}");
            lies.push(Fault::contradicted(path, what));
        }
    }
    lies
}

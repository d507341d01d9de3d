//! The files of an older index and what has changed, into one sorted run, with the sums of each partition.

use nilas_base::HashMap;

use super::fact::{ListedFile, PartitionNumber, Sums, TableNumber};
use super::file_table::{Entry, FileTable};
use super::path_hash::FileId;

/// A file that a table lists now.
#[derive(Clone, Copy)]
pub(super) struct Addition {
    pub(super) id: FileId,
    pub(super) table: TableNumber,
    pub(super) file: ListedFile,
}

impl Addition {
    fn place(&self) -> (FileId, TableNumber) {
        (self.id, self.table)
    }
}

/// The run; an entry's owner is, so far, its partition's number.
#[derive(Default)]
pub(super) struct Merged {
    pub(super) entries: Vec<Entry>,
    pub(super) sums: HashMap<PartitionNumber, Sums>,
}

impl Merged {
    fn push(&mut self, id: FileId, file: &ListedFile) {
        self.entries.push(Entry::new(id, file, file.partition.0));
        self.sums.entry(file.partition).or_default().add(file);
    }
}

/// What is added takes the place of what the same table said of the same file before; of several
/// additions the last counts. `keeps` says which of the older files stay.
pub(super) fn merge(
    old: Option<&FileTable>,
    mut added: Vec<Addition>,
    keeps: impl Fn(FileId, TableNumber) -> bool,
) -> Merged {
    added.sort_by_key(Addition::place);
    added.dedup_by(|later, earlier| {
        let same = later.place() == earlier.place();
        if same {
            *earlier = *later;
        }
        same
    });
    let mut merged = Merged::default();
    merged.entries.reserve_exact(added.len() + old.map_or(0, |old| old.entries().len()));
    let mut added = added.iter().peekable();
    for (entry, names) in old.iter().flat_map(|old| old.entries().iter().map(|it| (it, &old.names)))
    {
        let fact = entry.fact(names);
        let place = (entry.id, fact.table);
        while let Some(before) = added.next_if(|addition| addition.place() < place) {
            merged.push(before.id, &before.file);
        }
        let replaced = added.peek().is_some_and(|addition| addition.place() == place);
        if !replaced && keeps(entry.id, fact.table) {
            merged.push(entry.id, &fact.file);
        }
    }
    added.for_each(|addition| merged.push(addition.id, &addition.file));
    merged
}

//! A table at one moment: its metadata, and the manifest lists and manifests that its snapshots name,
//! as far as they were supplied. States share what they have in common, so that no manifest is read
//! twice. What is lacking is named in the order in which it is worth fetching; nothing is fetched here.

#[cfg(test)]
mod tests;
mod tier;

use std::sync::Arc;

use nilas_base::{HashMap, HashSet};

use crate::fault::{Fault, Faults};
use crate::manifest::{File, FileKey, FileStatus, Manifest, ManifestFile, ManifestList};
use crate::metadata::{Snapshot, TableMetadata};

pub use tier::Tier;

/// A table at one moment.
#[derive(Clone, Debug)]
pub struct TableState {
    metadata: Arc<TableMetadata>,
    /// By path.
    lists: HashMap<Arc<str>, Piece<ManifestList>>,
    /// By snapshot, where no list has a path.
    inline: HashMap<i64, Arc<ManifestList>>,
    /// By path.
    manifests: HashMap<Arc<str>, Listed>,
    /// What an older state held, kept until all lists have said what they name.
    reserve: HashMap<Arc<str>, Listed>,
    faults: Faults,
}

/// A manifest that some list names.
#[derive(Clone, Debug)]
struct Listed {
    file: Arc<ManifestFile>,
    piece: Piece<Manifest>,
}

#[derive(Debug)]
enum Piece<T> {
    Missing,
    Held(Arc<T>),
    /// It was supplied or asked for in vain; a fault says why.
    Refused,
}

impl<T> Clone for Piece<T> {
    fn clone(&self) -> Piece<T> {
        match self {
            Piece::Missing => Piece::Missing,
            Piece::Held(held) => Piece::Held(held.clone()),
            Piece::Refused => Piece::Refused,
        }
    }
}

impl<T> Piece<T> {
    fn held(&self) -> Option<&Arc<T>> {
        match self {
            Piece::Held(held) => Some(held),
            Piece::Missing | Piece::Refused => None,
        }
    }

    /// Gives up what is missing, and nothing else.
    fn refuse(&mut self) -> bool {
        let missing = matches!(self, Piece::Missing);
        if missing {
            *self = Piece::Refused;
        }
        missing
    }

    /// What a later state takes over. What was refused is tried again: it may have been mended.
    fn inherited(&self) -> Piece<T> {
        self.held().map_or(Piece::Missing, |held| Piece::Held(held.clone()))
    }
}

/// An object that a state lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Where it is.
    pub path: Arc<str>,
    /// Its bytes; 0 where they are not known.
    pub length: u64,
    /// Which snapshots want it.
    pub tier: Tier,
}

/// What became of what was supplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supplied {
    /// It was a manifest list: more may be missing now.
    List,
    /// It was a manifest.
    Manifest,
    /// Nothing of that path is missing.
    Unwanted,
}

impl TableState {
    /// The state that a metadata.json opens; all the rest is missing.
    pub fn new(metadata: Arc<TableMetadata>) -> TableState {
        TableState::open(metadata, None)
    }

    /// The same table later, or earlier: what the old state holds and the new one names is taken over.
    pub fn after(old: &TableState, metadata: Arc<TableMetadata>) -> TableState {
        TableState::open(metadata, Some(old))
    }

    fn open(metadata: Arc<TableMetadata>, old: Option<&TableState>) -> TableState {
        let mut state = TableState {
            faults: metadata.faults.clone(),
            metadata: metadata.clone(),
            lists: HashMap::default(),
            inline: HashMap::default(),
            manifests: HashMap::default(),
            reserve: old.map_or_else(HashMap::default, TableState::held_manifests),
        };
        for snapshot in &metadata.snapshots {
            let Some(path) = &snapshot.manifest_list else {
                let list = Arc::new(ManifestList::inline(&snapshot.manifests));
                state.list_manifests(&list);
                state.inline.insert(snapshot.id, list);
                continue;
            };
            let piece = if snapshot.encrypted {
                state.faults.push(Fault::unsupported(path, "an encrypted manifest list"));
                Piece::Refused
            } else {
                let known = old.and_then(|old| old.lists.get(path));
                known.map_or(Piece::Missing, Piece::inherited)
            };
            if let Some(list) = piece.held() {
                state.list_manifests(list);
            }
            state.lists.insert(path.clone(), piece);
        }
        state.forget_reserve();
        state
    }

    /// What a later state may take over, whether this one names it or has yet to learn whether it does.
    fn held_manifests(&self) -> HashMap<Arc<str>, Listed> {
        let listed = self.reserve.iter().chain(&self.manifests);
        let held = listed.filter(|(_, listed)| listed.piece.held().is_some());
        held.map(|(path, listed)| (path.clone(), listed.clone())).collect()
    }

    fn forget_reserve(&mut self) {
        if !self.lists.values().any(|piece| matches!(piece, Piece::Missing)) {
            self.reserve = HashMap::default();
        }
    }

    /// Takes note of the manifests of a list.
    fn list_manifests(&mut self, list: &ManifestList) {
        for file in &list.manifests {
            if self.manifests.contains_key(&file.path) {
                continue;
            }
            let known = self.reserve.get(&file.path);
            let piece = if file.encrypted {
                self.faults.push(Fault::unsupported(&file.path, "an encrypted manifest"));
                Piece::Refused
            } else {
                known.map_or(Piece::Missing, |known| known.piece.clone())
            };
            self.manifests.insert(file.path.clone(), Listed { file: file.clone(), piece });
        }
    }

    /// The table's metadata.
    pub fn metadata(&self) -> &Arc<TableMetadata> {
        &self.metadata
    }

    /// What is wrong with the table's pieces, the metadata's own faults first.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// What to fetch next, at most `count_max` objects: those of the current snapshot first, then of
    /// other branches and tags, then of history. Lists come before manifests, which they name.
    pub fn missing(&self, count_max: usize) -> Vec<Missing> {
        let mut missing = Vec::new();
        let mut seen: HashSet<&Arc<str>> = HashSet::default();
        let tiers = tier::tiers(&self.metadata);
        for (tier, snapshot) in &tiers {
            if let Some(path) = &snapshot.manifest_list
                && matches!(self.lists.get(path), Some(Piece::Missing))
                && seen.insert(path)
            {
                missing.push(Missing { path: path.clone(), length: 0, tier: *tier });
            }
            let files = self.list(snapshot).map_or(&[][..], |list| &list.manifests);
            for file in files {
                let listed = self.manifests.get(&file.path);
                let lacks = listed.is_some_and(|listed| matches!(listed.piece, Piece::Missing));
                if lacks && seen.insert(&file.path) {
                    let (path, length) = (file.path.clone(), file.length);
                    missing.push(Missing { path, length, tier: *tier });
                }
            }
            if missing.len() >= count_max {
                break;
            }
        }
        missing.truncate(count_max);
        missing
    }

    /// Takes the bytes of a missing object. A fault is also kept: the object is missing no more, and
    /// what it would have listed stays unknown.
    pub fn supply(&mut self, path: &str, bytes: &[u8]) -> Result<Supplied, Fault> {
        if matches!(self.lists.get(path), Some(Piece::Missing)) {
            let parsed = ManifestList::parse(path, bytes);
            return self.take_list(path, parsed).map(|()| Supplied::List);
        }
        let Some((path, Listed { piece: Piece::Missing, .. })) = self.manifests.get_key_value(path)
        else {
            return Ok(Supplied::Unwanted);
        };
        let path = path.clone();
        self.take_manifest(&path, Manifest::parse(&path, bytes)).map(|()| Supplied::Manifest)
    }

    /// Gives up a missing object that cannot be had; the fault is kept.
    pub fn refuse(&mut self, fault: Fault) {
        let list = self.lists.get_mut(fault.path());
        let manifest = self.manifests.get_mut(fault.path());
        let refused =
            list.is_some_and(Piece::refuse) || manifest.is_some_and(|listed| listed.piece.refuse());
        if refused {
            self.faults.push(fault);
            self.forget_reserve();
        }
    }

    fn take_list(&mut self, path: &str, parsed: Result<ManifestList, Fault>) -> Result<(), Fault> {
        let mut list = match parsed {
            Ok(list) => list,
            Err(fault) => {
                self.refuse(fault.clone());
                return Err(fault);
            }
        };
        // A manifest stands in many lists; one entry serves them all where they say the same.
        for file in &mut list.manifests {
            if let Some(known) =
                self.manifests.get(&file.path).or_else(|| self.reserve.get(&file.path))
                && known.file == *file
            {
                *file = known.file.clone();
            }
        }
        self.list_manifests(&list);
        if let Some(piece) = self.lists.get_mut(path) {
            *piece = Piece::Held(Arc::new(list));
        }
        self.forget_reserve();
        Ok(())
    }

    fn take_manifest(
        &mut self,
        path: &Arc<str>,
        parsed: Result<Manifest, Fault>,
    ) -> Result<(), Fault> {
        let manifest = match parsed {
            Ok(manifest) => manifest,
            Err(fault) => {
                self.refuse(fault.clone());
                return Err(fault);
            }
        };
        let Some(listed) = self.manifests.get_mut(path) else { return Ok(()) };
        if let Some(what) = odds(&listed.file, &manifest) {
            self.faults.push(Fault::contradicted(path, what));
        }
        listed.piece = Piece::Held(Arc::new(manifest));
        Ok(())
    }

    /// What it has on the heap, about: manifests to the byte, the rest by what it is made of. What several
    /// states share is counted in each.
    pub fn memory_bytes(&self) -> usize {
        let manifest = |(path, listed): (&Arc<str>, &Listed)| {
            let own = path.len() + size_of::<(Arc<str>, Listed)>() + size_of::<ManifestFile>();
            own + listed.piece.held().map_or(0, |manifest| manifest.memory_bytes())
        };
        let list = |list: &ManifestList| {
            size_of::<ManifestList>() + list.manifests.len() * size_of::<Arc<ManifestFile>>()
        };
        let lists = self.lists.values().filter_map(Piece::held).chain(self.inline.values());
        let manifests = self.manifests.iter().chain(&self.reserve).map(manifest).sum::<usize>();
        self.metadata.memory_bytes() + lists.map(|held| list(held)).sum::<usize>() + manifests
    }

    /// Whether every list and manifest of every snapshot is held: only then is it known which files
    /// the table has no more.
    pub fn is_complete(&self) -> bool {
        self.lists.values().all(|piece| piece.held().is_some())
            && self.manifests.values().all(|listed| listed.piece.held().is_some())
    }

    /// The list of a snapshot, once it is held.
    pub fn list(&self, snapshot: &Snapshot) -> Option<&Arc<ManifestList>> {
        match &snapshot.manifest_list {
            Some(path) => self.lists.get(path)?.held(),
            None => self.inline.get(&snapshot.id),
        }
    }

    /// A manifest, once it is held.
    pub fn manifest(&self, path: &str) -> Option<&Arc<Manifest>> {
        self.manifests.get(path)?.piece.held()
    }

    /// A manifest as a list names it.
    pub fn manifest_file(&self, path: &str) -> Option<&Arc<ManifestFile>> {
        self.manifests.get(path).map(|listed| &listed.file)
    }

    /// All manifests that are held, of all snapshots, each once, in an order that says nothing.
    pub fn manifests(&self) -> impl Iterator<Item = (&Arc<ManifestFile>, &Arc<Manifest>)> {
        let listed = self.manifests.values();
        listed.filter_map(|listed| Some((&listed.file, listed.piece.held()?)))
    }

    /// Every file that any snapshot has, once. The first manifest that is met speaks for it.
    pub fn live_files(&self) -> impl Iterator<Item = File<'_>> {
        let mut seen: HashSet<FileKey<'_>> = HashSet::default();
        let files = self.manifests().flat_map(|(_, manifest)| manifest.live_files());
        files.map(|(_, file)| file).filter(move |file| seen.insert(file.key()))
    }

    /// Snapshots by what they are worth: see [`Tier`].
    pub fn tiers(&self) -> Vec<(Tier, &Snapshot)> {
        tier::tiers(&self.metadata)
    }

    /// Every path of the table's metadata that the state names: documents, lists, manifests and
    /// statistics, each once.
    pub fn objects(&self) -> HashSet<&Arc<str>> {
        let metadata = &*self.metadata;
        let log = metadata.metadata_log.iter().map(|entry| &entry.path);
        let statistics = metadata.statistics.iter().chain(&metadata.partition_statistics);
        std::iter::once(&metadata.path)
            .chain(log)
            .chain(statistics.map(|file| &file.path))
            .chain(self.lists.keys())
            .chain(self.manifests.keys())
            .collect()
    }
}

/// What the list says of a manifest that the manifest itself does not bear out.
fn odds(file: &ManifestFile, manifest: &Manifest) -> Option<String> {
    if file.length != 0 && file.length != manifest.length {
        return Some(format!("{} bytes, {} by its list", manifest.length, file.length));
    }
    let claims = [
        (FileStatus::Existing, file.existing_files),
        (FileStatus::Added, file.added_files),
        (FileStatus::Deleted, file.deleted_files),
    ];
    let counts = manifest.status_counts();
    claims.iter().zip(counts).find_map(|((status, claimed), found)| {
        let claimed = claimed.filter(|claimed| *claimed != found)?;
        Some(format!("{found} files {status:?}, {claimed} by its list"))
    })
}

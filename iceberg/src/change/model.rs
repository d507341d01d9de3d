//! A naive table for tests: each snapshot is a set of files, and history is never forgotten. Every step
//! also writes the bytes that a real writer would, from which `Change` has to find the same again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nilas_base::Rng;
use serde_json::{Value, json};

use crate::manifest::sample::{SampleFile, SampleListed, SampleManifest, write_list};
use crate::metadata::{Operation, TableMetadata};
use crate::state::TableState;

/// A file by its path and, for a vector, its place.
pub(super) type Key = (String, Option<i64>);

pub(super) fn key(file: &SampleFile) -> Key {
    (file.path.clone(), file.offset.filter(|_| file.format == "PUFFIN"))
}

#[derive(Clone, Debug)]
pub(super) struct ModelSnapshot {
    pub(super) parent: Option<i64>,
    pub(super) files: BTreeSet<Key>,
    pub(super) added: BTreeSet<Key>,
    pub(super) removed: BTreeSet<Key>,
    pub(super) operation: Operation,
    pub(super) list: String,
    /// Paths, in the list's order.
    pub(super) manifests: Vec<String>,
    sequence_number: i64,
}

/// The table, and all objects that were ever written.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) version: u8,
    /// All snapshots there ever were.
    pub(super) history: BTreeMap<i64, ModelSnapshot>,
    /// Those that the metadata lists.
    pub(super) listed: BTreeSet<i64>,
    pub(super) current: Option<i64>,
    pub(super) references: BTreeMap<String, i64>,
    pub(super) objects: BTreeMap<String, Vec<u8>>,
    pub(super) log: Vec<String>,
    entries: BTreeMap<String, (SampleListed, Vec<SampleFile>)>,
    counter: i64,
}

/// What one commit does to the entries of its parent.
#[derive(Default)]
struct Edit {
    add: Vec<SampleFile>,
    remove: BTreeSet<Key>,
    /// Manifests that are written anew though nothing is removed from them.
    merge: BTreeSet<String>,
}

impl Model {
    pub(super) fn new(version: u8) -> Model {
        Model {
            version,
            history: BTreeMap::new(),
            listed: BTreeSet::new(),
            current: None,
            references: BTreeMap::new(),
            objects: BTreeMap::new(),
            log: Vec::new(),
            entries: BTreeMap::new(),
            counter: 0,
        }
    }

    fn next(&mut self) -> i64 {
        self.counter += 1;
        self.counter
    }

    /// One step, chosen and filled by the seed.
    pub(super) fn step(&mut self, seed: u64) {
        let mut rng = Rng::from_seed(seed);
        match rng.below(16) {
            0..4 => self.append(&mut rng),
            4..6 => self.delete(&mut rng, Operation::Delete),
            6 => self.delete(&mut rng, Operation::Overwrite),
            7 => self.delete(&mut rng, Operation::Replace),
            8..10 => self.delete_rows(&mut rng),
            10 => self.rewrite_manifests(&mut rng),
            11 => self.name(&mut rng),
            12 => self.unname(&mut rng),
            13 => self.roll_back(&mut rng),
            14 => self.expire(&mut rng),
            _ => self.version = (self.version + 1).min(3),
        }
    }

    fn append(&mut self, rng: &mut Rng) {
        let mut edit = Edit { add: self.new_files(rng, 3), ..Edit::default() };
        let (branch, parent) = self.branch(rng);
        if rng.chance(1, 3) {
            let manifests = parent.map_or(Vec::new(), |id| self.history[&id].manifests.clone());
            let data = manifests.into_iter().filter(|path| !self.entries[path].0.deletes);
            edit.merge = data.take(2).collect();
        }
        self.commit(&branch, parent, edit, Operation::Append);
    }

    /// Removes data files, with the deletes that speak of them.
    fn delete(&mut self, rng: &mut Rng, operation: Operation) {
        let (branch, parent) = self.branch(rng);
        let live = self.live_entries(parent);
        let data: Vec<&SampleFile> = live.iter().filter(|file| file.content == 0).collect();
        if data.is_empty() {
            return;
        }
        let chosen: Vec<&SampleFile> =
            (0..=rng.below(3)).map(|_| data[rng.below(data.len() as u64) as usize]).collect();
        let mut edit = Edit::default();
        for file in &chosen {
            edit.remove.insert(key(file));
            let of = |deletes: &&SampleFile| deletes.referenced.as_ref() == Some(&file.path);
            edit.remove.extend(live.iter().filter(of).map(key));
        }
        match operation {
            Operation::Overwrite => edit.add = self.new_files(rng, 2),
            Operation::Replace => {
                let mut file = self.new_files(rng, 1).remove(0);
                file.records = chosen[0].records;
                edit.add.push(file);
            }
            _ => {}
        }
        self.commit(&branch, parent, edit, operation);
    }

    /// Adds deletes: one Puffin file of vectors, each in place of what its data file had, or
    /// position deletes in Parquet. Format 1 has neither.
    fn delete_rows(&mut self, rng: &mut Rng) {
        let (branch, parent) = self.branch(rng);
        let live = self.live_entries(parent);
        let data: Vec<&SampleFile> = live.iter().filter(|file| file.content == 0).collect();
        if data.is_empty() || self.version == 1 {
            return;
        }
        let number = self.next();
        let mut edit = Edit::default();
        for place in 0..=rng.below(3) {
            let of = data[rng.below(data.len() as u64) as usize];
            if self.version == 2 {
                let path = format!("s3://b/t/data/{number}-{place}-deletes.parquet");
                edit.add.push(SampleFile { content: 1, ..SampleFile::data(&path) });
                continue;
            }
            let path = format!("s3://b/t/data/{number}-deletes.puffin");
            let vector = SampleFile::vector(&path, 4 + 40 * place as i64, &of.path);
            edit.add.retain(|added| added.referenced != vector.referenced);
            let replaced = |file: &&SampleFile| file.referenced == vector.referenced;
            edit.remove.extend(live.iter().filter(replaced).map(key));
            edit.add.push(vector);
        }
        self.commit(&branch, parent, edit, Operation::Delete);
    }

    fn rewrite_manifests(&mut self, rng: &mut Rng) {
        let (branch, parent) = self.branch(rng);
        if let Some(id) = parent {
            let merge = self.history[&id].manifests.iter().cloned().collect();
            self.commit(&branch, parent, Edit { merge, ..Edit::default() }, Operation::Replace);
        }
    }

    /// A branch or a tag; two of the names are committed to as well.
    fn name(&mut self, rng: &mut Rng) {
        if let Some(id) = self.any_listed(rng) {
            self.references.insert(format!("name-{}", rng.below(4)), id);
        }
    }

    /// Drops a name, or moves `main` to where it was.
    fn unname(&mut self, rng: &mut Rng) {
        let name = format!("name-{}", rng.below(4));
        if let Some(id) = self.references.remove(&name)
            && rng.chance(1, 2)
        {
            self.current = Some(id);
        }
    }

    fn roll_back(&mut self, rng: &mut Rng) {
        for _ in 0..=rng.below(3) {
            let parent = self.current.and_then(|id| self.history[&id].parent);
            if let Some(parent) = parent.filter(|parent| self.listed.contains(parent)) {
                self.current = Some(parent);
            }
        }
    }

    fn expire(&mut self, rng: &mut Rng) {
        let named: BTreeSet<i64> = self.references.values().copied().chain(self.current).collect();
        self.listed.retain(|id| named.contains(id) || rng.chance(1, 3));
        if rng.chance(1, 2) {
            self.log.drain(..self.log.len() / 2);
        }
    }

    fn any_listed(&self, rng: &mut Rng) -> Option<i64> {
        let count = self.listed.len() as u64;
        let index = (count > 0).then(|| rng.below(count))?;
        self.listed.iter().nth(index as usize).copied()
    }

    /// Where to commit: `main` as a rule.
    fn branch(&self, rng: &mut Rng) -> (String, Option<i64>) {
        let name = format!("name-{}", rng.below(2));
        match self.references.get(&name) {
            Some(id) if rng.chance(1, 3) => (name, Some(*id)),
            _ => ("main".into(), self.current),
        }
    }

    fn new_files(&mut self, rng: &mut Rng, count_max: u64) -> Vec<SampleFile> {
        let count = 1 + rng.below(count_max);
        let files = (0..count).map(|_| {
            let number = self.next();
            let day = rng.below(3) as i32;
            let path = format!("s3://b/t/data/day={day}/é {number}#%2F.parquet");
            let records = 1 + rng.below(1000) as i64;
            let partition = (Some(day), None);
            SampleFile { records, partition, ..SampleFile::data(&path) }
        });
        files.collect()
    }

    fn live_entries(&self, snapshot: Option<i64>) -> Vec<SampleFile> {
        let Some(id) = snapshot else { return Vec::new() };
        let manifests = self.history[&id].manifests.iter();
        let entries = manifests.flat_map(|path| &self.entries[path].1);
        entries.filter(|entry| entry.status != 2).cloned().collect()
    }

    fn commit(&mut self, branch: &str, parent: Option<i64>, edit: Edit, operation: Operation) {
        let id = self.next() + 1000;
        let sequence_number = if self.version == 1 { 0 } else { id };
        let mut manifests = Vec::new();
        let mut rewritten: BTreeMap<bool, Vec<SampleFile>> = BTreeMap::new();
        let before = parent.map_or(Vec::new(), |id| self.history[&id].manifests.clone());
        for path in before {
            let (listed, entries) = &self.entries[&path];
            let touched =
                entries.iter().any(|entry| entry.status != 2 && edit.remove.contains(&key(entry)));
            if !touched && !edit.merge.contains(&path) {
                manifests.push(path);
                continue;
            }
            for entry in entries.iter().filter(|entry| entry.status != 2) {
                let mut entry = entry.clone();
                // What was inherited is written down when an entry moves.
                entry.snapshot_id = entry.snapshot_id.or(Some(listed.snapshot_id));
                entry.sequence_number = entry.sequence_number.or(Some(listed.sequence_number));
                entry.status = 0;
                if edit.remove.contains(&key(&entry)) {
                    entry.status = 2;
                    entry.snapshot_id = Some(id);
                }
                rewritten.entry(listed.deletes).or_default().push(entry);
            }
        }
        for mut file in edit.add.clone() {
            file.snapshot_id = (self.version == 1).then_some(id);
            rewritten.entry(file.content != 0).or_default().push(file);
        }
        for (deletes, entries) in rewritten {
            // Two manifests now and then, so that the files of one spread over several.
            let half = if entries.len() > 2 { entries.len() / 2 } else { entries.len() };
            for part in entries.chunks(half.max(1)) {
                manifests.push(self.write_manifest(id, sequence_number, deletes, part));
            }
        }
        self.write_snapshot(id, parent, manifests, &edit, operation, sequence_number);
        self.listed.insert(id);
        match branch {
            "main" => self.current = Some(id),
            other => drop(self.references.insert(other.into(), id)),
        }
    }

    fn write_manifest(
        &mut self,
        snapshot_id: i64,
        sequence_number: i64,
        deletes: bool,
        entries: &[SampleFile],
    ) -> String {
        let path = format!("s3://b/t/metadata/{}-m0.avro", self.next());
        let sample = SampleManifest { deletes, ..SampleManifest::of_version(self.version) };
        let bytes = sample.write(entries);
        let count = |status| entries.iter().filter(|entry| entry.status == status).count() as i32;
        let listed = SampleListed {
            path: path.clone(),
            length: bytes.len() as i64,
            deletes,
            sequence_number,
            snapshot_id,
            counts: [count(1), count(0), count(2)],
        };
        self.objects.insert(path.clone(), bytes);
        self.entries.insert(path.clone(), (listed, entries.to_vec()));
        path
    }

    fn write_snapshot(
        &mut self,
        id: i64,
        parent: Option<i64>,
        manifests: Vec<String>,
        edit: &Edit,
        operation: Operation,
        sequence_number: i64,
    ) {
        let list = format!("s3://b/t/metadata/snap-{id}.avro");
        let listed: Vec<SampleListed> =
            manifests.iter().map(|path| self.entries[path].0.clone()).collect();
        self.objects.insert(list.clone(), write_list(self.version, &listed));
        let mut files = parent.map_or(BTreeSet::new(), |id| self.history[&id].files.clone());
        let removed: BTreeSet<Key> = files.intersection(&edit.remove).cloned().collect();
        let added: BTreeSet<Key> = edit.add.iter().map(key).collect();
        files = files.difference(&removed).cloned().collect();
        files.extend(added.iter().cloned());
        let snapshot = ModelSnapshot {
            parent,
            files,
            added,
            removed,
            operation,
            list,
            manifests,
            sequence_number,
        };
        self.history.insert(id, snapshot);
    }

    /// All files of all listed snapshots.
    pub(super) fn live(&self) -> BTreeSet<Key> {
        self.listed.iter().flat_map(|id| self.history[id].files.iter().cloned()).collect()
    }

    /// All metadata files that the table names.
    pub(super) fn named_objects(&self, document: &str) -> BTreeSet<String> {
        let snapshots = self.listed.iter().map(|id| &self.history[id]);
        let below = snapshots.flat_map(|snapshot| {
            snapshot.manifests.iter().chain(std::iter::once(&snapshot.list)).cloned()
        });
        below.chain(self.log.iter().cloned()).chain([document.into()]).collect()
    }

    /// Writes a metadata.json, and gives its path and bytes.
    pub(super) fn write_metadata(&mut self) -> (String, Vec<u8>) {
        let path = format!("s3://b/t/metadata/{}.metadata.json", self.next());
        let snapshots: Vec<Value> = self.listed.iter().map(|id| self.snapshot_json(*id)).collect();
        let mut references: BTreeMap<&str, Value> = BTreeMap::new();
        for (name, id) in &self.references {
            references.insert(name, json!({"snapshot-id": id, "type": "branch"}));
        }
        if let Some(id) = self.current {
            references.insert("main", json!({"snapshot-id": id, "type": "branch"}));
        }
        let log: Vec<Value> =
            self.log.iter().map(|path| json!({"metadata-file": path, "timestamp-ms": 1})).collect();
        let document = json!({
            "format-version": self.version, "location": "s3://b/t", "table-uuid": "u",
            "current-snapshot-id": self.current.unwrap_or(-1), "snapshots": snapshots,
            "refs": references, "metadata-log": log,
        });
        (path, document.to_string().into_bytes())
    }

    fn snapshot_json(&self, id: i64) -> Value {
        let ModelSnapshot { parent, added, removed, operation, list, sequence_number, .. } =
            &self.history[&id];
        let data = |keys: &BTreeSet<Key>| {
            keys.iter().filter(|(path, _)| !path.contains("-deletes.")).count().to_string()
        };
        json!({
            "snapshot-id": id, "parent-snapshot-id": parent, "timestamp-ms": id,
            "sequence-number": sequence_number, "manifest-list": list,
            "summary": {"operation": operation.text(), "added-data-files": data(added),
                "deleted-data-files": data(removed)},
        })
    }
}

/// The state that a metadata.json opens, supplied with all that it asks for.
pub(crate) fn supplied(
    path: &str,
    bytes: &[u8],
    old: Option<&TableState>,
    objects: &BTreeMap<String, Vec<u8>>,
) -> TableState {
    let metadata = Arc::new(TableMetadata::parse(path, bytes).expect("a sound document"));
    let mut state = match old {
        Some(old) => TableState::after(old, metadata),
        None => TableState::new(metadata),
    };
    loop {
        let missing = state.missing(3);
        if missing.is_empty() {
            return state;
        }
        for missing in missing {
            state.supply(&missing.path, &objects[&*missing.path]).expect("sound bytes");
        }
    }
}

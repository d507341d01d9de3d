//! Random histories against the naive model, also over missed polls; and the cases that have names.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::model::{Key, Model, key, supplied};
use super::*;
use crate::fault::Fault;
use crate::manifest::sample::{SampleFile, SampleListed, SampleManifest, write_list};
use crate::metadata::Operation;

/// A poll of the model: its state, and what the model held then.
struct Poll {
    state: TableState,
    model: Model,
    path: String,
}

fn poll(model: &mut Model, last: Option<&Poll>) -> Poll {
    let (path, bytes) = model.write_metadata();
    let state = supplied(&path, &bytes, last.map(|last| &last.state), &model.objects);
    let seen = model.clone();
    model.log.push(path.clone());
    Poll { state, model: seen, path }
}

fn keys(files: &[FileRef]) -> BTreeSet<Key> {
    let keys: BTreeSet<Key> = files
        .iter()
        .map(|file_ref| {
            let key = file_ref.file().key();
            (key.path.to_string(), key.offset.map(|offset| offset as i64))
        })
        .collect();
    assert_eq!(keys.len(), files.len(), "a file is named twice");
    keys
}

fn texts(paths: &[Arc<str>]) -> BTreeSet<String> {
    paths.iter().map(|path| path.to_string()).collect()
}

fn minus<T: Ord + Clone>(one: &BTreeSet<T>, other: &BTreeSet<T>) -> BTreeSet<T> {
    one.difference(other).cloned().collect()
}

/// Compares what is found from bytes with what the model did.
fn check(old: &Poll, new: &Poll) {
    let change = Change::between(&old.state, &new.state);
    let (before, after) = (old.model.live(), new.model.live());
    assert!(change.is_complete && !change.is_another_table);
    assert_eq!(keys(&change.added), minus(&after, &before));
    assert_eq!(keys(&change.removed), minus(&before, &after));
    assert_eq!(change.kept(&new.state).count(), after.intersection(&before).count());
    let (before, after) = (old.model.named_objects(&old.path), new.model.named_objects(&new.path));
    assert_eq!(texts(&change.objects_added), minus(&after, &before));
    assert_eq!(texts(&change.objects_removed), minus(&before, &after));
    assert_eq!(change.objects_kept, after.intersection(&before).count());
    let expired: BTreeSet<i64> = change.expired.iter().copied().collect();
    assert_eq!(expired, minus(&old.model.listed, &new.model.listed));
    check_commits(&change, old, new);
    check_lineage(change.lineage, old, new);
    check_sharing(old, new);
}

fn check_commits(change: &Change, old: &Poll, new: &Poll) {
    let found: BTreeSet<i64> = change.commits.iter().map(|commit| commit.snapshot_id).collect();
    assert_eq!(found, minus(&new.model.listed, &old.model.listed));
    for commit in &change.commits {
        let expected = &new.model.history[&commit.snapshot_id];
        assert_eq!(keys(&commit.added), expected.added, "{commit:?}");
        assert_eq!(keys(&commit.removed), expected.removed, "{commit:?}");
        assert_eq!(commit.operation, expected.operation);
        assert!(commit.lies.is_empty(), "{:?}", commit.lies);
        let on_main = commit.branches.iter().any(|name| &**name == "main");
        let reached = ancestors(&new.model, new.model.current);
        // A way that leads over expired snapshots cannot be followed.
        assert!(!on_main || reached.contains(&commit.snapshot_id));
    }
}

fn ancestors(model: &Model, from: Option<i64>) -> BTreeSet<i64> {
    std::iter::successors(from, |id| model.history[id].parent).collect()
}

fn check_lineage(found: Lineage, old: &Poll, new: &Poll) {
    let (from, to) = (old.model.current, new.model.current);
    let (before, after) = (ancestors(&new.model, from), ancestors(&new.model, to));
    let expected = match (from, to) {
        (from, to) if from == to => Lineage::Same,
        (_, None) => Lineage::Emptied,
        (None, Some(_)) => Lineage::Forward,
        (Some(from), Some(_)) if after.contains(&from) => Lineage::Forward,
        (Some(_), Some(to)) if before.contains(&to) => Lineage::Back,
        _ => Lineage::Aside,
    };
    let known: BTreeSet<i64> = old.model.listed.union(&new.model.listed).copied().collect();
    let whole = before.union(&after).all(|id| known.contains(id));
    assert!(found == expected || !whole, "{found:?} is not {expected:?}");
    assert!(matches!(found, Lineage::Untold | Lineage::Aside) || found == expected, "{found:?}");
}

/// No manifest is read twice.
fn check_sharing(old: &Poll, new: &Poll) {
    for (file, manifest) in new.state.manifests() {
        if let Some(before) = old.state.manifest(&file.path) {
            assert!(Arc::ptr_eq(before, manifest), "{} was read twice", file.path);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_change_is_what_the_model_did_however_many_polls_were_missed(
        version in 1_u8..=3,
        steps in prop::collection::vec((any::<u64>(), prop::bool::weighted(0.4)), 1..40),
    ) {
        let mut model = Model::new(version);
        let mut polls = vec![poll(&mut model, None)];
        for (seed, polled) in &steps {
            model.step(*seed);
            if *polled {
                let last = polls.last();
                let next = poll(&mut model, last);
                check(&polls[polls.len() - 1], &next);
                polls.push(next);
            }
        }
        let last = poll(&mut model, polls.last());
        check(&polls[0], &last);
        check(&polls[polls.len() / 2], &last);
    }
}

/// Plays steps of the naive model by hand; each is one snapshot on `main`.
struct Hand {
    objects: std::collections::BTreeMap<String, Vec<u8>>,
    snapshots: Vec<serde_json::Value>,
    manifests: Vec<SampleListed>,
}

impl Hand {
    fn new() -> Hand {
        Hand { objects: Default::default(), snapshots: Vec::new(), manifests: Vec::new() }
    }

    /// A commit that adds one manifest of these entries to those that are there.
    fn commit(&mut self, operation: &str, files: &[SampleFile]) {
        let id = self.snapshots.len() as i64 + 1;
        let deletes = files.iter().any(|file| file.content != 0);
        let bytes = SampleManifest { deletes, ..SampleManifest::of_version(3) }.write(files);
        let path = format!("/t/metadata/m{id}.avro");
        let count = |status| files.iter().filter(|file| file.status == status).count() as i32;
        let counts = [count(1), count(0), count(2)];
        let length = bytes.len() as i64;
        self.manifests.push(SampleListed {
            path: path.clone(),
            length,
            deletes,
            sequence_number: id,
            snapshot_id: id,
            counts,
        });
        self.objects.insert(path, bytes);
        let list = format!("/t/metadata/snap-{id}.avro");
        self.objects.insert(list.clone(), write_list(3, &self.manifests));
        self.snapshots.push(serde_json::json!({
            "snapshot-id": id, "parent-snapshot-id": if id > 1 { Some(id - 1) } else { None },
            "sequence-number": id, "timestamp-ms": id, "manifest-list": list,
            "summary": {"operation": operation, "added-data-files": 1},
        }));
    }

    fn state(&self, uuid: &str) -> TableState {
        let document = serde_json::json!({"format-version": 3, "location": "/t",
            "table-uuid": uuid, "current-snapshot-id": self.snapshots.len(),
            "snapshots": self.snapshots});
        let path = format!("/t/metadata/{}.json", self.snapshots.len());
        supplied(&path, document.to_string().as_bytes(), None, &self.objects)
    }
}

#[test]
fn a_lying_summary_is_named_and_not_acted_on() {
    let check = |claimed: &str, file: SampleFile, acted_on: Operation, lies: &[&str]| {
        let mut hand = Hand::new();
        hand.commit("append", &[SampleFile::data("/t/data/a")]);
        let old = hand.state("u");
        hand.commit(claimed, &[file]);
        let change = Change::between(&old, &hand.state("u"));
        let [commit] = &change.commits[..] else { panic!("one commit: {change:?}") };
        assert_eq!(commit.operation, acted_on, "{commit:?}");
        let texts: Vec<String> = commit.lies.iter().map(Fault::to_string).collect();
        assert_eq!(texts.len(), lies.len(), "{texts:?}");
        for (text, lie) in texts.iter().zip(lies) {
            assert!(text.starts_with("/t/metadata/snap-2.avro") && text.contains(lie), "{text}");
        }
    };
    let data = || SampleFile::data("/t/data/b");
    let vector = || SampleFile::vector("/t/data/v.puffin", 4, "/t/data/a");
    check("append", data(), Operation::Append, &[]);
    check("overwrite", data(), Operation::Overwrite, &[]);
    check("tomorrow's", data(), Operation::Other("tomorrow's".into()), &[]);
    check("replace", data(), Operation::Append, &["`replace`, but rows were added"]);
    check("delete", data(), Operation::Append, &["`delete`, but data files were added"]);
    let none_added = "claims 1 data files added, there are 0";
    check("append", vector(), Operation::Delete, &["deletes were added", none_added]);
    check("delete", vector(), Operation::Delete, &[none_added]);
}

#[test]
fn a_vector_that_takes_anothers_place_in_a_shared_puffin_file_is_told_apart() {
    let mut hand = Hand::new();
    hand.commit("append", &[SampleFile::data("/t/data/a"), SampleFile::data("/t/data/b")]);
    let shared = |offset, of: &str| SampleFile::vector("/t/data/1.puffin", offset, of);
    hand.commit("delete", &[shared(4, "/t/data/a"), shared(44, "/t/data/b")]);
    let old = hand.state("u");
    hand.manifests.pop();
    let gone = SampleFile { status: 2, ..shared(4, "/t/data/a") };
    let stays = SampleFile { status: 0, ..shared(44, "/t/data/b") };
    hand.commit("delete", &[gone, stays, SampleFile::vector("/t/data/2.puffin", 4, "/t/data/a")]);
    // The snapshot that had the old vector expires.
    hand.snapshots.remove(1);
    hand.snapshots.iter_mut().for_each(|snapshot| snapshot["parent-snapshot-id"] = 2.into());
    let mut document = serde_json::json!({"format-version": 3, "location": "/t", "table-uuid": "U",
        "current-snapshot-id": 3, "snapshots": hand.snapshots});
    document["snapshots"][0]["parent-snapshot-id"] = serde_json::Value::Null;
    let text = document.to_string();
    let new = supplied("/t/metadata/9.json", text.as_bytes(), Some(&old), &hand.objects);
    let change = Change::between(&old, &new);
    assert_eq!(keys(&change.added), [("/t/data/2.puffin".into(), Some(4))].into());
    assert_eq!(keys(&change.removed), [("/t/data/1.puffin".into(), Some(4))].into());
    let referenced = |files: &[FileRef]| {
        let vector = files[0].file().vector.and_then(|vector| vector.referenced);
        vector.map(|path| path.to_string())
    };
    assert_eq!(referenced(&change.added), referenced(&change.removed));
    assert_eq!(change.lineage, Lineage::Forward);
    assert_eq!(change.expired, [2]);
    let still: Vec<Key> = change.kept(&new).map(|file| (file.path.to_string(), None)).collect();
    assert!(still.contains(&("/t/data/1.puffin".into(), None)), "{still:?}");
}

#[test]
fn a_file_is_never_called_removed_while_a_manifest_is_lacking() {
    let mut hand = Hand::new();
    hand.commit("append", &[SampleFile::data("/t/data/a")]);
    hand.commit("append", &[SampleFile::data("/t/data/b")]);
    let old = hand.state("u");
    hand.objects.insert("/t/metadata/m1.avro".into(), b"Obj\x01 no more".to_vec());
    let document = serde_json::json!({"format-version": 3, "location": "/t", "table-uuid": "u",
        "current-snapshot-id": 1, "snapshots": [&hand.snapshots[0]]});
    let text = document.to_string();
    let metadata = TableMetadata::parse("/t/metadata/8.json", text.as_bytes());
    let mut new = TableState::new(Arc::new(metadata.expect("a sound document")));
    let lacking = Change::between(&old, &new);
    assert!(!lacking.is_complete && lacking.removed.is_empty());
    new.supply("/t/metadata/snap-1.avro", &hand.objects["/t/metadata/snap-1.avro"])
        .expect("a sound list");
    let fault = new.supply("/t/metadata/m1.avro", &hand.objects["/t/metadata/m1.avro"]);
    assert_eq!(fault.expect_err("it is damaged").path(), "/t/metadata/m1.avro");
    let damaged = Change::between(&old, &new);
    assert!(!damaged.is_complete && damaged.removed.is_empty());
    assert!(new.missing(9).is_empty(), "what is damaged is not asked for again and again");
}

#[test]
fn another_table_of_the_same_name_is_told_by_its_uuid() {
    let mut hand = Hand::new();
    hand.commit("append", &[SampleFile::data("/t/data/a")]);
    let (old, new) = (hand.state("u"), hand.state("w"));
    assert!(Change::between(&old, &new).is_another_table);
    assert!(!Change::between(&old, &hand.state("U")).is_another_table);
}

#[test]
fn rings_of_parents_end() {
    let document = |current: i64| {
        let snapshot = |id: i64, parent: i64| serde_json::json!({"snapshot-id": id, "parent-snapshot-id": parent, "manifests": []});
        let text = serde_json::json!({"format-version": 1, "location": "/t",
            "current-snapshot-id": current, "snapshots": [snapshot(1, 2), snapshot(2, 3),
            snapshot(3, 1), snapshot(4, 4)]});
        supplied("/t/m.json", text.to_string().as_bytes(), None, &Default::default())
    };
    let empty = serde_json::json!({"format-version": 1, "location": "/t"}).to_string();
    let empty = supplied("/t/m.json", empty.as_bytes(), None, &Default::default());
    assert_eq!(Change::between(&empty, &document(1)).commits.len(), 4);
    assert_eq!(Change::between(&document(1), &document(4)).lineage, Lineage::Untold);
}

#[test]
fn keys_of_samples_are_those_of_files() {
    assert_eq!(key(&SampleFile::vector("p", 4, "a")), ("p".into(), Some(4)));
    assert_eq!(key(&SampleFile::data("p")), ("p".into(), None));
}

//! What a state asks for, takes, shares and gives up.

use std::collections::BTreeMap;

use super::*;
use crate::change::supplied;
use crate::manifest::sample::{SampleFile, SampleListed, SampleManifest, write_list};

const LIST: &str = "/t/metadata/snap-2.avro";

fn listed(name: &str, bytes: &[u8], added: i32) -> SampleListed {
    SampleListed {
        path: format!("/t/metadata/{name}.avro"),
        length: bytes.len() as i64,
        deletes: false,
        sequence_number: 1,
        snapshot_id: 1,
        counts: [added, 0, 0],
    }
}

/// Two snapshots, and a tag on the older: each with a manifest of its own, and one of both.
fn table() -> (Arc<TableMetadata>, BTreeMap<String, Vec<u8>>) {
    let mut objects = BTreeMap::new();
    let mut manifests = BTreeMap::new();
    for name in ["both", "old", "new"] {
        let bytes = SampleManifest::of_version(2)
            .write(&[SampleFile::data(&format!("/t/data/{name}")), SampleFile::data("/t/data/x")]);
        let listed = listed(name, &bytes, 2);
        objects.insert(listed.path.clone(), bytes);
        manifests.insert(name, listed);
    }
    for (id, own) in [(1, "old"), (2, "new")] {
        let list = write_list(2, &[manifests["both"].clone(), manifests[own].clone()]);
        objects.insert(format!("/t/metadata/snap-{id}.avro"), list);
    }
    let snapshot = |id: i64| {
        serde_json::json!({"snapshot-id": id, "sequence-number": id,
            "manifest-list": format!("/t/metadata/snap-{id}.avro")})
    };
    let document = serde_json::json!({"format-version": 2, "location": "/t", "table-uuid": "u",
        "current-snapshot-id": 2, "snapshots": [snapshot(1), snapshot(2)],
        "refs": {"keep": {"snapshot-id": 1, "type": "tag"}}});
    let metadata = TableMetadata::parse("/t/metadata/1.json", document.to_string().as_bytes());
    (Arc::new(metadata.expect("a sound document")), objects)
}

fn paths(missing: &[Missing]) -> Vec<&str> {
    missing.iter().map(|missing| &*missing.path).collect()
}

#[test]
fn what_the_current_snapshot_needs_is_asked_for_first_and_once() {
    let (metadata, objects) = table();
    let mut state = TableState::new(metadata);
    assert_eq!(paths(&state.missing(9)), [LIST, "/t/metadata/snap-1.avro"]);
    assert_eq!(paths(&state.missing(1)), [LIST]);
    assert_eq!(state.supply(LIST, &objects[LIST]), Ok(Supplied::List));
    let missing = state.missing(9);
    let expected = ["/t/metadata/both.avro", "/t/metadata/new.avro", "/t/metadata/snap-1.avro"];
    assert_eq!(paths(&missing), expected);
    assert_eq!(missing[0].length, objects["/t/metadata/both.avro"].len() as u64);
    assert_eq!((missing[1].tier, missing[2].tier), (Tier::Current, Tier::Named));
    for path in ["/t/metadata/snap-1.avro", "/t/metadata/old.avro", "/t/metadata/new.avro"] {
        assert!(!state.is_complete());
        state.supply(path, &objects[path]).expect("sound bytes");
    }
    assert_eq!(paths(&state.missing(9)), ["/t/metadata/both.avro"]);
    let both = &objects["/t/metadata/both.avro"];
    assert_eq!(state.supply("/t/metadata/both.avro", both), Ok(Supplied::Manifest));
    assert_eq!(state.supply("/t/metadata/both.avro", both), Ok(Supplied::Unwanted));
    assert_eq!(state.supply("/elsewhere", both), Ok(Supplied::Unwanted));
    assert!(state.is_complete() && state.faults().count() == 0, "{:?}", state.faults());
}

#[test]
fn each_live_file_is_listed_once_however_many_manifests_have_it() {
    let (metadata, objects) = table();
    let text = metadata_text(&metadata);
    let state = supplied("/t/metadata/1.json", text.as_bytes(), None, &objects);
    let mut files: Vec<String> = state.live_files().map(|file| file.path.to_string()).collect();
    files.sort();
    assert_eq!(files, ["/t/data/both", "/t/data/new", "/t/data/old", "/t/data/x"]);
    assert_eq!(state.objects().len(), 6);
}

/// The document again, for those who read bytes.
fn metadata_text(metadata: &TableMetadata) -> String {
    let snapshots: Vec<_> = metadata
        .snapshots
        .iter()
        .map(|of| {
            serde_json::json!({"snapshot-id": of.id, "sequence-number": of.sequence_number,
                "manifest-list": of.manifest_list.as_deref()})
        })
        .collect();
    serde_json::json!({"format-version": 2, "location": "/t", "table-uuid": "u",
        "current-snapshot-id": metadata.current_snapshot_id, "snapshots": snapshots})
    .to_string()
}

#[test]
fn lists_of_many_snapshots_share_the_entry_of_a_manifest() {
    let (metadata, objects) = table();
    let state = supplied("/t/metadata/1.json", metadata_text(&metadata).as_bytes(), None, &objects);
    let entries: Vec<_> = state
        .metadata()
        .snapshots
        .iter()
        .map(|snapshot| state.list(snapshot).expect("it was supplied").manifests[0].clone())
        .collect();
    assert!(Arc::ptr_eq(&entries[0], &entries[1]));
}

#[test]
fn a_later_state_takes_over_what_it_still_names_and_asks_again_for_what_was_refused() {
    let (metadata, objects) = table();
    let mut state = TableState::new(metadata.clone());
    state.supply(LIST, &objects[LIST]).expect("sound bytes");
    let new = "/t/metadata/new.avro";
    state.supply(new, &objects[new]).expect("sound bytes");
    let fault = state.supply("/t/metadata/both.avro", b"no manifest").expect_err("it is none");
    assert_eq!(state.faults().iter().last(), Some(&fault));
    state.refuse(Fault::damaged("/t/metadata/snap-1.avro", "the origin does not have it"));
    state.refuse(Fault::damaged("/elsewhere", "nobody asked"));
    assert_eq!((state.missing(9).len(), state.faults().count()), (0, 2));
    let later = TableState::after(&state, metadata);
    let held = |state: &TableState| state.manifest(new).expect("it was supplied").clone();
    assert!(Arc::ptr_eq(&held(&state), &held(&later)));
    let again = ["/t/metadata/both.avro", "/t/metadata/snap-1.avro"];
    assert_eq!(paths(&later.missing(9)), again);
    assert_eq!(later.faults().count(), 0);
}

#[test]
fn a_manifest_is_not_read_twice_though_only_a_new_list_names_it() {
    let (metadata, objects) = table();
    let old = supplied("/t/metadata/1.json", metadata_text(&metadata).as_bytes(), None, &objects);
    let document = serde_json::json!({"format-version": 2, "location": "/t",
        "current-snapshot-id": 3,
        "snapshots": [{"snapshot-id": 3, "manifest-list": "/t/metadata/snap-3.avro"}]});
    let later = TableMetadata::parse("/t/2.json", document.to_string().as_bytes());
    let mut later = TableState::after(&old, Arc::new(later.expect("a sound document")));
    let list = objects[LIST].clone();
    later.supply("/t/metadata/snap-3.avro", &list).expect("sound bytes");
    assert!(later.is_complete() && later.reserve.is_empty());
    assert!(later.manifest("/t/metadata/old.avro").is_none());
}

#[test]
fn a_manifest_at_odds_with_its_list_is_taken_and_named() {
    let (metadata, mut objects) = table();
    let other = SampleManifest::of_version(2).write(&[SampleFile::data("/t/data/one")]);
    let mut state = TableState::new(metadata);
    state.supply(LIST, &objects[LIST]).expect("sound bytes");
    state.supply("/t/metadata/new.avro", &other).expect("sound by itself");
    let faults: Vec<String> = state.faults().iter().map(ToString::to_string).collect();
    assert!(faults[0].starts_with("/t/metadata/new.avro: contradicted"), "{faults:?}");
    // The same length, but another count.
    let bytes = objects.remove("/t/metadata/both.avro").expect("it was written");
    let list = write_list(2, &[listed("both", &bytes, 3)]);
    let mut state = TableState::new(state.metadata().clone());
    state.supply(LIST, &list).expect("sound bytes");
    state.supply("/t/metadata/both.avro", &bytes).expect("sound by itself");
    let faults: Vec<String> = state.faults().iter().map(ToString::to_string).collect();
    assert!(faults[0].contains("2 files Added, 3 by its list"), "{faults:?}");
}

#[test]
fn manifests_that_stand_in_the_metadata_need_no_list() {
    let manifest = SampleManifest::of_version(1).write(&[SampleFile::data("/t/data/a")]);
    let document = serde_json::json!({"format-version": 1, "location": "/t",
        "current-snapshot-id": 1,
        "snapshots": [{"snapshot-id": 1, "manifests": ["/t/metadata/m.avro"]}]});
    let objects = [("/t/metadata/m.avro".to_string(), manifest)].into();
    let state = supplied("/t/1.json", document.to_string().as_bytes(), None, &objects);
    assert!(state.is_complete());
    assert_eq!(state.live_files().count(), 1);
}

#[test]
fn an_encrypted_list_is_named_and_not_asked_for() {
    let document = serde_json::json!({"format-version": 3, "location": "/t",
        "current-snapshot-id": 1,
        "snapshots": [{"snapshot-id": 1, "manifest-list": "/t/l", "key-id": "k"}]});
    let state = supplied("/t/1.json", document.to_string().as_bytes(), None, &BTreeMap::new());
    assert!(!state.is_complete());
    assert!(matches!(state.faults().iter().next(), Some(Fault::Unsupported { .. })));
}

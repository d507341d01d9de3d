//! The order in which metadata is worth keeping.

use std::collections::BTreeMap;

use super::*;
use crate::change::supplied;
use crate::manifest::Manifest;
use crate::manifest::sample::{SampleFile, SampleListed, SampleManifest, write_list};

/// The names of two snapshots' files.
struct Table {
    objects: BTreeMap<String, Vec<u8>>,
    first: TableState,
    second: TableState,
}

fn table() -> Table {
    let mut objects = BTreeMap::new();
    let mut write = |name: &str, deletes: bool, files: &[SampleFile]| {
        let bytes = SampleManifest { deletes, ..SampleManifest::of_version(3) }.write(files);
        let (path, length) = (format!("/t/metadata/{name}.avro"), bytes.len() as i64);
        objects.insert(path.clone(), bytes);
        let counts = [files.len() as i32, 0, 0];
        SampleListed { path, length, deletes, sequence_number: 1, snapshot_id: 1, counts }
    };
    let kept = [
        SampleFile::data("/t/data/kept"),
        SampleFile { size: 100, ..SampleFile::data("/t/data/small") },
    ];
    let orc = SampleFile { format: "orc", ..SampleFile::data("/t/data/orc") };
    let vector = |offset| SampleFile::vector("/t/data/v.puffin", offset, "/t/data/kept");
    let vectors = [vector(4), vector(44), vector((1 << 20) - 100)];
    let kept = write("kept", false, &kept);
    let gone = write("gone", false, &[SampleFile::data("/t/data/gone")]);
    let fresh =
        write("fresh", false, &[orc, SampleFile { size: 0, ..SampleFile::data("/t/data/fresh") }]);
    let deletes = write("deletes", true, &vectors);
    let first = write_list(3, &[kept.clone(), gone]);
    let second = write_list(3, &[kept, fresh, deletes]);
    objects.insert("/t/metadata/snap-1.avro".into(), first);
    objects.insert("/t/metadata/snap-2.avro".into(), second);
    let state = |current: i64, old: Option<&TableState>| {
        let snapshots: Vec<_> = (1..=current)
            .map(|id| {
                serde_json::json!({"snapshot-id": id, "sequence-number": id,
                    "manifest-list": format!("/t/metadata/snap-{id}.avro")})
            })
            .collect();
        let document = serde_json::json!({"format-version": 3, "location": "/t",
            "current-snapshot-id": current, "snapshots": snapshots,
            "statistics": [{"snapshot-id": 2, "statistics-path": "/t/metadata/s.puffin",
                "file-size-in-bytes": 500, "file-footer-size-in-bytes": 50}],
            "partition-statistics": [{"snapshot-id": 1, "statistics-path": "/t/metadata/p",
                "file-size-in-bytes": 70}]});
        let path = format!("/t/metadata/{current}.json");
        supplied(&path, document.to_string().as_bytes(), old, &objects)
    };
    let first = state(1, None);
    let second = state(2, Some(&first));
    Table { objects, first, second }
}

fn shown(residents: &[Resident<'_>]) -> Vec<String> {
    let show = |resident: &Resident<'_>| {
        let part = match resident.part {
            Part::Whole { .. } => "whole".into(),
            Part::Range(range) => format!("{}..{}", range.start, range.end),
            Part::Suffix { count } => format!("last {count}"),
        };
        format!("{:?} {} {part}", resident.tier, resident.path)
    };
    residents.iter().map(show).collect()
}

#[test]
fn current_comes_before_history_and_changed_before_kept() {
    let table = table();
    let change = Change::between(&table.first, &table.second);
    let expected = [
        "Current /t/metadata/2.json whole",
        "Current /t/metadata/snap-2.avro whole",
        "Current /t/metadata/fresh.avro whole",
        "Current /t/metadata/deletes.avro whole",
        "Current /t/metadata/kept.avro whole",
        "Current /t/data/fresh last 65536",
        "Current /t/data/v.puffin 983040..1048576",
        "Current /t/data/v.puffin 4..44",
        "Current /t/data/v.puffin 44..84",
        "Current /t/data/kept 983040..1048576",
        "Current /t/data/small 0..100",
        "Current /t/metadata/s.puffin 450..500",
        "History /t/metadata/snap-1.avro whole",
        "History /t/metadata/gone.avro whole",
        "History /t/data/gone 983040..1048576",
        "History /t/metadata/p whole",
    ];
    assert_eq!(shown(&residents(&table.second, Some(&change))), expected);
}

#[test]
fn without_a_change_all_is_listed_in_the_lists_order() {
    let table = table();
    let all = residents(&table.second, None);
    let manifests: Vec<String> = all
        .iter()
        .filter(|resident| resident.kind == ResidentKind::Manifest)
        .map(|resident| resident.path.to_string())
        .collect();
    let expected =
        ["kept", "fresh", "deletes", "gone"].map(|name| format!("/t/metadata/{name}.avro"));
    assert_eq!(manifests, expected);
    let change = Change::between(&table.first, &table.second);
    assert_eq!(all.len(), residents(&table.second, Some(&change)).len());
}

#[test]
fn sizes_are_known_as_far_as_the_metadata_says() {
    let table = table();
    for resident in residents(&table.second, None) {
        let bytes = resident.part.bytes();
        match table.objects.get(&resident.path.to_string()) {
            Some(object) => assert_eq!(bytes, object.len() as u64, "{}", resident.path),
            None if resident.kind == ResidentKind::Metadata => assert_eq!(bytes, 0),
            None => assert!(bytes > 0, "{}", resident.path),
        }
    }
}

#[test]
fn a_vector_that_cannot_be_where_its_entry_says_is_no_resident() {
    let check = |offset: Option<i64>, size: Option<i64>, expected: Option<ByteRange>| {
        let file = SampleFile { offset, vector_size: size, ..SampleFile::vector("/v", 0, "/a") };
        let path: Arc<str> = "/m".into();
        let bytes =
            SampleManifest { deletes: true, ..SampleManifest::of_version(3) }.write(&[file]);
        let manifest = Manifest::parse(&path, &bytes).expect("a sound manifest");
        assert_eq!(vector_range(&manifest.file(0)), expected, "{offset:?} {size:?}");
    };
    check(Some(4), Some(40), Some(ByteRange::new(4, 44)));
    check(Some(i64::MAX), Some(i64::MAX), None);
    check(Some(1 << 20), Some(1), None);
    check(Some(-4), Some(40), None);
    check(Some(4), Some(0), None);
    check(None, Some(40), None);
}

#[test]
fn who_has_no_room_left_breaks_off() {
    let table = table();
    let mut taken = 0;
    let broken = visit(&table.second, None, |_| {
        taken += 1;
        if taken == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((taken, broken), (3, ControlFlow::Break(())));
}

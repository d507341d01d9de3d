//! Documents of each format as writers make them, with a fault here and there.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const PATH: &str = "s3://b/t/metadata/00001-x.metadata.json";

fn parse(document: &Value) -> TableMetadata {
    TableMetadata::parse(PATH, document.to_string().as_bytes()).expect("a sound document")
}

fn version_2() -> Value {
    json!({
        "format-version": 2, "table-uuid": "9c12d441", "location": "s3://b/t",
        "last-sequence-number": 34, "last-updated-ms": 1_602_638_573_590_i64, "last-column-id": 9,
        "current-schema-id": 1,
        "schemas": [
            {"type": "struct", "schema-id": 0, "fields": [
                {"id": 1, "name": "old", "required": true, "type": "long"},
                {"id": 7, "name": "gone", "required": false, "type": "int"}]},
            {"type": "struct", "schema-id": 1, "fields": [
                {"id": 1, "name": "x", "required": true, "type": "long"},
                {"id": 2, "name": "m", "required": false, "type": {"type": "map", "key-id": 3,
                    "key": "string", "value-id": 4, "value-required": false,
                    "value": {"type": "list", "element-id": 5, "element-required": false,
                        "element": {"type": "struct", "fields": [
                            {"id": 6, "name": "d", "required": false, "type": "decimal(9,2)"}]}}}}]},
        ],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": [
            {"name": "x_day", "transform": "day", "source-id": 1, "field-id": 1000}]}],
        "properties": {"history.expire.max-snapshot-age-ms": "1000", "owner": "somebody"},
        "current-snapshot-id": 20,
        "snapshots": [
            {"snapshot-id": 10, "timestamp-ms": 1, "sequence-number": 33, "schema-id": 0,
             "summary": {"operation": "append", "added-data-files": "4"},
             "manifest-list": "s3://b/t/metadata/snap-10.avro"},
            {"snapshot-id": 20, "parent-snapshot-id": 10, "timestamp-ms": 2, "sequence-number": 34,
             "summary": {"operation": "overwrite"},
             "manifest-list": "s3://b/t/metadata/snap-20.avro"},
        ],
        "refs": {"main": {"snapshot-id": 20, "type": "branch"},
                 "audit": {"snapshot-id": 10, "type": "tag", "max-ref-age-ms": 10}},
        "statistics": [{"snapshot-id": 20, "statistics-path": "s3://b/t/metadata/s.puffin",
            "file-size-in-bytes": 413, "file-footer-size-in-bytes": 42, "blob-metadata": []}],
        "partition-statistics": [{"snapshot-id": 20, "file-size-in-bytes": 43,
            "statistics-path": "s3://b/t/metadata/p.parquet"}],
        "metadata-log": [{"metadata-file": "s3://b/t/metadata/00000-y.metadata.json",
            "timestamp-ms": 100}],
        "sort-orders": [], "default-sort-order-id": 0,
    })
}

#[test]
fn format_2_is_read_whole() {
    let metadata = parse(&version_2());
    assert_eq!(metadata.faults.count(), 0, "{:?}", metadata.faults);
    assert_eq!(metadata.uuid.as_deref(), Some("9c12d441"));
    let current = metadata.current().expect("there is one");
    assert_eq!((current.id, current.parent_id, current.sequence_number), (20, Some(10), 34));
    assert_eq!(current.manifest_list.as_deref(), Some("s3://b/t/metadata/snap-20.avro"));
    let first = metadata.snapshot(10).expect("it is listed");
    assert_eq!(first.summary.operation, Some(Operation::Append));
    assert_eq!(first.summary.added_data_files, Some(4));
    let names: Vec<&str> = metadata.references.iter().map(|named| &*named.name).collect();
    assert_eq!(names, ["audit", "main"]);
    assert_eq!(metadata.property("history.expire.max-snapshot-age-ms"), Some("1000"));
    assert_eq!(metadata.property("owner"), None);
    assert_eq!((metadata.statistics[0].size, metadata.statistics[0].footer_size), (413, 42));
    assert_eq!(&*metadata.partition_statistics[0].path, "s3://b/t/metadata/p.parquet");
    assert_eq!(metadata.metadata_log[0].timestamp_ms, 100);
    assert_eq!(&*metadata.specs[0].fields[0].transform, "day");
}

#[test]
fn columns_are_known_by_id_under_their_latest_name() {
    let metadata = parse(&version_2());
    let fields: Vec<(i32, &str, &str, bool)> = metadata
        .fields
        .iter()
        .map(|field| (field.id, &*field.path, &*field.type_text, field.current))
        .collect();
    let expected = [
        (1, "x", "long", true),
        (2, "m", "map", true),
        (3, "m.key", "string", true),
        (4, "m.value", "list", true),
        (5, "m.value.element", "struct", true),
        (6, "m.value.element.d", "decimal(9,2)", true),
        (7, "gone", "int", false),
    ];
    assert_eq!(fields, expected);
    assert_eq!(metadata.field(6).map(|field| field.id), Some(6));
    assert_eq!(metadata.field(8), None);
}

#[test]
fn gzip_is_told_by_its_magic_and_not_by_the_name() {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(version_2().to_string().as_bytes()).expect("memory takes it");
    let bytes = gzip.finish().expect("memory takes it");
    for path in
        [PATH, "s3://b/t/metadata/1.gz.metadata.json", "s3://b/t/metadata/1.metadata.json.gz"]
    {
        let metadata = TableMetadata::parse(path, &bytes).expect("it is gzip");
        assert_eq!(metadata.snapshots.len(), 2);
    }
    let torn = TableMetadata::parse(PATH, &bytes[..bytes.len() / 2]);
    assert!(matches!(torn, Err(Fault::Damaged { .. })), "{torn:?}");
}

#[test]
fn a_gzip_bomb_ends_at_the_limit() {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    let zeros = vec![b' '; 1 << 20];
    for _ in 0..=METADATA_BYTES_MAX >> 20 {
        gzip.write_all(&zeros).expect("memory takes it");
    }
    let bomb = gzip.finish().expect("memory takes it");
    let fault = TableMetadata::parse(PATH, &bomb).expect_err("it is too large");
    assert!(matches!(fault, Fault::TooLarge { limit: METADATA_BYTES_MAX, .. }), "{fault}");
}

#[test]
fn format_1_may_lack_all_that_came_later() {
    let metadata = parse(&json!({
        "format-version": 1, "location": "s3://b/t", "last-updated-ms": 1, "last-column-id": 1,
        "schema": {"type": "struct", "fields": [
            {"id": 1, "name": "x", "required": true, "type": "date"}]},
        "partition-spec": [{"name": "x", "transform": "identity", "source-id": 1}],
        "current-snapshot-id": 5,
        "snapshots": [
            {"snapshot-id": 5, "timestamp-ms": 1, "manifests": ["s3://b/t/m1.avro", "s3://b/t/m2"]},
        ],
    }));
    assert_eq!(metadata.faults.count(), 0, "{:?}", metadata.faults);
    let current = metadata.current().expect("there is one");
    assert_eq!((current.manifest_list.as_deref(), current.manifests.len()), (None, 2));
    assert_eq!((current.sequence_number, current.summary.operation.as_ref()), (0, None));
    assert_eq!(&*metadata.references[0].name, "main");
    assert_eq!(metadata.fields[0].path.as_ref(), "x");
    assert_eq!(metadata.specs[0].fields[0].field_id, None);
}

#[test]
fn a_table_without_snapshots_has_no_current_one() {
    for none in [json!(-1), json!(null)] {
        let metadata = parse(&json!({"format-version": 1, "location": "/t",
            "current-snapshot-id": none, "snapshots": []}));
        assert_eq!((metadata.current_snapshot_id, metadata.references.len()), (None, 0));
        assert_eq!(metadata.faults.count(), 0, "{:?}", metadata.faults);
    }
}

#[test]
fn what_format_3_brings_and_what_nobody_knows_yet_is_tolerated() {
    let mut document = version_2();
    document["format-version"] = json!(3);
    document["next-row-id"] = json!(77);
    document["encryption-keys"] = json!([{"key-id": "k", "encrypted-key-metadata": "AA=="}]);
    document["tomorrow"] = json!({"a": [1, {"b": null}]});
    document["snapshots"][1]["first-row-id"] = json!(4);
    document["snapshots"][1]["key-id"] = json!("k");
    document["schemas"][1]["fields"] = json!([
        {"id": 1, "name": "v", "type": "variant"}, {"id": 2, "name": "g", "type": "geometry(srid:1)"},
        {"id": 3, "name": "u", "type": {"type": "union-of-tomorrow", "arms": [1, 2]}},
        {"id": 4, "name": "w", "type": 17, "initial-default": {"deep": []}}]);
    document["partition-specs"][0]["fields"][0] =
        json!({"name": "z", "transform": "zorder[3]", "source-ids": [1, 2], "field-id": 1001});
    let metadata = parse(&document);
    assert_eq!(metadata.faults.count(), 0, "{:?}", metadata.faults);
    assert!(metadata.current().is_some_and(|current| current.encrypted));
    let types: Vec<&str> = metadata.fields.iter().map(|field| &*field.type_text).collect();
    assert_eq!(types, ["variant", "geometry(srid:1)", "union-of-tomorrow", "unknown", "int"]);
    assert_eq!(metadata.specs[0].fields[0].source_ids, [1, 2]);
}

#[test]
fn a_format_of_tomorrow_is_not_guessed_at() {
    let document = json!({"format-version": 4, "location": "s3://b/t"}).to_string();
    let fault = TableMetadata::parse(PATH, document.as_bytes()).expect_err("it is unknown");
    assert!(matches!(fault, Fault::Unsupported { .. }), "{fault}");
}

#[test]
fn a_bad_element_costs_itself_and_is_named() {
    let mut document = version_2();
    document["snapshots"][0] = json!({"snapshot-id": "ten"});
    document["refs"]["audit"] = json!(7);
    document["partition-specs"][0] = json!({"spec-id": 0});
    document["statistics"][0] = json!([]);
    document["last-updated-ms"] = json!("yesterday");
    let metadata = parse(&document);
    assert_eq!(metadata.snapshots.len(), 1);
    assert!(metadata.current().is_some());
    assert_eq!(metadata.references.len(), 1);
    assert!(metadata.faults.iter().all(|fault| fault.path() == PATH));
    let texts: Vec<String> = metadata.faults.iter().map(ToString::to_string).collect();
    for named in ["`snapshots` is read without its element 0", "`statistics`", "`partition-specs`"]
    {
        assert!(texts.iter().any(|text| text.contains(named)), "{named} is not in {texts:#?}");
    }
}

#[test]
fn a_document_at_odds_with_itself_is_named() {
    let check = |change: fn(&mut Value), expected: &str| {
        let mut document = version_2();
        change(&mut document);
        let metadata = parse(&document);
        let texts: Vec<String> = metadata.faults.iter().map(ToString::to_string).collect();
        assert!(texts.iter().any(|text| text.contains(expected)), "{expected} is not in {texts:?}");
    };
    check(|document| document["current-snapshot-id"] = json!(99), "current snapshot 99");
    check(|document| document["refs"]["main"]["snapshot-id"] = json!(10), "`main` is 10");
    check(|document| document["refs"]["audit"]["snapshot-id"] = json!(11), "`audit` names");
    check(|document| document["snapshots"][0]["snapshot-id"] = json!(20), "20 is listed twice");
}

#[test]
fn names_that_grow_without_end_are_passed_over() {
    let name = "n".repeat(3000);
    let metadata = parse(&json!({"format-version": 2, "location": "/t", "schemas": [{"fields": [
        {"id": 1, "name": name, "type": {"type": "struct", "fields": [
            {"id": 2, "name": name, "type": "int"}, {"id": 3, "name": "c", "type": "int"}]}}]}]}));
    let ids: Vec<i32> = metadata.fields.iter().map(|field| field.id).collect();
    assert_eq!(ids, [1, 3]);
}

proptest! {
    #[test]
    fn no_change_of_bytes_panics(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let mut bytes = version_2().to_string().into_bytes();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Err(fault) = TableMetadata::parse(PATH, &bytes) {
            prop_assert_eq!(fault.path(), PATH);
        }
    }

    #[test]
    fn no_member_is_needed_but_format_and_location(removed in prop::sample::subsequence(
        version_2().as_object().map(|members| members.keys().cloned().collect::<Vec<_>>()).unwrap_or_default(), 0..8),
        nulled: bool,
    ) {
        let mut document = version_2();
        let members = document.as_object_mut().expect("it is an object");
        for name in &removed {
            if nulled { members[name] = Value::Null } else { members.remove(name); }
        }
        let parsed = TableMetadata::parse(PATH, document.to_string().as_bytes());
        let needed = removed.iter().any(|name| name == "format-version" || name == "location");
        prop_assert_eq!(parsed.is_err(), needed, "{:?}", parsed);
    }
}

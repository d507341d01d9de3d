//! Manifests of each format and codec, hostile ones, and random damage with apache-avro as the oracle.

mod hostile;
mod oracle;
mod public;
mod speed;

use std::sync::Arc;

use apache_avro::{Codec, DeflateSettings, ZstandardSettings};

use super::sample::{SampleFile, SampleListed, SampleManifest, write_list};
use super::*;
use crate::fault::Fault;

fn path() -> Arc<str> {
    "s3://b/t/metadata/m0.avro".into()
}

fn parse(bytes: &[u8]) -> Manifest {
    Manifest::parse(&path(), bytes).expect("a sound manifest")
}

fn codecs() -> [Codec; 4] {
    [
        Codec::Null,
        Codec::Deflate(DeflateSettings::default()),
        Codec::Snappy,
        Codec::Zstandard(ZstandardSettings::default()),
    ]
}

/// Paths whose every byte counts, in two folders.
fn odd_files() -> Vec<SampleFile> {
    let names = ["a#b", "a%2Fb", "a?b=c", "a b", "é/日本", "/a//b/", "", "s3://x/y"];
    let status = [1, 0, 2];
    let files = names.iter().enumerate().map(|(index, name)| SampleFile {
        status: status[index % 3],
        snapshot_id: (index % 2 == 0).then_some(index as i64),
        sequence_number: (index % 3 == 0).then_some(40 + index as i64),
        partition: (Some(index as i32 / 2), (index > 3).then(|| "é/x".into())),
        ..SampleFile::data(&format!("s3://b/t/data/{name}"))
    });
    files.collect()
}

fn check(manifest: &Manifest, files: &[SampleFile], version: u8) {
    assert_eq!(manifest.len(), files.len());
    for (found, written) in manifest.files().zip(files) {
        assert_eq!(found.path.to_string(), written.path);
        assert_eq!(found.path, FilePath::new(&written.path));
        assert_eq!((found.size, found.records), (1 << 20, 1000));
        let status = [FileStatus::Existing, FileStatus::Added, FileStatus::Deleted];
        assert_eq!(found.status, status[written.status as usize]);
        assert_eq!((found.content, found.format), (Content::Data, Format::Parquet));
        if version > 1 {
            assert_eq!(found.snapshot_id, written.snapshot_id);
            assert_eq!(found.sequence_number, written.sequence_number);
            assert_eq!(found.file_sequence_number, written.sequence_number);
        }
        assert_eq!(found.partition.spec_id, 7);
        assert_eq!(found.partition.values.len(), 2);
    }
}

#[test]
fn every_format_and_codec_is_read_whole() {
    for version in 1..=3 {
        for codec in codecs() {
            let sample = SampleManifest { codec, ..SampleManifest::of_version(version) };
            let bytes = sample.write(&odd_files());
            let manifest = parse(&bytes);
            check(&manifest, &odd_files(), version);
            assert_eq!(
                (manifest.length, manifest.content),
                (bytes.len() as u64, ManifestContent::Data)
            );
        }
    }
}

#[test]
fn partitions_are_typed_and_shown_under_the_specs_names() {
    let manifest = parse(&SampleManifest::of_version(2).write(&odd_files()));
    let texts: Vec<&str> = manifest.files().map(|file| &*file.partition.text).collect();
    assert_eq!(texts[0], "day=1970-01-01/the region=null");
    assert_eq!(texts[4], "day=1970-01-03/the region=é%2Fx");
    let values = &manifest.file(4).partition.values;
    assert_eq!(**values, [PartitionValue::Integer(2), PartitionValue::Text("é/x".into())]);
    assert_eq!(manifest.partitions.len(), 4, "each tuple is kept once");
    let sample = SampleManifest { partitioned: false, ..SampleManifest::of_version(2) };
    let manifest = parse(&sample.write(&odd_files()));
    assert!(manifest.files().all(|file| file.partition.text.is_empty()));
}

#[test]
fn vectors_of_one_puffin_file_are_files_of_their_own() {
    let files = [
        SampleFile::vector("s3://b/t/data/d.puffin", 4, "s3://b/t/data/a.parquet"),
        SampleFile::vector("s3://b/t/data/d.puffin", 44, "s3://b/t/data/b.parquet"),
        SampleFile { content: 1, ..SampleFile::data("s3://b/t/data/p.parquet") },
        SampleFile { content: 2, ..SampleFile::data("s3://b/t/data/e.parquet") },
        SampleFile { content: 9, format: "lance", ..SampleFile::data("s3://b/t/data/f.lance") },
    ];
    let sample = SampleManifest { deletes: true, ..SampleManifest::of_version(3) };
    let manifest = parse(&sample.write(&files));
    let found: Vec<File<'_>> = manifest.files().collect();
    assert_eq!(manifest.content, ManifestContent::Deletes);
    assert_ne!(found[0].key(), found[1].key());
    let vector = found[1].vector.expect("it is one");
    assert_eq!((vector.offset, vector.size), (Some(44), Some(40)));
    let referenced = vector.referenced.map(|path| path.to_string());
    assert_eq!(referenced.as_deref(), Some("s3://b/t/data/b.parquet"));
    let contents: Vec<Content> = found.iter().map(|file| file.content).collect();
    use Content::{DeletionVector, EqualityDeletes, Other, PositionDeletes};
    assert_eq!(contents, [DeletionVector, DeletionVector, PositionDeletes, EqualityDeletes, Other]);
    assert_eq!((found[2].vector, found[4].format), (None, Format::Other));
}

#[test]
fn names_stand_in_where_ids_are_missing() {
    let sample = SampleManifest { ids: false, ..SampleManifest::of_version(3) };
    let manifest = parse(&sample.write(&odd_files()));
    assert_eq!(manifest.file(1).path.to_string(), "s3://b/t/data/a%2Fb");
    assert_eq!(manifest.file(0).sequence_number, Some(40));
}

#[test]
fn lists_are_read_by_ids_whatever_the_counts_are_called() {
    for version in 1..=3 {
        let written = SampleListed {
            path: "s3://b/t/metadata/a#1.avro".into(),
            length: 77,
            deletes: version > 1,
            sequence_number: 5,
            snapshot_id: 6,
            counts: [1, 2, 3],
        };
        let bytes = write_list(version, &[written.clone(), written]);
        let list = ManifestList::parse("l", &bytes).expect("a sound list");
        let [first, _] = &list.manifests[..] else { panic!("two were written") };
        assert_eq!((&*first.path, first.length), ("s3://b/t/metadata/a#1.avro", 77));
        let counts = [first.added_files, first.existing_files, first.deleted_files];
        assert_eq!(counts, [Some(1), Some(2), Some(3)]);
        assert_eq!((first.added_snapshot_id, first.spec_id, first.encrypted), (Some(6), 7, false));
        assert_eq!(first.sequence_number, if version > 1 { 5 } else { 0 });
        assert_eq!(first.content == ManifestContent::Deletes, version > 1);
        assert_eq!(list.length, bytes.len() as u64);
    }
}

#[test]
fn a_manifest_without_entries_is_one() {
    let manifest = parse(&SampleManifest::of_version(2).write(&[]));
    assert!(manifest.is_empty());
}

/// What a file costs beyond its own name: paths of a folder share it, and so do commits and tuples.
const FILE_BYTES_MAX: usize = 44;

#[test]
fn a_file_costs_its_name_and_forty_four_bytes() {
    let names: Vec<String> = (0..20_000_u64)
        .map(|number| format!("{number:05}-7-45268d71-54eb-476c-b42c-{number:012x}-00001.parquet"))
        .collect();
    let folder = "s3://warehouse/database/table/data/day=2024-01-01/region=eu";
    let files: Vec<SampleFile> =
        names.iter().map(|name| SampleFile::data(&format!("{folder}/{name}"))).collect();
    let manifest = parse(&SampleManifest::of_version(2).write(&files));
    let name_bytes: usize = names.iter().map(String::len).sum();
    let file_bytes = (manifest.memory_bytes() - name_bytes) / names.len();
    assert!(file_bytes <= FILE_BYTES_MAX, "{file_bytes} bytes a file beyond its name");
    println!("{} bytes a file in all", manifest.memory_bytes() / names.len());
}

//! The same bytes, damaged at random, read here and by apache-avro: what is accepted here is what
//! apache-avro reads, value for value. (It reads more: it takes a torn text for a null, and does not
//! mind bytes that are left over.)

use apache_avro::Reader;
use apache_avro::types::Value;
use proptest::prelude::*;

use super::*;

/// What both are asked for.
#[derive(Debug, PartialEq)]
struct Fact {
    path: String,
    status: i64,
    snapshot_id: Option<i64>,
    sequence_number: Option<i64>,
    size: i64,
    records: i64,
    content: i64,
    partition: Vec<PartitionValue>,
    referenced: Option<String>,
    offset: Option<i64>,
}

/// The facts that apache-avro reads, if it reads the file to its end.
fn by_oracle(bytes: &[u8]) -> Option<Vec<Fact>> {
    // Else a length that lies reserves half a GiB times the size of a value.
    apache_avro::util::max_allocation_bytes(1 << 20);
    let mut facts = Vec::new();
    for entry in Reader::new(bytes).ok()? {
        let Value::Record(entry) = entry.ok()? else { return None };
        let Value::Record(file) = member(&entry, "data_file")? else { return None };
        let Value::Record(tuple) = member(file, "partition")? else { return None };
        facts.push(Fact {
            path: text(member(file, "file_path")?)?,
            status: number(member(&entry, "status")?)?,
            snapshot_id: member(&entry, "snapshot_id").and_then(number),
            sequence_number: member(&entry, "sequence_number").and_then(number),
            size: number(member(file, "file_size_in_bytes")?)?,
            records: number(member(file, "record_count")?)?,
            content: member(file, "content").and_then(number).unwrap_or(0),
            partition: tuple.iter().map(|(_, value)| partition_value(value)).collect(),
            referenced: member(file, "referenced_data_file").and_then(text),
            offset: member(file, "content_offset").and_then(number),
        });
    }
    Some(facts)
}

fn member<'a>(members: &'a [(String, Value)], name: &str) -> Option<&'a Value> {
    members.iter().find(|(known, _)| known == name).map(|(_, value)| value)
}

fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Union(_, inner) => number(inner),
        Value::Int(value) | Value::Date(value) => Some((*value).into()),
        Value::Long(value) => Some(*value),
        _ => None,
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Union(_, inner) => text(inner),
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

fn partition_value(value: &Value) -> PartitionValue {
    match (number(value), text(value)) {
        (Some(number), _) => PartitionValue::Integer(number),
        (_, Some(text)) => PartitionValue::Text(text.into()),
        _ => PartitionValue::Null,
    }
}

fn content(content: Content) -> i64 {
    match content {
        Content::Data => 0,
        Content::PositionDeletes | Content::DeletionVector => 1,
        Content::EqualityDeletes => 2,
        Content::Other => 3,
    }
}

fn here(manifest: &Manifest) -> Vec<Fact> {
    let facts = manifest.files().map(|file| Fact {
        path: file.path.to_string(),
        status: match file.status {
            FileStatus::Existing => 0,
            FileStatus::Added => 1,
            FileStatus::Deleted => 2,
        },
        snapshot_id: file.snapshot_id,
        sequence_number: file.sequence_number,
        size: file.size as i64,
        records: file.records as i64,
        content: content(file.content),
        partition: file.partition.values.to_vec(),
        referenced: file.vector.and_then(|vector| vector.referenced).map(|path| path.to_string()),
        offset: file.vector.and_then(|vector| vector.offset).map(|offset| offset as i64),
    });
    facts.collect()
}

/// Numbers below 0 are none here, and contents beyond those of today are one.
fn as_here(mut fact: Fact) -> Fact {
    fact.size = fact.size.max(0);
    fact.records = fact.records.max(0);
    fact.content = if (0..3).contains(&fact.content) { fact.content } else { 3 };
    fact.offset = fact.offset.filter(|offset| *offset >= 0);
    fact
}

fn sample(version: u8, codec: Codec) -> Vec<u8> {
    let mut files = odd_files();
    files.push(SampleFile::vector("s3://b/t/data/d.puffin", 4, "s3://b/t/data/a"));
    SampleManifest { codec, ..SampleManifest::of_version(version) }.write(&files)
}

#[test]
fn sound_manifests_are_read_as_apache_avro_reads_them() {
    for version in 1..=3 {
        for codec in codecs() {
            let bytes = sample(version, codec);
            let expected = by_oracle(&bytes).expect("a sound manifest");
            assert_eq!(here(&parse(&bytes)), expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn damaged_entries_are_faults_or_what_apache_avro_reads(
        version in 1_u8..=3,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        bits: bool,
    ) {
        let mut bytes = sample(version, Codec::Null);
        let marker = bytes[bytes.len() - 16..].to_vec();
        let header = bytes.windows(16).position(|window| window == marker).map_or(0, |at| at + 16);
        for (place, byte) in changes {
            let place = header + place.index(bytes.len() - header);
            // One bit leaves a file readable more often than one byte does.
            bytes[place] = if bits { bytes[place] ^ 1 << (byte % 8) } else { byte };
        }
        if let Ok(manifest) = Manifest::parse(&path(), &bytes) {
            let expected = by_oracle(&bytes).map(|facts| facts.into_iter().map(as_here).collect());
            prop_assert_eq!(Some(here(&manifest)), expected);
        }
    }

    #[test]
    fn no_damage_anywhere_panics(
        version in 1_u8..=3,
        codec in 0_usize..4,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        torn: bool,
    ) {
        let mut bytes = sample(version, codecs()[codec]);
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if torn {
            bytes.truncate(cut.index(bytes.len()));
        }
        let _ = Manifest::parse(&path(), &bytes);
        let _ = ManifestList::parse("l", &bytes);
    }
}

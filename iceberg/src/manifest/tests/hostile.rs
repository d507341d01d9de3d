//! Manifests that claim much and hold little, and those that are not what they seem.

use super::*;

/// An Avro file of that schema and one block.
fn file(schema: &str, codec: &str, count: i64, block: &[u8]) -> Vec<u8> {
    let mut bytes = b"Obj\x01".to_vec();
    put_long(&mut bytes, 2);
    for (name, value) in [("avro.schema", schema), ("avro.codec", codec)] {
        put_bytes(&mut bytes, name.as_bytes());
        put_bytes(&mut bytes, value.as_bytes());
    }
    put_long(&mut bytes, 0);
    bytes.extend([7; 16]);
    put_long(&mut bytes, count);
    put_bytes(&mut bytes, block);
    bytes.extend([7; 16]);
    bytes
}

fn put_long(bytes: &mut Vec<u8>, value: i64) {
    let mut rest = (value << 1 ^ value >> 63) as u64;
    while rest > 0x7f {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

fn put_bytes(bytes: &mut Vec<u8>, value: &[u8]) {
    put_long(bytes, value.len() as i64);
    bytes.extend(value);
}

fn entry_schema(extra: &str) -> String {
    format!(
        r#"{{"type": "record", "name": "manifest_entry", "fields": [
            {{"name": "status", "type": "int", "field-id": 0}},
            {{"name": "data_file", "field-id": 2, "type": {{"type": "record", "name": "r2",
                "fields": [{{"name": "file_path", "type": "string", "field-id": 100}}{extra}]}}}}]}}"#
    )
}

fn fault(bytes: &[u8]) -> Fault {
    let fault = Manifest::parse(&path(), bytes).expect_err("it is hostile");
    assert_eq!(fault.path(), &*path());
    fault
}

#[test]
fn the_least_that_an_entry_needs_is_status_and_path() {
    let manifest = parse(&file(&entry_schema(""), "null", 1, b"\x02\x02a"));
    let found = manifest.file(0);
    assert_eq!((found.path.to_string(), found.size, found.partition.spec_id), ("a".into(), 0, 0));
    fault(&file(r#"{"type": "record", "name": "a", "fields": []}"#, "null", 0, b""));
    fault(&file(r#""string""#, "null", 1, b"\x02a"));
}

#[test]
fn counts_and_lengths_that_lie_are_damage() {
    let schema = entry_schema("");
    for count in [-1, 2, i64::MAX, i64::MIN] {
        fault(&file(&schema, "null", count, b"\x02\x02a"));
    }
    fault(&file(&schema, "null", 1, b"\x02\x7fa"));
    fault(&file(&schema, "null", 1, b"\x02\x01a"));
    fault(&file(&schema, "null", 1, b"\x02\x02aleft over"));
    fault(&file(&schema, "null", 1, b"\x06\x02a"));
    fault(&file(&schema, "null", 1, b"\x02\x02\xff"));
    fault(&file(&schema, "null", 1, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00"));
}

#[test]
fn lists_of_nothing_do_not_take_forever() {
    let nulls = r#", {"name": "n", "type": {"type": "array", "items": "null"}}"#;
    let mut block = b"\x02\x02a".to_vec();
    put_long(&mut block, i64::MAX);
    put_long(&mut block, 0);
    fault(&file(&entry_schema(nulls), "null", 1, &block));
    // A record of records of records …, each twice the one before, none of which has a byte.
    let mut extra =
        String::from(r#", {"name": "f0", "type": {"type": "record", "name": "t0", "fields": []}}"#);
    for level in 1..60 {
        let inner = level - 1;
        extra.push_str(&format!(
            r#", {{"name": "f{level}", "type": {{"type": "record", "name": "t{level}", "fields": [
                {{"name": "a", "type": "t{inner}"}}, {{"name": "b", "type": "t{inner}"}}]}}}}"#
        ));
    }
    fault(&file(&entry_schema(&extra), "null", 1, b"\x02\x02a"));
    // A record within itself.
    let ring = r#", {"name": "n", "type": {"type": "record", "name": "s", "fields": [
        {"name": "again", "type": "s"}]}}"#;
    fault(&file(&entry_schema(ring), "null", 1, b"\x02\x02a"));
}

#[test]
fn bombs_end_at_the_limit() {
    use std::io::Write;
    let zeros = vec![0; BLOCK_BYTES_MAX + 1];
    let mut deflate =
        flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
    deflate.write_all(&zeros).expect("memory takes it");
    let deflated = deflate.finish().expect("memory takes it");
    let zstandard = zstd::bulk::compress(&zeros, 3).expect("memory takes it");
    // A snappy block that claims four GiB.
    let snappy = b"\xff\xff\xff\xff\x0f\x00\x00\x00\x00\x00\x00";
    let cases = [("deflate", &deflated[..]), ("zstandard", &zstandard), ("snappy", snappy)];
    for (codec, block) in cases {
        assert!(block.len() < 1 << 20);
        let fault = fault(&file(&entry_schema(""), codec, 1, block));
        assert!(matches!(fault, Fault::TooLarge { .. }), "{codec}: {fault}");
    }
}

#[test]
fn torn_compressed_blocks_are_damage() {
    for codec in ["deflate", "snappy", "zstandard"] {
        for block in [&b""[..], b"\x00", b"\xff\xff\xff", &[0x55; 40]] {
            fault(&file(&entry_schema(""), codec, 1, block));
        }
    }
}

#[test]
fn what_is_encrypted_or_compressed_otherwise_is_not_read() {
    for bytes in [b"AGS1\x00\x00".to_vec(), file(&entry_schema(""), "bzip2", 1, b"x")] {
        let fault = fault(&bytes);
        assert!(matches!(fault, Fault::Unsupported { .. }), "{fault}");
    }
}

#[test]
fn schemas_without_sense_are_damage() {
    for schema in ["", "{", "7", r#"{"type": "r99"}"#, r#"{"type": {}}"#, r#"["null", "nil"]"#] {
        fault(&file(schema, "null", 0, b""));
    }
    let deep = format!("{}\"int\"{}", "[".repeat(5000), "]".repeat(5000));
    fault(&file(&deep, "null", 0, b""));
    fault(b"");
    fault(b"Obj\x01");
    fault(b"PAR1");
}

#[test]
fn a_path_beyond_all_measure_is_refused() {
    let name = "n".repeat(PATH_BYTES_MAX + 1);
    let fault = fault(&SampleManifest::of_version(2).write(&[SampleFile::data(&name)]));
    assert!(matches!(fault, Fault::TooLarge { .. }), "{fault}");
}

//! Files written by the `parquet` crate and read back by it are the oracle; then come the hostile ones.

use std::sync::{Arc, LazyLock};

use parquet::data_type::Int64Type;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;

use super::*;

/// A file of required 64-bit columns, `row_groups` times `rows` rows.
pub(crate) fn write_file(schema: &str, row_groups: usize, rows: usize) -> Vec<u8> {
    write_with(schema, row_groups, rows, WriterProperties::builder().build())
}

fn write_with(schema: &str, row_groups: usize, rows: usize, with: WriterProperties) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let mut file = Vec::new();
    let mut writer =
        SerializedFileWriter::new(&mut file, schema, Arc::new(with)).expect("a writer");
    for group in 0..row_groups {
        let values: Vec<i64> = (0..rows).map(|row| (row * (group + 3)) as i64).collect();
        let mut row_group = writer.next_row_group().expect("a row group");
        while let Some(mut column) = row_group.next_column().expect("a column") {
            column.typed::<Int64Type>().write_batch(&values, None, None).expect("written");
            column.close().expect("closed");
        }
        row_group.close().expect("closed");
    }
    writer.close().expect("closed");
    file
}

fn read_whole(file: &[u8], names: Option<&NameMapping>) -> Result<Footer, FooterError> {
    match read_footer(file, file.len() as u64, names)? {
        FooterRead::Whole(footer) => Ok(footer),
        FooterRead::Needs(bytes) => panic!("{bytes} bytes are needed of {}", file.len()),
    }
}

fn columns(schema: &str, names: Option<&NameMapping>) -> Vec<(Option<i32>, String)> {
    let footer = read_whole(&write_file(schema, 0, 0), names).expect("a footer");
    footer.columns.into_iter().map(|column| (column.field_id, column.path.into())).collect()
}

/// What the `parquet` crate says of the same footer.
fn oracle(metadata: &ParquetMetaData) -> (Vec<Column>, Vec<Span>) {
    let schema = metadata.file_metadata().schema_descr();
    let columns = schema.columns().iter().map(|column| {
        let info = column.self_type().get_basic_info();
        let field_id = info.has_id().then(|| info.id());
        Column { field_id, path: column.path().string().into() }
    });
    let mut spans = Vec::new();
    for (group, row_group) in metadata.row_groups().iter().enumerate() {
        for (at, chunk) in row_group.columns().iter().enumerate() {
            spans.extend(chunk_spans(chunk).into_iter().map(|(part, range)| Span {
                row_group: group as u32,
                column: at as u32,
                part,
                range,
            }));
        }
    }
    spans.sort_by_key(|span| span.range.start);
    (columns.collect(), spans)
}

fn chunk_spans(chunk: &ColumnChunkMetaData) -> Vec<(Part, ByteRange)> {
    let place = |offset: Option<i64>, length: Option<i32>| {
        let (start, length) = (offset? as u64, length? as u64);
        Some(ByteRange::new(start, start + length))
    };
    let (start, length) = chunk.byte_range();
    let spans = [
        (Part::Data, Some(ByteRange::new(start, start + length))),
        (Part::OffsetIndex, place(chunk.offset_index_offset(), chunk.offset_index_length())),
        (Part::ColumnIndex, place(chunk.column_index_offset(), chunk.column_index_length())),
        (Part::BloomFilter, place(chunk.bloom_filter_offset(), chunk.bloom_filter_length())),
    ];
    spans.into_iter().filter_map(|(part, range)| Some((part, range?))).collect()
}

#[test]
fn a_footer_says_what_the_parquet_crate_says() {
    let schema = "message m { required int64 a = 7; required group b = 2 { required int64 c = 3;
        required int64 d = 9; } required int64 e = 1; }";
    for (dictionary, bloom) in [(true, true), (true, false), (false, true), (false, false)] {
        let properties = WriterProperties::builder()
            .set_dictionary_enabled(dictionary)
            .set_bloom_filter_enabled(bloom)
            .build();
        let file = write_with(schema, 3, 1000, properties);
        let metadata = ParquetMetaDataReader::new()
            .parse_and_finish(&bytes::Bytes::copy_from_slice(&file))
            .expect("its own file");
        let footer = read_whole(&file, None).expect("a footer");
        let (columns, spans) = oracle(&metadata);
        let first_index =
            spans.iter().find(|it| matches!(it.part, Part::OffsetIndex | Part::ColumnIndex));
        let (first_index, data) =
            (first_index.expect("one a chunk").range.start, |it: &&Span| it.part == Part::Data);
        assert!(spans.iter().filter(data).all(|it| it.range.end <= first_index));
        assert_eq!(footer.indexes_start(), Some(first_index));
        assert_eq!((footer.columns, footer.spans), (columns, spans));
        assert_eq!(footer.rows, 3000);
        assert_eq!(footer.row_groups, [RowGroup { rows: 1000 }; 3]);
        assert!(file[footer.start as usize..].len() > 8);
    }
}

#[test]
fn indexes_among_the_data_have_no_start() {
    let file = write_file("message m { required int64 a = 7; }", 2, 10);
    let mut footer = read_whole(&file, None).expect("a footer");
    let last = footer.spans.iter().rposition(|it| it.part == Part::Data).expect("two row groups");
    footer.spans[0].part = Part::OffsetIndex;
    assert!(last > 0);
    assert_eq!(footer.indexes_start(), None);
    footer.spans.retain(|it| it.part == Part::Data);
    assert_eq!(footer.indexes_start(), None, "there are none");
}

#[test]
fn a_footer_larger_than_the_window_tells_how_much_it_needs() {
    let fields: String = (0..40).map(|at| format!("required int64 c{at} = {at};")).collect();
    let file = write_file(&format!("message m {{ {fields} }}"), 2, 5);
    let whole = read_whole(&file, None).expect("a footer");
    let bytes = file.len() as u64;
    for window in 8..(bytes - whole.start) as usize {
        let read = read_footer(&file[file.len() - window..], bytes, None);
        assert_eq!(read, Ok(FooterRead::Needs(bytes - whole.start)));
    }
    let tail = &file[whole.start as usize..];
    assert_eq!(read_footer(tail, bytes, None), Ok(FooterRead::Whole(whole)));
    assert_eq!(read_footer(&file[file.len() - 7..], bytes, None), Ok(FooterRead::Needs(bytes)));
    assert_eq!(read_footer(&[], 1 << 30, None), Ok(FooterRead::Needs(WINDOW_BYTES)));
}

#[test]
fn what_is_no_readable_footer_is_named() {
    let trailer = |length: u32, magic: &[u8]| [&length.to_le_bytes(), magic].concat();
    let read = |tail: &[u8], bytes| read_footer(tail, bytes, None).expect_err("no footer");
    assert_eq!(read(&trailer(9, b"PARE"), 1000), FooterError::Encrypted);
    assert_eq!(read(&trailer(9, b"ORC\0"), 1000), FooterError::NotParquet);
    assert_eq!(read(b"", 0), FooterError::NotParquet);
    assert_eq!(read(&trailer(9, b"PAR1"), 7), FooterError::NotParquet);
    assert!(matches!(read(&trailer(989, b"PAR1"), 1000), FooterError::Damaged(_)));
    let length = FOOTER_BYTES_MAX as u32 - 7;
    let large = FooterError::TooLarge {
        what: "bytes",
        found: FOOTER_BYTES_MAX + 1,
        most: FOOTER_BYTES_MAX,
    };
    assert_eq!(read(&trailer(length, b"PAR1"), 1 << 40), large);
    assert_eq!(
        read_footer(&trailer(length - 1, b"PAR1"), 1 << 40, None),
        Ok(FooterRead::Needs(FOOTER_BYTES_MAX))
    );
}

#[test]
fn a_field_id_stays_through_rename_and_reorder() {
    let before = columns("message m { required int64 a = 1; required int64 b = 2; }", None);
    let after = columns("message m { required int64 z = 2; required int64 y = 1; }", None);
    let owned = |id, path: &str| (Some(id), path.to_owned());
    assert_eq!(before, [owned(1, "a"), owned(2, "b")]);
    assert_eq!(after, [owned(2, "z"), owned(1, "y")]);
}

const MIGRATED: &str = "message m {
    required int64 a;
    optional group l (LIST) { repeated group bag { optional int64 array_element; } }
    optional group two (LIST) { repeated int64 array; }
    optional group m (MAP) { repeated group map { required int64 k; optional group v {
        required int64 x; } } }
    required group s { required int64 inner; required int64 unmapped; }
}";

#[test]
fn a_file_without_field_ids_is_known_by_path() {
    let found = columns(MIGRATED, None);
    let paths: Vec<&str> = found.iter().map(|(_, path)| path.as_str()).collect();
    let expected = ["a", "l.bag.array_element", "two.array", "m.map.k", "m.map.v.x", "s.inner"];
    assert_eq!(paths[..6], expected);
    assert!(found.iter().all(|(field_id, _)| field_id.is_none()));
}

#[test]
fn a_name_mapping_gives_field_ids_whatever_a_writer_calls_its_repeated_groups() {
    let mapping = r#"[
        {"field-id": 1, "names": ["old", "a"]},
        {"field-id": 2, "names": ["l"], "fields": [{"field-id": 3, "names": ["element"]}]},
        {"field-id": 4, "names": ["two"], "fields": [{"field-id": 5, "names": ["element"]}]},
        {"field-id": 6, "names": ["m"], "fields": [{"field-id": 7, "names": ["key"]},
            {"field-id": 8, "names": ["value"], "fields": [{"field-id": 9, "names": ["x"]}]}]},
        {"names": ["s"], "fields": [{"field-id": 10, "names": ["inner"]}]}]"#;
    let mapping = NameMapping::parse(mapping).expect("a mapping");
    let ids: Vec<Option<i32>> =
        columns(MIGRATED, Some(&mapping)).into_iter().map(|(field_id, _)| field_id).collect();
    assert_eq!(ids, [Some(1), Some(3), Some(5), Some(7), Some(9), Some(10), None]);
    // One id in the file, and the mapping is not asked.
    let mixed = columns("message m { required int64 a; required int64 b = 2; }", Some(&mapping));
    assert_eq!(mixed.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [None, Some(2)]);
    assert!(matches!(NameMapping::parse("{"), Err(FooterError::NameMapping(_))));
}

/// A file that is nothing but the metadata `thrift`.
fn bare(thrift: &[u8]) -> Vec<u8> {
    [b"PAR1", thrift, &(thrift.len() as u32).to_le_bytes(), b"PAR1"].concat()
}

#[test]
fn lengths_that_the_footer_cannot_hold_are_not_believed() {
    let huge = [0xff, 0xff, 0xff, 0xff, 0x07];
    // A schema of 2^31 - 1 nodes, a node of as many children, a key-value list of as many pairs.
    let nodes = [&[0x15, 2, 0x19, 0xfc], &huge[..], &[0]].concat();
    let children = [&[0x29, 0x1c, 0x48, 1, b'r', 0x15, 0xfe], &huge[1..], &[0, 0]].concat();
    let pairs = [&[0x59, 0xfc], &huge[..], &[0]].concat();
    for thrift in [nodes, children, pairs] {
        assert!(matches!(read_whole(&bare(&thrift), None), Err(FooterError::Damaged(_))));
    }
}

#[test]
fn nesting_without_end_is_refused_before_the_stack_is() {
    let count = 100_000_u32;
    let mut deep_schema = vec![0x29, 0xfc, 0xa0, 0x8d, 0x06];
    for _ in 0..count {
        deep_schema.extend([0x48, 1, b'r', 0x15, 2, 0]);
    }
    let deep_lists = [vec![0xf9; 1], vec![0x19; count as usize]].concat();
    let deep_structures = vec![0xfc; count as usize];
    for thrift in [deep_schema, deep_lists, deep_structures] {
        let error = read_whole(&bare(&thrift), None).expect_err("no footer");
        assert!(error.to_string().contains("deep"), "{error}");
    }
}

#[test]
fn long_names_over_many_leaves_are_bounded() {
    let name = vec![b'n'; 1 << 20];
    let mut thrift = vec![0x29, 0xfc, 0x66, 0x48, 1, b'r', 0x15, 2, 0];
    // A group of a mebibyte's name, and a hundred leaves in it.
    thrift.extend([&[0x48, 0x80, 0x80, 0x40][..], &name, &[0x15, 0xc8, 0x01, 0]].concat());
    (0..100).for_each(|_| thrift.extend([0x48, 1, b'c', 0]));
    thrift.push(0);
    let error = read_whole(&bare(&thrift), None).expect_err("too much");
    assert!(
        matches!(error, FooterError::TooLarge { what: "bytes of column paths", .. }),
        "{error}"
    );
}

/// The promises that a footer keeps whatever it was made of.
fn holds(footer: &Footer) {
    let mut end = 0;
    for span in &footer.spans {
        assert!(end <= span.range.start && !span.range.is_empty());
        assert!((span.row_group as usize) < footer.row_groups.len());
        assert!((span.column as usize) < footer.columns.len());
        end = span.range.end;
    }
    assert!(end <= footer.start);
}

/// Written once: the properties change copies of it.
static SAMPLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let properties = WriterProperties::builder().set_bloom_filter_enabled(true).build();
    let schema =
        "message m { required int64 a = 1; required group b = 2 { required int64 c = 3; } }";
    write_with(schema, 2, 50, properties)
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_mutated_footer_is_refused_or_keeps_its_promises(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut file = SAMPLE.clone();
        let footer = read_whole(&file, None).expect("a footer");
        let metadata = footer.start as usize..file.len() - 8;
        for (at, byte) in flips {
            file[metadata.start + at.index(metadata.len())] = byte;
        }
        if let Ok(footer) = read_whole(&file, None) {
            holds(&footer);
        }
    }

    #[test]
    fn a_truncated_footer_is_refused_or_keeps_its_promises(cut in any::<prop::sample::Index>()) {
        let file = &*SAMPLE;
        let footer = read_whole(file, None).expect("a footer");
        let metadata = &file[footer.start as usize..file.len() - 8];
        let cut = bare(&metadata[..cut.index(metadata.len())]);
        if let Ok(footer) = read_whole(&cut, None) {
            holds(&footer);
        }
    }

    #[test]
    fn any_bytes_are_refused_or_keep_the_promises(
        thrift in prop::collection::vec(any::<u8>(), 0..300),
        behind in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        if let Ok(footer) = read_whole(&bare(&thrift), None) {
            holds(&footer);
        }
        let _ = read_footer(&behind, behind.len() as u64, None);
    }
}

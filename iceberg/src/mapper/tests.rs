//! The index against a list of strings and a scan; what stays through renames, evictions and rebuilds.

mod model;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::thread;

use nilas_base::{ByteRange, Rng};
use proptest::prelude::*;

use super::*;
use crate::footer::{Column, Footer, FooterRead, Part, RowGroup, Span, read_footer};
use model::{Model, random_footer};

const BUCKET: &[u8] = b"lake";

pub(super) fn path_hash(seed: u64) -> Arc<PathHash> {
    let mut rng = Rng::from_seed(seed);
    Arc::new(PathHash::new(&std::array::from_fn(|_| rng.next_u64() as u8)))
}

fn listed(partition: PartitionNumber) -> ListedFile {
    let (kind, format) = (FileKind::Data, FileFormat::Parquet);
    ListedFile { partition, kind, format, bytes: 1000, rows: 10 }
}

/// A footer of one row group, whose columns have 100 bytes each.
fn footer_of(columns: &[(Option<i32>, &str)]) -> Footer {
    let span = |at: usize| Span {
        row_group: 0,
        column: at as u32,
        part: Part::Data,
        range: ByteRange::new(100 * at as u64, 100 * at as u64 + 100),
    };
    let column = |(field_id, path): &(Option<i32>, &str)| Column {
        field_id: *field_id,
        path: (*path).into(),
    };
    Footer {
        rows: 10,
        row_groups: vec![RowGroup { rows: 10 }],
        columns: columns.iter().map(column).collect(),
        spans: (0..columns.len()).map(span).collect(),
        start: 100 * columns.len() as u64,
    }
}

/// An index of files `0..count` of one table, and the cache to go with it.
fn files(count: u32, budget_bytes: usize) -> (Mapper, FooterCache) {
    let hash = path_hash(1);
    let mut footers = FooterCache::new(Arc::clone(&hash), budget_bytes);
    let mut builder = MapperBuilder::new(hash);
    let table = builder.table("t");
    let partition = builder.partition(table, "");
    for file in 0..count {
        builder.add(BUCKET, &file.to_le_bytes(), listed(partition));
    }
    (builder.build(&mut footers), footers)
}

fn everything() -> ByteRange {
    ByteRange::new(0, u64::MAX)
}

fn field_ids(mapper: &Mapper, key: &[u8], range: ByteRange) -> Vec<(Option<i32>, u64)> {
    let overlaps = mapper.range(BUCKET, key, range).expect("a footer");
    overlaps.map(|overlap| (overlap.field_id, overlap.bytes)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn lookups_agree_with_strings_and_a_linear_scan(seed in any::<u64>()) {
        let mut rng = Rng::from_seed(seed);
        let hash = path_hash(seed);
        let mut footers = FooterCache::new(Arc::clone(&hash), usize::MAX);
        let mut model = Model::default();
        let mut builder = MapperBuilder::new(Arc::clone(&hash));
        for _ in 0..4 {
            model.change(&mut rng, &mut builder, &mut footers);
            let mapper = builder.build(&mut footers);
            model.check(&mut rng, &mapper);
            prop_assert_eq!(mapper.footer_count(), footers.len());
            model.change_footers(&mut rng, &mut footers);
            let mapper = mapper.with_footers(&mut footers);
            model.check(&mut rng, &mapper);
            builder = MapperBuilder::from_old(&mapper);
        }
    }

    #[test]
    fn ranges_agree_with_a_linear_scan(seed in any::<u64>()) {
        let mut rng = Rng::from_seed(seed);
        let (mapper, mut footers) = files(1, usize::MAX);
        let footer = random_footer(&mut rng);
        footers.insert(BUCKET, &0_u32.to_le_bytes(), &footer);
        let mapper = mapper.with_footers(&mut footers);
        for _ in 0..50 {
            let range = model::random_range(&mut rng, &footer);
            let found: Vec<Overlap> =
                mapper.range(BUCKET, &0_u32.to_le_bytes(), range).expect("a footer").collect();
            prop_assert_eq!(found, model::scan(&footer, range));
        }
    }
}

#[test]
fn a_field_keeps_its_id_through_rename_and_reorder() {
    let (mapper, mut footers) = files(2, usize::MAX);
    let schemas = [
        "message m { required int64 price = 4; required int64 amount = 9; }",
        "message m { required int64 quantity = 9; required int64 unit_price = 4; }",
    ];
    for (file, schema) in schemas.iter().enumerate() {
        let bytes = crate::footer::write_file(schema, 1, 100 * (file + 1));
        let read = read_footer(&bytes, bytes.len() as u64, None);
        let Ok(FooterRead::Whole(footer)) = read else { panic!("a whole footer: {read:?}") };
        footers.insert(BUCKET, &(file as u32).to_le_bytes(), &footer);
    }
    let mapper = mapper.with_footers(&mut footers);
    let found = |file: u32| {
        let overlaps = mapper.range(BUCKET, &file.to_le_bytes(), everything());
        let data = overlaps.expect("a footer").filter(|overlap| overlap.part == Part::Data);
        data.map(|overlap| (overlap.column, overlap.field_id)).collect::<Vec<_>>()
    };
    assert_eq!(found(0), [(0, Some(4)), (1, Some(9))]);
    assert_eq!(found(1), [(0, Some(9)), (1, Some(4))]);
    let overlaps = mapper.range(BUCKET, &1_u32.to_le_bytes(), everything()).expect("a footer");
    assert_eq!([overlaps.path(0), overlaps.path(1)], ["quantity", "unit_price"]);
}

#[test]
fn a_column_without_a_field_id_is_known_by_its_path() {
    let (mapper, mut footers) = files(1, usize::MAX);
    footers.insert(BUCKET, &0_u32.to_le_bytes(), &footer_of(&[(None, "a.b"), (Some(0), "c")]));
    let mapper = mapper.with_footers(&mut footers);
    let overlaps = mapper.range(BUCKET, &0_u32.to_le_bytes(), ByteRange::new(50, 150));
    let overlaps = overlaps.expect("a footer");
    assert_eq!((overlaps.path(0), overlaps.path(1)), ("a.b", "c"));
    let found: Vec<_> = overlaps.map(|it| (it.column, it.field_id, it.bytes)).collect();
    assert_eq!(found, [(0, None, 50), (1, Some(0), 50)]);
}

#[test]
fn what_two_tables_list_is_known_until_both_let_go_of_it() {
    let hash = path_hash(1);
    let mut footers = FooterCache::new(Arc::clone(&hash), usize::MAX);
    let mut builder = MapperBuilder::new(hash);
    let tables = [builder.table("a"), builder.table("b")];
    for table in tables {
        let partition = builder.partition(table, "day=1");
        builder.add(BUCKET, b"shared", listed(partition));
    }
    let mut mapper = builder.build(&mut footers);
    footers.insert(BUCKET, b"shared", &footer_of(&[(Some(1), "x")]));
    for table in tables {
        assert_eq!(mapper.file(BUCKET, b"shared").map(|fact| fact.table), Some(table));
        let mut builder = MapperBuilder::from_old(&mapper);
        builder.remove(BUCKET, b"shared", table);
        mapper = builder.build(&mut footers);
        assert_eq!(mapper.table(table), None);
    }
    assert_eq!(mapper.file(BUCKET, b"shared"), None);
    assert!(footers.is_empty(), "a footer of no file is let go of");
}

#[test]
fn a_number_is_not_given_to_another_while_there_are_fresh_ones() {
    let (mapper, mut footers) = files(1, 0);
    let mut builder = MapperBuilder::from_old(&mapper);
    let old = builder.table("t");
    builder.drop_table(old);
    let mapper = builder.build(&mut footers);
    assert_eq!(mapper.tables().count() + mapper.partitions().count(), 0);
    let mut builder = MapperBuilder::from_old(&mapper);
    let new = builder.table("u");
    assert_ne!(new, old);
    assert_ne!(builder.partition(new, ""), PartitionNumber(0));
}

#[test]
fn the_footer_that_was_not_used_for_the_longest_time_leaves() {
    let footer = footer_of(&[(Some(1), "x")]);
    let one = {
        let (_, mut footers) = files(1, usize::MAX);
        footers.insert(BUCKET, b"", &footer);
        footers.insert(BUCKET, b"another", &footer);
        footers.charged_bytes()
    };
    let (mapper, mut footers) = files(6, 2 * one);
    let key = |file: u32| file.to_le_bytes();
    (0..4).for_each(|file| assert!(footers.insert(BUCKET, &key(file), &footer)));
    let kept = footers.len() as u32;
    assert!((4..=5).contains(&kept) && footers.evicted() == 0);
    let mapper = mapper.with_footers(&mut footers);
    assert_eq!(field_ids(&mapper, &key(0), everything()), [(Some(1), 100)]);
    footers.note_uses(&mapper);
    assert!(footers.insert(BUCKET, &key(4), &footer) && footers.insert(BUCKET, &key(5), &footer));
    assert!(footers.evicted() > 0 && footers.charged_bytes() <= 2 * one);
    assert!(footers.contains(BUCKET, &key(0)), "it was used");
    assert!(!footers.contains(BUCKET, &key(1)), "it was not");
    assert!(footers.contains(BUCKET, &key(5)), "it has just come");
}

#[test]
fn the_budget_holds_whatever_comes() {
    let mut rng = Rng::from_seed(7);
    let budget_bytes = 20_000;
    let (mut mapper, mut footers) = files(200, budget_bytes);
    for _ in 0..3000 {
        let key = (rng.below(200) as u32).to_le_bytes();
        match rng.below(20) {
            0 => mapper = mapper.with_footers(&mut footers),
            1 => footers.note_uses(&mapper),
            2..10 => drop(mapper.range(BUCKET, &key, everything())),
            _ => drop(footers.insert(BUCKET, &key, &random_footer(&mut rng))),
        }
        assert!(footers.charged_bytes() <= budget_bytes);
    }
    assert!(footers.evicted() > 1000 && !footers.is_empty());
    let wide: Vec<String> = (0..10_000).map(|at| format!("column_{at}")).collect();
    let wide: Vec<(Option<i32>, &str)> = wide.iter().map(|path| (None, path.as_str())).collect();
    assert!(!footers.insert(BUCKET, &0_u32.to_le_bytes(), &footer_of(&wide)), "too large alone");
    assert!(footers.is_empty() && footers.charged_bytes() == 0);
}

/// A thousand columns by a hundred row groups, with page indexes behind the data as writers put them.
fn wide_footer() -> Footer {
    let (columns, groups) = (1000, 100);
    let mut spans = Vec::new();
    let mut end = 4;
    for (part, bytes) in [(Part::Data, 40_000), (Part::ColumnIndex, 60), (Part::OffsetIndex, 30)] {
        for chunk in 0..columns * groups {
            let range = ByteRange::new(end, end + bytes);
            spans.push(Span { row_group: chunk / columns, column: chunk % columns, part, range });
            end = range.end;
        }
    }
    let column = |at: u32| Column { field_id: Some(at as i32), path: format!("c{at}").into() };
    Footer {
        rows: 0,
        row_groups: vec![RowGroup { rows: 0 }; groups as usize],
        columns: (0..columns).map(column).collect(),
        spans,
        start: end,
    }
}

#[test]
fn a_wide_tables_ranges_stay_compact() {
    let (mapper, mut footers) = files(2, usize::MAX);
    let mut footer = wide_footer();
    assert!(footer.start < 1 << 32);
    footers.insert(BUCKET, &0_u32.to_le_bytes(), &footer);
    let alone = footers.charged_bytes();
    assert!(alone < 300_000 * 64 / 15 + 20_000, "{alone}: 4 bytes a range and a fifteenth");
    footers.insert(BUCKET, &1_u32.to_le_bytes(), &footer);
    let columns_once = footers.charged_bytes() - alone;
    assert!(columns_once < 300_000 * 64 / 15 + 1000, "{columns_once}: columns are shared");
    let mapper = mapper.with_footers(&mut footers);
    let first = &footer.spans[23_456];
    let found = field_ids(&mapper, &1_u32.to_le_bytes(), first.range);
    assert_eq!(found, [(Some(456), 40_000)]);
    for (at, span) in footer.spans.iter().enumerate().step_by(37) {
        let last = ByteRange::new(span.range.end - 1, span.range.end);
        let overlaps = mapper.range(BUCKET, &0_u32.to_le_bytes(), last).expect("a footer");
        let found: Vec<_> =
            overlaps.map(|it| (it.row_group, it.column, it.part, it.bytes)).collect();
        assert_eq!(found, [(span.row_group, span.column, span.part, 1)], "range {at}");
    }
    // Beyond 4 GiB a start takes 8 bytes.
    footer.spans.iter_mut().for_each(|span| {
        span.range = ByteRange::new(span.range.start + (1 << 33), span.range.end + (1 << 33));
    });
    footers.insert(BUCKET, &1_u32.to_le_bytes(), &footer);
    let mapper = mapper.with_footers(&mut footers);
    let found = field_ids(&mapper, &1_u32.to_le_bytes(), footer.spans[299_999].range);
    assert_eq!(found, [(Some(999), 30)]);
}

#[test]
fn readers_go_on_while_the_index_is_swapped() {
    const GENERATIONS: u32 = 300;
    let (first, mut footers) = generation(None, 0);
    let current = RwLock::new(Arc::new(first));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..3).map(|_| scope.spawn(|| read_until(&current, &done))).collect();
        for number in 1..=GENERATIONS {
            let old = Arc::clone(&current.read().expect("no reader panicked"));
            let (next, _) = generation(Some((&old, &mut footers)), number);
            *current.write().expect("no reader panicked") = Arc::new(next);
        }
        done.store(true, Ordering::Release);
        for reader in readers {
            assert_eq!(reader.join().expect("a reader saw one generation only"), GENERATIONS);
        }
    });
}

/// An index in which rows and field id are the generation's number.
fn generation(old: Option<(&Mapper, &mut FooterCache)>, number: u32) -> (Mapper, FooterCache) {
    let hash = path_hash(1);
    let mut fresh = FooterCache::new(Arc::clone(&hash), usize::MAX);
    let (mut builder, footers) = match old {
        Some((old, footers)) => (MapperBuilder::from_old(old), footers),
        None => (MapperBuilder::new(hash), &mut fresh),
    };
    let table = builder.table("t");
    let partition = builder.partition(table, "");
    let file = ListedFile { rows: u64::from(number), ..listed(partition) };
    builder.add(BUCKET, b"file", file);
    builder.add(BUCKET, &number.to_le_bytes(), file);
    footers.insert(BUCKET, b"file", &footer_of(&[(Some(number as i32), "x")]));
    let mapper = builder.build(footers);
    (mapper, fresh)
}

/// Reads until told to stop, from whatever is current; the last generation that was seen.
fn read_until(current: &RwLock<Arc<Mapper>>, done: &AtomicBool) -> u32 {
    loop {
        let last = done.load(Ordering::Acquire);
        let mapper = Arc::clone(&current.read().expect("no writer panicked"));
        let fact = mapper.file(BUCKET, b"file").expect("in every generation");
        let number = fact.file.rows as u32;
        assert_eq!(field_ids(&mapper, b"file", everything()), [(Some(number as i32), 100)]);
        assert!(mapper.file(BUCKET, &number.to_le_bytes()).is_some());
        assert!(mapper.file(BUCKET, &(number + 1).to_le_bytes()).is_none());
        if last {
            return number;
        }
    }
}

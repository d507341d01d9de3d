//! The obvious index: a list of strings, read from its beginning, and footers scanned from theirs.

use nilas_base::{ByteRange, HashMap, Rng};

use super::super::*;
use crate::footer::{Column, Footer, Part, RowGroup, Span};

/// Names that look alike when bucket and key are put behind each other without care.
const BUCKETS: [&str; 3] = ["a", "ab", "b"];
const KEYS: [&str; 7] = ["", "b", "bc", "c", "data/x=1/f%2F#?.parquet", "ü//", "a"];
const TABLES: [&str; 3] = ["n.t", "n.u", "m.t"];
const PARTITIONS: [&str; 3] = ["", "day=1", "day=2/region=eu"];

type Path = (&'static str, &'static str);

/// A file as the test knows it.
#[derive(Clone)]
struct Row {
    path: Path,
    table: &'static str,
    partition: &'static str,
    file: ListedFile,
}

#[derive(Default)]
pub(super) struct Model {
    rows: Vec<Row>,
    numbers: HashMap<&'static str, TableNumber>,
    footers: HashMap<Path, Footer>,
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.below(from.len() as u64) as usize]
}

fn random_path(rng: &mut Rng) -> Path {
    (pick(rng, &BUCKETS), pick(rng, &KEYS))
}

fn random_file(rng: &mut Rng, partition: PartitionNumber) -> ListedFile {
    let kinds = [FileKind::Data, FileKind::PositionDeletes, FileKind::Statistics];
    let formats = [FileFormat::Parquet, FileFormat::Avro, FileFormat::Puffin];
    let bytes = rng.next_u64() >> (16 + rng.below(40));
    let rows = rng.next_u64() >> (32 + rng.below(32));
    ListedFile { partition, kind: pick(rng, &kinds), format: pick(rng, &formats), bytes, rows }
}

impl Model {
    /// Some files go, some come, and a footer for some.
    pub(super) fn change(
        &mut self,
        rng: &mut Rng,
        builder: &mut MapperBuilder,
        footers: &mut FooterCache,
    ) {
        if rng.chance(1, 8) {
            let table = pick(rng, &TABLES);
            let number = builder.table(table);
            builder.drop_table(number);
            self.rows.retain(|row| row.table != table);
        }
        for _ in 0..rng.below(6) {
            let (path, table) = (random_path(rng), pick(rng, &TABLES));
            let number = builder.table(table);
            builder.remove(path.0.as_bytes(), path.1.as_bytes(), number);
            self.rows.retain(|row| (row.path, row.table) != (path, table));
        }
        for _ in 0..rng.below(10) {
            let (path, table) = (random_path(rng), pick(rng, &TABLES));
            let partition = pick(rng, &PARTITIONS);
            let number = builder.table(table);
            let file = random_file(rng, builder.partition(number, partition));
            builder.add(path.0.as_bytes(), path.1.as_bytes(), file);
            self.rows.retain(|row| (row.path, row.table) != (path, table));
            self.rows.push(Row { path, table, partition, file });
        }
        self.change_footers(rng, footers);
    }

    pub(super) fn change_footers(&mut self, rng: &mut Rng, footers: &mut FooterCache) {
        for _ in 0..rng.below(5) {
            let path = random_path(rng);
            let footer = random_footer(rng);
            footers.insert(path.0.as_bytes(), path.1.as_bytes(), &footer);
            self.footers.insert(path, footer);
        }
    }

    /// Everything that the index can be asked.
    pub(super) fn check(&mut self, rng: &mut Rng, mapper: &Mapper) {
        self.numbers_stay(mapper);
        self.footers.retain(|path, _| self.rows.iter().any(|row| row.path == *path));
        assert_eq!(mapper.file_count(), self.rows.len());
        assert_eq!(mapper.footer_count(), self.footers.len());
        for path in BUCKETS.iter().flat_map(|bucket| KEYS.map(|key| (*bucket, key))) {
            self.check_path(rng, mapper, path);
        }
        for (number, name, sums) in mapper.tables() {
            assert_eq!(mapper.table(number), Some((name, sums)));
            assert_eq!(sums, sum(self.rows.iter().filter(|row| row.table == name)));
        }
        for (table, number, name, sums) in mapper.partitions() {
            assert_eq!(mapper.partition(number), Some((name, sums)));
            let table = mapper.table(table).expect("of a table that has files").0;
            let rows = self.rows.iter().filter(|row| (row.table, row.partition) == (table, name));
            assert_eq!(sums, sum(rows));
        }
    }

    /// A table that has files keeps its number; one that had none may get another.
    fn numbers_stay(&mut self, mapper: &Mapper) {
        let named = |number| mapper.table(number).map(|(name, _)| name);
        for (name, number) in &self.numbers {
            assert!(named(*number).is_none_or(|found| found == *name));
        }
        self.numbers.clear();
        for (number, name, _) in mapper.tables() {
            let name = TABLES.into_iter().find(|table| *table == name).expect("one of them");
            self.numbers.insert(name, number);
        }
        assert!(self.rows.iter().all(|row| self.numbers.contains_key(row.table)));
    }

    fn check_path(&self, rng: &mut Rng, mapper: &Mapper, path: Path) {
        let (bucket, key) = (path.0.as_bytes(), path.1.as_bytes());
        let listed = self.rows.iter().filter(|row| row.path == path);
        let first = listed.min_by_key(|row| self.numbers[row.table]);
        let found = mapper.file(bucket, key);
        assert_eq!(found.map(|fact| fact.file), first.map(|row| row.file));
        let named = found.map(|fact| {
            let partition = mapper.partition(fact.file.partition).expect("it has files").0;
            (mapper.table(fact.table).expect("it has files").0, partition)
        });
        assert_eq!(named, first.map(|row| (row.table, row.partition)));
        let footer = self.footers.get(&path);
        let range = footer.map_or(ByteRange::new(0, 9), |footer| random_range(rng, footer));
        let overlaps = mapper.range(bucket, key, range).map(Iterator::collect::<Vec<_>>);
        assert_eq!(overlaps, footer.map(|footer| scan(footer, range)));
    }
}

fn sum<'a>(rows: impl Iterator<Item = &'a Row>) -> Sums {
    rows.fold(Sums::default(), |sums, Row { file, .. }| Sums {
        files: sums.files + 1,
        bytes: sums.bytes + file.bytes,
        rows: sums.rows + if file.kind == FileKind::Data { file.rows } else { 0 },
    })
}

/// Every range of the footer, one after the other.
pub(super) fn scan(footer: &Footer, range: ByteRange) -> Vec<Overlap> {
    let overlaps = footer.spans.iter().filter_map(|span| {
        let bytes = span.range.intersection(range)?.len();
        let (row_group, column, part) = (span.row_group, span.column, span.part);
        let field_id = footer.columns[column as usize].field_id;
        Some(Overlap { row_group, column, field_id, part, bytes })
    });
    overlaps.collect()
}

/// Column chunks in any order, with or without room between them, beyond 4 GiB now and then.
pub(super) fn random_footer(rng: &mut Rng) -> Footer {
    let columns_max = pick(rng, &[4, 4, 40]);
    let (columns, groups) = (1 + rng.below(columns_max) as u32, rng.below(4) as u32);
    let mut owners: Vec<(u32, u32, Part)> = (0..columns * groups)
        .flat_map(|chunk| Part::ALL.map(|part| (chunk / columns, chunk % columns, part)))
        .collect();
    if rng.chance(1, 2) {
        (1..owners.len()).for_each(|at| owners.swap(at, rng.below(at as u64 + 1) as usize));
    }
    owners.truncate(rng.below(owners.len() as u64 + 1) as usize);
    let mut end = pick(rng, &[0, 4, (1 << 32) - 20, 1 << 33]);
    let spans = owners.into_iter().map(|(row_group, column, part)| {
        let start = end + pick(rng, &[0, 0, 1, 7]);
        end = start + 1 + rng.below(30);
        Span { row_group, column, part, range: ByteRange::new(start, end) }
    });
    let spans = spans.collect();
    let column = |at: u32| Column {
        field_id: (!at.is_multiple_of(3)).then_some(at as i32 * 5),
        path: format!("group.{at}").into(),
    };
    let columns = (0..columns).map(column).collect();
    let row_groups = vec![RowGroup { rows: 1 }; groups as usize];
    Footer { rows: 1, row_groups, columns, spans, start: end }
}

/// A range near the ranges of a footer, empty and endless ones among them.
pub(super) fn random_range(rng: &mut Rng, footer: &Footer) -> ByteRange {
    let first = footer.spans.first().map_or(0, |span| span.range.start).saturating_sub(10);
    let start = first + rng.below(footer.start + 20 - first);
    let length = pick(rng, &[0, 1, 10, 100, u64::MAX - start]);
    ByteRange::new(start, start + length)
}

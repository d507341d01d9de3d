//! The files that are looked up, and the rival: a hash map of their paths, as one would write it first.
//! Nothing is measured here; see `mapper`.

use std::fmt::Write;
use std::ops::Range;

use nilas_base::ByteRange;
use nilas_iceberg::footer::{Column, Footer, Part, RowGroup, Span};
use nilas_iceberg::mapper::{FileFormat, FileKind, FooterCache, ListedFile, MapperBuilder};
use nilas_iceberg::mapper::{PartitionNumber, TableNumber};

use super::{MapperOptions, Places};

pub(super) const BUCKET: &[u8] = b"lake";
const TABLES: u32 = 20;
const PARTITIONS: u32 = 500;
const CHUNK_BYTES: u64 = 100_000;
const FILE_BYTES: u64 = 128 << 20;

/// The lake's shape; its names are made when they are asked for.
pub(super) struct Lake {
    files: u32,
    footers: u32,
    footer: Footer,
}

impl Lake {
    pub(super) fn of(options: &MapperOptions) -> Lake {
        let (columns, row_groups) = (options.columns.max(1), options.row_groups.max(1));
        let footers = options.footers.min(options.files);
        Lake { files: options.files, footers, footer: footer(columns, row_groups) }
    }

    /// The key of a file, as Spark names them.
    pub(super) fn write_key(&self, file: u32, key: &mut String) {
        key.clear();
        let (table, partition) = place(file);
        let uuid = u128::from(file).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
        // Writing to a `String` cannot fail.
        let _ = write!(
            key,
            "warehouse/analytics/events_{table:02}/data/event_day=2026-{:02}-{:02}/region=r{}/\
             {:05}-{table}-{uuid:032x}-00001.parquet",
            partition % 12 + 1,
            partition % 28 + 1,
            partition,
            file % 200,
        );
    }

    pub(super) fn add(&self, builder: &mut MapperBuilder, files: Range<u32>) {
        let numbers = Self::numbers(builder);
        let mut key = String::new();
        for file in files {
            self.write_key(file, &mut key);
            let (table, partition) = place(file);
            let partition = numbers[(table * PARTITIONS + partition) as usize];
            builder.add(BUCKET, key.as_bytes(), listed(partition));
        }
    }

    pub(super) fn remove(&self, builder: &mut MapperBuilder, files: Range<u32>) {
        let tables: Vec<TableNumber> =
            (0..TABLES).map(|it| builder.table(&table_name(it))).collect();
        let mut key = String::new();
        for file in files {
            self.write_key(file, &mut key);
            builder.remove(BUCKET, key.as_bytes(), tables[place(file).0 as usize]);
        }
    }

    fn numbers(builder: &mut MapperBuilder) -> Vec<PartitionNumber> {
        let mut numbers = Vec::new();
        for table in 0..TABLES {
            let table = builder.table(&table_name(table));
            let partition = |it| builder.partition(table, &format!("event_day={it}/region=r{it}"));
            numbers.extend((0..PARTITIONS).map(partition));
        }
        numbers
    }

    /// How many were kept.
    pub(super) fn insert_footers(&self, cache: &mut FooterCache) -> u32 {
        let mut key = String::new();
        let insert = |file| {
            self.write_key(file, &mut key);
            u32::from(cache.insert(BUCKET, key.as_bytes(), &self.footer))
        };
        (0..self.footers).map(insert).sum()
    }

    /// A range as readers ask for: a column chunk of any row group.
    pub(super) fn range(&self, random: u64) -> ByteRange {
        self.footer.spans[(random % self.footer.spans.len() as u64) as usize].range
    }

    pub(super) fn path_map(&self) -> PathMap {
        let mut key = String::new();
        let mut keys = |files: Range<u32>| {
            files
                .map(|file| {
                    self.write_key(file, &mut key);
                    (key.as_bytes().into(), file)
                })
                .collect::<Vec<(Box<[u8]>, u32)>>()
        };
        let files: Places = keys(0..self.files).into_iter().collect();
        let footers: Places = keys(0..self.footers).into_iter().collect();
        let spans = (0..self.footers).map(|_| self.footer.spans.as_slice().into()).collect();
        PathMap { files, listed: listed(PartitionNumber(0)), footers, spans }
    }
}

fn place(file: u32) -> (u32, u32) {
    (file % TABLES, file / TABLES % PARTITIONS)
}

fn table_name(table: u32) -> String {
    format!("analytics.events_{table:02}")
}

fn listed(partition: PartitionNumber) -> ListedFile {
    let (kind, format) = (FileKind::Data, FileFormat::Parquet);
    ListedFile { partition, kind, format, bytes: FILE_BYTES, rows: 1_000_000 }
}

/// Data chunks one behind the other, then the page indexes.
fn footer(columns: u32, row_groups: u32) -> Footer {
    let mut spans = Vec::new();
    let mut end = 4;
    for (part, bytes) in
        [(Part::Data, CHUNK_BYTES), (Part::ColumnIndex, 90), (Part::OffsetIndex, 60)]
    {
        for chunk in 0..columns * row_groups {
            let range = ByteRange::new(end, end + bytes);
            spans.push(Span { row_group: chunk / columns, column: chunk % columns, part, range });
            end = range.end;
        }
    }
    let column = |at: u32| {
        let field_id = i32::try_from(at + 1).ok();
        Column { field_id, path: format!("column_{at}").into() }
    };
    Footer {
        rows: 1_000_000,
        row_groups: vec![RowGroup { rows: 1_000_000 / u64::from(row_groups) }; row_groups as usize],
        columns: (0..columns).map(column).collect(),
        spans,
        start: end,
    }
}

/// Paths as they are, in a hash map, and each file's ranges in an array.
pub(super) struct PathMap {
    files: Places,
    listed: ListedFile,
    footers: Places,
    spans: Vec<Box<[Span]>>,
}

impl PathMap {
    pub(super) fn file(&self, key: &[u8]) -> Option<ListedFile> {
        self.files.get(key).map(|_| self.listed)
    }

    /// How many of the range's bytes are columns'.
    pub(super) fn range(&self, key: &[u8], range: ByteRange) -> u64 {
        let Some(file) = self.footers.get(key) else { return 0 };
        let spans = &self.spans[*file as usize];
        let first = spans.partition_point(|span| span.range.end <= range.start);
        let overlaps = spans[first..].iter().map_while(|span| span.range.intersection(range));
        overlaps.map(ByteRange::len).sum()
    }

    /// Without what the allocator rounds up.
    pub(super) fn files_bytes(&self) -> usize {
        self.files.allocation_size() + self.files.keys().map(|key| key.len()).sum::<usize>()
    }

    pub(super) fn footers_bytes(&self) -> usize {
        let keys: usize = self.footers.keys().map(|key| key.len()).sum();
        let spans: usize = self.spans.iter().map(|spans| size_of_val::<[Span]>(spans)).sum();
        self.footers.allocation_size() + keys + spans
    }
}

//! What is promised of memory, by counting: a lookup allocates nothing, an index and a cache have on the
//! heap what they say, and a hostile footer takes no more than its size allows.

use std::hint::black_box;
use std::sync::Arc;

use allocation_counter::measure;
use nilas_base::{ByteRange, Rng};
use nilas_iceberg::footer::{Column, Footer, Part, RowGroup, Span, read_footer};
use nilas_iceberg::mapper::{
    FileFormat, FileKind, FooterCache, ListedFile, Mapper, MapperBuilder, PathHash,
};

const BUCKET: &[u8] = b"lake";

fn path_hash() -> Arc<PathHash> {
    let mut rng = Rng::from_seed(3);
    Arc::new(PathHash::new(&std::array::from_fn(|_| rng.next_u64() as u8)))
}

fn key(file: u32) -> String {
    format!("warehouse/db/table/data/day={}/{file:08}.parquet", file % 7)
}

/// A footer of as many columns as files of a few schemas have.
fn footer(file: u32) -> Footer {
    let columns = 5 + file % 3;
    let groups = 1 + file % 4;
    let span = |chunk: u32| Span {
        row_group: chunk / columns,
        column: chunk % columns,
        part: Part::Data,
        range: ByteRange::new(u64::from(chunk) * 100, u64::from(chunk) * 100 + 100),
    };
    let column = |at: u32| Column { field_id: Some(at as i32), path: format!("c{at}").into() };
    Footer {
        rows: 1,
        row_groups: vec![RowGroup { rows: 1 }; groups as usize],
        columns: (0..columns).map(column).collect(),
        spans: (0..columns * groups).map(span).collect(),
        start: u64::from(columns * groups) * 100,
    }
}

fn add(builder: &mut MapperBuilder, files: std::ops::Range<u32>) {
    let table = builder.table("db.table");
    for file in files {
        let partition = builder.partition(table, &format!("day={}", file % 7));
        let (kind, format) = (FileKind::Data, FileFormat::Parquet);
        let listed = ListedFile { partition, kind, format, bytes: 1 << 27, rows: 1_000_000 };
        builder.add(BUCKET, key(file).as_bytes(), listed);
    }
}

fn build(hash: Arc<PathHash>, footers: &mut FooterCache) -> Mapper {
    let mut builder = MapperBuilder::new(hash);
    add(&mut builder, 0..3000);
    (0..500).for_each(|file| assert!(footers.insert(BUCKET, key(file).as_bytes(), &footer(file))));
    builder.build(footers)
}

/// What `make` leaves on the heap.
fn left_by<T>(make: impl FnOnce() -> T) -> (T, i64) {
    let mut made = None;
    let counted = measure(|| made = Some(make()));
    (made.expect("made"), counted.bytes_current)
}

#[test]
fn an_index_and_a_cache_have_on_the_heap_what_they_say() {
    let hash = path_hash();
    let ((mapper, footers), left) = left_by(|| {
        let mut footers = FooterCache::new(Arc::clone(&hash), usize::MAX);
        (build(Arc::clone(&hash), &mut footers), footers)
    });
    let footers_bytes = footers.memory_bytes() as i64;
    let ((), freed) = left_by(|| drop(footers));
    let alone = left + freed;
    assert_eq!(mapper.memory_bytes() as i64, alone, "the index, once the cache is gone");
    // What the two shared is counted by each.
    assert!(footers_bytes > -freed && left < mapper.memory_bytes() as i64 + footers_bytes);

    let (cache, left) = left_by(|| {
        let mut cache = FooterCache::new(Arc::clone(&hash), usize::MAX);
        for file in 0..500 {
            cache.insert(BUCKET, key(file).as_bytes(), &footer(file));
        }
        cache
    });
    assert_eq!(cache.memory_bytes() as i64, left, "the cache, as long as no index shares with it");
}

#[test]
fn what_an_older_index_had_is_free_once_it_is_gone() {
    let hash = path_hash();
    let mut footers = FooterCache::new(Arc::clone(&hash), 100_000);
    let mut mapper = build(Arc::clone(&hash), &mut footers);
    for round in 1..20 {
        let ((), grown) = left_by(|| {
            let mut builder = MapperBuilder::from_old(&mapper);
            let table = builder.table("db.table");
            (0..100)
                .for_each(|it| builder.remove(BUCKET, key(3000 * round - it).as_bytes(), table));
            add(&mut builder, 3000 * round..3000 * round + 100);
            (0..50).for_each(|it| {
                let file = 3000 * round + it;
                footers.insert(BUCKET, key(file).as_bytes(), &footer(file));
            });
            mapper = builder.build(&mut footers);
        });
        assert!(grown < 120_000, "round {round}: {grown} bytes for a hundred files");
    }
    assert!(footers.evicted() > 0 && footers.charged_bytes() <= 100_000);
}

#[test]
fn a_lookup_allocates_nothing() {
    let hash = path_hash();
    let mut footers = FooterCache::new(Arc::clone(&hash), usize::MAX);
    let mapper = build(hash, &mut footers);
    let keys: Vec<String> = (0..4000).map(key).collect();
    let (mut files, mut chunks) = (0, 0);
    let counted = measure(|| {
        for key in &keys {
            files += usize::from(black_box(mapper.file(BUCKET, key.as_bytes())).is_some());
            let range = ByteRange::new(50, 450);
            let overlaps = mapper.range(BUCKET, key.as_bytes(), range).into_iter().flatten();
            chunks += overlaps.filter(|overlap| overlap.bytes > 0).count();
        }
    });
    assert_eq!((files, counted.count_total), (3000, 0));
    assert!(chunks >= 500 * 5);
}

#[test]
fn a_hostile_footer_takes_no_more_than_its_size_allows() {
    // Lists that claim 2^31 - 1 elements, in every place where the format has a list.
    let huge = [0xfc, 0xff, 0xff, 0xff, 0xff, 0x07];
    for prefix in [&[0x29][..], &[0x49], &[0x59], &[0x79], &[0x2c, 0x19]] {
        let thrift = [prefix, &huge, &[0; 1000]].concat();
        let length = (thrift.len() as u32).to_le_bytes();
        let file = [b"PAR1", &thrift[..], &length, b"PAR1"].concat();
        let counted = measure(|| drop(black_box(read_footer(&file, file.len() as u64, None))));
        assert!(counted.bytes_max < 10_000, "{} bytes for {prefix:x?}", counted.bytes_max);
    }
}

//! What the store promises, one claim a test; `random` holds it against a naive model.

mod model;
mod policy;
mod random;

use nilas_base::ByteRange;

use super::*;
use crate::doorbell::Doorbell;
use crate::eviction::{EvictionKind, S3Fifo};
use policy::Witness;

const SECTOR: u64 = 4096;
const BLOCK: u64 = 8 * SECTOR;

fn id(index: u32) -> BlockId {
    BlockId { version: [7; 16], index }
}

fn range(start: u64, end: u64) -> ByteRange {
    ByteRange::new(start, end)
}

fn config(blocks: u64) -> StoreConfig {
    StoreConfig {
        budget_bytes: blocks * BLOCK,
        sector_bytes: SECTOR,
        block_bytes: BLOCK,
        leases_bytes_max: None,
        doorbell: Doorbell::unattached(),
    }
}

fn store(blocks: u64) -> Store {
    Store::new(config(blocks), Box::new(S3Fifo::new())).expect("a small arena can be mapped")
}

/// The bytes of block `index`.
fn content(index: u32, range: ByteRange) -> Vec<u8> {
    (range.start..range.end).map(|at| (at / 3 + u64::from(index) * 101) as u8).collect()
}

fn fill(store: &mut Store, index: u32, run: ByteRange) {
    let mut permit = store.begin_fill(id(index), run).expect("there is room");
    store.append(&mut permit, &content(index, run));
    store.end_fill(permit);
}

#[track_caller]
fn check_hit(store: &mut Store, index: u32, want: ByteRange, got: ByteRange) -> Leases {
    let Read::Hit(leases) = store.read(id(index), want, ReadKind::Large) else {
        panic!("no hit of {want:?}")
    };
    let bytes: Vec<u8> = leases.iter().flat_map(|lease| lease.iter().copied()).collect();
    assert_eq!(bytes, content(index, got));
    leases
}

#[test]
fn what_was_filled_is_read_across_sectors() {
    let mut store = store(4);
    fill(&mut store, 1, range(0, 3 * SECTOR));
    check_hit(&mut store, 1, range(100, 3 * SECTOR - 5), range(100, 3 * SECTOR - 5));
    check_hit(&mut store, 1, range(SECTOR, SECTOR + 1), range(SECTOR, SECTOR + 1));
    assert_eq!(store.usage().hits, 2);
}

#[test]
fn a_read_gives_the_prefix_that_is_there() {
    let mut store = store(4);
    fill(&mut store, 1, range(0, 2 * SECTOR));
    fill(&mut store, 1, range(3 * SECTOR, 4 * SECTOR));
    check_hit(&mut store, 1, range(10, BLOCK), range(10, 2 * SECTOR));
    assert!(matches!(store.read(id(1), range(2 * SECTOR, BLOCK), ReadKind::Large), Read::Miss));
    assert!(matches!(store.read(id(2), range(0, 1), ReadKind::Large), Read::Miss));
}

#[test]
fn bytes_in_flight_are_read_as_they_arrive() {
    let mut store = store(4);
    let run = range(SECTOR, 3 * SECTOR);
    let mut permit = store.begin_fill(id(1), run).expect("there is room");
    assert!(matches!(store.read(id(1), run, ReadKind::Large), Read::Filling));
    let bytes = content(1, run);
    store.append(&mut permit, &bytes[..10]);
    let early = check_hit(&mut store, 1, run, range(SECTOR, SECTOR + 10));
    assert!(matches!(store.read(id(1), range(SECTOR + 10, BLOCK), ReadKind::Large), Read::Filling));
    store.append(&mut permit, &bytes[10..5000]);
    check_hit(&mut store, 1, run, range(SECTOR, SECTOR + 5000));
    assert_eq!(permit.remaining(), range(SECTOR + 5000, 3 * SECTOR));
    assert_eq!(early[0][..], bytes[..10]);
    store.append(&mut permit, &bytes[5000..]);
    store.end_fill(permit);
    check_hit(&mut store, 1, run, run);
}

#[test]
fn a_read_gives_no_more_than_its_bounds() {
    let mut small_sectors = Store::new(
        StoreConfig { budget_bytes: 8 << 20, block_bytes: 1 << 20, ..config(0) },
        Box::new(S3Fifo::new()),
    )
    .expect("a small arena can be mapped");
    fill(&mut small_sectors, 1, range(0, 1 << 20));
    let sixteen = range(1, 16 * SECTOR);
    assert_eq!(check_hit(&mut small_sectors, 1, range(1, 1 << 20), sixteen).len(), 16);

    let sector_bytes = 64 << 10;
    let config =
        StoreConfig { budget_bytes: 8 << 20, block_bytes: 2 << 20, sector_bytes, ..config(0) };
    let mut large = Store::new(config, Box::new(S3Fifo::new())).expect("it can be mapped");
    fill(&mut large, 1, range(0, 2 << 20));
    check_hit(&mut large, 1, range(5, 2 << 20), range(5, 5 + READ_BYTES_MAX));
}

#[test]
fn missing_is_the_first_run_rounded_to_sectors() {
    let mut store = store(4);
    let check = |store: &Store, want: ByteRange, expected: Option<ByteRange>| {
        assert_eq!(store.missing(id(1), want, BLOCK), expected, "of {want:?}");
    };
    check(&store, range(5, SECTOR + 1), Some(range(0, 2 * SECTOR)));
    fill(&mut store, 1, range(2 * SECTOR, 3 * SECTOR));
    let permit = store.begin_fill(id(1), range(5 * SECTOR, 6 * SECTOR)).expect("there is room");
    check(&store, range(1, BLOCK), Some(range(0, 2 * SECTOR)));
    check(&store, range(2 * SECTOR, BLOCK), Some(range(3 * SECTOR, 5 * SECTOR)));
    check(&store, range(5 * SECTOR + 9, BLOCK), Some(range(6 * SECTOR, BLOCK)));
    check(&store, range(2 * SECTOR, 2 * SECTOR + 7), None);
    check(&store, range(5 * SECTOR, 6 * SECTOR), None);
    store.end_fill(permit);
    check(&store, range(5 * SECTOR, 6 * SECTOR), Some(range(5 * SECTOR, 6 * SECTOR)));
}

#[test]
fn an_objects_short_tail_is_one_sector() {
    let mut store = store(4);
    let block_len = 2 * SECTOR + 77;
    let run = store.missing(id(1), range(SECTOR, block_len), block_len);
    assert_eq!(run, Some(range(SECTOR, block_len)));
    fill(&mut store, 1, range(SECTOR, block_len));
    check_hit(&mut store, 1, range(SECTOR, block_len), range(SECTOR, block_len));
    assert_eq!(store.missing(id(1), range(SECTOR, block_len), block_len), None);
    assert_eq!(store.usage().held_bytes, 2 * SECTOR);
}

#[test]
fn a_fill_that_breaks_off_keeps_its_whole_sectors_alone() {
    let mut store = store(4);
    let run = range(0, 2 * SECTOR + 50);
    for (written, kept) in [(SECTOR - 1, 0), (SECTOR + 10, 1), (2 * SECTOR + 49, 2)] {
        let mut permit = store.begin_fill(id(1), run).expect("there is room");
        store.append(&mut permit, &content(1, range(0, written)));
        store.end_fill(permit);
        let usage = store.usage();
        assert_eq!((usage.held_bytes, usage.in_flight_bytes), (kept * SECTOR, 0));
        assert_eq!(usage.blocks, kept.min(1));
        let missing = (kept < 3).then(|| range(kept * SECTOR, run.end));
        assert_eq!(store.missing(id(1), run, run.end), missing);
        store.remove(id(1));
    }
}

#[test]
fn a_partial_sector_given_back_is_free_after_its_last_return() {
    let mut store = store(4);
    let mut permit = store.begin_fill(id(1), range(0, SECTOR)).expect("there is room");
    store.append(&mut permit, &content(1, range(0, 100)));
    let leases = check_hit(&mut store, 1, range(0, SECTOR), range(0, 100));
    store.end_fill(permit);
    assert_eq!(store.usage().detached_bytes, SECTOR);
    assert!(matches!(store.read(id(1), range(0, 1), ReadKind::Large), Read::Miss));
    assert_eq!(leases[0][..], content(1, range(0, 100)));
    drop(leases);
    assert!(store.reclaim());
    assert_eq!((store.usage().detached_bytes, store.usage().free_bytes), (0, 4 * BLOCK));
}

#[test]
fn fills_never_take_more_than_half_of_the_arena() {
    let mut store = store(4);
    let first = store.begin_fill(id(1), range(0, BLOCK)).expect("a quarter");
    let second = store.begin_fill(id(2), range(0, BLOCK)).expect("a half");
    assert_eq!(store.begin_fill(id(3), range(0, SECTOR)).err(), Some(NoSpace));
    assert_eq!((store.usage().in_flight_bytes, store.usage().blocks), (2 * BLOCK, 2));
    store.reclaim();
    store.end_fill(first);
    assert!(store.reclaim(), "the one who waits is told");
    store.begin_fill(id(3), range(0, SECTOR)).expect("there is room again");
    drop(second);
}

#[test]
fn a_block_that_is_being_filled_is_not_evicted() {
    let mut store = store(4);
    fill(&mut store, 1, range(0, SECTOR));
    let permit = store.begin_fill(id(1), range(SECTOR, 2 * SECTOR)).expect("there is room");
    for index in 2..20 {
        fill(&mut store, index, range(0, BLOCK));
    }
    assert!(store.usage().evictions > 10);
    check_hit(&mut store, 1, range(0, SECTOR), range(0, SECTOR));
    store.end_fill(permit);
}

#[test]
fn a_removed_blocks_fill_goes_on_without_effect() {
    let mut store = store(4);
    let run = range(0, 2 * SECTOR);
    fill(&mut store, 1, range(4 * SECTOR, 5 * SECTOR));
    let mut old = store.begin_fill(id(1), run).expect("there is room");
    store.append(&mut old, &content(9, range(0, SECTOR)));
    store.remove(id(1));
    assert!(matches!(store.read(id(1), run, ReadKind::Large), Read::Miss));
    fill(&mut store, 1, run);
    store.append(&mut old, &content(9, range(SECTOR, 2 * SECTOR)));
    check_hit(&mut store, 1, run, run);
    assert_eq!(store.usage().in_flight_bytes, 2 * SECTOR);
    store.end_fill(old);
    check_hit(&mut store, 1, run, run);
    let usage = store.usage();
    assert_eq!((usage.held_bytes, usage.in_flight_bytes, usage.blocks), (2 * SECTOR, 0, 1));
}

#[test]
fn a_permit_that_is_dropped_ends_where_it_stood() {
    let mut store = store(4);
    let mut permit = store.begin_fill(id(1), range(0, 4 * SECTOR)).expect("there is room");
    store.append(&mut permit, &content(1, range(0, SECTOR + 9)));
    drop(permit);
    check_hit(&mut store, 1, range(0, BLOCK), range(0, SECTOR));
    assert!(matches!(store.read(id(1), range(SECTOR, BLOCK), ReadKind::Large), Read::Miss));
    assert_eq!(store.usage().in_flight_bytes, 0);
}

#[test]
fn a_removed_block_that_is_leased_lives_until_the_last_return() {
    let mut store = store(4);
    fill(&mut store, 1, range(0, BLOCK));
    let first = check_hit(&mut store, 1, range(0, 10), range(0, 10));
    let second = check_hit(&mut store, 1, range(5, 15), range(5, 15));
    store.remove(id(1));
    let usage = store.usage();
    assert_eq!((usage.detached_bytes, usage.held_bytes, usage.blocks), (SECTOR, 0, 0));
    fill(&mut store, 1, range(0, SECTOR));
    drop(first);
    store.reclaim();
    assert_eq!(store.usage().detached_bytes, SECTOR);
    assert_eq!(second[0][..], content(1, range(5, 15)));
    drop(second);
    store.reclaim();
    assert_eq!((store.usage().detached_bytes, store.usage().leased_bytes), (0, 0));
}

#[test]
fn leases_stop_at_their_ceiling_and_a_return_rings_for_who_waits() {
    let doorbell = Doorbell::unattached();
    let config =
        StoreConfig { leases_bytes_max: Some(2 * SECTOR), doorbell: doorbell.clone(), ..config(4) };
    let mut store = Store::new(config, Box::new(S3Fifo::new())).expect("it can be mapped");
    fill(&mut store, 1, range(0, BLOCK));
    let leases = check_hit(&mut store, 1, range(0, BLOCK), range(0, 2 * SECTOR));
    let again = check_hit(&mut store, 1, range(7, BLOCK), range(7, 2 * SECTOR));
    drop(again);
    assert!(!doorbell.take_rung(), "nobody waits yet");
    assert!(matches!(store.read(id(1), range(2 * SECTOR, BLOCK), ReadKind::Large), Read::Full));
    assert_eq!(store.usage().leased_bytes, 2 * SECTOR);
    store.reclaim();
    assert!(!store.reclaim());
    std::thread::spawn(move || drop(leases)).join().expect("a drop does not fail");
    assert!(doorbell.take_rung());
    assert!(store.reclaim());
    check_hit(&mut store, 1, range(2 * SECTOR, BLOCK), range(2 * SECTOR, 4 * SECTOR));
}

#[test]
fn large_reads_leave_a_share_of_the_leases_to_small_ones() {
    let config = StoreConfig { leases_bytes_max: Some(8 * SECTOR), ..config(4) };
    let mut store = Store::new(config, Box::new(S3Fifo::new())).expect("it can be mapped");
    fill(&mut store, 1, range(0, BLOCK));
    fill(&mut store, 2, range(0, BLOCK));
    let usage = store.usage();
    assert_eq!((usage.leased_bytes_max, usage.leased_bytes_large_max), (8 * SECTOR, 6 * SECTOR));
    let large = check_hit(&mut store, 1, range(0, BLOCK), range(0, 6 * SECTOR));
    assert!(matches!(store.read(id(2), range(0, BLOCK), ReadKind::Large), Read::Full));
    let again = store.read(id(1), range(0, 10), ReadKind::Large);
    assert!(matches!(again, Read::Hit(_)), "what is leased already takes no more of the ceiling");
    let Read::Hit(small) = store.read(id(2), range(9, 2 * SECTOR), ReadKind::Small) else {
        panic!("the share is theirs")
    };
    assert_eq!(small.len(), 2);
    assert!(matches!(store.read(id(2), range(2 * SECTOR, BLOCK), ReadKind::Small), Read::Full));
    drop((large, again));
    assert!(store.reclaim());
    check_hit(&mut store, 2, range(2 * SECTOR, BLOCK), range(2 * SECTOR, 6 * SECTOR));
}

#[test]
fn the_tables_beside_the_smallest_arenas_stay_within_what_is_announced() {
    for kind in EvictionKind::ALL {
        for sectors in 2..40 {
            let (budget_bytes, block_bytes) = (sectors * SECTOR, SECTOR);
            let config = StoreConfig { budget_bytes, block_bytes, ..config(4) };
            let mut store = Store::new(config, kind.build()).expect("it can be mapped");
            let most = sectors * INDEX_BYTES_PER_SECTOR_MAX + INDEX_BYTES_FIXED;
            for index in 0..200 {
                fill(&mut store, index, range(0, SECTOR));
                let index_bytes = store.usage().index_bytes;
                assert!(index_bytes <= most, "{kind}, {sectors}: {index_bytes} of {most}");
            }
        }
    }
}

#[test]
fn the_tables_beside_the_arena_stay_within_what_is_announced() {
    for kind in EvictionKind::ALL {
        let config = StoreConfig { budget_bytes: 20_000 * SECTOR, ..config(4) };
        let mut store = Store::new(config, kind.build()).expect("it can be mapped");
        let most = 20_000 * INDEX_BYTES_PER_SECTOR_MAX + INDEX_BYTES_FIXED;
        for index in 0..70_000 {
            fill(&mut store, index, range(0, SECTOR));
            let index_bytes = store.usage().index_bytes;
            assert!(index_bytes <= most, "{kind}: {index_bytes} of {most}");
        }
    }
}

#[test]
fn leases_outlive_the_store_on_other_threads() {
    let mut store = store(4);
    fill(&mut store, 1, range(0, BLOCK));
    let leases = check_hit(&mut store, 1, range(0, BLOCK), range(0, BLOCK));
    drop(store);
    let reader = std::thread::spawn(move || {
        let bytes: Vec<u8> = leases.iter().flat_map(|lease| lease.iter().copied()).collect();
        assert_eq!(bytes, content(1, range(0, BLOCK)));
    });
    reader.join().expect("the bytes were as they had been");
}

#[test]
fn leased_memory_does_not_stop_fills() {
    let mut store = store(8);
    let mut leases = Vec::new();
    for index in 0..40 {
        fill(&mut store, index, range(0, BLOCK));
        if let Read::Hit(lease) = store.read(id(index), range(0, 1), ReadKind::Large) {
            leases.push((index, lease));
        }
    }
    let usage = store.usage();
    assert!(leases.len() > 8 && usage.detached_bytes > 0);
    for (index, lease) in &leases {
        assert_eq!(lease[0][..], content(*index, range(0, 1)));
    }
}

#[test]
fn a_read_in_slices_is_one_use() {
    let (witness, log) = Witness::around(S3Fifo::new());
    let mut store = Store::new(config(4), Box::new(witness)).expect("it can be mapped");
    let touches = || log.borrow().touches;
    let slices = |store: &mut Store| {
        for sector in 0..8 {
            let slice = range(sector * SECTOR, (sector + 1) * SECTOR);
            check_hit(store, 1, slice, slice);
        }
    };
    assert!(matches!(store.read(id(1), range(0, BLOCK), ReadKind::Large), Read::Miss));
    fill(&mut store, 1, range(0, 4 * SECTOR));
    check_hit(&mut store, 1, range(0, BLOCK), range(0, 4 * SECTOR));
    assert!(matches!(store.read(id(1), range(4 * SECTOR, BLOCK), ReadKind::Large), Read::Miss));
    fill(&mut store, 1, range(4 * SECTOR, BLOCK));
    check_hit(&mut store, 1, range(4 * SECTOR, BLOCK), range(4 * SECTOR, BLOCK));
    assert_eq!(touches(), 0, "the read that a fill is for is its insertion");
    slices(&mut store);
    assert_eq!(touches(), 1);
    slices(&mut store);
    assert_eq!(touches(), 2);
}

#[test]
fn a_budget_below_two_blocks_is_refused() {
    let refused = Store::new(config(1), Box::new(S3Fifo::new())).err().expect("refused");
    assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    assert!(refused.to_string().contains("two blocks"));
}

#[test]
fn an_index_grows_with_what_is_held_and_not_with_what_passes() {
    let mut store = store(8);
    for index in 0..100 {
        fill(&mut store, index, range(0, SECTOR));
    }
    let early_bytes = store.usage().index_bytes;
    for index in 100..20_000 {
        fill(&mut store, index, range(0, SECTOR));
    }
    assert!(store.usage().index_bytes <= 2 * early_bytes);
}

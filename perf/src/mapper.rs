//! The mapper suite: what building the index of a lakehouse's files costs, what it takes of memory, and what a
//! lookup costs, beside a hash map of the same paths. Files are looked up in random order, so that few find their
//! entry in a core's own cache; and again with other memory touched between, so that none does.

mod lake;
mod row;

use std::hint::black_box;
use std::io::Write;
use std::sync::Arc;

use nilas_base::{Clock, HashMap, Rng};
use nilas_iceberg::mapper::{FooterCache, Mapper, MapperBuilder, PathHash};

use crate::latency::Latencies;
use crate::statistic::median;

use lake::{BUCKET, Lake, PathMap};
pub use row::{MapperRow, mapper_table, missed_aims};

/// The suite's name.
pub const SUITE: &str = "mapper";
/// Memory that is touched between lookups: more than caches hold.
const OTHER_BYTES: usize = 256 << 20;
/// Places of it that are touched before each lookup after other work.
const TOUCHES: usize = 64;
/// Bytes of the index for a file: what is read at random as the floor of any lookup.
const MEMORY_OF_A_FILE: usize = 43;
/// Files that come, and as many that go, in a commit.
const COMMIT_FILES: u32 = 1000;

/// Options of the suite.
#[derive(Clone, Debug, clap::Args)]
pub struct MapperOptions {
    /// Files.
    #[arg(long, default_value_t = 1_000_000)]
    pub files: u32,
    /// Files of them whose footers are kept.
    #[arg(long, default_value_t = 20_000)]
    pub footers: u32,
    /// Columns of a file.
    #[arg(long, default_value_t = 50)]
    pub columns: u32,
    /// Row groups of a file.
    #[arg(long, default_value_t = 4)]
    pub row_groups: u32,
    /// Lookups of each kind.
    #[arg(long, default_value_t = 500_000)]
    pub lookups: u32,
    /// Builds of each kind.
    #[arg(long, default_value_t = 3)]
    pub rounds: u32,
    /// The seed of names and order.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Runs the suite; a line a step goes to `progress`.
pub fn measure(options: &MapperOptions, progress: &mut dyn Write) -> Vec<MapperRow> {
    let mut step = |text: &str| {
        // A progress line that cannot be written is no reason to lose the run.
        let _ = writeln!(progress, "{text}");
    };
    let lake = Lake::of(options);
    let clock = Clock::system();
    let mut rng = Rng::from_seed(options.seed);
    let hash = Arc::new(PathHash::new(&std::array::from_fn(|_| rng.next_u64() as u8)));
    let mut footers = FooterCache::new(Arc::clone(&hash), usize::MAX);
    step("building");
    let (mapper, paths, mut rows) = build(options, &lake, &clock, (&hash, &mut footers));
    step("rebuilding");
    rows.extend(rebuild(options, &lake, &clock, (&mapper, &mut footers)));
    rows.extend(memory(options, (&mapper, &paths), FooterCache::new(hash, 0)));
    step("looking up");
    rows.extend(look_up(options, &lake, &clock, (&mapper, &paths)));
    rows
}

/// The index, the map of paths, and what they took.
fn build(
    options: &MapperOptions,
    lake: &Lake,
    clock: &Clock,
    (hash, footers): (&Arc<PathHash>, &mut FooterCache),
) -> (Mapper, PathMap, Vec<MapperRow>) {
    let (mut ours, mut theirs, mut parsed) = (Vec::new(), Vec::new(), Vec::new());
    let mut made = None;
    for _ in 0..options.rounds.max(1) {
        drop(made.take());
        let mut builder = MapperBuilder::new(Arc::clone(hash));
        let (inserted, ms) = timed_ms(clock, || lake.insert_footers(footers));
        assert_eq!(inserted, options.footers.min(options.files), "the budget is endless");
        parsed.push(ms);
        let (mapper, ms) = timed_ms(clock, || {
            lake.add(&mut builder, 0..options.files);
            builder.build(footers)
        });
        ours.push(ms);
        let (paths, ms) = timed_ms(clock, || lake.path_map());
        theirs.push(ms);
        made = Some((mapper, paths));
    }
    let (mapper, paths) = made.expect("a round at least");
    let rows = vec![
        MapperRow::of_times(options, "build", &ours, &theirs),
        MapperRow::of_times(options, "pack footers", &parsed, &[]),
    ];
    (mapper, paths, rows)
}

/// A commit's delta, and footers alone.
fn rebuild(
    options: &MapperOptions,
    lake: &Lake,
    clock: &Clock,
    (mapper, footers): (&Mapper, &mut FooterCache),
) -> Vec<MapperRow> {
    let (mut commits, mut swaps) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds.max(1) {
        let (swapped, ms) = timed_ms(clock, || mapper.with_footers(footers));
        swaps.push(ms);
        drop(swapped);
        let (committed, ms) = timed_ms(clock, || {
            let mut builder = MapperBuilder::from_old(mapper);
            lake.add(&mut builder, options.files..options.files + COMMIT_FILES);
            // The last files have no footers, so that none is lost to the next round.
            lake.remove(&mut builder, options.files.saturating_sub(COMMIT_FILES)..options.files);
            builder.build(footers)
        });
        commits.push(ms);
        drop(committed);
    }
    vec![
        MapperRow::of_times(options, "rebuild for a commit", &commits, &[]),
        MapperRow::of_times(options, "rebuild for footers", &swaps, &[]),
    ]
}

fn memory(
    options: &MapperOptions,
    (mapper, paths): (&Mapper, &PathMap),
    mut no_footers: FooterCache,
) -> Vec<MapperRow> {
    let files_bytes = mapper.with_footers(&mut no_footers).memory_bytes();
    let footers_bytes = mapper.memory_bytes() - files_bytes;
    let footers = options.footers.min(options.files);
    let row = |what: &str, count: u32, ours: usize, theirs: usize| {
        let mean = |bytes: usize| bytes as f64 / f64::from(count.max(1));
        MapperRow::of_memory(options, what, mean(ours), mean(theirs))
    };
    vec![
        row("memory of a file", options.files, files_bytes, paths.files_bytes()),
        row("memory of a footer", footers, footers_bytes, paths.footers_bytes()),
    ]
}

/// In random order back to back, and again with other memory touched between.
fn look_up(
    options: &MapperOptions,
    lake: &Lake,
    clock: &Clock,
    (mapper, paths): (&Mapper, &PathMap),
) -> Vec<MapperRow> {
    let footers = options.footers.min(options.files);
    let strangers = options.files + COMMIT_FILES..2 * options.files + COMMIT_FILES;
    let file: Lookup<'_> = &|key, _| mapper.file(BUCKET, key).map_or(0, |fact| fact.file.bytes);
    let their_file: Lookup<'_> = &|key, _| paths.file(key).map_or(0, |file| file.bytes);
    let range: Lookup<'_> = &|key, at| {
        let overlaps = mapper.range(BUCKET, key, lake.range(at)).into_iter().flatten();
        overlaps.map(|overlap| overlap.bytes).sum()
    };
    let their_range: Lookup<'_> = &|key, at| paths.range(key, lake.range(at));
    let kinds = [
        ("known file", 0..options.files, file, their_file),
        ("unknown file", strangers.clone(), file, their_file),
        ("range of a known file", 0..footers, range, their_range),
        ("range of an unknown file", strangers, range, their_range),
    ];
    let mut timer = Timer::new(options, lake, clock);
    let mut rows = Vec::new();
    for (touches, after) in [(0, ""), (TOUCHES, " after other work")] {
        timer.touches = touches;
        let clock_ns = timer.time(0..options.files, |_, _| 0);
        for (what, keys, ours, theirs) in kinds.clone() {
            let ours = timer.time(keys.clone(), ours);
            let theirs = timer.time(keys, theirs);
            let what = format!("{what}{after}");
            rows.push(MapperRow::of_lookups(options, &what, (&ours, &theirs), &clock_ns));
        }
        let other = vec![1_u8; options.files as usize * MEMORY_OF_A_FILE];
        let places = other.len() as u64;
        let read = |_: &[u8], at: u64| u64::from(other[(at % places) as usize]);
        let floor = timer.time(0..options.files, read);
        let none = Latencies::new();
        let what = format!("one byte of as much memory{after}");
        rows.push(MapperRow::of_lookups(options, &what, (&floor, &none), &clock_ns));
    }
    rows
}

/// A lookup of a key, given a random number.
type Lookup<'a> = &'a dyn Fn(&[u8], u64) -> u64;

/// Times lookups one by one.
struct Timer<'a> {
    lookups: u32,
    touches: usize,
    lake: &'a Lake,
    clock: &'a Clock,
    rng: Rng,
    other: Vec<u64>,
}

impl<'a> Timer<'a> {
    fn new(options: &MapperOptions, lake: &'a Lake, clock: &'a Clock) -> Timer<'a> {
        let rng = Rng::from_seed(options.seed);
        let other = vec![1; OTHER_BYTES / size_of::<u64>()];
        Timer { lookups: options.lookups, touches: 0, lake, clock, rng, other }
    }

    fn time(
        &mut self,
        keys: std::ops::Range<u32>,
        lookup: impl Fn(&[u8], u64) -> u64,
    ) -> Latencies {
        let mut latencies = Latencies::new();
        let mut key = String::new();
        for _ in 0..self.lookups {
            let file = keys.start + self.rng.below(u64::from(keys.end - keys.start).max(1)) as u32;
            // A request's key was just read, and lies in a cache.
            self.lake.write_key(file, &mut key);
            black_box(self.touch_others());
            let at = self.rng.next_u64();
            let before = self.clock.now();
            black_box(lookup(black_box(key.as_bytes()), at));
            latencies.record(self.clock.now().since(before));
        }
        latencies
    }

    /// Reads, and does not write: writes would be under way still while the lookup is timed.
    fn touch_others(&mut self) -> u64 {
        let places = self.other.len() as u64;
        (0..self.touches).map(|_| self.other[self.rng.below(places) as usize]).sum()
    }
}

fn timed_ms<T>(clock: &Clock, make: impl FnOnce() -> T) -> (T, f64) {
    let before = clock.now();
    let made = make();
    (made, clock.now().since(before).as_secs_f64() * 1e3)
}

/// The middle one; a suite makes a round at least.
fn middle(values: &[f64]) -> f64 {
    median(values).unwrap_or(0.0)
}

/// Where each path's file is, for the rival.
type Places = HashMap<Box<[u8]>, u32>;

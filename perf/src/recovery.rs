//! The recovery suite: how long shards take to find what their cache device held, by its size, beside
//! plain reads of the same pages in the same run; and when a real node on that device has answered
//! its first request. The device is a file on a disk, filled by the shards' own store.

mod device;
mod fill;
mod floor;
mod node;
mod row;

use std::io::Write;
use std::path::PathBuf;

use nilas_base::{GIB, MIB};

use crate::error::Result;
use crate::statistic::{median, minimum, paired_ratio};

pub use row::{RecoveryRow, missed_aims, recovery_table};

use device::{CacheDevice, Found};
use node::FirstAnswer;

/// The suite's name.
pub const SUITE: &str = "recovery";

/// Options of the suite.
#[derive(Clone, Debug, clap::Args)]
pub struct RecoveryOptions {
    /// MiB of the areas that are filled, for all shards together.
    #[arg(long, value_delimiter = ',', default_values_t = [256, 4096, 16_384])]
    pub mebibytes: Vec<u64>,
    /// What they are filled with; everything by default.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Filling::ALL.to_vec())]
    pub fillings: Vec<Filling>,
    /// Rounds of each size.
    #[arg(long, default_value_t = 9)]
    pub rounds: usize,
    /// Shards, each on a thread of its own.
    #[arg(long, default_value_t = 2)]
    pub shards: u16,
    /// The ring: io_uring or epoll.
    #[arg(long, default_value = "io_uring")]
    pub ring: String,
    /// Starts of a real node on each device; none to leave it out.
    #[arg(long, default_value_t = 3)]
    pub node_rounds: usize,
    /// The nilas-server to start; built for release by default.
    #[arg(long)]
    pub server_binary: Option<PathBuf>,
    /// A folder on the disk to measure; the one for temporary files by default.
    #[arg(long)]
    pub folder: Option<PathBuf>,
}

/// What a device is filled with, always the smallest records of its area: the most there can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Filling {
    /// Data in sectors of 64 KiB; then its shards stop.
    Data,
    /// The same; then they die, with a segment half full.
    DataKilled,
    /// Metadata in sectors of 4 KiB; then its shards stop. A quarter of the sizes, 1 GiB at most.
    Metadata,
}

impl Filling {
    const ALL: [Filling; 3] = [Filling::Data, Filling::DataKilled, Filling::Metadata];

    fn is_of_metadata(self) -> bool {
        self == Filling::Metadata
    }

    /// Bytes of a record's data.
    fn record_bytes(self) -> usize {
        if self.is_of_metadata() { 4 << 10 } else { 64 << 10 }
    }

    fn name(self) -> &'static str {
        match self {
            Filling::Data => "data, stopped",
            Filling::DataKilled => "data, killed",
            Filling::Metadata => "metadata, stopped",
        }
    }

    /// What is filled of an area where `bytes` are asked for.
    fn area_bytes(self, bytes: u64) -> u64 {
        if self.is_of_metadata() { (bytes / 4).clamp(128 * MIB, GIB) } else { bytes }
    }
}

/// What the suite gives back.
#[derive(Clone, Debug)]
pub struct RecoveryOutcome {
    /// Facts of the run.
    pub facts: Vec<(String, String)>,
    /// The rows, by size and filling.
    pub rows: Vec<RecoveryRow>,
}

/// Runs the suite; one line a device and step goes to `progress`.
pub fn measure(options: &RecoveryOptions, progress: &mut dyn Write) -> Result<RecoveryOutcome> {
    let mut rows = Vec::new();
    for filling in &options.fillings {
        let mut sizes: Vec<u64> =
            options.mebibytes.iter().map(|size| filling.area_bytes(size * MIB)).collect();
        sizes.dedup();
        for area_bytes in sizes {
            rows.push(measure_one(options, *filling, area_bytes, progress)?);
        }
    }
    let facts = [("shards", options.shards.to_string()), ("ring", options.ring.clone())];
    let facts = facts.map(|(name, value)| (name.to_owned(), value)).to_vec();
    Ok(RecoveryOutcome { facts, rows })
}

fn measure_one(
    options: &RecoveryOptions,
    filling: Filling,
    area_bytes: u64,
    progress: &mut dyn Write,
) -> Result<RecoveryRow> {
    let mut say = |what: &str| {
        // A progress line that cannot be written is no reason to lose the run.
        let _ = writeln!(progress, "{}, {} MiB: {what}", filling.name(), area_bytes / MIB);
    };
    let device = CacheDevice::lay(options, filling, area_bytes)?;
    say("is being filled");
    fill::fill(&device)?;
    let plain = floor::Plain::of(&device)?;
    let (mut rounds, mut floors) = (Vec::new(), Vec::new());
    for round in 0..options.rounds {
        device.forget_cached()?;
        floors.push(plain.read(&device)?);
        device.forget_cached()?;
        rounds.push(device.recover()?);
        say(&format!("round {round}: {:.1} ms", rounds[round].seconds * 1e3));
    }
    let records = rounds.last().map_or(0, |round| round.records);
    let mut answers = Vec::new();
    for round in 0..options.node_rounds {
        device.forget_cached()?;
        answers.push(node::first_answer(options, &device, records)?);
        say(&format!("node {round}: {:?}", answers[round]));
    }
    Ok(sum_up(filling, options, (&rounds, &floors), &answers))
}

fn sum_up(
    filling: Filling,
    options: &RecoveryOptions,
    (rounds, floors): (&[Found], &[f64]),
    answers: &[FirstAnswer],
) -> RecoveryRow {
    let seconds: Vec<f64> = rounds.iter().map(|round| round.seconds).collect();
    let of_answers = |what: fn(&FirstAnswer) -> f64| {
        median(&answers.iter().map(what).collect::<Vec<_>>()).unwrap_or_default()
    };
    let cpu: Vec<f64> = rounds.iter().map(|round| round.cpu_seconds).collect();
    let last = rounds.last().copied().unwrap_or_default();
    RecoveryRow {
        suite: SUITE.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        filling: filling.name().replace(',', ""),
        cache_bytes: last.bytes,
        shards: options.shards,
        rounds: options.rounds,
        segments: last.segments,
        unsealed: last.unsealed,
        records: last.records,
        ms_min: minimum(&seconds).unwrap_or_default() * 1e3,
        ms_median: median(&seconds).unwrap_or_default() * 1e3,
        cpu_ms_median: median(&cpu).unwrap_or_default() * 1e3,
        floor_ms_median: median(floors).unwrap_or_default() * 1e3,
        node_rounds: answers.len(),
        node_ms: of_answers(|answer| answer.recovery_ms),
        first_answer_ms: of_answers(|answer| answer.answered_ms),
        answered_before_its_end: answers.iter().filter(|it| it.came_before_the_end).count(),
        floor_ratio: paired_ratio(&seconds, floors).unwrap_or_default(),
    }
}

//! The replay suite: what each eviction policy would have missed of the same reads, beside the least that
//! any could. Nothing is timed: a row comes out the same on every machine.

mod bound;
pub mod device;
mod device_row;
pub mod format;
pub mod generate;
pub mod memory;
pub mod player;
mod row;
pub mod trace;

use std::io::Write;
use std::path::PathBuf;

use nilas_base::MIB;
use nilas_shards::admission::AdmissionKind;
use nilas_shards::area::AreaPolicies;
use nilas_shards::carry_over::CarryOverKind;
use nilas_shards::eviction::EvictionKind;

use crate::error::Result;
use crate::record::RecordRow;

pub use device_row::{DeviceRow, device_table};
pub use row::{ReplayRow, replay_table};

use device::DeviceShape;
use format::Format;
use generate::{Workload, files_of};
use memory::{MemoryShape, Tally};
use trace::Trace;

/// The suite's name.
pub const SUITE: &str = "replay";
/// The name of its rows with a cache device.
pub const DEVICE_SUITE: &str = "replay-device";
/// What the bound is called.
const BOUND: &str = "belady";

/// Options of the suite.
#[derive(Clone, Debug, clap::Args)]
pub struct ReplayOptions {
    /// Workloads to generate; all by default, none where a trace is given.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub workloads: Vec<Workload>,
    /// A trace in a file.
    #[arg(long)]
    pub trace: Option<PathBuf>,
    /// What the file is.
    #[arg(long, value_enum, default_value_t = Format::Nilas)]
    pub format: Format,
    /// Policies; all by default.
    #[arg(long, value_delimiter = ',', value_parser = parse_policy)]
    pub policies: Vec<EvictionKind>,
    /// Memory, as shares of the bytes that a trace reads of, each counted once, in hundredths.
    #[arg(long, value_delimiter = ',', default_values_t = [5, 20])]
    pub shares: Vec<u64>,
    /// Replay with a cache device, too, of these shares, whole nodes in the simulator: for each `disk.admission` and each
    /// `disk.carry_over`, with the default of `cache.eviction` or the policies that are named.
    #[arg(long, value_delimiter = ',')]
    pub device_shares: Vec<u64>,
    /// Reads of each generated trace.
    #[arg(long, default_value_t = 300_000)]
    pub reads: usize,
    /// The table of generated traces, MiB.
    #[arg(long, default_value_t = 2048)]
    pub table_mib: u64,
    /// The seed of generated traces.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// A block, KiB.
    #[arg(long, default_value_t = 2048)]
    pub block_kib: u64,
    /// A sector, KiB.
    #[arg(long, default_value_t = 64)]
    pub sector_kib: u64,
    /// Fetch ahead of sequential readers, as a node does: what comes so is no miss, of which the bound knows nothing.
    #[arg(long)]
    pub ahead: bool,
}

fn parse_policy(name: &str) -> std::result::Result<EvictionKind, String> {
    EvictionKind::named(name)
        .ok_or_else(|| format!("one of {} is expected", EvictionKind::NAMES.join(", ")))
}

/// Runs the suite; one line a trace goes to `progress`.
///
/// # Errors
/// A trace that cannot be read, or memory that cannot be had.
pub fn measure(options: &ReplayOptions, progress: &mut dyn Write) -> Result<Vec<ReplayRow>> {
    let mut rows = Vec::new();
    for trace in traces(options)? {
        let read_of = distinct_bytes(&trace);
        // A progress line that cannot be written is no reason to lose the run.
        let _ = writeln!(progress, "{}: {} reads", trace.name, trace.requests.len());
        for share in &options.shares {
            let budget_bytes = (read_of * share / 100).max(options.block_kib << 11);
            rows.extend(replay(options, &trace, (*share, budget_bytes))?);
        }
    }
    Ok(rows)
}

fn traces(options: &ReplayOptions) -> Result<Vec<Trace>> {
    let mut traces = Vec::new();
    if let Some(path) = &options.trace {
        traces.push(format::read(path, options.format)?);
    }
    let workloads = match (&options.trace, options.workloads.is_empty()) {
        (None, true) => Workload::ALL.to_vec(),
        _ => options.workloads.clone(),
    };
    let files = files_of(options.table_mib * MIB);
    traces.extend(workloads.iter().map(|it| it.generate(options.seed, files, options.reads)));
    Ok(traces)
}

fn replay(
    options: &ReplayOptions,
    trace: &Trace,
    (share, budget_bytes): (u64, u64),
) -> Result<Vec<ReplayRow>> {
    let (block_bytes, sector_bytes) = (options.block_kib << 10, options.sector_kib << 10);
    let shape = MemoryShape {
        reads_ahead: options.ahead,
        ..MemoryShape::of_one_shard(budget_bytes, block_bytes, sector_bytes)
    };
    let best = bound::play(trace, shape);
    let row = |policy: &str, tally: Tally| ReplayRow {
        suite: SUITE.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        trace: trace.name.clone(),
        policy: policy.to_owned(),
        share,
        budget_mib: budget_bytes / MIB,
        tally,
        to_bound: tally.missed_bytes as f64 / best.missed_bytes.max(1) as f64,
    };
    let policies = match options.policies.is_empty() {
        true => EvictionKind::ALL.to_vec(),
        false => options.policies.clone(),
    };
    let mut rows = vec![row(BOUND, best)];
    for policy in policies {
        rows.push(row(policy.name(), memory::play(trace, shape, policy)?));
    }
    Ok(rows)
}

/// Runs the suite with a cache device; one line a row goes to `progress`.
///
/// # Errors
/// A trace that cannot be read.
pub fn measure_device(options: &ReplayOptions, progress: &mut dyn Write) -> Result<Vec<DeviceRow>> {
    let mut rows = Vec::new();
    for trace in traces(options)? {
        for (share, device_share) in pairs(&options.shares, &options.device_shares) {
            for policies in policies(options) {
                let row = replay_device(options, &trace, (share, device_share), policies)?;
                // A progress line that cannot be written is no reason to lose the run.
                let _ = writeln!(progress, "{}", row.name());
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

fn replay_device(
    options: &ReplayOptions,
    trace: &Trace,
    (share, device_share): (u64, u64),
    (eviction, policies): (EvictionKind, AreaPolicies),
) -> Result<DeviceRow> {
    let read_of = distinct_bytes(trace);
    let shape = DeviceShape {
        budget_bytes: (read_of * share / 100).max(options.block_kib << 11),
        block_bytes: options.block_kib << 10,
        sector_bytes: options.sector_kib << 10,
        device_bytes: read_of * device_share / 100,
        eviction,
        policies,
    };
    Ok(DeviceRow {
        suite: DEVICE_SUITE.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        trace: trace.name.clone(),
        eviction: eviction.name().to_owned(),
        admission: policies.admission.name().to_owned(),
        carry_over: policies.carry_over.name().to_owned(),
        share,
        device_share,
        tally: device::play(trace, &shape)?,
    })
}

fn pairs(shares: &[u64], device_shares: &[u64]) -> Vec<(u64, u64)> {
    shares.iter().flat_map(|it| device_shares.iter().map(|of_device| (*it, *of_device))).collect()
}

/// Each admission with each carry-over.
fn policies(options: &ReplayOptions) -> Vec<(EvictionKind, AreaPolicies)> {
    let evictions = match options.policies.is_empty() {
        true => vec![EvictionKind::DEFAULT],
        false => options.policies.clone(),
    };
    let mut all = Vec::new();
    for eviction in evictions {
        for &admission in AdmissionKind::ALL {
            let with = |&carry_over| (eviction, AreaPolicies { admission, carry_over });
            all.extend(CarryOverKind::ALL.iter().map(with));
        }
    }
    all
}

/// Bytes that a trace reads, each of them counted once, up to whole sectors of 64 KiB.
fn distinct_bytes(trace: &Trace) -> u64 {
    const UNIT: u64 = 64 << 10;
    let mut seen = nilas_base::HashSet::default();
    for request in &trace.requests {
        let units = request.range.start / UNIT..request.range.end.div_ceil(UNIT);
        seen.extend(units.map(|unit| (request.object, unit)));
    }
    seen.len() as u64 * UNIT
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> ReplayOptions {
        ReplayOptions {
            workloads: Vec::new(),
            trace: None,
            format: Format::Nilas,
            policies: Vec::new(),
            device_shares: Vec::new(),
            shares: vec![10],
            reads: 4000,
            table_mib: 200,
            seed: 1,
            block_kib: 1024,
            sector_kib: 64,
            ahead: false,
        }
    }

    #[test]
    fn no_policy_misses_less_than_the_bound() {
        let rows = measure(&options(), &mut std::io::sink()).expect("traces are generated");
        assert_eq!(rows.len(), Workload::ALL.len() * (EvictionKind::ALL.len() + 1));
        for row in &rows {
            assert!(row.to_bound >= 1.0, "{row:?}");
            assert!(row.tally.origin_bytes >= row.tally.missed_bytes, "{row:?}");
            assert!(row.tally.missed_bytes <= row.tally.bytes, "{row:?}");
        }
    }

    #[test]
    fn what_fits_is_missed_once_by_all() {
        let options = ReplayOptions { shares: vec![250], ..options() };
        let rows = measure(&options, &mut std::io::sink()).expect("traces are generated");
        for row in rows {
            assert!((row.to_bound - 1.0).abs() < 1e-9, "{row:?}");
        }
    }

    #[test]
    fn a_loop_longer_than_memory_defeats_those_that_keep_the_latest() {
        let options = ReplayOptions { workloads: vec![Workload::Loop], ..options() };
        let rows = measure(&options, &mut std::io::sink()).expect("a trace is generated");
        let missed = |policy: &str| {
            let row = rows.iter().find(|row| row.policy == policy).expect("it was played");
            row.tally.byte_miss_ratio()
        };
        for policy in ["fifo", "lru"] {
            assert!(missed(policy) > 0.999, "{policy}: {}", missed(policy));
        }
        assert!(missed(BOUND) < 0.95, "{}", missed(BOUND));
    }
}

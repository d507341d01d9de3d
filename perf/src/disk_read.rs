//! The disk-read suite: objects that `nilas-server` holds on its cache device and not in memory, beside
//! fio on a file of that same size and disk; then what its fills write, and what they cost those who read
//! meanwhile. The aims are ratios in the same run. What fio is told is in `fio`.

mod fill;
mod fio;
mod ground;
mod row;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use nilas_base::MIB;

use crate::error::{Error, Result};
use crate::load::{Burst, BurstPlan, run_burst};
use crate::processor::pin_to;
use crate::statistic::{median, minimum, paired_ratio};

pub use row::{DiskReadRow, disk_read_table, missed_aims};

use fio::{Direction, FioJob};
use ground::{Ground, Held};

/// The suite's name.
pub const SUITE: &str = "disk-read";

/// The part of the reads that the device has to answer, where memory may hold some.
const HITS_MIN: f64 = 0.8;

/// Options of the suite.
#[derive(Clone, Debug, clap::Args)]
pub struct DiskReadOptions {
    /// Sizes of the objects that are read, bytes.
    #[arg(long, value_delimiter = ',', default_values_t = [65_536, 4096])]
    pub sizes: Vec<usize>,
    /// Connections, and fio's depth.
    #[arg(long, default_value_t = 64)]
    pub connections: usize,
    /// Bursts of each side.
    #[arg(long, default_value_t = 7)]
    pub rounds: usize,
    /// The measured part of a burst.
    #[arg(long, default_value_t = 2000)]
    pub burst_ms: u64,
    /// The most that the objects of one size take, MiB; there are no more of them than fit the mappings.
    #[arg(long, default_value_t = 1024)]
    pub mebibytes: u64,
    /// nilas-server's memory for data, MiB: a small part of what is read. A thirty-second part of it keeps
    /// headers of records.
    #[arg(long, default_value_t = 128)]
    pub memory_mebibytes: u64,
    /// nilas-server's ring: auto, io_uring or epoll.
    #[arg(long, default_value = "io_uring")]
    pub ring: String,
    /// The nilas-server to measure; built for release by default.
    #[arg(long)]
    pub server_binary: Option<PathBuf>,
    /// Where the device lies: a folder on the disk to measure.
    #[arg(long)]
    pub folder: Option<PathBuf>,
    /// A folder in memory for the origin's files.
    #[arg(long, default_value = "/dev/shm")]
    pub memory_folder: PathBuf,
    /// Leave out what is written.
    #[arg(long, conflicts_with = "fills_alone")]
    pub reads_alone: bool,
    /// Leave out the hits.
    #[arg(long)]
    pub fills_alone: bool,
    /// Another policy of eviction from memory.
    #[arg(long)]
    pub eviction: Option<String>,
}

/// The run's facts and rows.
#[derive(Clone, Debug)]
pub struct DiskReadOutcome {
    /// Facts of the run.
    pub facts: Vec<(String, String)>,
    /// The rows.
    pub rows: Vec<DiskReadRow>,
}

/// Runs the suite; one line a cell goes to `progress`.
///
/// # Errors
/// Where fio is not installed, the folder has no `O_DIRECT`, or an answer was not what was asked for.
pub fn measure(options: &DiskReadOptions, progress: &mut dyn Write) -> Result<DiskReadOutcome> {
    let ground = Ground::find(options)?;
    pin_to(&[ground.load_core])?;
    let mut rows = Vec::new();
    let sizes = if options.fills_alone { &[][..] } else { &options.sizes };
    for size_bytes in sizes {
        // A progress line that cannot be written is no reason to lose the run.
        let _ = writeln!(progress, "hits of {size_bytes} bytes");
        rows.push(hits(&ground, *size_bytes)?);
    }
    if !options.reads_alone {
        let _ = writeln!(progress, "fills");
        rows.extend(fill::measure(&ground)?);
    }
    let facts = [
        ("fio", ground.fio_version.clone()),
        ("server_core", ground.server_core.to_string()),
        ("load_core", ground.load_core.to_string()),
        ("ring", options.ring.clone()),
        ("burst_ms", options.burst_ms.to_string()),
        ("mebibytes", options.mebibytes.to_string()),
        ("memory_mebibytes", options.memory_mebibytes.to_string()),
    ];
    let facts = facts.map(|(name, value)| (name.to_owned(), value)).to_vec();
    Ok(DiskReadOutcome { facts, rows })
}

/// Random hits, in turns with fio's random reads of the same file.
fn hits(ground: &Ground<'_>, size_bytes: usize) -> Result<DiskReadRow> {
    let held = Held::start(ground, size_bytes)?;
    let options = ground.options;
    let folder = ground.folder()?;
    let job = FioJob {
        direction: Direction::RandomRead,
        // Of its own, all of it written: where a device's file is not, reads of it ask the disk nothing.
        file: folder.path().join("fio"),
        block_bytes: size_bytes as u64,
        depth: options.connections,
        bytes: held.written_bytes()?.next_multiple_of(MIB),
        core: ground.server_core,
        runtime: Duration::from_millis(options.burst_ms),
    };
    job.lay_out()?;
    let (mut fio_rates, mut bursts) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        fio_rates.push(job.run()?.operations_per_second);
        bursts.push(burst(ground, &held, options.connections)?);
    }
    let rates: Vec<f64> = bursts.iter().map(Burst::requests_per_second).collect();
    let cpu: Vec<f64> = bursts.iter().map(Burst::server_us_per_request).collect();
    let mut latencies = crate::latency::Latencies::new();
    bursts.iter().for_each(|burst| latencies.add(&burst.latencies));
    Ok(DiskReadRow {
        suite: SUITE.to_owned(),
        version: held.version(),
        what: format!("hits of {} KiB", size_bytes >> 10),
        unit: "requests/s".to_owned(),
        reference: median(&fio_rates).unwrap_or_default(),
        nilas: median(&rates).unwrap_or_default(),
        ratio: paired_ratio(&rates, &fio_rates).unwrap_or_default(),
        server_us: minimum(&cpu).unwrap_or_default(),
        p50_us: latencies.quantile_us(0.5),
        p99_us: latencies.quantile_us(0.99),
        client_busy: median(&bursts.iter().map(Burst::client_busy).collect::<Vec<_>>())
            .unwrap_or_default(),
    })
}

/// One burst, all of whose answers came from the device, but for the few that memory holds.
fn burst(ground: &Ground<'_>, held: &Held, connections: usize) -> Result<Burst> {
    burst_of(ground, held, (connections, false))
}

/// The same; `beside_others` that may ask the origin.
fn burst_of(
    ground: &Ground<'_>,
    held: &Held,
    (connections, beside_others): (usize, bool),
) -> Result<Burst> {
    let plan = BurstPlan {
        connections,
        warm_up: Duration::from_millis(200),
        measured: Duration::from_millis(ground.options.burst_ms),
        discard: true,
    };
    let (asked, hits) = (held.node.origin_requests()?, held.device_hits()?);
    let time = || held.node.processor_time();
    let burst = run_burst(held.node.address, &held.targets()?, &plan, &time)?;
    let asked = held.node.origin_requests()? - asked;
    let hits = held.device_hits()? - hits;
    if (asked > 0 && !beside_others) || hits < burst.requests as f64 * HITS_MIN {
        let requests = burst.requests;
        return Err(Error::Answer(format!(
            "of {requests} requests {hits} were hits of the device, and {asked} asked the origin"
        )));
    }
    Ok(burst)
}

/// Bytes as a configuration has them.
fn text(bytes: u64) -> String {
    format!("{}MiB", bytes / MIB)
}

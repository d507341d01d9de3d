//! What is written: how fast fills reach the device beside fio's writes from front to back, how much is
//! written for what is kept, and how long reads take while fills go on at half of that rate.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nilas_base::{Clock, MIB};

use super::fio::{Direction, FioJob};
use super::ground::{Ground, Held};
use super::{DiskReadRow, SUITE, burst};
use crate::error::Result;
use crate::load::{Burst, fetch_each};
use crate::object::make_objects;
use crate::request::Target;
use crate::statistic::{median, paired_ratio};

/// What is filled.
const OBJECT_BYTES: u64 = 8 * MIB;
/// Readers of them at once.
const READERS: usize = 4;
/// fio's writes, and how many of them at once.
const WRITE: (u64, usize) = (MIB, 8);
/// Runs of each side.
const ROUNDS: usize = 3;
/// What is read meanwhile.
const READ_BYTES: usize = 65_536;
/// By how many connections: few enough that the server is not the queue.
const READ_CONNECTIONS: usize = 8;

/// The three rows.
pub(super) fn measure(ground: &Ground<'_>) -> Result<Vec<DiskReadRow>> {
    let mut fills = Vec::new();
    let mut fio_rates = Vec::new();
    let bytes = ground.options.mebibytes * MIB;
    let folder = ground.folder()?;
    let job = FioJob {
        direction: Direction::Write,
        file: folder.path().join("fio"),
        block_bytes: WRITE.0,
        depth: WRITE.1,
        bytes,
        core: ground.server_core,
        runtime: Duration::from_millis(ground.options.burst_ms),
    };
    job.lay_out()?;
    for _ in 0..ROUNDS {
        fio_rates.push(job.run()?.bytes_per_second);
        fills.push(fill(ground, bytes)?);
    }
    let rates: Vec<f64> = fills.iter().map(|fill| fill.bytes_per_second).collect();
    let amplification: Vec<f64> = fills.iter().map(|fill| fill.amplification).collect();
    let rate = median(&rates).unwrap_or_default();
    let fill_us = median(&fills.iter().map(|fill| fill.server_us).collect::<Vec<_>>());
    let writes = DiskReadRow {
        what: "fills".to_owned(),
        unit: "MiB/s".to_owned(),
        reference: median(&fio_rates).unwrap_or_default() / MIB as f64,
        nilas: rate / MIB as f64,
        ratio: paired_ratio(&rates, &fio_rates).unwrap_or_default(),
        server_us: fill_us.unwrap_or_default(),
        ..row(&fills[0].version)
    };
    let amplified = DiskReadRow {
        what: "written".to_owned(),
        unit: "bytes by bytes admitted".to_owned(),
        reference: 1.0,
        nilas: median(&amplification).unwrap_or_default(),
        ratio: median(&amplification).unwrap_or_default(),
        ..row(&fills[0].version)
    };
    Ok(vec![writes, amplified, reads_meanwhile(ground, rate / 2.0)?])
}

fn row(version: &str) -> DiskReadRow {
    DiskReadRow { suite: SUITE.to_owned(), version: version.to_owned(), ..DiskReadRow::default() }
}

struct Fill {
    version: String,
    bytes_per_second: f64,
    /// Bytes written by bytes that were to be kept.
    amplification: f64,
    /// Of the server, a MiB.
    server_us: f64,
}

/// Reads objects that the node has none of, until the last of them is on the device.
fn fill(ground: &Ground<'_>, bytes: u64) -> Result<Fill> {
    let objects = make_objects(OBJECT_BYTES as usize, (bytes / OBJECT_BYTES) as usize);
    let held = Held::with(ground, objects, bytes * 5 / 4 + 512 * MIB)?;
    let targets = held.targets()?;
    let (clock, before) = (Clock::system(), held.node.processor_time()?);
    let began = clock.now();
    let share = targets.len().div_ceil(READERS).max(1);
    std::thread::scope(|scope| {
        let readers: Vec<_> = targets
            .chunks(share)
            .map(|targets| scope.spawn(|| fetch_each(held.node.address, targets)))
            .collect();
        readers.into_iter().try_for_each(|reader| reader.join().expect("a reader ends"))
    })?;
    let quiet = held.wait_until_written()?;
    let took = clock.now().since(began) - quiet;
    // Where the origin is faster than the device, what it has no room for in time is not kept.
    let written = held.written_bytes()? as f64;
    let admitted = held.node.gauge("nilas_disk_admitted_bytes_total")?;
    let server_ns = held.node.processor_time()?.since_ns(&before);
    Ok(Fill {
        version: held.version(),
        bytes_per_second: written / took.as_secs_f64(),
        amplification: written / admitted.max(1.0),
        server_us: server_ns as f64 / 1e3 / (bytes / MIB) as f64,
    })
}

/// Random hits, in turns alone and while others have as much filled a second.
fn reads_meanwhile(ground: &Ground<'_>, fill_rate: f64) -> Result<DiskReadRow> {
    let round = Duration::from_millis(ground.options.burst_ms + 500);
    let filled = fill_rate * round.as_secs_f64() * ROUNDS as f64;
    let cold_count = (filled / OBJECT_BYTES as f64).ceil() as usize;
    let hot = make_objects(READ_BYTES, 8192);
    let cold = make_objects(OBJECT_BYTES as usize, cold_count);
    let all_bytes = (hot.len() * READ_BYTES) as u64 + cold_count as u64 * OBJECT_BYTES;
    let all = hot.iter().chain(&cold).cloned().collect();
    let mut held = Held::with(ground, all, all_bytes * 5 / 4 + 512 * MIB)?;
    held.objects = hot;
    fetch_each(held.node.address, &held.targets()?)?;
    held.wait_until_written()?;
    let hot = std::mem::replace(&mut held.objects, cold);
    let cold = held.targets()?;
    held.objects = hot;
    let (mut alone, mut meanwhile) = (Vec::new(), Vec::new());
    for cold in cold.chunks(cold_count.div_ceil(ROUNDS)) {
        alone.push(burst(ground, &held, READ_CONNECTIONS)?);
        meanwhile.push(burst_beside(ground, &held, (cold, fill_rate))?);
    }
    let p99 = |bursts: &[Burst]| -> Vec<f64> {
        bursts.iter().map(|burst| burst.latencies.quantile_us(0.99)).collect()
    };
    let (alone, meanwhile) = (p99(&alone), p99(&meanwhile));
    Ok(DiskReadRow {
        what: "p99 while filling".to_owned(),
        unit: "µs".to_owned(),
        reference: median(&alone).unwrap_or_default(),
        nilas: median(&meanwhile).unwrap_or_default(),
        ratio: paired_ratio(&meanwhile, &alone).unwrap_or_default(),
        ..row(&held.version())
    })
}

/// A burst beside a reader of cold objects that takes so many bytes a second.
fn burst_beside(
    ground: &Ground<'_>,
    held: &Held,
    (cold, bytes_per_second): (&[Target], f64),
) -> Result<Burst> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let filling = scope.spawn(|| -> Result<()> {
            let clock = Clock::system();
            let began = clock.now();
            for (number, target) in cold.iter().enumerate() {
                let due = number as f64 * OBJECT_BYTES as f64 / bytes_per_second;
                let due = began.after(Duration::from_secs_f64(due));
                while clock.now() < due && !is_over.load(Ordering::Relaxed) {
                    std::thread::park_timeout(due.since(clock.now()));
                }
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                fetch_each(held.node.address, std::slice::from_ref(target))?;
            }
            Ok(())
        });
        let burst = super::burst_of(ground, held, (READ_CONNECTIONS, true));
        is_over.store(true, Ordering::Relaxed);
        filling.join().expect("the reader ends")?;
        burst
    })
}

//! The matrix: each cell (a size and a number of connections) is measured on every server in
//! the same run, in short bursts that take turns, so that a disturbance meets all of them.

use std::io::Write;
use std::time::Duration;

use nilas_base::Clock;

use crate::error::{Error, Result};
use crate::latency::Latencies;
use crate::load::{Burst, BurstPlan, fetch_each, run_burst};
use crate::object::Object;
use crate::processor::pin_to;
use crate::record::Row;
use crate::request::{Target, make_targets};
use crate::server::Server;
use crate::statistic::{median, minimum, paired_ratio};

/// What to measure.
#[derive(Clone, Debug)]
pub struct MatrixPlan {
    /// The rows' first column.
    pub suite: &'static str,
    /// The server whose processor time is 1.
    pub reference: &'static str,
    /// Numbers of connections.
    pub connections: Vec<usize>,
    /// Bursts a server and cell.
    pub rounds: usize,
    /// Time before each burst's measured window.
    pub warm_up: Duration,
    /// Each burst's measured window.
    pub measured: Duration,
    /// Throw bodies outside the sample away in the kernel, in place of copying them.
    pub discard: bool,
    /// The core of the load.
    pub load_core: usize,
}

/// The objects of one size.
#[derive(Clone, Debug)]
pub struct SizeClass {
    /// Bytes of each.
    pub size_bytes: usize,
    /// The objects.
    pub objects: Vec<Object>,
}

/// Measures every cell on every server; rows come by size, connections, server. One line a
/// cell goes to `progress`.
pub fn run_matrix(
    plan: &MatrixPlan,
    servers: &[Server],
    classes: &[SizeClass],
    progress: &mut dyn Write,
) -> Result<Vec<Row>> {
    pin_to(&[plan.load_core])?;
    let mut rows = Vec::new();
    for class in classes {
        warm(servers, class)?;
        let asked_before = origin_requests(servers)?;
        for connections in &plan.connections {
            // A progress line that cannot be written is no reason to lose the run.
            let _ = writeln!(progress, "{} bytes, {connections} connections", class.size_bytes);
            let bursts = measure_cell(plan, servers, class, *connections)?;
            rows.extend(cell_rows(plan, servers, class.size_bytes, *connections, &bursts)?);
        }
        check_warm(servers, &asked_before)?;
    }
    Ok(rows)
}

fn origin_requests(servers: &[Server]) -> Result<Vec<u64>> {
    servers.iter().map(Server::origin_requests).collect()
}

/// A server that asked its origin while it was measured was not warm.
fn check_warm(servers: &[Server], asked_before: &[u64]) -> Result<()> {
    for (server, before) in servers.iter().zip(asked_before) {
        let asked = server.origin_requests()?.saturating_sub(*before);
        if asked > 0 {
            return Err(Error::Answer(format!(
                "{} asked its origin {asked} times when all was to be warm",
                server.name
            )));
        }
    }
    Ok(())
}

/// Every object twice, every byte compared: the first fetch may fill, the second finds it warm.
fn warm(servers: &[Server], class: &SizeClass) -> Result<()> {
    for server in servers {
        let targets = targets(server, class)?;
        fetch_each(server.address, &targets)?;
        fetch_each(server.address, &targets)?;
    }
    Ok(())
}

/// Bursts by server, then round.
fn measure_cell(
    plan: &MatrixPlan,
    servers: &[Server],
    class: &SizeClass,
    connections: usize,
) -> Result<Vec<Vec<Burst>>> {
    let &MatrixPlan { warm_up, measured, discard, .. } = plan;
    let burst_plan = BurstPlan { connections, warm_up, measured, discard };
    let mut bursts = vec![Vec::with_capacity(plan.rounds); servers.len()];
    for _ in 0..plan.rounds {
        for (server, bursts) in servers.iter().zip(&mut bursts) {
            let targets = targets(server, class)?;
            let time = || server.processor_time();
            bursts.push(run_burst(server.address, &targets, &burst_plan, &time)?);
        }
    }
    Ok(bursts)
}

fn targets(server: &Server, class: &SizeClass) -> Result<Vec<Target>> {
    make_targets(&server.access, server.address, &class.objects, Clock::system().wall())
}

fn cell_rows(
    plan: &MatrixPlan,
    servers: &[Server],
    size_bytes: usize,
    connections: usize,
    bursts: &[Vec<Burst>],
) -> Result<Vec<Row>> {
    let reference = servers
        .iter()
        .position(|server| server.name == plan.reference)
        .ok_or_else(|| Error::Failed(format!("no {} to compare with", plan.reference)))?;
    let reference_us = cpu_us(&bursts[reference]);
    let rows = servers.iter().zip(bursts).map(|(server, bursts)| {
        let mut row = sum_up(bursts, &reference_us);
        row.suite = plan.suite.to_owned();
        row.server = server.name.to_owned();
        row.version = server.version.clone();
        row.size_bytes = size_bytes;
        row.connections = connections;
        row
    });
    Ok(rows.collect())
}

/// A row whose names and cell are still empty.
fn sum_up(bursts: &[Burst], reference_us: &[f64]) -> Row {
    let mut latencies = Latencies::new();
    for burst in bursts {
        latencies.add(&burst.latencies);
    }
    let cpu_us = cpu_us(bursts);
    let rates: Vec<f64> = bursts.iter().map(Burst::requests_per_second).collect();
    let busy: Vec<f64> = bursts.iter().map(Burst::client_busy).collect();
    Row {
        suite: String::new(),
        server: String::new(),
        version: String::new(),
        size_bytes: 0,
        connections: 0,
        rounds: bursts.len(),
        requests: latencies.count(),
        requests_per_second: median(&rates).unwrap_or(0.0),
        p50_us: latencies.quantile_us(0.5),
        p99_us: latencies.quantile_us(0.99),
        cpu_us_min: minimum(&cpu_us).unwrap_or(0.0),
        cpu_us_median: median(&cpu_us).unwrap_or(0.0),
        cpu_ratio: paired_ratio(&cpu_us, reference_us).unwrap_or(0.0),
        client_busy: median(&busy).unwrap_or(0.0),
    }
}

fn cpu_us(bursts: &[Burst]) -> Vec<f64> {
    bursts.iter().map(Burst::server_us_per_request).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burst(requests: u64, server_us: u64) -> Burst {
        let mut latencies = Latencies::new();
        for _ in 0..requests {
            latencies.record(Duration::from_micros(50));
        }
        let elapsed = Duration::from_millis(10);
        let (server_ns, client_ns) = (server_us * 1000, 5_000_000);
        Burst { requests, elapsed, latencies, server_ns, client_ns }
    }

    #[test]
    fn a_row_sums_up_its_bursts_beside_the_reference() {
        let bursts = [burst(100, 800), burst(100, 1600), burst(200, 2000)];
        let row = sum_up(&bursts, &[10.0, 20.0, 10.0]);
        assert_eq!((row.rounds, row.requests), (3, 400));
        assert_eq!((row.cpu_us_min, row.cpu_us_median), (8.0, 10.0));
        assert_eq!(row.cpu_ratio, 0.8);
        assert_eq!(row.requests_per_second, 10_000.0);
        assert_eq!(row.client_busy, 0.5);
        assert!((row.p50_us - 50.0).abs() < 0.1);
    }
}

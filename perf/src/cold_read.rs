//! The cold-read suite: the same bytes read straight from an origin, through `nilas-server` that
//! has none of them, and through nginx's slice cache that has none of them, in turns. The aims are
//! ratios of time in the same run. What is read is in `workload`, the way to the origin in `origin`.

mod content;
mod contest;
mod ground;
mod origin;
mod reader;
mod workload;

use std::io::Write;
use std::path::PathBuf;

use nilas_base::MIB;

use crate::error::Result;
use crate::link::Link;
use crate::time_row::{TimeOutcome, TimeRow};

pub use origin::serve_origin;

use self::contest::Contest;
use self::ground::Ground;
use self::workload::Workload;

/// The suite's name.
pub const SUITE: &str = "cold-read";
const DIRECT: &str = "direct";
const NILAS: &str = "nilas";
const SLICE: &str = "nginx-slice";

/// Options of the suite.
#[derive(Clone, Debug, clap::Args)]
pub struct ColdReadOptions {
    /// MiB that each workload reads.
    #[arg(long, default_value_t = 1024)]
    pub mebibytes: u64,
    /// Rounds that are kept.
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Rounds before them. By their end nilas-server has filled its memory once: the machine hands out
    /// a page that was never touched much more slowly than it copies one.
    #[arg(long, default_value_t = 2)]
    pub warm_up_rounds: usize,
    /// Connections of the client that reads ranges.
    #[arg(long, default_value_t = 16)]
    pub connections: usize,
    /// Shards of nilas-server.
    #[arg(long, default_value_t = 1)]
    pub shards: usize,
    /// nilas-server's ring: auto, io_uring or epoll.
    #[arg(long, default_value = "io_uring")]
    pub ring: String,
    /// nilas-server's memory for data.
    #[arg(long, default_value = "2GiB")]
    pub data_bytes: String,
    /// The nilas-server to measure; built for release by default.
    #[arg(long)]
    pub server_binary: Option<PathBuf>,
    /// A folder in memory for the origin's files and the slice cache's.
    #[arg(long, default_value = "/dev/shm")]
    pub memory_folder: PathBuf,
    /// Links to measure, by their place: 0 is no latency, 1 is latency, 2 is latency and a rate.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1, 2])]
    pub links: Vec<usize>,
}

/// The highest ratio of time aimed at for `row`, if there is one.
pub fn aim(row: &TimeRow) -> Option<f64> {
    let [near, far, store] = Link::measured_names();
    if row.suite != SUITE || row.server != NILAS {
        return None;
    }
    match (&row.link, row.workload.as_str()) {
        (link, _) if *link == near => Some(1.0),
        (link, "ranges") if *link == far || *link == store => Some(1.0),
        (link, "object") if *link == far || *link == store => Some(0.5),
        _ => None,
    }
}

/// Runs the suite; one line a link and round goes to `progress`.
pub fn measure(options: &ColdReadOptions, progress: &mut dyn Write) -> Result<TimeOutcome> {
    let bytes = options.mebibytes * MIB;
    let workloads = [Workload::object(bytes), Workload::ranges(bytes, options.connections)];
    let ground = Ground::lay(&options.memory_folder, &workloads)?;
    let mut rows = Vec::new();
    for link in Link::measured(&options.links)? {
        rows.extend(measure_link(options, link, &ground, &workloads, progress)?);
    }
    let facts = [
        ("shards", options.shards.to_string()),
        ("ring", options.ring.clone()),
        ("data_bytes", options.data_bytes.clone()),
    ];
    let facts = facts.map(|(name, value)| (name.to_owned(), value)).to_vec();
    Ok(TimeOutcome { suite: SUITE, facts, rows })
}

fn measure_link(
    options: &ColdReadOptions,
    link: Link,
    ground: &Ground,
    workloads: &[Workload],
    progress: &mut dyn Write,
) -> Result<Vec<TimeRow>> {
    let mut contest = Contest::open(options, link, ground)?;
    let mut rows = Vec::new();
    for workload in workloads {
        for round in 0..options.warm_up_rounds + options.rounds {
            // A progress line that cannot be written is no reason to lose the run.
            let _ = writeln!(progress, "{}: {}, round {round}", link.name(), workload.name);
            contest.play(workload, round >= options.warm_up_rounds, progress)?;
        }
        rows.extend(contest.take_rows(workload));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time_row::tests::row;

    #[test]
    fn only_the_node_has_aims() {
        let [near, far, store] = Link::measured_names();
        assert_eq!(aim(&row(NILAS, &near, "object", 1.0)), Some(1.0));
        assert_eq!(aim(&row(NILAS, &far, "ranges", 1.0)), Some(1.0));
        assert_eq!(aim(&row(NILAS, &far, "object", 1.0)), Some(0.5));
        assert_eq!(aim(&row(NILAS, &store, "object", 1.0)), Some(0.5));
        assert_eq!(aim(&row(SLICE, &near, "object", 1.0)), None);
    }
}

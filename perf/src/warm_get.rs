//! The warm-GET suite: signed GETs of objects that `nilas-server` holds in memory, beside nginx
//! serving the same files unsigned. The aims are ratios of processor time in the same run.

use std::io::Write;
use std::path::PathBuf;

use crate::error::Result;
use crate::matrix::run_matrix;
use crate::record::Row;
use crate::server::{NodeOrigin, NodePlan, Server, object_folder, start_nginx, start_node};
use crate::suite::{Outcome, RunOptions, all_objects};

const SUITE: &str = "warm-get";
const NILAS: &str = "nilas";
const REFERENCE: &str = "nginx";

/// Highest ratio to nginx aimed at, by object size in bytes.
const AIMS: [(usize, f64); 2] = [(4096, 0.9), (65_536, 1.2)];

/// Options of the suite.
#[derive(Clone, Debug, clap::Args)]
pub struct WarmGetOptions {
    /// Shards of nilas-server and workers of nginx, each on a core of its own.
    #[arg(long, default_value_t = 1)]
    pub shards: usize,
    /// nilas-server's ring: auto, io_uring or epoll.
    #[arg(long, default_value = "io_uring")]
    pub ring: String,
    /// The nilas-server to measure; built for release by default.
    #[arg(long)]
    pub server_binary: Option<PathBuf>,
    /// Measure nginx alone, to see how quiet the machine is.
    #[arg(long)]
    pub nginx_alone: bool,
}

/// Runs the suite; one line a cell goes to `progress`.
pub fn measure(
    options: &WarmGetOptions,
    run: &RunOptions,
    progress: &mut dyn Write,
) -> Result<Outcome> {
    let layout = run.layout(options.shards)?;
    let classes = run.size_classes();
    let folder = object_folder(&all_objects(&classes))?;
    let mut servers: Vec<Server> = Vec::new();
    if !options.nginx_alone {
        servers.push(start_node(&NodePlan {
            binary: options.server_binary.clone(),
            origin: NodeOrigin::Folder(folder.path().to_owned()),
            cores: layout.server_cores.clone(),
            shards: options.shards,
            ring: options.ring.clone(),
            data_bytes: "1GiB".to_owned(),
            flags: Vec::new(),
            config: String::new(),
        })?);
    }
    servers.push(start_nginx(folder.path(), &layout.server_cores)?);
    let plan = run.plan(SUITE, REFERENCE, &layout);
    let rows = run_matrix(&plan, &servers, &classes, progress)?;
    let mut facts = run.facts(&layout);
    facts.push(("shards".to_owned(), options.shards.to_string()));
    facts.push(("ring".to_owned(), options.ring.clone()));
    Ok(Outcome { suite: SUITE, reference: REFERENCE, facts, rows })
}

/// The highest ratio aimed at for `row`, if there is one.
pub fn aim(row: &Row) -> Option<f64> {
    let measured_here = row.suite == SUITE && row.server == NILAS;
    let aims = AIMS.iter().filter(|(size_bytes, _)| measured_here && *size_bytes == row.size_bytes);
    aims.map(|(_, ratio)| *ratio).next()
}

/// The aims that `rows` miss, in words; `None` when every aim is met.
pub fn missed_aims(rows: &[Row]) -> Option<String> {
    let missed: Vec<String> = rows
        .iter()
        .filter_map(|row| {
            let aim = aim(row)?;
            let (size, connections, ratio) = (row.size_bytes, row.connections, row.cpu_ratio);
            (ratio > aim).then(|| {
                format!("{size} bytes at {connections} connections: {ratio:.2}, aim {aim:.2}")
            })
        })
        .collect();
    (!missed.is_empty()).then(|| format!("aims missed: {}", missed.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::row;

    #[test]
    fn only_the_node_has_aims() {
        assert_eq!(aim(&row("nilas", 4096, 0.5)), Some(0.9));
        assert_eq!(aim(&row("nilas", 1 << 20, 0.5)), None);
        assert_eq!(aim(&row("nginx", 4096, 1.0)), None);
    }

    #[test]
    fn a_missed_aim_is_named() {
        let rows = [row("nilas", 4096, 0.89), row("nilas", 65_536, 1.25), row("nginx", 4096, 1.0)];
        let missed = missed_aims(&rows).expect("one is missed");
        assert_eq!(missed, "aims missed: 65536 bytes at 16 connections: 1.25, aim 1.20");
        assert_eq!(missed_aims(&rows[..1]), None);
    }
}

//! The origin of cold reads as a server under measurement: this same program, started again. Read
//! directly, it is what every figure with latency is a ratio to.

use std::path::Path;

use super::{Launch, Server};
use crate::cold_read::Link;
use crate::error::Result;

/// Starts the origin on the files under `root`, behind `link`.
pub fn start_origin(root: &Path, link: Link, cores: &[usize]) -> Result<Server> {
    let mut launch = Launch::of_this_program("direct", "cold-origin", root)?;
    launch.command.arg("--latency-ms").arg(link.latency_ms.to_string());
    if let Some(rate) = link.connection_rate {
        launch.command.arg("--connection-rate").arg(rate.to_string());
    }
    Server::launch(launch, cores)
}

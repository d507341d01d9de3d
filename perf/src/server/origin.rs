//! The origin of cold reads as a server under measurement: this same program, started again. Read
//! directly, it is what every figure with latency is a ratio to.

use std::path::Path;
use std::process::Command;

use super::{Launch, Server, free_address, server_folder};
use crate::cold_read::Link;
use crate::error::{Doing, Result};
use crate::request::Access;

/// Starts the origin on the files under `root`, behind `link`.
pub fn start_origin(root: &Path, link: Link, cores: &[usize]) -> Result<Server> {
    let address = free_address()?;
    let program = std::env::current_exe().doing("finding this program")?;
    let mut command = Command::new(program);
    command.arg("cold-origin").arg("--address").arg(address.to_string());
    command.arg("--root").arg(root).arg("--latency-ms").arg(link.latency_ms.to_string());
    if let Some(rate) = link.connection_rate {
        command.arg("--connection-rate").arg(rate.to_string());
    }
    let launch = Launch {
        name: "direct",
        version: env!("CARGO_PKG_VERSION").to_owned(),
        address,
        access: Access::Open,
        admin: None,
        command,
        folder: server_folder()?,
    };
    Server::launch(launch, cores)
}

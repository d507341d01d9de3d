//! The origins of cold reads and of uploads as servers under measurement: this same program, started
//! again. Asked directly, they are what every figure with latency is a ratio to.

use std::path::Path;

use super::{Launch, Server};
use crate::error::Result;
use crate::link::Link;

/// Starts the origin on the files under `root`, behind `link`.
pub fn start_origin(root: &Path, link: Link, cores: &[usize]) -> Result<Server> {
    let mut launch = Launch::of_this_program("direct", "cold-origin")?;
    launch.command.arg("--root").arg(root);
    add_link(&mut launch, link);
    Server::launch(launch, cores)
}

/// Starts the origin that takes uploads, behind `link`; it may throw bodies away unread.
pub fn start_upload_origin(link: Link, discards: bool, cores: &[usize]) -> Result<Server> {
    let mut launch = Launch::of_this_program("direct", "upload-origin")?;
    add_link(&mut launch, link);
    launch.command.args(discards.then_some("--discard"));
    Server::launch(launch, cores)
}

fn add_link(launch: &mut Launch, link: Link) {
    launch.command.arg("--latency-ms").arg(link.latency_ms.to_string());
    if let Some(rate) = link.connection_rate {
        launch.command.arg("--connection-rate").arg(rate.to_string());
    }
}

//! A server of the bake-off: this same program, started again to serve on one runtime.
//! What it then does is in `bake_off`, one file a runtime.

use std::path::Path;

use super::{Launch, Server};
use crate::error::Result;

/// A runtime that the bake-off knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Runtime {
    /// The shards' own reactor, on io_uring.
    Reactor,
    /// The shards' own reactor, on epoll.
    ReactorEpoll,
    /// glommio, by its own API (feature `glommio`).
    Glommio,
    /// hyper on tokio's current-thread runtime (feature `hyper`).
    Hyper,
}

impl Runtime {
    /// Its name in tables and records.
    pub fn name(self) -> &'static str {
        match self {
            Runtime::Reactor => "reactor",
            Runtime::ReactorEpoll => "reactor-epoll",
            Runtime::Glommio => "glommio",
            Runtime::Hyper => "hyper",
        }
    }

    /// Those built into this program.
    pub fn built() -> Vec<Runtime> {
        let mut runtimes = vec![Runtime::Reactor, Runtime::ReactorEpoll];
        if cfg!(feature = "glommio") {
            runtimes.push(Runtime::Glommio);
        }
        if cfg!(feature = "hyper") {
            runtimes.push(Runtime::Hyper);
        }
        runtimes
    }
}

/// Starts the bake-off's server on `runtime`, serving what is under `root` from memory.
pub fn start_runtime(runtime: Runtime, root: &Path, core: usize) -> Result<Server> {
    let mut launch = Launch::of_this_program(runtime.name(), "bake-off-server")?;
    launch.command.arg("--root").arg(root).arg("--runtime").arg(runtime.name());
    Server::launch(launch, &[core])
}

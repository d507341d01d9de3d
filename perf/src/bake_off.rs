//! The runtime bake-off: one minimal GET server (parse, look up, answer from memory) on the
//! shards' reactor and on its rivals, so that the day a rival is better shows. nginx is the
//! reference, as everywhere. The rivals are features, off by default.

#[cfg(feature = "glommio")]
mod glommio;
#[cfg(feature = "hyper")]
mod hyper;
mod memory;
mod reactor;

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;

use nilas_shards::RingBody;

use crate::error::Result;
use crate::matrix::run_matrix;
use crate::server::{Runtime, object_folder, start_nginx, start_runtime};
use crate::suite::{Outcome, RunOptions, all_objects};

use memory::Memory;

const SUITE: &str = "bake-off";
const REFERENCE: &str = "nginx";

/// Measures `runtimes`, or all that are built in when there are none; one line a cell goes to
/// `progress`.
pub fn measure(
    runtimes: &[Runtime],
    run: &RunOptions,
    progress: &mut dyn Write,
) -> Result<Outcome> {
    let layout = run.layout(1)?;
    let classes = run.size_classes();
    let folder = object_folder(&all_objects(&classes))?;
    let built = Runtime::built();
    let runtimes = if runtimes.is_empty() { &built } else { runtimes };
    let mut servers = runtimes
        .iter()
        .map(|runtime| start_runtime(*runtime, folder.path(), layout.server_cores[0]))
        .collect::<Result<Vec<_>>>()?;
    servers.push(start_nginx(folder.path(), &layout.server_cores)?);
    let plan = run.plan(SUITE, REFERENCE, &layout);
    let rows = run_matrix(&plan, &servers, &classes, progress)?;
    Ok(Outcome { suite: SUITE, reference: REFERENCE, facts: run.facts(&layout), rows })
}

/// Serves the objects under `root` on `runtime`, until the process is ended.
pub fn serve_runtime(runtime: Runtime, address: SocketAddr, root: &Path) -> Result<()> {
    let memory = Memory::load(root)?;
    match runtime {
        Runtime::Reactor => reactor::serve(memory, address, RingBody::IoUring),
        Runtime::ReactorEpoll => reactor::serve(memory, address, RingBody::Epoll),
        #[cfg(feature = "glommio")]
        Runtime::Glommio => glommio::serve(memory, address),
        #[cfg(feature = "hyper")]
        Runtime::Hyper => hyper::serve(memory, address),
        #[cfg(not(all(feature = "glommio", feature = "hyper")))]
        other => Err(crate::error::Error::Failed(format!(
            "{} is not built in: run with --features {0}",
            other.name()
        ))),
    }
}

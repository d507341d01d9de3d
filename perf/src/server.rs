//! A server under measurement: started on its cores from a folder of its own, asked until it
//! listens, stopped by its process id. What each server is told is in `server/`, one file each.

mod metric;
mod nginx;
mod node;
mod origin;
mod runtime;

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nilas_base::{Clock, Monotonic};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::error::{Doing, Error, Result};
use crate::object::Object;
use crate::processor::{ProcessorTime, resident_bytes_max, spawn_on, written_bytes};
use crate::request::Access;

pub use nginx::{start_nginx, start_slice_cache};
pub use node::{NodeOrigin, NodePlan, start_node};
pub use origin::{start_origin, start_upload_origin};
pub use runtime::{Runtime, start_runtime};

/// A server that does not listen by then is given up.
const START_MAX: Duration = Duration::from_secs(30);
/// A server that has not ended by then, once told to, is killed.
const STOP_MAX: Duration = Duration::from_secs(5);
/// Between two looks at a server that starts or stops.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// Bytes of a server's own words that are shown when it fails.
const COMPLAINT_BYTES_MAX: usize = 2000;

/// A server that listens and is to be measured. Dropping it stops it.
#[derive(Debug)]
pub struct Server {
    /// Its name in tables and records.
    pub name: &'static str,
    /// Its version, as it says itself.
    pub version: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// How requests to it are made.
    pub access: Access,
    admin: Option<SocketAddr>,
    process: Child,
    clock: Clock,
    started_at: Monotonic,
    folder: TempDir,
    /// A further folder that goes with it.
    kept: Option<TempDir>,
}

/// What a server's file decides: everything but how a process is run.
#[derive(Debug)]
struct Launch {
    name: &'static str,
    version: String,
    address: SocketAddr,
    access: Access,
    /// Where it says how often it has asked its origin, if it has one.
    admin: Option<SocketAddr>,
    command: Command,
    folder: TempDir,
}

impl Launch {
    /// This same program, started again as a server at a free address: `name` in tables, `subcommand`
    /// on the command line.
    fn of_this_program(name: &'static str, subcommand: &str) -> Result<Launch> {
        let address = free_address()?;
        let program = std::env::current_exe().doing("finding this program")?;
        let mut command = Command::new(program);
        command.arg(subcommand).arg("--address").arg(address.to_string());
        Ok(Launch {
            name,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            address,
            access: Access::Open,
            admin: None,
            command,
            folder: server_folder()?,
        })
    }
}

impl Server {
    /// The processor time it has used by now.
    pub fn processor_time(&self) -> Result<ProcessorTime> {
        ProcessorTime::of_server(self.process.id())
    }

    /// The most memory that it has held, bytes: the kernel's high-water mark of its resident set.
    pub fn resident_bytes_max(&self) -> Result<u64> {
        resident_bytes_max(self.process.id())
    }

    /// Bytes that it has sent to disks by now, as the kernel counts them: its own counters are a second old at worst.
    pub fn disk_bytes(&self) -> Result<u64> {
        written_bytes(self.process.id())
    }

    /// How often it has asked its origin by now; a server that has none, never.
    pub fn origin_requests(&self) -> Result<u64> {
        self.admin.map_or(Ok(0), metric::origin_requests)
    }

    /// The sum of a family of its metrics.
    ///
    /// # Errors
    /// Where it does not tell of it, or has no admin port.
    pub fn gauge(&self, name: &str) -> Result<f64> {
        let admin = self.admin.ok_or_else(|| self.complaint("has no admin port"))?;
        metric::sum_of(admin, name)
    }

    /// Where its admin port is, if it has one.
    pub fn admin(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// How long ago its process was started.
    pub fn age(&self) -> Duration {
        self.clock.now().since(self.started_at)
    }

    /// Removes `folder` when the server has stopped.
    fn keep(&mut self, folder: TempDir) {
        self.kept = Some(folder);
    }

    fn launch(launch: Launch, cores: &[usize]) -> Result<Server> {
        let Launch { name, version, address, access, admin, mut command, folder } = launch;
        let said = File::create(said_path(folder.path())).doing("making a server's log file")?;
        let said_too = said.try_clone().doing("sharing a server's log file")?;
        command.stdin(Stdio::null()).stdout(said).stderr(said_too);
        let clock = Clock::system();
        let started_at = clock.now();
        let process = spawn_on(cores, &mut command)?;
        let mut server = Server {
            name,
            version,
            address,
            access,
            admin,
            process,
            clock,
            started_at,
            folder,
            kept: None,
        };
        server.wait_until_listening()?;
        Ok(server)
    }

    fn wait_until_listening(&mut self) -> Result<()> {
        let waiting = Waiting::for_at_most(START_MAX);
        loop {
            if let Some(status) = self.process.try_wait().doing("looking at a server")? {
                return Err(self.complaint(&format!("ended at start ({status})")));
            }
            if TcpStream::connect(self.address).is_ok() {
                return Ok(());
            }
            if !waiting.pause() {
                return Err(self.complaint(&format!("did not listen within {START_MAX:?}")));
            }
        }
    }

    fn complaint(&self, what: &str) -> Error {
        let said = std::fs::read_to_string(said_path(self.folder.path())).unwrap_or_default();
        let from = said.ceil_char_boundary(said.len().saturating_sub(COMPLAINT_BYTES_MAX));
        Error::Server {
            server: self.name.to_owned(),
            cause: format!("{what}; its last words:\n{}", &said[from..]),
        }
    }

    fn stop(&mut self) {
        let process = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        if let Some(process) = process {
            // It may have ended by itself: then there is nothing to tell.
            let _ = kill_process(process, Signal::TERM);
        }
        let waiting = Waiting::for_at_most(STOP_MAX);
        while matches!(self.process.try_wait(), Ok(None)) {
            if !waiting.pause() {
                let _ = self.process.kill();
                let _ = self.process.wait();
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Waiting {
    clock: Clock,
    until: Monotonic,
}

impl Waiting {
    fn for_at_most(duration: Duration) -> Waiting {
        let clock = Clock::system();
        let until = clock.now().after(duration);
        Waiting { clock, until }
    }

    /// Pauses; false, at once, when the time is over.
    fn pause(&self) -> bool {
        let in_time = self.clock.now() < self.until;
        if in_time {
            std::thread::park_timeout(LOOK_AGAIN);
        }
        in_time
    }
}

fn said_path(folder: &Path) -> PathBuf {
    folder.join("said.txt")
}

/// A loopback address whose port was free a moment ago.
pub(crate) fn free_address() -> Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .doing("looking for a free port")
}

/// A folder that a server's worker can enter even when it gives up being root.
fn server_folder() -> Result<TempDir> {
    use std::os::unix::fs::PermissionsExt;
    tempfile::Builder::new()
        .prefix("nilas-perf-")
        .permissions(std::fs::Permissions::from_mode(0o755))
        .tempdir()
        .doing("making a server's folder")
}

/// A folder with `objects` in it, for servers to stand on.
pub fn object_folder(objects: &[Object]) -> Result<TempDir> {
    let folder = server_folder()?;
    crate::object::write_objects(folder.path(), objects)?;
    Ok(folder)
}

//! The node: one pinned thread a shard, the control runtime beside them, and the doors between.
//! `assembly` makes a shard from its parts, on whatever ring; `thread` is the real one's life.

pub mod assembly;
mod thread;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nilas_base::{Clock, Rng, ShardId};
use nilas_shards::device::{DeviceError, OpenDevice};
use nilas_shards::{Doorbell, Exchange, RingBody, give_way};
use tokio::runtime::Runtime;

use crate::access::{self, CredentialSource};
use crate::audit::{AuditLog, AuditThread};
use crate::authority::AuthorityPort;
use crate::call::Call;
use crate::catalog::{CatalogEvent, Catalogs};
use crate::config::Config;
use crate::disk::{self, DevicePlace, ShardDisk};
use crate::inner::InnerReadPort;
use crate::metrics::Metrics;
use crate::origin::{self, LentKeys, Origin, OriginPort, OriginSettings, PortLimits};
use crate::purge::PurgePort;
use crate::socket_file::{SocketFile, SocketFileError};
use crate::startup;
use crate::tables::{Lender, Places, Tables, TablesPorts};
use crate::trace::Tracer;
use assembly::{Plan, clients_share};
use thread::Orders;

/// Threads of the control runtime: origin exchanges, the admin port.
const CONTROL_THREADS: usize = 2;

/// A running node.
pub struct Node {
    endpoint: SocketAddr,
    /// Its file goes when no more connections are taken.
    socket_file: Option<SocketFile>,
    ring: RingBody,
    metrics: Metrics,
    origin: Arc<dyn Origin>,
    catalogs: Catalogs,
    purges: PurgePort,
    inner_reads: InnerReadPort,
    tables: Tables,
    /// Ends after the shards, whose last records it writes.
    audit: Option<AuditThread>,
    tracer: Tracer,
    signals: Arc<Signals>,
    /// Locked until the node has gone.
    device: Option<OpenDevice>,
    shards: Vec<ShardThread>,
    drain_timeout: Duration,
    control: Control,
}

/// What the node tells its shards.
#[derive(Debug, Default)]
pub struct Signals {
    /// No new connections; those open end after the answer under way.
    draining: AtomicBool,
    /// The threads end.
    stopping: AtomicBool,
}

struct ShardThread {
    thread: JoinHandle<()>,
    doorbell: Doorbell,
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The origin cannot be set up.
    #[error("{0}")]
    Origin(#[from] origin::OriginSetupError),
    /// The system gives no random bytes.
    #[error("{0}")]
    Randomness(std::io::Error),
    /// A catalog cannot be set up.
    #[error("{0}")]
    Catalog(String),
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {address}: {cause}; choose another address with --listen, or stop what uses it"
    )]
    Listen {
        /// Which.
        address: SocketAddr,
        /// What the system says.
        cause: std::io::Error,
    },
    /// The Unix socket cannot be listened on.
    #[error("cannot listen on server.unix_socket {}: {cause}. {}", .path.display(), .cause.cure())]
    UnixSocket {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: SocketFileError,
    },
    /// A shard cannot be made.
    #[error("shard {shard} cannot start: {cause}")]
    Shard {
        /// Which.
        shard: u16,
        /// Why.
        cause: std::io::Error,
    },
    /// The audit file cannot be opened.
    #[error(
        "log.audit_file {} cannot be opened: {cause}; give this user the right to append to it, or \
         name another", .path.display()
    )]
    Audit {
        /// Which.
        path: PathBuf,
        /// What the system says.
        cause: std::io::Error,
    },
    /// The cache device cannot be used.
    #[error("{0}. {cure}", cure = .0.cure())]
    Device(#[from] DeviceError),
    /// The control runtime cannot be made.
    #[error("the control threads cannot start: {0}")]
    Control(std::io::Error),
}

/// Control threads share the shards' cores where there are no others.
fn give_way_to_shards() {
    if let Err(error) = give_way() {
        tracing::debug!(%error, "the scheduler does not let control threads give way");
    }
}

/// Starts to watch the catalogs, and to work on their tables, where any are configured.
fn watch_tables(
    config: &Config,
    runtime: &tokio::runtime::Handle,
    (clock, seed): (&Clock, u64),
    (ports, lent): (TablesPorts, LentKeys),
) -> Result<(Tables, Catalogs), StartError> {
    // Of the index of files: nobody is to choose its collisions.
    let secret = startup::random_bytes().map_err(StartError::Randomness)?;
    let chance = (clock, &secret);
    let tables = Tables::new(&config.tables, places(config), &ports, chance, runtime);
    let (settings, rng, telling) = (&config.catalogs, Rng::from_seed(seed), tables.clone());
    let mut lender = Lender::new(places(config), lent);
    let tell = move |event: &CatalogEvent| {
        // First, so that what is read because of this is asked for with it.
        lender.take(event);
        telling.take(event);
    };
    let catalogs =
        Catalogs::start(settings, runtime, clock, rng, tell).map_err(StartError::Catalog)?;
    if !config.catalogs.is_empty() {
        let _inside = runtime.enter();
        tables.start(&config.tables, ports, catalogs.clone());
    }
    Ok((tables, catalogs))
}

/// Where tables' locations lead to.
fn places(config: &Config) -> Places {
    let directory = match &config.origin.settings {
        OriginSettings::LocalDirectory(local) => std::path::absolute(&local.path).ok(),
        OriginSettings::S3(_) => None,
    };
    Places { buckets: config.buckets_allow.clone(), directory }
}

impl Node {
    /// Starts a node on the ring that the probe chose.
    pub fn start(config: &Config, ring: RingBody) -> Result<Node, StartError> {
        let clock = Clock::system();
        let control = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(CONTROL_THREADS)
            .thread_name("nilas-control")
            .on_thread_start(give_way_to_shards)
            .enable_all()
            .build()
            .map_err(StartError::Control)?;
        let lent = LentKeys::default();
        let origin = {
            let _inside = control.enter();
            origin::build(&config.origin.settings, &clock, &lent)?
        };
        let limits = PortLimits {
            in_flight_max: config.origin.in_flight_requests_max,
            bytes_max: config.limits.buffer_bytes - clients_share(config.limits.buffer_bytes),
            ..PortLimits::default()
        };
        let port = OriginPort::start(control.handle(), Arc::clone(&origin), limits);
        let (metrics, counters) = Metrics::new(usize::from(config.server.shard_count));
        // Two nodes that start together are not to do everything together.
        let seed = clock.wall().0 ^ u64::from(std::process::id()).rotate_left(40);
        let (purges, purge_queue) = PurgePort::pair();
        let (inner_reads, read_queue) = InnerReadPort::pair();
        let (authority, authority_queue) = AuthorityPort::pair();
        let ports = TablesPorts { reads: inner_reads.clone(), authority };
        let (tables, catalogs) =
            watch_tables(config, control.handle(), (&clock, seed), (ports, lent))?;
        let audit = audit(config, &clock)?;
        let log = audit.as_ref().map(|thread| thread.log().clone()).unwrap_or_default();
        let plan = Plan::new(config, origin.id(), clock, port).with_seed(seed).with_audit(log);
        if let Some(path) = config.auth.credentials_file.clone() {
            let source = CredentialSource::new(config);
            control.spawn(access::follow(plan.access().clone(), source, path));
        }
        let mut node = Node {
            endpoint: config.server.listen,
            socket_file: socket_file(config)?,
            ring,
            metrics,
            origin,
            catalogs,
            purges,
            inner_reads,
            tables,
            audit,
            tracer: plan.tracer().clone(),
            signals: Arc::default(),
            device: startup::open_cache_device(config)?,
            shards: Vec::new(),
            drain_timeout: config.server.drain_timeout,
            control: Control(Some(control)),
        };
        node.start_shards(
            config,
            &plan,
            counters,
            Orders { purges: purge_queue, reads: read_queue, authority: authority_queue },
        )?;
        if let Some(device) = &node.device {
            node.control().spawn(disk::watch(node.metrics.clone(), DevicePlace::of(device)));
        }
        Ok(node)
    }

    /// The first shard takes the address, port 0 included, and carries out orders; the others share
    /// the address.
    fn start_shards(
        &mut self,
        config: &Config,
        plan: &Plan,
        counters: Vec<crate::metrics::ShardCounters>,
        orders: Orders,
    ) -> Result<(), StartError> {
        let seats = Exchange::<Call>::mesh(counters.len());
        let mut orders = Some(orders);
        for (number, (seat, counters)) in seats.into_iter().zip(counters).enumerate() {
            let unix = self.socket_file.as_ref().map(SocketFile::share).transpose();
            let failed = |cause| StartError::Shard { shard: number as u16, cause };
            let start = thread::Start {
                id: ShardId(number as u16),
                seat,
                counters,
                disk: self.device.as_ref().map(|it| ShardDisk::of(it, ShardId(number as u16))),
                orders: orders.take(),
                plan: plan.clone(),
                ring: self.ring,
                core: config.server.pin.then_some(number),
                listen: self.endpoint,
                unix: unix.map_err(failed)?,
                signals: Arc::clone(&self.signals),
            };
            let (endpoint, shard) = thread::spawn(start)?;
            self.endpoint = endpoint;
            self.shards.push(shard);
        }
        Ok(())
    }

    /// The address of its S3 endpoint.
    pub fn endpoint(&self) -> SocketAddr {
        self.endpoint
    }

    /// The ring body that its shards run on.
    pub fn ring(&self) -> RingBody {
        self.ring
    }

    /// What its shards count.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Its origin.
    pub fn origin(&self) -> &Arc<dyn Origin> {
        &self.origin
    }

    /// The catalogs that it watches.
    pub fn catalogs(&self) -> &Catalogs {
        &self.catalogs
    }

    /// Its cache device, if it has one.
    pub fn device(&self) -> Option<&OpenDevice> {
        self.device.as_ref()
    }

    /// Where refused and administrative requests are recorded.
    pub fn audit(&self) -> AuditLog {
        self.audit.as_ref().map(|thread| thread.log().clone()).unwrap_or_default()
    }

    /// Tells what clients read.
    pub fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    /// Has things purged.
    pub fn purges(&self) -> &PurgePort {
        &self.purges
    }

    /// The tables of the watched catalogs.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Has objects read into the cache.
    pub fn inner_reads(&self) -> &InnerReadPort {
        &self.inner_reads
    }

    /// The runtime of everything but the shards.
    pub fn control(&self) -> &tokio::runtime::Handle {
        self.control.handle()
    }

    /// Stops: no new connections, those open end after their answer or after the drain time-out.
    pub fn stop(mut self) {
        // First of all: who comes now finds nobody, instead of one who will not serve.
        self.socket_file = None;
        self.signals.draining.store(true, Ordering::SeqCst);
        self.ring_all();
        let clock = Clock::system();
        let deadline = clock.now().after(self.drain_timeout);
        while self.connections() > 0 && clock.now() < deadline {
            // A sleep belongs to the runtime it is made in.
            self.control.handle().block_on(async { tokio::time::sleep(DRAIN_LOOK_INTERVAL).await });
        }
        self.end_shards();
    }

    fn end_shards(&mut self) {
        self.signals.stopping.store(true, Ordering::SeqCst);
        self.ring_all();
        for shard in self.shards.drain(..) {
            // A shard that panicked has said so; the others still end.
            let _ = shard.thread.join();
        }
    }

    fn connections(&self) -> u64 {
        use crate::metrics::Resource;
        let cells = self.metrics.shards().iter();
        cells.map(|cells| cells.used[Resource::Connections.index()].get()).sum()
    }

    fn ring_all(&self) {
        for shard in &self.shards {
            shard.doorbell.ring();
        }
    }
}

impl Drop for Node {
    /// One that was not stopped ends without draining.
    fn drop(&mut self) {
        self.end_shards();
    }
}

fn socket_file(config: &Config) -> Result<Option<SocketFile>, StartError> {
    let Some(socket) = &config.server.unix_socket else { return Ok(None) };
    let claimed = SocketFile::claim(socket);
    claimed.map(Some).map_err(|cause| StartError::UnixSocket { path: socket.path.clone(), cause })
}

/// Starts the audit's thread where a file is named.
fn audit(config: &Config, clock: &Clock) -> Result<Option<AuditThread>, StartError> {
    let Some(path) = &config.log.audit_file else { return Ok(None) };
    let started = AuditThread::start(path, clock.clone());
    started.map(Some).map_err(|cause| StartError::Audit { path: path.clone(), cause })
}

/// The control runtime, which nobody waits for at the end: what it still does is of no use then.
struct Control(Option<Runtime>);

impl Control {
    fn handle(&self) -> &tokio::runtime::Handle {
        self.0.as_ref().expect("present until dropped").handle()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// How often a draining node looks whether its connections have ended.
const DRAIN_LOOK_INTERVAL: Duration = Duration::from_millis(5);

//! The life of a real shard: its thread is pinned, its ring opened, its shard assembled; then it
//! turns until it is told to stop.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use nilas_base::ShardId;
use nilas_shards::{
    Doorbell, ExchangeSeat, Reactor, RingBody, RingOptions, go_first, open_ring, pin_to_core,
    usable_cores,
};

use super::assembly::{Plan, ShardParts};
use super::{ShardThread, Signals, StartError};
use crate::authority::{self, AuthorityQueue};
use crate::call::Call;
use crate::connection;
use crate::disk::{self, ShardDisk};
use crate::inner::{self, InnerReadQueue};
use crate::metrics::ShardCounters;
use crate::persist;
use crate::purge::{self, PurgeQueue};
use crate::shard::Shard;

/// What the control side has shards do.
pub(super) struct Orders {
    /// To be purged, on all shards.
    pub(super) purges: PurgeQueue,
    /// To be read, on whichever shards hold it.
    pub(super) reads: InnerReadQueue,
    /// What the catalogs say, for all shards.
    pub(super) authority: AuthorityQueue,
}

/// What a shard's thread is started with.
pub(super) struct Start {
    pub(super) id: ShardId,
    pub(super) seat: ExchangeSeat<Call>,
    pub(super) counters: ShardCounters,
    pub(super) disk: Option<ShardDisk>,
    /// What the control side has done, if that falls to it.
    pub(super) orders: Option<Orders>,
    pub(super) plan: Plan,
    pub(super) ring: RingBody,
    /// The number of its core among those usable; `None` for wherever the kernel likes.
    pub(super) core: Option<usize>,
    pub(super) listen: SocketAddr,
    /// The Unix socket that all shards accept from.
    pub(super) unix: Option<UnixListener>,
    pub(super) signals: Arc<Signals>,
}

/// Starts a shard's thread and waits until it listens; gives its address.
pub(super) fn spawn(start: Start) -> Result<(SocketAddr, ShardThread), StartError> {
    let (ready, started) = mpsc::channel();
    let shard = start.id.0;
    let failed = |cause| StartError::Shard { shard, cause };
    let thread = std::thread::Builder::new()
        .name(format!("nilas-shard-{shard}"))
        .spawn(move || live(start, &ready))
        .map_err(failed)?;
    let (endpoint, doorbell) = started
        .recv()
        .map_err(|_| failed(io::Error::other("its thread ended before it was ready")))??;
    Ok((endpoint, ShardThread { thread, doorbell }))
}

type Ready = Result<(SocketAddr, Doorbell), StartError>;

fn live(start: Start, ready: &mpsc::Sender<Ready>) {
    let signals = Arc::clone(&start.signals);
    let shard = match prepare(start) {
        Ok((shard, endpoint)) => {
            let told = ready.send(Ok((endpoint, shard.reactor.doorbell())));
            if told.is_err() {
                return;
            }
            shard
        }
        Err(error) => {
            // The starter hears of it; if it has gone, nobody needs to.
            let _ = ready.send(Err(error));
            return;
        }
    };
    shard.reactor.run(&signals.stopping);
    let flush = async {
        disk::close(&shard).await;
        persist::flush(&shard).await;
    };
    if shard.reactor.block_on(shard.reactor.timeout(FLUSH_TIME_MAX, flush)).is_err() {
        // What is not flushed is asked for again.
        tracing::warn!(
            shard = shard.id.0,
            "the cache device took too long to take the last records"
        );
    }
    shard.reactor.close();
}

/// How long a shard that ends waits until what it keeps is durable.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(5);

fn prepare(start: Start) -> Result<(Rc<Shard>, SocketAddr), StartError> {
    let shard = start.id.0;
    let failed = |cause| StartError::Shard { shard, cause };
    if let Some(number) = start.core {
        pin(number).map_err(failed)?;
    }
    // Where the control threads share its core, what clients wait for goes before what is fetched.
    if let Err(error) = go_first() {
        tracing::debug!(shard, %error, "the scheduler does not let this shard go first");
    }
    let ring = open_ring(start.ring, RingOptions::default()).map_err(failed)?;
    let reactor = Reactor::new(ring, start.plan.clock().clone());
    let listen = |cause| StartError::Listen { address: start.listen, cause };
    let listener = reactor.listen(start.listen).map_err(listen)?;
    let endpoint = listener.local_address().map_err(listen)?;
    let Start { id, seat, counters, disk, orders, plan, signals, unix, .. } = start;
    let unix = unix.map(|unix| reactor.listen_unix(unix)).transpose().map_err(failed)?;
    let parts = ShardParts { id, seat, counters, disk, reactor };
    let shard = plan.assemble(parts, listener).map_err(failed)?;
    if let Some(listener) = unix {
        shard.spawn(connection::accept(Rc::clone(&shard), listener));
    }
    if let Some(Orders { purges, reads, authority }) = orders {
        shard.spawn(purge::serve(Rc::clone(&shard), purges));
        shard.spawn(inner::serve(Rc::clone(&shard), reads));
        shard.spawn(authority::serve(Rc::clone(&shard), authority));
    }
    watch(&shard, signals);
    Ok((shard, endpoint))
}

/// More shards than cores share them in turn.
fn pin(number: usize) -> io::Result<()> {
    let cores = usable_cores()?;
    pin_to_core(cores[number % cores.len()])
}

/// Passes the node's signals on to the shard, at the turn that the doorbell begins.
fn watch(shard: &Rc<Shard>, signals: Arc<Signals>) {
    let watching = Rc::downgrade(shard);
    let is_seen = Cell::new(false);
    shard.reactor.add_hook(move || {
        let Some(shard) = watching.upgrade() else { return false };
        if is_seen.get() || !signals.draining.load(Ordering::Relaxed) {
            return false;
        }
        is_seen.set(true);
        shard.draining.set(true);
        shard.links.borrow().close_idle();
        true
    });
}

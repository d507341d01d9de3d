//! The admin port: health, readiness, metrics, statistics and the effective configuration, over
//! plain HTTP. It runs on a runtime of its own thread and reads what others count, so that however
//! it is flooded, the shards do not notice; purges go to them through a bounded queue.
//! `admin/lifecycle` holds the phase, `admin/listener` the bounds, `admin/route` the pages.

mod catalog;
mod hint;
mod lifecycle;
mod listener;
mod order;
mod purge;
mod reachability;
mod record;
mod route;
mod signature;
mod tables;
mod trace;

#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use nilas_base::Clock;
use tokio::net::TcpListener;

pub use lifecycle::{Lifecycle, Phase};
pub use listener::{CONNECTION_LIFETIME, CONNECTIONS_MAX};

use crate::audit::AuditLog;
use crate::catalog::Catalogs;
use crate::config::{Config, Secret};
use crate::metrics::Metrics;
use crate::origin::Origin;
use crate::purge::PurgePort;
use crate::tables::Tables;
use crate::trace::Tracer;
use listener::{BoundedListener, Peer};
use reachability::Reachability;

/// What the pages tell of a node that has started.
#[derive(Clone)]
pub struct NodeView {
    /// What the shards count.
    pub metrics: Metrics,
    /// Where the objects are.
    pub origin: Arc<dyn Origin>,
    /// The catalogs that are watched.
    pub catalogs: Catalogs,
    /// The tables of them.
    pub tables: Tables,
    /// Has things purged.
    pub purges: PurgePort,
    /// Where it is recorded who did.
    pub audit: AuditLog,
    /// Tells what is read.
    pub tracer: Tracer,
    /// The address of the S3 endpoint.
    pub endpoint: SocketAddr,
    /// The name of the ring body.
    pub ring: &'static str,
}

/// Everything that the pages are made from.
pub struct AdminState {
    lifecycle: Lifecycle,
    node: OnceLock<NodeView>,
    reachability: Reachability,
    config: serde_json::Value,
    token: Option<Secret>,
    start_time_s: u64,
    clock: Clock,
}

impl AdminState {
    /// The state of a node that starts now with `config`.
    pub fn new(config: &Config, lifecycle: Lifecycle, clock: Clock) -> Arc<AdminState> {
        Arc::new(AdminState {
            lifecycle,
            node: OnceLock::new(),
            config: config.effective_json(),
            token: config.server.admin_token.clone(),
            start_time_s: clock.wall().0 / 1000,
            reachability: Reachability::new(clock.clone()),
            clock,
        })
    }

    /// The node has started. Called once.
    pub fn show(&self, node: NodeView) {
        assert!(self.node.set(node).is_ok(), "a node starts once");
    }
}

/// A bound admin port; connections wait until it serves.
pub struct AdminPort {
    listener: TcpListener,
}

impl AdminPort {
    /// Listens on `address`; inside a tokio runtime.
    pub async fn bind(address: SocketAddr) -> io::Result<AdminPort> {
        Ok(AdminPort { listener: TcpListener::bind(address).await? })
    }

    /// The address, with the port that was taken where none was named.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the future is dropped.
    pub async fn serve(self, state: Arc<AdminState>) -> io::Result<()> {
        let pages = route::routes(state).into_make_service_with_connect_info::<Peer>();
        axum::serve(BoundedListener::new(self.listener), pages).await
    }
}

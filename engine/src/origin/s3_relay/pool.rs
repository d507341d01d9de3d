//! Idle connections to an origin. An origin closes a connection that was idle for long, sometimes
//! just as a request goes out on it: idle times here are shorter than the usual ones there, and what
//! cannot be asked twice takes a connection that was in use a moment ago, or a new one.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hyper::client::conn::http1::SendRequest;
use nilas_base::{Clock, Monotonic};

use super::connector::Connector;
use super::endpoint::Endpoint;
use super::upload::Upload;
use crate::origin::OriginError;

/// Idle connections that are kept.
const IDLE_CONNECTIONS_MAX: usize = 256;
/// How long one is kept. S3 closes after some 20 s, many proxies after 15 s or more.
const IDLE_TIME_MAX: Duration = Duration::from_secs(8);
/// How long a connection may have been idle that takes a request which cannot be asked twice.
const IDLE_TIME_UNREPEATABLE_MAX: Duration = Duration::from_millis(500);

/// A connection in use.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) sender: SendRequest<Upload>,
    pub(super) endpoint: Endpoint,
    /// Whether it has carried a request before.
    pub(super) is_reused: bool,
}

/// Idle connections, the most recently used last.
#[derive(Debug)]
pub(super) struct Pool {
    connector: Connector,
    clock: Clock,
    idle: Mutex<VecDeque<(Connection, Monotonic)>>,
}

impl Pool {
    pub(super) fn new(connector: Connector, clock: Clock) -> Pool {
        Pool { connector, clock, idle: Mutex::default() }
    }

    /// A connection to `endpoint`: an idle one, or a new one.
    pub(super) async fn take(
        &self,
        endpoint: &Endpoint,
        is_repeatable: bool,
    ) -> Result<Connection, OriginError> {
        match self.take_idle(endpoint, is_repeatable) {
            Some(connection) => Ok(connection),
            None => self.open(endpoint).await,
        }
    }

    /// A new connection.
    pub(super) async fn open(&self, endpoint: &Endpoint) -> Result<Connection, OriginError> {
        let sender = self.connector.connect(endpoint).await?;
        Ok(Connection { sender, endpoint: endpoint.clone(), is_reused: false })
    }

    fn take_idle(&self, endpoint: &Endpoint, is_repeatable: bool) -> Option<Connection> {
        let idle_max = if is_repeatable { IDLE_TIME_MAX } else { IDLE_TIME_UNREPEATABLE_MAX };
        let now = self.clock.now();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(connection, since)| {
            !connection.sender.is_closed() && now.since(*since) < IDLE_TIME_MAX
        });
        let fits = |(connection, since): &(Connection, Monotonic)| {
            connection.endpoint == *endpoint
                && connection.sender.is_ready()
                && now.since(*since) < idle_max
        };
        let at = idle.iter().rposition(fits)?;
        idle.remove(at).map(|(connection, _)| connection)
    }

    /// Connections that are idle now.
    #[cfg(test)]
    pub(super) fn idle_connections(&self) -> usize {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Takes back a connection whose answer has been read to its end.
    pub(super) async fn give_back(&self, mut connection: Connection) {
        // An error means that the origin closes it.
        if connection.sender.ready().await.is_err() {
            return;
        }
        connection.is_reused = true;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() == IDLE_CONNECTIONS_MAX {
            idle.pop_front();
        }
        idle.push_back((connection, self.clock.now()));
    }
}

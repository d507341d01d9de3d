//! The recorder: a transparent HTTP/1.1 proxy before an origin that keeps a record of every
//! request, so that tests count what reached the origin without asking the node. `Host` is passed
//! on as received: signatures made for the recorder's address verify at the origin.
//! It changes nothing but time: a fixed latency can be added before each request.

mod control;
mod ledger;
mod proxy;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;

pub use ledger::{Ledger, Record};

/// Where the recorder listens, and what stands behind it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Clients connect here; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The count is asked for here; port 0 takes a free one.
    pub control: SocketAddr,
    /// The origin.
    pub origin: SocketAddr,
    /// Added before each request is passed on.
    pub latency: Duration,
}

/// A recorder that listens but does not serve yet.
pub struct Recorder {
    clients: TcpListener,
    questions: TcpListener,
    origin: SocketAddr,
    ledger: Arc<Ledger>,
}

impl Recorder {
    /// Binds both listeners.
    pub async fn bind(settings: &Settings) -> io::Result<Recorder> {
        let ledger = Arc::new(Ledger::new(settings.latency));
        let clients = TcpListener::bind(settings.listen).await?;
        let questions = TcpListener::bind(settings.control).await?;
        Ok(Recorder { clients, questions, origin: settings.origin, ledger })
    }

    /// Where clients connect.
    pub fn listen_address(&self) -> io::Result<SocketAddr> {
        self.clients.local_addr()
    }

    /// Where the count is asked for.
    pub fn control_address(&self) -> io::Result<SocketAddr> {
        self.questions.local_addr()
    }

    /// Serves until a listener fails.
    pub async fn run(self) -> io::Result<()> {
        let control = control::serve(self.questions, Arc::clone(&self.ledger));
        let proxy = proxy::serve(self.clients, self.origin, self.ledger);
        tokio::try_join!(control, proxy).map(|_| ())
    }
}

#[cfg(test)]
mod tests;

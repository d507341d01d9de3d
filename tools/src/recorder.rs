//! The recorder: a transparent HTTP/1.1 proxy before an origin that keeps a record of every
//! request, so that tests count what reached the origin without asking the node. `Host` is passed
//! on as received: signatures made for the recorder's address verify at the origin.
//! It changes nothing by itself but time. Told to, it plays faults: `rule` says which there are and
//! how they are told, `script` which of them meets a request, `link` and `wire` play them.

mod control;
mod entry;
mod ledger;
mod link;
mod listener;
mod pattern;

mod rule;
mod script;
mod spoil;
mod wire;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;

pub use ledger::{Ledger, Record};
use listener::Door;
pub use rule::{BadRule, Rule};
use script::Script;

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
    /// The faults that are played from the start.
    pub faults: Vec<Rule>,
}

/// A recorder that listens but does not serve yet.
pub struct Recorder {
    door: Door,
    questions: TcpListener,
    origin: SocketAddr,
    shared: Shared,
}

/// What every connection of a recorder works with; clones share it.
#[derive(Clone)]
struct Shared {
    ledger: Arc<Ledger>,
    script: Arc<Script>,
}

impl Recorder {
    /// Binds both listeners.
    pub async fn bind(settings: &Settings) -> io::Result<Recorder> {
        let ledger = Arc::new(Ledger::new(settings.latency));
        let script = Arc::new(Script::new(settings.faults.clone()));
        let door = Door::hold(settings.listen)?;
        let questions = TcpListener::bind(settings.control).await?;
        Ok(Recorder { door, questions, origin: settings.origin, shared: Shared { ledger, script } })
    }

    /// Where clients connect.
    pub fn listen_address(&self) -> SocketAddr {
        self.door.address()
    }

    /// Where the count is asked for.
    pub fn control_address(&self) -> io::Result<SocketAddr> {
        self.questions.local_addr()
    }

    /// Serves until a listener fails.
    pub async fn run(self) -> io::Result<()> {
        let control = control::serve(self.questions, self.shared.clone());
        let clients = listener::serve(self.door, self.origin, self.shared);
        tokio::try_join!(control, clients).map(|_| ())
    }
}

#[cfg(test)]
mod tests;

//! A listener: connections by a repeating accept. Several shards listen on one address
//! (`SO_REUSEPORT`), or on one shared Unix socket, and the kernel spreads the connections over them.

use crate::endpoint::Endpoint;
use crate::inbox::{Inbox, Next};
use crate::operation::Keeper;
use crate::reactor::Reactor;
use crate::ring::Operation;
use crate::socket::Socket;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;

/// Connections that wait to be taken before the repeating accept pauses; more wait in the kernel.
const CONNECTIONS_ARRIVED_MAX: usize = 64;

/// Accepts connections on one address.
pub struct Listener {
    core: Rc<ListenerCore>,
    reactor: Reactor,
}

pub(crate) struct ListenerCore {
    endpoint: Endpoint,
    pub(crate) connections: Inbox<Endpoint>,
}

impl Listener {
    pub(crate) fn new(reactor: &Reactor, endpoint: Endpoint) -> Listener {
        let connections = Inbox::new(CONNECTIONS_ARRIVED_MAX);
        let core = Rc::new(ListenerCore { endpoint, connections });
        Listener { core, reactor: reactor.clone() }
    }

    /// The next connection. An error (out of descriptors, say) is one failed accept: the caller
    /// waits a little and asks again. Dropping the future loses nothing.
    pub async fn accept(&mut self) -> io::Result<Socket> {
        let endpoint = poll_fn(|context| match self.core.connections.next(context.waker()) {
            Next::Item(result) => Poll::Ready(result),
            Next::Wait => Poll::Pending,
            Next::Begin => {
                self.begin();
                Poll::Pending
            }
        })
        .await?;
        Ok(Socket::new(&self.reactor, endpoint))
    }

    /// The address it listens on, with the port that the system chose; a Unix socket has none.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.core.endpoint.local_address()
    }

    fn begin(&self) {
        let (listener, transport) = (self.core.endpoint.key(), self.core.endpoint.transport());
        let operation = Operation::Accept { listener, transport };
        let keeper = Keeper::Listener(Rc::clone(&self.core));
        let token = self.reactor.start_repeating(operation, keeper);
        self.core.connections.began(token);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(token) = self.core.connections.end() {
            self.reactor.cancel(token);
        }
    }
}

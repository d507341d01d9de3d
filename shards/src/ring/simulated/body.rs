//! A ring of a simulated world, and the endpoints it opens: thin handles on the network and the disks.
//! It decides nothing by itself; what happens, and when, is in `network` and `disk`.

use super::disk::Disks;
use super::network::{Network, Ready, Socket};
use super::silent_doorbell;
use super::stream::{Reader, Writer};
use crate::doorbell::Doorbell;
use crate::endpoint::{Endpoint, EndpointKey};
use crate::ring::{Completion, Operation, Outcome, Ring, RingBody, RingOptions, RingWait, Token};
use crate::sys::provided::BufferPool;
use std::cell::RefCell;
use std::fmt;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::unix::net::UnixListener;
use std::rc::{Rc, Weak};

pub(super) struct SimulatedRing {
    network: Rc<RefCell<Network>>,
    disks: Rc<RefCell<Disks>>,
    heads: Rc<BufferPool>,
    number: usize,
}

impl SimulatedRing {
    pub(super) fn new(network: &Rc<RefCell<Network>>, disks: &Rc<RefCell<Disks>>) -> SimulatedRing {
        let options = RingOptions::default();
        let heads = BufferPool::listed(options.head_buffers, options.head_buffer_bytes);
        let number = network.borrow_mut().add_ring(Rc::clone(&heads));
        let (network, disks) = (Rc::clone(network), Rc::clone(disks));
        SimulatedRing { network, disks, heads, number }
    }

    /// Its number in its world.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    fn endpoint(&self, key: EndpointKey) -> Endpoint {
        Endpoint::simulated(SimulatedEndpoint { network: Rc::downgrade(&self.network), key })
    }

    fn completion(&self, ready: Ready) -> Completion {
        match ready {
            Ready::Done(completion) => completion,
            Ready::Accepted { token, socket } => {
                let outcome = Outcome::Accepted(Ok(self.endpoint(socket)));
                Completion { token, outcome, more: true }
            }
            Ready::Connected { token, socket } => {
                let outcome = Outcome::Connected(Ok(self.endpoint(socket)));
                Completion { token, outcome, more: false }
            }
        }
    }
}

impl Ring for SimulatedRing {
    fn body(&self) -> RingBody {
        RingBody::Simulated
    }

    fn doorbell(&self) -> Doorbell {
        silent_doorbell()
    }

    fn listen(&mut self, address: SocketAddr) -> io::Result<Endpoint> {
        let (key, _) = self.network.borrow_mut().listen(self.number, address);
        Ok(self.endpoint(key))
    }

    fn listen_unix(&mut self, _: UnixListener) -> io::Result<Endpoint> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "the simulated world has no Unix sockets"))
    }

    fn start(&mut self, token: Token, operation: Operation) {
        let mut network = self.network.borrow_mut();
        network.trace.note(name(&operation), self.number as u64, u64::from(token.index));
        match operation {
            Operation::Accept { listener, .. } => network.accept(token, listener),
            Operation::Connect { address } => network.connect(self.number, token, address),
            Operation::ReceiveHeads { socket } => network.read(socket, Reader::Heads(token)),
            Operation::Receive { socket, buffer } => {
                network.read(socket, Reader::Once(token, buffer));
            }
            Operation::Send { socket, parts } => {
                #[cfg(feature = "mutations")]
                let parts = parts.freed_early_if_planted();
                network.write(socket, Writer { token, parts, sent_bytes: 0 });
            }
            Operation::ReadAt { .. } | Operation::WriteAt { .. } | Operation::Sync { .. } => {
                let mut disks = self.disks.borrow_mut();
                disks.start(&mut network, (self.number, token), operation);
            }
        }
    }

    fn cancel(&mut self, token: Token) {
        let mut network = self.network.borrow_mut();
        network.trace.note("cancel", self.number as u64, u64::from(token.index));
        if !self.disks.borrow_mut().cancel(&mut network, self.number, token) {
            network.cancel(self.number, token);
        }
    }

    fn turn(&mut self, wait: RingWait, completions: &mut Vec<Completion>) -> io::Result<()> {
        // A world never lets its rings sleep: one that wants to is closing.
        if wait != RingWait::No {
            let mut network = self.network.borrow_mut();
            network.end_connects(self.number);
            self.disks.borrow_mut().end_ring(&mut network, self.number);
        }
        // Not borrowed while completions are made: a dropped endpoint closes itself in the network.
        let ready = self.network.borrow_mut().take_ready(self.number);
        completions.extend(ready.into_iter().map(|ready| self.completion(ready)));
        Ok(())
    }

    fn has_completions(&mut self) -> bool {
        self.network.borrow().has_ready(self.number)
    }

    fn free_head_buffers(&self) -> usize {
        self.heads.free_count()
    }

    fn head_buffers_are_scarce(&self) -> bool {
        self.heads.is_scarce()
    }
}

impl Drop for SimulatedRing {
    fn drop(&mut self) {
        self.disks.borrow_mut().end_ring(&mut self.network.borrow_mut(), self.number);
    }
}

/// One end of a simulated connection, or a simulated listener; closed when dropped.
pub(crate) struct SimulatedEndpoint {
    /// Weak, since the network keeps completions that keep endpoints.
    network: Weak<RefCell<Network>>,
    key: EndpointKey,
}

impl SimulatedEndpoint {
    pub(crate) fn key(&self) -> EndpointKey {
        self.key
    }

    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        self.look(|socket| match socket {
            Socket::Listener(listener) => listener.address,
            Socket::Stream(stream) => stream.local,
        })
    }

    pub(crate) fn peer_address(&self) -> io::Result<SocketAddr> {
        self.look(|socket| match socket {
            Socket::Listener(listener) => listener.address,
            Socket::Stream(stream) => stream.peer,
        })
    }

    /// Bytes sent from here that were let into the other end's window.
    pub(crate) fn taken_bytes(&self) -> io::Result<u64> {
        self.look(|socket| match socket {
            Socket::Listener(_) => 0,
            Socket::Stream(stream) => stream.taken_bytes,
        })
    }

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let network = self.network.upgrade().ok_or(io::ErrorKind::NotConnected)?;
        let mut network = network.borrow_mut();
        if how != Shutdown::Read {
            network.shut(self.key);
        }
        if how != Shutdown::Write {
            network.end_reading(self.key);
        }
        Ok(())
    }

    fn look<T>(&self, look: impl FnOnce(&Socket) -> T) -> io::Result<T> {
        let network = self.network.upgrade().ok_or(io::ErrorKind::NotConnected)?;
        let network = network.borrow();
        network.socket(self.key).map(look).ok_or(io::ErrorKind::NotConnected.into())
    }
}

impl Drop for SimulatedEndpoint {
    fn drop(&mut self) {
        if let Some(network) = self.network.upgrade() {
            network.borrow_mut().close(self.key);
        }
    }
}

impl fmt::Debug for SimulatedEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimulatedEndpoint({})", self.key.0)
    }
}

fn name(operation: &Operation) -> &'static str {
    match operation {
        Operation::Accept { .. } => "start accept",
        Operation::Connect { .. } => "start connect",
        Operation::ReceiveHeads { .. } => "start heads",
        Operation::Receive { .. } => "start receive",
        Operation::Send { .. } => "start send",
        Operation::ReadAt { .. } => "start read",
        Operation::WriteAt { .. } => "start write",
        Operation::Sync { .. } => "start sync",
    }
}

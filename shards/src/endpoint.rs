//! One end of a connection, or a listener: what a ring opens and what closes itself when dropped.
//! Operations name it by its key and keep it open by a shared owner until they have completed.

use crate::ring::simulated::SimulatedEndpoint;
use crate::sys::{socket, unix};
use std::cell::Cell;
use std::fmt;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};

/// An open socket, closed when dropped.
#[derive(Debug)]
pub struct Endpoint(Kind);

#[derive(Debug)]
enum Kind {
    Stream(TcpStream),
    Listener(TcpListener),
    UnixStream(UnixStream, Cell<Taken>),
    UnixListener(UnixListener),
    Simulated(SimulatedEndpoint),
}

/// The number by which a ring knows an endpoint: a descriptor, or a simulated socket's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointKey(pub i32);

/// What a listener's connections are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP; each shard has a listener of its own.
    Tcp,
    /// Unix sockets; all shards share one listener.
    Unix,
}

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Somebody at an address.
    Address(SocketAddr),
    /// A process of this machine, over a Unix socket.
    Process {
        /// Its number; 0 where it is in another container.
        process: i32,
        /// The number of its user.
        user: u32,
    },
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Address(address) => address.fmt(formatter),
            Peer::Process { process, user } => {
                write!(formatter, "unix:pid={process},uid={user}")
            }
        }
    }
}

/// What the other end of a Unix socket has taken, as far as that can be seen.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    waiting_bytes: u64,
    counted_bytes: u64,
}

impl Endpoint {
    pub(crate) fn stream(stream: TcpStream) -> Endpoint {
        Endpoint(Kind::Stream(stream))
    }

    /// A connection that a listener of this transport has accepted.
    pub(crate) fn accepted(socket: OwnedFd, transport: Transport) -> Endpoint {
        Endpoint(match transport {
            Transport::Tcp => Kind::Stream(TcpStream::from(socket)),
            Transport::Unix => Kind::UnixStream(UnixStream::from(socket), Cell::default()),
        })
    }

    pub(crate) fn listener(listener: TcpListener) -> Endpoint {
        Endpoint(Kind::Listener(listener))
    }

    pub(crate) fn unix_listener(listener: UnixListener) -> Endpoint {
        Endpoint(Kind::UnixListener(listener))
    }

    pub(crate) fn simulated(endpoint: SimulatedEndpoint) -> Endpoint {
        Endpoint(Kind::Simulated(endpoint))
    }

    /// Its number, valid until it is dropped.
    pub fn key(&self) -> EndpointKey {
        match &self.0 {
            Kind::Stream(stream) => EndpointKey(stream.as_raw_fd()),
            Kind::Listener(listener) => EndpointKey(listener.as_raw_fd()),
            Kind::UnixStream(stream, _) => EndpointKey(stream.as_raw_fd()),
            Kind::UnixListener(listener) => EndpointKey(listener.as_raw_fd()),
            Kind::Simulated(endpoint) => endpoint.key(),
        }
    }

    /// What it carries, or what its connections do.
    pub fn transport(&self) -> Transport {
        match &self.0 {
            Kind::UnixStream(..) | Kind::UnixListener(_) => Transport::Unix,
            Kind::Stream(_) | Kind::Listener(_) | Kind::Simulated(_) => Transport::Tcp,
        }
    }

    /// This side's address; a Unix socket has none.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        match &self.0 {
            Kind::Stream(stream) => stream.local_addr(),
            Kind::Listener(listener) => listener.local_addr(),
            Kind::UnixStream(..) | Kind::UnixListener(_) => Err(io::ErrorKind::Unsupported.into()),
            Kind::Simulated(endpoint) => endpoint.local_address(),
        }
    }

    /// Who is at the other end.
    pub fn peer(&self) -> io::Result<Peer> {
        match &self.0 {
            Kind::Stream(stream) => stream.peer_addr().map(Peer::Address),
            Kind::UnixStream(stream, _) => {
                let (process, user) = unix::peer_process(stream.as_raw_fd())?;
                Ok(Peer::Process { process, user })
            }
            Kind::Listener(_) | Kind::UnixListener(_) => Err(io::ErrorKind::NotConnected.into()),
            Kind::Simulated(endpoint) => endpoint.peer_address().map(Peer::Address),
        }
    }

    /// Bytes that the other side has taken so far, over the connection's life. Of a Unix socket the kernel tells
    /// only what waits: each change of that between two looks counts as taken, since what waits grows only when
    /// the other side has made room, or a send has just begun.
    pub fn taken_bytes(&self) -> io::Result<u64> {
        match &self.0 {
            Kind::Stream(stream) => socket::acknowledged_bytes(stream.as_raw_fd()),
            Kind::UnixStream(stream, taken) => {
                let waiting_bytes = unix::waiting_bytes(stream.as_raw_fd())?;
                let Taken { waiting_bytes: before, counted_bytes } = taken.get();
                let counted_bytes = counted_bytes + waiting_bytes.abs_diff(before);
                taken.set(Taken { waiting_bytes, counted_bytes });
                Ok(counted_bytes)
            }
            Kind::Listener(_) | Kind::UnixListener(_) => Err(io::ErrorKind::NotConnected.into()),
            Kind::Simulated(endpoint) => endpoint.taken_bytes(),
        }
    }

    /// Ends a connection for a peer that takes nothing: operations in flight on it fail, and what
    /// it has not taken is thrown away; over a Unix socket, what waits there stays its to take.
    pub fn abort(&self) -> io::Result<()> {
        if let Kind::Stream(stream) = &self.0 {
            socket::reset_on_close(stream.as_raw_fd())?;
        }
        self.shutdown(Shutdown::Both)
    }

    /// Ends one direction of a connection, or both.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match &self.0 {
            Kind::Stream(stream) => stream.shutdown(how),
            Kind::UnixStream(stream, _) => stream.shutdown(how),
            Kind::Listener(_) | Kind::UnixListener(_) => Err(io::ErrorKind::NotConnected.into()),
            Kind::Simulated(endpoint) => endpoint.shutdown(how),
        }
    }
}

//! One end of a connection, or a listener: what a ring opens and what closes itself when dropped.
//! Operations name it by its key and keep it open by a shared owner until they have completed.

use crate::ring::simulated::SimulatedEndpoint;
use crate::sys::socket;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

/// An open socket, closed when dropped.
#[derive(Debug)]
pub struct Endpoint(Kind);

#[derive(Debug)]
enum Kind {
    Stream(TcpStream),
    Listener(TcpListener),
    Simulated(SimulatedEndpoint),
}

/// The number by which a ring knows an endpoint: a descriptor, or a simulated socket's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointKey(pub i32);

impl Endpoint {
    pub(crate) fn stream(stream: TcpStream) -> Endpoint {
        Endpoint(Kind::Stream(stream))
    }

    pub(crate) fn listener(listener: TcpListener) -> Endpoint {
        Endpoint(Kind::Listener(listener))
    }

    pub(crate) fn simulated(endpoint: SimulatedEndpoint) -> Endpoint {
        Endpoint(Kind::Simulated(endpoint))
    }

    /// Its number, valid until it is dropped.
    pub fn key(&self) -> EndpointKey {
        match &self.0 {
            Kind::Stream(stream) => EndpointKey(stream.as_raw_fd()),
            Kind::Listener(listener) => EndpointKey(listener.as_raw_fd()),
            Kind::Simulated(endpoint) => endpoint.key(),
        }
    }

    /// This side's address.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        match &self.0 {
            Kind::Stream(stream) => stream.local_addr(),
            Kind::Listener(listener) => listener.local_addr(),
            Kind::Simulated(endpoint) => endpoint.local_address(),
        }
    }

    /// The other side's address.
    pub fn peer_address(&self) -> io::Result<SocketAddr> {
        match &self.0 {
            Kind::Stream(stream) => stream.peer_addr(),
            Kind::Listener(_) => Err(io::ErrorKind::NotConnected.into()),
            Kind::Simulated(endpoint) => endpoint.peer_address(),
        }
    }

    /// Bytes that the other side has taken so far, over the connection's life.
    pub fn taken_bytes(&self) -> io::Result<u64> {
        match &self.0 {
            Kind::Stream(stream) => socket::acknowledged_bytes(stream.as_raw_fd()),
            Kind::Listener(_) => Err(io::ErrorKind::NotConnected.into()),
            Kind::Simulated(endpoint) => endpoint.taken_bytes(),
        }
    }

    /// Ends a connection for a peer that takes nothing: operations in flight on it fail, and what
    /// it has not taken is thrown away.
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
            Kind::Listener(_) => Err(io::ErrorKind::NotConnected.into()),
            Kind::Simulated(endpoint) => endpoint.shutdown(how),
        }
    }
}

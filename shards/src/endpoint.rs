//! One end of a connection, or a listener: what a ring opens and what closes itself when dropped.
//! Operations name it by its key and keep it open by a shared owner until they have completed.

use crate::ring::simulated::SimulatedEndpoint;
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

    /// Ends one direction of a connection, or both.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match &self.0 {
            Kind::Stream(stream) => stream.shutdown(how),
            Kind::Listener(_) => Err(io::ErrorKind::NotConnected.into()),
            Kind::Simulated(endpoint) => endpoint.shutdown(how),
        }
    }
}

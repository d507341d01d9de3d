//! The simulated body.

use crate::endpoint::EndpointKey;
use std::io;
use std::net::{Shutdown, SocketAddr};

/// One end of a simulated connection.
#[derive(Debug)]
pub(crate) struct SimulatedEndpoint(EndpointKey);

impl SimulatedEndpoint {
    pub(crate) fn key(&self) -> EndpointKey {
        self.0
    }
    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        Err(io::ErrorKind::Unsupported.into())
    }
    pub(crate) fn peer_address(&self) -> io::Result<SocketAddr> {
        Err(io::ErrorKind::Unsupported.into())
    }
    pub(crate) fn shutdown(&self, _how: Shutdown) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

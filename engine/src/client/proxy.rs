//! The PROXY header that a balancer writes before its client's first byte. A connection that owes one and does not
//! begin with it, whole and in time, is closed without an answer: whatever it sends is no request of anybody.

use nilas_net::proxy::{ProxyParsed, parse_proxy};
use nilas_shards::{Peer, Socket, Transport};

use super::Client;
use crate::config::ProxyTrust;
use crate::metrics::Failure;

/// Whether a connection may come from where it comes from.
pub fn is_trusted(trust: Option<&ProxyTrust>, socket: &Socket) -> bool {
    let Some(trust) = trust.filter(|trust| !trust.networks.is_empty()) else { return true };
    if socket.transport() == Transport::Unix {
        return true;
    }
    // Of a connection that was reset already nobody can tell, nor needs to.
    let Ok(Peer::Address(peer)) = socket.peer() else { return false };
    trust.networks.iter().any(|network| network.contains(peer.ip()))
}

impl Client {
    /// Receives the header, where this connection owes one; false where it did not come.
    pub async fn receive_proxy_header(&mut self) -> bool {
        let is_tcp = self.link.socket.transport() == Transport::Tcp;
        if self.shard.settings.proxy.is_none() || !is_tcp {
            return true;
        }
        match self.proxy_header().await {
            Ok(()) => true,
            Err(failure) => {
                if let Some(failure) = failure {
                    self.shard.counters.failure(failure);
                }
                false
            }
        }
    }

    /// The error is what is to be counted; a connection that is closed before its header is whole, as a health
    /// check's may be, is no failure.
    async fn proxy_header(&mut self) -> Result<(), Option<Failure>> {
        let mut bytes = Vec::new();
        loop {
            match parse_proxy(&bytes) {
                Ok(ProxyParsed::Whole { source, length }) => {
                    self.peer = source.map(Peer::Address).or(self.peer);
                    self.head_deadline = None;
                    self.put_back(&bytes, length);
                    return Ok(());
                }
                Ok(ProxyParsed::Partial) => {}
                Err(_) => return Err(Some(Failure::ProxyHeader)),
            }
            // From the accept on: a balancer has the header at hand when it connects.
            let limit = self.time_for_head();
            match self.receive(limit, &mut bytes).await {
                Some(true) => {}
                Some(false) => return Err(None),
                None => return Err(Some(Failure::ClientTimeout)),
            }
        }
    }
}

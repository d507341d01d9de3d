//! One client's connection: heads come in, whole and pipelined, and answers go out. What follows a
//! head is read by `body`. Every wait for the client has a time-out with a name.

pub mod body;
mod link;
mod proxy;

use std::io;
use std::net::Shutdown;
use std::rc::Rc;
use std::time::Duration;

use nilas_base::Monotonic;
use nilas_net::head::HEAD_BYTES_MAX;
use nilas_shards::{Buffer, Parts, Peer, Received, Socket};

use crate::access::Account;
use crate::metrics::Failure;
use crate::settings::ClientLimits;
use crate::shard::Shard;

pub use link::{Link, Links, Scarce, SendError};
pub use proxy::is_trusted;

/// Memory for heads that a connection keeps from one request to the next.
const HEAD_BYTES_KEPT_MAX: usize = 8 << 10;

/// Bytes of a refused request's body that are read and thrown away, so that the client reads the
/// answer instead of a reset.
const LINGER_BYTES_MAX: usize = 1 << 20;
/// How long that may take.
const LINGER_MAX: Duration = Duration::from_secs(2);

/// A connection, and the bytes that came after what was read so far.
pub struct Client {
    shard: Rc<Shard>,
    link: Rc<Link>,
    /// Received and not yet consumed.
    ahead: Vec<u8>,
    /// An empty vector that keeps its memory for the next head.
    spare: Vec<u8>,
    /// When the head that is being received must be whole; set with its first byte.
    head_deadline: Option<Monotonic>,
    /// Who pays for the bytes of the request under way.
    account: Option<Account>,
    /// Where it comes from, if that is to be recorded.
    peer: Option<Peer>,
}

/// Why no head came.
#[derive(Debug, PartialEq, Eq)]
pub enum NoHead {
    /// The client closed the connection, or it broke, between two requests.
    Gone,
    /// The client was silent for too long between two requests.
    Idle,
    /// It was too slow within a head.
    Slow,
}

impl Client {
    /// A client on a fresh connection.
    pub fn new(shard: Rc<Shard>, socket: Socket) -> Client {
        // Asked at once: of a connection that was reset nobody can tell any more.
        let peer = shard.audit.is_on().then(|| socket.peer().ok()).flatten();
        let link = Rc::new(Link::new(socket));
        shard.links.borrow_mut().add(&link);
        Client {
            shard,
            link,
            ahead: Vec::new(),
            spare: Vec::new(),
            head_deadline: None,
            account: None,
            peer,
        }
    }

    /// Where it comes from, for a record.
    pub fn peer_text(&self) -> String {
        self.peer.map(|peer| peer.to_string()).unwrap_or_default()
    }

    /// Who pays for the bytes of the request under way, if anybody does.
    pub fn set_account(&mut self, account: Option<Account>) {
        self.account = account;
    }

    /// Pays for bytes that pass.
    pub fn pay(&self, bytes: u64) {
        if let Some(account) = &self.account {
            account.pay(bytes, self.shard.reactor.clock().now());
        }
    }

    fn limits(&self) -> &ClientLimits {
        &self.shard.settings.client
    }

    /// Takes what has been received and not consumed: the beginning of the next head.
    pub fn take_ahead(&mut self) -> Vec<u8> {
        self.head_deadline = None;
        std::mem::replace(&mut self.ahead, std::mem::take(&mut self.spare))
    }

    /// Gives back the bytes that held a head, with what follows it from `consumed` on.
    pub fn put_back(&mut self, bytes: &[u8], consumed: usize) {
        debug_assert!(self.ahead.is_empty(), "nothing is received while a head is parsed");
        self.ahead.extend_from_slice(&bytes[consumed..]);
    }

    /// Keeps a head's memory for the next one.
    pub fn recycle(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        bytes.shrink_to(HEAD_BYTES_KEPT_MAX);
        self.spare = bytes;
    }

    /// Receives more bytes of a head that is not whole yet.
    pub async fn receive_more(&mut self, bytes: &mut Vec<u8>) -> Result<(), NoHead> {
        debug_assert!(bytes.len() <= HEAD_BYTES_MAX, "the parser refuses longer heads");
        let (limit, expired) = match bytes.is_empty() {
            true => (self.limits().keep_alive_idle, NoHead::Idle),
            false => (self.time_for_head(), NoHead::Slow),
        };
        match self.receive(limit, bytes).await {
            Some(true) => Ok(()),
            Some(false) => Err(NoHead::Gone),
            None => Err(expired),
        }
    }

    /// Receives what comes next. False where nothing more will come; `None` where nothing did in time.
    async fn receive(&self, limit: Duration, bytes: &mut Vec<u8>) -> Option<bool> {
        self.link.is_idle.set(bytes.is_empty());
        let receiving = self.link.socket.receive_head();
        let received = self.shard.reactor.timeout(limit, receiving).await;
        self.link.is_idle.set(false);
        match received {
            Ok(Ok(received)) => {
                bytes.extend_from_slice(&received);
                Some(!received.is_empty())
            }
            Ok(Err(_)) => Some(false),
            Err(_) => None,
        }
    }

    /// What is left of the time for a head: each further byte gains none.
    fn time_for_head(&mut self) -> Duration {
        let now = self.shard.reactor.clock().now();
        let whole = self.limits().header_timeout;
        self.head_deadline.get_or_insert_with(|| now.after(whole)).since(now)
    }

    /// Sends one answer's next parts, all of them or an error. A client that takes none of them for
    /// too long is an error too.
    pub async fn send(&self, parts: Parts) -> Result<(), SendError> {
        self.pay(parts.len() as u64);
        let sent = self.link.send(&self.shard.reactor, self.limits(), parts).await;
        if let Err(SendError::TimedOut) = &sent {
            self.shard.counters.failure(Failure::ClientTimeout);
        }
        sent
    }

    /// Notes what the next send will keep from others.
    pub fn keep_ahead(&self, scarce: Scarce) {
        self.link.keep_ahead(scarce);
    }

    /// An empty send.
    pub fn parts(&self) -> Parts {
        self.shard.reactor.parts()
    }

    async fn pause_heads(&mut self) -> Vec<Received> {
        self.link.socket.pause_heads().await
    }

    async fn receive_into(&mut self, buffer: Buffer) -> (io::Result<usize>, Buffer) {
        self.link.socket.receive_into(buffer).await
    }

    /// Closes the connection so that the client can still read the answer that was sent: the
    /// sending side first, the receiving side when the client has closed its own, or has had time.
    pub async fn linger(self) {
        if self.link.socket.shutdown(Shutdown::Write).is_err() {
            return;
        }
        let reactor = self.shard.reactor.clone();
        let _ = reactor
            .timeout(LINGER_MAX, async {
                let mut dropped_bytes = 0;
                while dropped_bytes < LINGER_BYTES_MAX {
                    // As heads, since a sized receive may have been given up in the middle.
                    match self.link.socket.receive_head().await {
                        Ok(received) if !received.is_empty() => dropped_bytes += received.len(),
                        _ => break,
                    }
                }
            })
            .await;
    }
}

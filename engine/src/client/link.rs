//! A connection as its shard knows it: whether it is idle, what a send under way keeps from others,
//! and since when its client has taken nothing. Who closes the longest-stalled one is `relief`.

use std::cell::Cell;
use std::io;
use std::net::Shutdown;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::time::Duration;

use nilas_base::{Monotonic, ShardId};
use nilas_shards::{Parts, Reactor, Socket};

use crate::mapping::StoreClass;
use crate::metrics::Failure;
use crate::settings::ClientLimits;

/// What a client must take of a send to be one that goes on: fewer bytes are none.
const PROGRESS_BYTES_MIN: u64 = 4 << 10;

/// Looks at a slow send within each limit on it; a limit is kept to one part in so many.
const LOOKS_A_LIMIT: u32 = 4;

/// Something that connections keep from one another while they send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scarce {
    /// Leases on a shard's store.
    Leases {
        /// Whose.
        owner: ShardId,
        /// Which store.
        class: StoreClass,
    },
    /// Memory for bytes on their way, of the connection's own shard.
    Buffers,
}

/// A connection as its shard knows it.
pub struct Link {
    pub(super) socket: Socket,
    pub(super) is_idle: Cell<bool>,
    /// What the send under way keeps.
    sending: Cell<Option<Scarce>>,
    /// What was taken for the next one.
    ahead: Cell<Option<Scarce>>,
    /// The last progress that was seen of the send under way.
    progress: Cell<Option<Progress>>,
    is_cut: Cell<bool>,
}

#[derive(Clone, Copy)]
struct Progress {
    at: Monotonic,
    /// As of then; `None` before the first look.
    taken_bytes: Option<u64>,
}

/// Why a send did not end well.
#[derive(Debug)]
pub enum SendError {
    /// The connection is lost.
    Gone,
    /// The client took nothing for too long, which has been counted.
    TimedOut,
    /// It was closed for the sake of others, which has been counted.
    Cut,
}

impl SendError {
    /// What is still to be counted of it.
    pub fn failure(&self) -> Option<Failure> {
        match self {
            SendError::Gone => Some(Failure::ClientGone),
            SendError::TimedOut | SendError::Cut => None,
        }
    }
}

impl Link {
    pub(super) fn new(socket: Socket) -> Link {
        Link {
            socket,
            is_idle: Cell::new(true),
            sending: Cell::default(),
            ahead: Cell::default(),
            progress: Cell::default(),
            is_cut: Cell::default(),
        }
    }

    /// Ends the connection if it is between two requests.
    pub fn close_if_idle(&self) {
        if self.is_idle.get() {
            // One that the client has closed already is as good as closed.
            let _ = self.socket.shutdown(Shutdown::Both);
        }
    }

    /// Notes what the next send will keep.
    pub fn keep_ahead(&self, scarce: Scarce) {
        self.ahead.set(Some(scarce));
    }

    /// Sends parts as long as the client takes some of them.
    pub(super) async fn send(
        &self,
        reactor: &Reactor,
        limits: &ClientLimits,
        parts: Parts,
    ) -> Result<(), SendError> {
        let shortest = limits.send_idle_timeout.min(limits.send_stall_max);
        let sending = Sending::begin(self, reactor.clock().now());
        let mut sent = pin!(self.socket.send(parts));
        loop {
            match reactor.timeout(shortest / LOOKS_A_LIMIT, sent.as_mut()).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(_)) if self.is_cut.get() => return Err(SendError::Cut),
                Ok(Err(_)) => return Err(SendError::Gone),
                Err(_) => {
                    let now = reactor.clock().now();
                    if sending.0.stalled_for(now) >= limits.send_idle_timeout {
                        return Err(SendError::TimedOut);
                    }
                }
            }
        }
    }

    /// For how long the client has taken nothing of the send under way; zero without one.
    fn stalled_for(&self, now: Monotonic) -> Duration {
        let Some(seen) = self.progress.get() else { return Duration::ZERO };
        // A body that cannot tell shows no progress: the whole send is within the limit then.
        let taken_bytes = self.socket.taken_bytes().ok();
        let goes_on = match (seen.taken_bytes, taken_bytes) {
            (Some(seen), Some(taken)) => taken >= seen + PROGRESS_BYTES_MIN,
            _ => false,
        };
        if goes_on {
            self.progress.set(Some(Progress { at: now, taken_bytes }));
            return Duration::ZERO;
        }
        if seen.taken_bytes.is_none() {
            self.progress.set(Some(Progress { at: seen.at, taken_bytes }));
        }
        now.since(seen.at)
    }

    fn keeps(&self, scarce: Scarce) -> bool {
        self.sending.get() == Some(scarce)
            || self.progress.get().is_some() && self.ahead.get() == Some(scarce)
    }

    /// Closes the connection under its send, whose memory comes back with its completion.
    fn cut(&self) {
        self.is_cut.set(true);
        // One that the client has closed already is as good as closed.
        let _: io::Result<()> = self.socket.abort();
    }
}

/// A send under way.
struct Sending<'a>(&'a Link);

impl Sending<'_> {
    fn begin(link: &Link, now: Monotonic) -> Sending<'_> {
        link.sending.set(link.ahead.take());
        link.progress.set(Some(Progress { at: now, taken_bytes: None }));
        Sending(link)
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.0.sending.set(None);
        self.0.progress.set(None);
    }
}

/// The connections of one shard.
#[derive(Default)]
pub struct Links {
    links: Vec<Weak<Link>>,
    added_since_sweep: usize,
}

impl Links {
    pub(super) fn add(&mut self, link: &Rc<Link>) {
        self.added_since_sweep += 1;
        if self.added_since_sweep > self.links.len() / 2 + 64 {
            self.links.retain(|link| link.strong_count() > 0);
            self.added_since_sweep = 0;
        }
        self.links.push(Rc::downgrade(link));
    }

    /// Ends those that are between two requests.
    pub fn close_idle(&self) {
        for link in self.links.iter().filter_map(Weak::upgrade) {
            link.close_if_idle();
        }
    }

    /// For how long the longest-stalled of those that keep `scarce` has stalled.
    pub fn longest_stall(&self, scarce: Scarce, now: Monotonic) -> Duration {
        self.longest_stalled(scarce, now).map_or(Duration::ZERO, |(stall, _)| stall)
    }

    /// Closes the longest-stalled of those that keep `scarce`, if that is for `stall_min` or more.
    pub fn cut_longest_stalled(&self, scarce: Scarce, now: Monotonic, stall_min: Duration) -> bool {
        match self.longest_stalled(scarce, now) {
            Some((stall, link)) if stall >= stall_min => {
                link.cut();
                true
            }
            _ => false,
        }
    }

    fn longest_stalled(&self, scarce: Scarce, now: Monotonic) -> Option<(Duration, Rc<Link>)> {
        let links = self.links.iter().filter_map(Weak::upgrade);
        let keepers = links.filter(|link| link.keeps(scarce) && !link.is_cut.get());
        let stalls = keepers.map(|link| (link.stalled_for(now), link));
        // The first of equals: the one that has been here longest.
        stalls.reduce(|longest, other| if other.0 > longest.0 { other } else { longest })
    }
}

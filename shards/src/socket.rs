//! A connection: heads by a repeating receive into the ring's buffers, bodies by sized receives into
//! the caller's, answers by one vectored send. Dropping it is safe at any time; it is closed when the
//! kernel has done with its last operation.

use crate::buffer::Buffer;
use crate::endpoint::{Endpoint, Peer, Transport};
use crate::inbox::{Inbox, Next};
use crate::operation::Keeper;
use crate::parts::Parts;
use crate::reactor::Reactor;
use crate::received::Received;
use crate::ring::{Operation, Outcome};
use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::rc::Rc;
use std::task::Poll;

/// Receives of one socket that wait to be read before the repeating receive pauses. Four hold 32 KiB
/// of pipelined heads, and a sender that is not read takes no more of the ring's buffers.
const HEADS_ARRIVED_MAX: usize = 4;

/// One connection, on the reactor that accepted or opened it.
pub struct Socket {
    core: Rc<SocketCore>,
    reactor: Reactor,
}

pub(crate) struct SocketCore {
    endpoint: Endpoint,
    pub(crate) heads: Inbox<Received>,
    sending: Cell<Direction>,
    receiving: Cell<Direction>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Direction {
    #[default]
    Idle,
    Busy,
    Torn,
}

impl Socket {
    pub(crate) fn new(reactor: &Reactor, endpoint: Endpoint) -> Socket {
        let heads = Inbox::new(HEADS_ARRIVED_MAX);
        let (sending, receiving) = Default::default();
        let core = Rc::new(SocketCore { endpoint, heads, sending, receiving });
        Socket { core, reactor: reactor.clone() }
    }

    /// The next received bytes, whole heads or not; none at the peer's end. Dropping the future
    /// loses nothing. The bytes hold one of the ring's few buffers: read them and let them go.
    pub async fn receive_head(&self) -> io::Result<Received> {
        poll_fn(|context| match self.core.heads.next(context.waker()) {
            Next::Item(result) => Poll::Ready(result),
            Next::Wait => Poll::Pending,
            Next::Begin => {
                self.begin_heads();
                Poll::Pending
            }
        })
        .await
    }

    /// Ends the repeating receive, before a sized one, and returns what it had received already: the
    /// first bytes of a body that followed its head. The next `receive_head` begins it again.
    pub async fn pause_heads(&self) -> Vec<Received> {
        if let Some(token) = self.core.heads.end() {
            self.reactor.cancel(token);
        }
        poll_fn(|context| {
            if self.core.heads.has_ended(context.waker()) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let mut arrived = self.core.heads.take_arrived();
        arrived.retain(|received| !received.is_empty());
        arrived
    }

    /// One receive into the buffer's room; a count of zero is the peer's end. Heads must be paused.
    /// A dropped future may have taken bytes from the connection: it can only be closed then.
    pub async fn receive_into(&self, buffer: Buffer) -> (io::Result<usize>, Buffer) {
        if buffer.room() == 0 {
            return (Ok(0), buffer);
        }
        assert!(self.core.heads.is_idle(), "heads are paused before a sized receive");
        let claim = match Claim::of(&self.core.receiving) {
            Ok(claim) => claim,
            Err(error) => return (Err(error), buffer),
        };
        let operation = Operation::Receive { socket: self.core.endpoint.key(), buffer };
        match self.operate(operation).await {
            Outcome::Received(Ok(count), buffer) => {
                claim.release();
                (Ok(count), buffer)
            }
            Outcome::Received(Err(error), buffer) => (Err(error), buffer),
            other => unreachable!("a receive gives received bytes: {other:?}"),
        }
    }

    /// Sends all parts in one vectored send and returns their length, or fails. A dropped future may
    /// have sent some of them: every later send fails then.
    pub async fn send(&self, parts: Parts) -> io::Result<usize> {
        if parts.is_empty() {
            return Ok(0);
        }
        let claim = Claim::of(&self.core.sending)?;
        let operation = Operation::Send { socket: self.core.endpoint.key(), parts };
        match self.operate(operation).await {
            Outcome::Sent(Ok(count), _) => {
                claim.release();
                Ok(count)
            }
            Outcome::Sent(Err(error), _) => Err(error),
            other => unreachable!("a send gives sent parts: {other:?}"),
        }
    }

    /// Who is at the other end.
    pub fn peer(&self) -> io::Result<Peer> {
        self.core.endpoint.peer()
    }

    /// What it goes by.
    pub fn transport(&self) -> Transport {
        self.core.endpoint.transport()
    }

    /// This side's address; a Unix socket has none.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.core.endpoint.local_address()
    }

    /// Bytes that the peer has taken so far, over the connection's life: how a send that goes on is
    /// told from one that stands still. What waits in this side's kernel does not count.
    pub fn taken_bytes(&self) -> io::Result<u64> {
        self.core.endpoint.taken_bytes()
    }

    /// Ends the connection at once, whatever the peer has not taken. A send in flight fails; its
    /// parts are given back with its completion, as always.
    pub fn abort(&self) -> io::Result<()> {
        self.core.endpoint.abort()
    }

    /// Ends one direction, or both; operations in flight on it end too.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.core.endpoint.shutdown(how)
    }

    /// The reactor it lives on.
    pub fn reactor(&self) -> &Reactor {
        &self.reactor
    }

    fn begin_heads(&self) {
        let operation = Operation::ReceiveHeads { socket: self.core.endpoint.key() };
        let token = self.reactor.start_repeating(operation, Keeper::Socket(Rc::clone(&self.core)));
        self.core.heads.began(token);
    }

    fn operate(&self, operation: Operation) -> impl Future<Output = Outcome> + use<> {
        self.reactor.operate(operation, Keeper::Socket(Rc::clone(&self.core)))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(token) = self.core.heads.end() {
            self.reactor.cancel(token);
        }
    }
}

/// One direction in use by one operation; torn when that was dropped or failed, since what has passed
/// of its bytes is not known then.
struct Claim<'a>(&'a Cell<Direction>);

impl<'a> Claim<'a> {
    fn of(direction: &'a Cell<Direction>) -> io::Result<Claim<'a>> {
        match direction.get() {
            Direction::Idle => {
                direction.set(Direction::Busy);
                Ok(Claim(direction))
            }
            Direction::Busy => panic!("one operation at a time in each direction of a socket"),
            Direction::Torn => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn release(self) {
        self.0.set(Direction::Idle);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if self.0.get() == Direction::Busy {
            self.0.set(Direction::Torn);
        }
    }
}

//! One attempt at an operation on a nonblocking socket: it ends, is blocked, or has more to do.
//! It never waits: the ring beside it asks epoll when to try again.

use crate::buffer::Buffer;
use crate::endpoint::{Endpoint, EndpointKey, Transport};
use crate::parts::Parts;
use crate::received::Received;
use crate::ring::Outcome;
use crate::sys::provided::BufferPool;
use crate::sys::socket;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::rc::Rc;

/// Rounds of a repeating operation in one attempt; the others get their turn in between.
const ROUNDS_MAX: usize = 16;

/// An operation on a socket, and what it has got so far.
pub(super) enum Attempt {
    Accept { listener: EndpointKey, transport: Transport },
    Connect { stream: TcpStream },
    Heads { socket: EndpointKey },
    Receive { socket: EndpointKey, buffer: Buffer },
    Send { socket: EndpointKey, parts: Parts, sent_bytes: usize },
}

/// How an attempt has gone.
pub(super) enum Attempted {
    Ended,
    /// Goes on when the socket has changed.
    Blocked(Attempt),
    /// Goes on in the next turn.
    MoreWaits(Attempt),
}

impl Attempt {
    /// The socket, and whether it must be writable (else readable).
    pub(super) fn waits_for(&self) -> (EndpointKey, bool) {
        match self {
            Attempt::Accept { listener, .. } => (*listener, false),
            Attempt::Connect { stream } => (EndpointKey(stream.as_raw_fd()), true),
            Attempt::Heads { socket } | Attempt::Receive { socket, .. } => (*socket, false),
            Attempt::Send { socket, .. } => (*socket, true),
        }
    }

    /// The outcome of an operation that ends with this error.
    pub(super) fn fail(self, error: io::Error) -> Outcome {
        match self {
            Attempt::Accept { .. } => Outcome::Accepted(Err(error)),
            Attempt::Connect { .. } => Outcome::Connected(Err(error)),
            Attempt::Heads { .. } => Outcome::Head(Err(error)),
            Attempt::Receive { buffer, .. } => Outcome::Received(Err(error), buffer),
            Attempt::Send { parts, .. } => Outcome::Sent(Err(error), parts),
        }
    }

    /// Tries it; `give` takes outcomes, and whether more follow. A socket that is `hung_up` changes
    /// no more: it is asked until it says that it has nothing.
    pub(super) fn run(
        self,
        heads: &Rc<BufferPool>,
        hung_up: bool,
        mut give: impl FnMut(Outcome, bool),
    ) -> Attempted {
        match self {
            Attempt::Accept { listener, transport } => accept(listener, transport, give),
            Attempt::Heads { socket } => receive_heads(socket, heads, hung_up, give),
            Attempt::Connect { stream } => {
                let connected = stream.take_error().and_then(|error| error.map_or(Ok(()), Err));
                give(Outcome::Connected(connected.map(|()| Endpoint::stream(stream))), false);
                Attempted::Ended
            }
            Attempt::Receive { socket, mut buffer } => {
                match retried(|| socket::receive(socket.0, buffer.unfilled_mut())) {
                    Err(error) if is_blocked(&error) => {
                        Attempted::Blocked(Attempt::Receive { socket, buffer })
                    }
                    result => {
                        buffer.advance(*result.as_ref().unwrap_or(&0));
                        give(Outcome::Received(result, buffer), false);
                        Attempted::Ended
                    }
                }
            }
            Attempt::Send { socket, parts, sent_bytes } => send(socket, parts, sent_bytes, give),
        }
    }
}

fn accept(
    listener: EndpointKey,
    transport: Transport,
    mut give: impl FnMut(Outcome, bool),
) -> Attempted {
    for _ in 0..ROUNDS_MAX {
        match retried(|| socket::accept_nonblocking(listener.0)) {
            Ok(socket) => give(Outcome::Accepted(Ok(Endpoint::accepted(socket, transport))), true),
            Err(error) if is_blocked(&error) => {
                return Attempted::Blocked(Attempt::Accept { listener, transport });
            }
            Err(error) => {
                give(Outcome::Accepted(Err(error)), false);
                return Attempted::Ended;
            }
        }
    }
    Attempted::MoreWaits(Attempt::Accept { listener, transport })
}

fn receive_heads(
    socket: EndpointKey,
    heads: &Rc<BufferPool>,
    hung_up: bool,
    mut give: impl FnMut(Outcome, bool),
) -> Attempted {
    for _ in 0..ROUNDS_MAX {
        let Some(mut buffer) = heads.take() else {
            give(Outcome::Head(Err(io::Error::from_raw_os_error(libc::ENOBUFS))), false);
            return Attempted::Ended;
        };
        let room = buffer.bytes_mut().len();
        match retried(|| socket::receive(socket.0, buffer.bytes_mut())) {
            Ok(0) => {
                give(Outcome::Head(Ok(Received::end())), false);
                return Attempted::Ended;
            }
            Ok(count) => {
                buffer.truncate(count);
                give(Outcome::Head(Ok(Received::new(buffer))), true);
                if count < room && !hung_up {
                    return Attempted::Blocked(Attempt::Heads { socket });
                }
            }
            Err(error) if is_blocked(&error) => {
                return Attempted::Blocked(Attempt::Heads { socket });
            }
            Err(error) => {
                give(Outcome::Head(Err(error)), false);
                return Attempted::Ended;
            }
        }
    }
    Attempted::MoreWaits(Attempt::Heads { socket })
}

fn send(
    socket: EndpointKey,
    mut parts: Parts,
    mut sent_bytes: usize,
    mut give: impl FnMut(Outcome, bool),
) -> Attempted {
    let all = parts.len();
    let result = loop {
        match retried(|| socket::send(socket.0, parts.message(sent_bytes))) {
            Ok(count) => sent_bytes += count,
            Err(error) if is_blocked(&error) => {
                return Attempted::Blocked(Attempt::Send { socket, parts, sent_bytes });
            }
            Err(error) => break Err(error),
        }
        if sent_bytes == all {
            break Ok(all);
        }
    };
    give(Outcome::Sent(result, parts), false);
    Attempted::Ended
}

fn is_blocked(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

fn retried<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

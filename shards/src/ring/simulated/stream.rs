//! One end of a simulated connection: bytes that have arrived, and the operations that wait for them
//! or for the other end's window. Pure state; `network` moves the bytes.

use crate::buffer::Buffer;
use crate::endpoint::EndpointKey;
use crate::parts::Parts;
use crate::received::Received;
use crate::ring::{Outcome, Token};
use crate::sys::provided::BufferPool;
use nilas_base::Monotonic;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

pub(super) struct Stream {
    pub(super) ring: usize,
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
    pub(super) other: EndpointKey,
    pub(super) arrived: VecDeque<u8>,
    /// Bytes that the other end has sent and that are still on their way.
    pub(super) under_way_bytes: usize,
    /// When the last thing sent to this end arrives: nothing overtakes it.
    pub(super) last_arrival: Monotonic,
    /// The other end sends no more.
    pub(super) ended: bool,
    /// This end sends no more.
    pub(super) shut: bool,
    pub(super) reset: bool,
    /// Bytes sent from this end that the other's window let in.
    pub(super) taken_bytes: u64,
    pub(super) reader: Option<Reader>,
    pub(super) writer: Option<Writer>,
}

pub(super) enum Reader {
    Heads(Token),
    Once(Token, Buffer),
}

pub(super) struct Writer {
    pub(super) token: Token,
    pub(super) parts: Parts,
    pub(super) sent_bytes: usize,
}

/// What a reader has got: whose, what, and whether more follows.
pub(super) type Given = (Token, Outcome, bool);

impl Stream {
    pub(super) fn new(ring: usize, addresses: [SocketAddr; 2], other: EndpointKey) -> Stream {
        let [local, peer] = addresses;
        Stream {
            ring,
            local,
            peer,
            other,
            arrived: VecDeque::new(),
            under_way_bytes: 0,
            last_arrival: Monotonic(0),
            ended: false,
            shut: false,
            reset: false,
            taken_bytes: 0,
            reader: None,
            writer: None,
        }
    }

    /// Bytes that the other end may still send into a window.
    pub(super) fn window_bytes(&self, window_bytes: usize) -> usize {
        window_bytes.saturating_sub(self.arrived.len() + self.under_way_bytes)
    }

    /// Gives the reader what there is, once.
    pub(super) fn read(&mut self, heads: &Rc<BufferPool>) -> Option<Given> {
        if self.arrived.is_empty() && !self.ended && !self.reset {
            return None;
        }
        match self.reader.take()? {
            Reader::Heads(token) => {
                let (outcome, more) = self.read_head(heads);
                if more {
                    self.reader = Some(Reader::Heads(token));
                }
                Some((token, outcome, more))
            }
            Reader::Once(token, mut buffer) => {
                if self.reset {
                    return Some((token, Outcome::Received(Err(reset()), buffer), false));
                }
                let count = copy_out(&mut self.arrived, buffer.unfilled_mut());
                buffer.advance(count);
                Some((token, Outcome::Received(Ok(count), buffer), false))
            }
        }
    }

    fn read_head(&mut self, heads: &Rc<BufferPool>) -> (Outcome, bool) {
        if self.reset {
            return (Outcome::Head(Err(reset())), false);
        }
        if self.arrived.is_empty() {
            return (Outcome::Head(Ok(Received::end())), false);
        }
        match heads.take() {
            None => (Outcome::Head(Err(io::Error::from_raw_os_error(libc::ENOBUFS))), false),
            Some(mut buffer) => {
                let count = copy_out(&mut self.arrived, buffer.bytes_mut());
                buffer.truncate(count);
                (Outcome::Head(Ok(Received::new(buffer))), true)
            }
        }
    }

    /// The other end is gone: whoever waits here is told.
    pub(super) fn fail_writer(&mut self) -> Option<Given> {
        let writer = self.writer.take()?;
        Some((writer.token, Outcome::Sent(Err(reset()), writer.parts), false))
    }

    /// Takes back the operation of this token.
    pub(super) fn cancel(&mut self, token: Token) -> Option<Outcome> {
        let cancelled = || io::Error::from_raw_os_error(libc::ECANCELED);
        let reads = match &self.reader {
            Some(Reader::Heads(known) | Reader::Once(known, _)) => *known == token,
            None => false,
        };
        if reads {
            return self.reader.take().map(|reader| match reader {
                Reader::Heads(_) => Outcome::Head(Err(cancelled())),
                Reader::Once(_, buffer) => Outcome::Received(Err(cancelled()), buffer),
            });
        }
        let writer = self.writer.take_if(|writer| writer.token == token)?;
        Some(Outcome::Sent(Err(cancelled()), writer.parts))
    }
}

impl Writer {
    /// The next bytes to send, at most `bytes_max`.
    pub(super) fn take(&mut self, bytes_max: usize) -> Vec<u8> {
        let mut skipped = self.sent_bytes;
        let mut bytes = Vec::new();
        for slice in self.parts.slices() {
            let rest = &slice[skipped.min(slice.len())..];
            skipped -= slice.len() - rest.len();
            bytes.extend_from_slice(&rest[..rest.len().min(bytes_max - bytes.len())]);
        }
        self.sent_bytes += bytes.len();
        bytes
    }

    pub(super) fn is_done(&self) -> bool {
        self.sent_bytes == self.parts.len()
    }
}

fn copy_out(from: &mut VecDeque<u8>, into: &mut [u8]) -> usize {
    let count = from.len().min(into.len());
    for (place, byte) in into.iter_mut().zip(from.drain(..count)) {
        *place = byte;
    }
    count
}

fn reset() -> io::Error {
    io::Error::from_raw_os_error(libc::ECONNRESET)
}

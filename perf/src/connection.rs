//! One client connection, one request at a time: sends a prebuilt request, reads its answer,
//! checks status and length always and bytes on a sample. Does not wait: see `load`.
//!
//! An answer that is not in the sample may be thrown away in the kernel (`MSG_TRUNC`): its length
//! is counted, no byte of it is copied, and so the client stays cheaper than a server.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};

use nilas_base::Monotonic;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::answer::{HEAD_BYTES_MAX, parse_answer_head};
use crate::error::{Doing, Error, Result};
use crate::request::Target;

/// Bytes of a body taken by one receive at most.
pub(crate) const BODY_PIECE_BYTES_MAX: usize = 256 << 10;

/// How far an answer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More must arrive.
    Waiting,
    /// It is complete and was the right one.
    Answered,
}

/// What is done with a body's bytes; they are always counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Copied, and compared with what was expected.
    Compare,
    /// Copied, as any client does.
    Copy,
    /// Thrown away in the kernel.
    Discard,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Head { filled: usize },
    Body { received: usize },
}

/// A connection and the request it waits on.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    head: Vec<u8>,
    phase: Phase,
    reading: Reading,
    /// Number of the target asked for.
    pub(crate) target: usize,
    /// When it was asked.
    pub(crate) asked_at: Monotonic,
}

impl Connection {
    /// Connects; the socket blocks until [`Connection::stop_blocking`].
    pub(crate) fn open(address: SocketAddr) -> Result<Connection> {
        let stream = TcpStream::connect(address).doing("connecting to a server")?;
        stream.set_nodelay(true).doing("setting TCP_NODELAY")?;
        Ok(Connection {
            stream,
            head: vec![0; HEAD_BYTES_MAX],
            phase: Phase::Head { filled: 0 },
            reading: Reading::Compare,
            target: 0,
            asked_at: Monotonic(0),
        })
    }

    /// From now on a receive without data returns.
    pub(crate) fn stop_blocking(&self) -> Result<()> {
        self.stream.set_nonblocking(true).doing("making a socket non-blocking")
    }

    /// The socket, to be watched.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends `target`'s request; its answer will be read by `reading`.
    pub(crate) fn ask(&mut self, target: &Target, reading: Reading) -> Result<()> {
        self.phase = Phase::Head { filled: 0 };
        self.reading = reading;
        let taken = self.stream.write(&target.request).doing("sending a request")?;
        if taken < target.request.len() {
            return Err(Error::Answer("the socket took only a part of a request".to_owned()));
        }
        Ok(())
    }

    /// Receives what has come. `scratch` holds [`BODY_PIECE_BYTES_MAX`].
    pub(crate) fn receive(&mut self, target: &Target, scratch: &mut [u8]) -> Result<Progress> {
        if let Phase::Head { filled } = self.phase {
            let Some(received) = self.receive_head(target, filled)? else {
                return Ok(Progress::Waiting);
            };
            self.phase = Phase::Body { received };
            if received == target.bytes.len() {
                return Ok(Progress::Answered);
            }
        }
        self.receive_body(target, scratch)
    }

    /// The number of body bytes that came with the whole head, if it is whole.
    fn receive_head(&mut self, target: &Target, filled: usize) -> Result<Option<usize>> {
        let Some(count) = receive_some(&self.stream, &mut self.head[filled..], Reading::Copy)?
        else {
            return Ok(None);
        };
        let filled = filled + count;
        let Some(head) = parse_answer_head(&self.head[..filled])? else {
            self.phase = Phase::Head { filled };
            return Ok(None);
        };
        if head.status != 200 || head.body_bytes != target.bytes.len() as u64 {
            return Err(self.unexpected(target, filled));
        }
        let body = &self.head[head.head_bytes..filled];
        self.check(target, 0, body)?;
        Ok(Some(body.len()))
    }

    fn receive_body(&mut self, target: &Target, scratch: &mut [u8]) -> Result<Progress> {
        let Phase::Body { mut received } = self.phase else {
            unreachable!("a body is received after its head")
        };
        let wanted = (target.bytes.len() - received).min(BODY_PIECE_BYTES_MAX);
        let piece = &mut scratch[..wanted];
        let Some(count) = receive_some(&self.stream, piece, self.reading)? else {
            return Ok(Progress::Waiting);
        };
        self.check(target, received, &scratch[..count])?;
        received += count;
        self.phase = Phase::Body { received };
        Ok(if received == target.bytes.len() { Progress::Answered } else { Progress::Waiting })
    }

    fn check(&self, target: &Target, at: usize, piece: &[u8]) -> Result<()> {
        let expected = target.bytes.get(at..at + piece.len());
        match expected {
            None => Err(Error::Answer(format!("{} came with bytes after its body", target.path))),
            Some(expected) if self.reading == Reading::Compare && expected != piece => {
                Err(Error::Answer(format!("{} came with wrong bytes", target.path)))
            }
            Some(_) => Ok(()),
        }
    }

    fn unexpected(&self, target: &Target, filled: usize) -> Error {
        let shown = String::from_utf8_lossy(&self.head[..filled.min(1000)]);
        let wanted = target.bytes.len();
        Error::Answer(format!("{} wants 200 and {wanted} bytes, got:\n{shown}", target.path))
    }
}

/// Bytes received into `buffer`, or only counted when discarding; `None` when there are none yet.
fn receive_some(stream: &TcpStream, buffer: &mut [u8], reading: Reading) -> Result<Option<usize>> {
    let flags = match reading {
        Reading::Discard => RecvFlags::TRUNC,
        Reading::Compare | Reading::Copy => RecvFlags::empty(),
    };
    match recv(stream, buffer, flags) {
        Ok((_, 0)) => Err(Error::Answer("the server closed the connection".to_owned())),
        Ok((_, count)) => Ok(Some(count)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(error).doing("receiving an answer"),
    }
}

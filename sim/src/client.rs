//! One connection of a client: signed requests go out, answers come in as fast or as slowly as the
//! reader likes. It knows HTTP and nothing of what is right; `judge` does.

pub mod answer;

use std::io;
use std::time::Duration;

use bytes::Bytes;
use nilas_net::sigv4::{PayloadHash, SigningIdentity, ToSign, sign};
use nilas_shards::{Buffer, Reactor, Socket};

use crate::node::{ADDRESS, KEYS};
use answer::{Answer, Head};

/// Tells the origin that a client asks, not the node: it travels with relayed requests only.
pub const CLIENT_MARK: &str = "x-sim-client";
/// Which write a request is.
pub const WRITE_MARK: &str = "x-sim-write";
/// Which of the origin's answers a head is from.
pub const ANSWER_MARK: &str = "x-sim-answer";

/// Heads are far shorter.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// A request.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Its method.
    pub method: &'static str,
    /// Its path, percent-encoded.
    pub path: String,
    /// Its query, as sent.
    pub query: String,
    /// Its headers beside the ones that every request has.
    pub headers: Vec<(&'static str, String)>,
    /// Its body's length in bytes.
    pub body_bytes: u64,
}

impl Ask {
    /// One without a body.
    pub fn new(method: &'static str, path: String) -> Ask {
        Ask { method, path, query: String::new(), headers: Vec::new(), body_bytes: 0 }
    }

    /// With one header more.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Ask {
        self.headers.push((name, value.into()));
        self
    }
}

/// How an answer is read.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Bytes taken at a time.
    pub chunk_bytes: usize,
    /// The pause after each time.
    pub pause: Duration,
    /// Bytes of the body after which no more is read.
    pub stop_after_bytes: Option<u64>,
}

impl Pace {
    /// As fast as it comes.
    pub const FAST: Pace =
        Pace { chunk_bytes: 16 << 10, pause: Duration::ZERO, stop_after_bytes: None };

    /// The same, in few pieces.
    pub const WIDE: Pace = Pace { chunk_bytes: 256 << 10, ..Pace::FAST };
}

/// A connection.
pub struct Connection {
    reactor: Reactor,
    socket: Socket,
    ahead: Vec<u8>,
}

impl Connection {
    /// Connects to the node.
    pub async fn open(reactor: &Reactor) -> io::Result<Connection> {
        let socket = reactor.connect(crate::node::address()).await?;
        Ok(Connection { reactor: reactor.clone(), socket, ahead: Vec::new() })
    }

    /// Sends a request's head.
    pub async fn send_head(&self, ask: &Ask) -> io::Result<()> {
        self.send(Bytes::from(self.head(ask))).await
    }

    /// Sends bytes.
    pub async fn send(&self, bytes: Bytes) -> io::Result<()> {
        let mut parts = self.reactor.parts();
        parts.push_bytes(bytes);
        self.socket.send(parts).await.map(|_| ())
    }

    /// The head of a request, signed now.
    pub fn head(&self, ask: &Ask) -> String {
        let identity = SigningIdentity {
            access_key: KEYS.0,
            secret: KEYS.1,
            session_token: None,
            region: "us-east-1",
        };
        let plain: Vec<(&str, &[u8])> =
            ask.headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        let to_sign = ToSign {
            method: ask.method,
            host: ADDRESS,
            path_raw: &ask.path,
            query_raw: &ask.query,
            headers: &plain,
            payload: PayloadHash::Unsigned,
        };
        let signed = sign(&identity, &to_sign, self.reactor.clock().wall()).expect("a valid path");
        let target = match ask.query.is_empty() {
            true => ask.path.clone(),
            false => format!("{}?{}", ask.path, ask.query),
        };
        let mut head = format!("{} {target} HTTP/1.1\r\nHost: {ADDRESS}\r\n", ask.method);
        let own = ask.headers.iter().map(|(name, value)| (*name, value.as_str()));
        let proof = signed.headers.iter().map(|(name, value)| (&**name, &**value));
        for (name, value) in own.chain(proof).chain([(CLIENT_MARK, "1")]) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if ask.body_bytes > 0 || ask.method == "PUT" {
            head.push_str(&format!("Content-Length: {}\r\n", ask.body_bytes));
        }
        head.push_str("\r\n");
        head
    }

    /// The answer to a request of this method; `None` if the connection ended before its head did.
    pub async fn answer(&mut self, method: &str, pace: Pace) -> Option<Answer> {
        let head = self.receive_head().await?;
        let mut answer = Answer { head, body: Bytes::new(), is_whole: true };
        let length = answer.head.body_bytes(method);
        let wanted = pace.stop_after_bytes.map_or(length, |stop| stop.min(length)) as usize;
        while self.ahead.len() < wanted {
            if self.receive(pace).await.is_none() {
                break;
            }
        }
        let taken = self.ahead.len().min(length as usize);
        answer.is_whole = taken as u64 == length;
        answer.body = Bytes::from_iter(self.ahead.drain(..taken));
        Some(answer)
    }

    async fn receive_head(&mut self) -> Option<Head> {
        let end = loop {
            if let Some(at) = self.ahead.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.ahead.len() < HEAD_BYTES_MAX, "a head has an end");
            self.receive(Pace::FAST).await?;
        };
        let head: Vec<u8> = self.ahead.drain(..end).collect();
        Some(Head::parse(&String::from_utf8_lossy(&head)))
    }

    /// Some bytes more; `None` at the end of the connection, however it ended.
    async fn receive(&mut self, pace: Pace) -> Option<()> {
        let buffer = Buffer::with_capacity(pace.chunk_bytes);
        let (result, buffer) = self.socket.receive_into(buffer).await;
        if result.ok()? == 0 {
            return None;
        }
        self.ahead.extend_from_slice(buffer.filled());
        if !pace.pause.is_zero() {
            self.reactor.sleep(pace.pause).await;
        }
        Some(())
    }
}

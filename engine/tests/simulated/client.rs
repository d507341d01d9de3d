//! A client on a simulated reactor: signs, sends one request, reads its answer.

use std::net::SocketAddr;

use bytes::Bytes;
use nilas_net::sigv4::{PayloadHash, SigningIdentity, ToSign, sign};
use nilas_shards::{Reactor, Socket};

/// One connection.
pub struct SimulatedClient {
    reactor: Reactor,
    socket: Socket,
    host: String,
    keys: (&'static str, &'static str),
    ahead: Vec<u8>,
}

/// One answer.
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: Bytes,
}

impl SimulatedClient {
    /// Connects.
    pub async fn connect(
        reactor: &Reactor,
        address: SocketAddr,
        keys: (&'static str, &'static str),
    ) -> SimulatedClient {
        let socket = reactor.connect(address).await.expect("the node listens");
        let (reactor, host) = (reactor.clone(), address.to_string());
        SimulatedClient { reactor, socket, host, keys, ahead: Vec::new() }
    }

    /// Sends a signed request and reads its answer.
    pub async fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let head = self.head(method, path, headers, body.len());
        let mut parts = self.reactor.parts();
        parts.push_bytes(Bytes::from(head));
        parts.push_bytes(Bytes::copy_from_slice(body));
        self.socket.send(parts).await.expect("the node reads");
        self.answer().await
    }

    fn head(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body_bytes: usize,
    ) -> String {
        let (access_key, secret) = self.keys;
        let identity =
            SigningIdentity { access_key, secret, session_token: None, region: "us-east-1" };
        let plain: Vec<(&str, &[u8])> =
            headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        let request = ToSign {
            method,
            host: &self.host,
            path_raw: path,
            query_raw: "",
            headers: &plain,
            payload: PayloadHash::Unsigned,
        };
        let now = self.reactor.clock().wall();
        let signed = sign(&identity, &request, now).expect("a valid path");
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.host);
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        for (name, value) in &signed.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {body_bytes}\r\n\r\n"));
        head
    }

    async fn answer(&mut self) -> Answer {
        let end = loop {
            if let Some(at) = self.ahead.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break at + 4;
            }
            self.receive().await;
        };
        let head: Vec<u8> = self.ahead.drain(..end).collect();
        let head = String::from_utf8(head).expect("heads are text").to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split('\r').next());
        let length: usize = length.map_or(0, |length| length.parse().expect("a number"));
        while self.ahead.len() < length {
            self.receive().await;
        }
        let body = Bytes::from_iter(self.ahead.drain(..length));
        Answer { status: status.expect("a status"), body }
    }

    async fn receive(&mut self) {
        let received = self.socket.receive_head().await.expect("the node answers");
        assert!(!received.is_empty(), "the connection ended within an answer");
        self.ahead.extend_from_slice(&received);
    }
}

//! A small HTTP client that signs: one connection, one request at a time, nothing hidden.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use nilas_base::Clock;
use nilas_net::sigv4::{PayloadHash, SigningIdentity, ToSign, sign};

use super::node::{ACCESS_KEY, SECRET_KEY};

/// How long any answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// One connection.
pub struct TestClient {
    stream: TcpStream,
    host: String,
    ahead: Vec<u8>,
}

/// One answer.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Answer {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl TestClient {
    /// Connects.
    pub fn connect(address: SocketAddr) -> TestClient {
        let stream = TcpStream::connect(address).expect("the node listens");
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).expect("a time-out");
        TestClient { stream, host: address.to_string(), ahead: Vec::new() }
    }

    /// Sends a signed request and reads its answer.
    pub fn request(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let signed = self.signed_head(method, target, headers, body.len());
        self.write(&signed);
        self.write(body);
        self.answer(method == "HEAD")
    }

    /// GET.
    pub fn get(&mut self, target: &str, headers: &[(&str, &str)]) -> Answer {
        self.request("GET", target, headers, b"")
    }

    /// The head of a signed request with an unsigned payload.
    pub fn signed_head(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body_bytes: usize,
    ) -> Vec<u8> {
        let (path_raw, query_raw) = target.split_once('?').unwrap_or((target, ""));
        let identity = SigningIdentity {
            access_key: ACCESS_KEY,
            secret: SECRET_KEY,
            session_token: None,
            region: "us-east-1",
        };
        let plain: Vec<(&str, &[u8])> =
            headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        let request = ToSign {
            method,
            host: &self.host,
            path_raw,
            query_raw,
            headers: &plain,
            payload: PayloadHash::Unsigned,
        };
        let signed = sign(&identity, &request, Clock::system().wall()).expect("a valid path");
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {}\r\n", self.host);
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        for (name, value) in &signed.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if body_bytes > 0 || matches!(method, "PUT" | "POST") {
            head.push_str(&format!("Content-Length: {body_bytes}\r\n"));
        }
        head.push_str("\r\n");
        head.into_bytes()
    }

    /// Sends bytes as they are.
    pub fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the node reads");
    }

    /// Reads one answer.
    pub fn answer(&mut self, is_head: bool) -> Answer {
        let mut answer = self.answer_head();
        if is_head || matches!(answer.status, 100 | 204 | 304) {
            return answer;
        }
        let length = answer.header("content-length").map(|length| length.parse().expect("a number"));
        match length {
            Some(length) => answer.body = self.take(length),
            None if answer.header("transfer-encoding") == Some("chunked") => {
                answer.body = self.chunks();
            }
            None => {
                while self.receive() {}
                answer.body = std::mem::take(&mut self.ahead);
            }
        }
        answer
    }

    /// Whether the node has closed the connection, with nothing more to read.
    pub fn is_closed(&mut self) -> bool {
        self.ahead.is_empty() && !self.receive()
    }

    fn answer_head(&mut self) -> Answer {
        let end = loop {
            if let Some(at) = self.ahead.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.receive(), "the connection ended within a head");
        };
        let head = self.take(end);
        let head = String::from_utf8(head).expect("heads are text");
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().expect("a status line").split(' ').nth(1).expect("a status");
        let header = |line: &str| {
            let (name, value) = line.split_once(": ").expect("name: value");
            (name.to_ascii_lowercase(), value.to_owned())
        };
        Answer {
            status: status.parse().expect("a number"),
            headers: lines.map(header).collect(),
            body: Vec::new(),
        }
    }

    fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let end = loop {
                if let Some(at) = self.ahead.windows(2).position(|bytes| bytes == b"\r\n") {
                    break at;
                }
                assert!(self.receive(), "the connection ended within a chunk");
            };
            let line = String::from_utf8(self.take(end + 2)).expect("sizes are text");
            let size = usize::from_str_radix(line.trim_end(), 16).expect("hexadecimal");
            body.extend_from_slice(&self.take(size));
            self.take(2);
            if size == 0 {
                return body;
            }
        }
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        while self.ahead.len() < count {
            assert!(self.receive(), "the connection ended within an answer");
        }
        self.ahead.drain(..count).collect()
    }

    fn receive(&mut self) -> bool {
        let mut bytes = [0; 16 << 10];
        match self.stream.read(&mut bytes) {
            Ok(count) => {
                self.ahead.extend_from_slice(&bytes[..count]);
                count > 0
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("no answer: {error}"),
        }
    }
}

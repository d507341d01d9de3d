//! A small HTTP client that signs: one connection, one request at a time, nothing hidden.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::wording::Wording;

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

    /// The S3 code of an error.
    pub fn code(&self) -> String {
        let text = self.text();
        let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
        code.map_or_else(String::new, |(code, _)| code.to_owned())
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
        stream.set_nodelay(true).expect("a TCP socket");
        TestClient::on(stream, &address.to_string())
    }

    /// Connects to a Unix socket, and asks for this host.
    #[allow(dead_code, reason = "one suite has Unix sockets")]
    pub fn connect_unix(path: &Path, host: &str) -> TestClient {
        let stream = UnixStream::connect(path).expect("the node listens");
        // Nothing here asks which streams they are.
        TestClient::on(TcpStream::from(OwnedFd::from(stream)), host)
    }

    fn on(stream: TcpStream, host: &str) -> TestClient {
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).expect("a time-out");
        TestClient { stream, host: host.to_owned(), ahead: Vec::new() }
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
        let wording = self.wording(method, target).headers(headers);
        if body_bytes == 0 && !matches!(method, "PUT" | "POST") {
            return wording.head();
        }
        wording.header("Content-Length", &body_bytes.to_string()).head()
    }

    /// A request to this node, to be worded further.
    pub fn wording(&self, method: &str, target: &str) -> Wording {
        Wording::new(method, target, &self.host)
    }

    /// Sends a head and a body, and reads the answer.
    pub fn send(&mut self, wording: &Wording, body: &[u8]) -> Answer {
        self.write(&wording.head());
        self.write(body);
        self.answer(wording.method == "HEAD")
    }

    /// Sends bytes as they are.
    pub fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the node reads");
    }

    /// Sends bytes as far as the node takes them; says whether it took all.
    pub fn try_write(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Sends until the node takes nothing for so long; says how many bytes it took.
    pub fn write_until_blocked(&mut self, bytes: &[u8], patience: Duration) -> usize {
        self.stream.set_write_timeout(Some(patience)).expect("a time-out");
        let mut sent = 0;
        while sent < bytes.len() {
            match self.stream.write(&bytes[sent..]) {
                Ok(count) => sent += count,
                Err(_) => break,
            }
        }
        self.stream.set_write_timeout(None).expect("no time-out");
        sent
    }

    /// Says that nothing more will be sent.
    pub fn end_sending(&self) {
        self.stream.shutdown(Shutdown::Write).expect("an open connection");
    }

    /// Whether nothing comes for so long, and the connection stays open.
    pub fn is_silent_for(&mut self, duration: Duration) -> bool {
        if !self.ahead.is_empty() {
            return false;
        }
        self.stream.set_read_timeout(Some(duration)).expect("a time-out");
        let read = self.stream.read(&mut [0; 1]);
        self.stream.set_read_timeout(Some(ANSWER_TIMEOUT)).expect("a time-out");
        matches!(read, Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
    }

    /// Reads whatever comes until the node closes.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        while self.receive() {}
        std::mem::take(&mut self.ahead)
    }

    /// Reads so many bytes of whatever comes.
    pub fn read_some(&mut self, count: usize) -> Vec<u8> {
        self.take(count)
    }

    /// Reads one answer.
    pub fn answer(&mut self, is_head: bool) -> Answer {
        let mut answer = self.answer_head();
        if is_head || matches!(answer.status, 100 | 204 | 304) {
            return answer;
        }
        let length =
            answer.header("content-length").map(|length| length.parse().expect("a number"));
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

    /// Reads the answer to a GET that may be cut; `None` where it was.
    pub fn answer_unless_cut(&mut self) -> Option<Answer> {
        let mut answer = self.answer_head();
        let length = answer.header("content-length").expect("a length").parse().expect("a number");
        while self.ahead.len() < length {
            if !self.receive() {
                return None;
            }
        }
        answer.body = self.take(length);
        Some(answer)
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
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("no answer: {error}"),
        }
    }
}

//! The origin of cold reads, a process of its own: static files over HTTP/1.1 by `sendfile`, a
//! thread a connection, each answer's first byte late by the link's latency, each connection no
//! faster than the link. It stands in a proxy's place, so that no byte is copied for the delay.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nilas_base::{ByteRange, Clock, Monotonic};
use nilas_net::range::{RangeForm, Resolved, parse_range};
use rustix::fs::sendfile;

use crate::answer::{HEAD_BYTES_MAX, parse_answer_head};
use crate::error::{Doing, Error, Result};
use crate::link::{Link, pause_until};

/// Bytes handed to a socket at once where the link has a rate: the rate's grain.
const PACED_BYTES: u64 = 256 << 10;
/// The same where it has none.
const UNPACED_BYTES: u64 = 4 << 20;
const HEADERS_MAX: usize = 64;
/// The path under which the origin tells how many body bytes it has sent.
const COUNT_PATH: &str = "/sent-bytes";

/// Serves the files under `root` at `address`, until the process ends.
pub fn serve_origin(address: SocketAddr, root: &Path, link: Link) -> Result<()> {
    serve(&TcpListener::bind(address).doing("binding the origin")?, root, link)
}

/// The same on a bound socket.
pub(super) fn serve(listener: &TcpListener, root: &Path, link: Link) -> Result<()> {
    let sent_bytes = Arc::new(AtomicU64::new(0));
    loop {
        let (stream, _) = listener.accept().doing("accepting a connection")?;
        stream.set_nodelay(true).doing("setting TCP_NODELAY")?;
        let (root, sent_bytes) = (root.to_owned(), Arc::clone(&sent_bytes));
        let serving = Serving { stream, root, link, clock: Clock::system(), sent_bytes };
        std::thread::spawn(move || serving.run());
    }
}

/// The body bytes that the origin at `address` has sent so far.
pub fn sent_bytes(address: SocketAddr) -> Result<u64> {
    let mut stream = TcpStream::connect(address).doing("connecting to the origin")?;
    let request = format!("GET {COUNT_PATH} HTTP/1.1\r\nhost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).doing("asking the origin")?;
    let mut received = Vec::new();
    let mut piece = [0; 256];
    loop {
        let count = stream.read(&mut piece).doing("reading the origin's count")?;
        received.extend_from_slice(&piece[..count]);
        let Some(head) = parse_answer_head(&received)? else { continue };
        if (received.len() - head.head_bytes) as u64 == head.body_bytes || count == 0 {
            let text = String::from_utf8_lossy(&received[head.head_bytes..]);
            return text.parse().map_err(|_| Error::Answer("a count that is none".to_owned()));
        }
    }
}

struct Serving {
    stream: TcpStream,
    root: PathBuf,
    link: Link,
    clock: Clock,
    sent_bytes: Arc<AtomicU64>,
}

struct Question {
    is_head: bool,
    path: String,
    range: RangeForm,
    head_bytes: usize,
}

impl Serving {
    /// Until the client goes away or asks what nobody asks here.
    fn run(mut self) {
        let mut buffer = vec![0; HEAD_BYTES_MAX];
        let mut filled = 0;
        loop {
            let question = match parse_question(&buffer[..filled]) {
                Ok(Some(question)) => question,
                Ok(None) => match self.stream.read(&mut buffer[filled..]) {
                    Ok(count) if count > 0 => {
                        filled += count;
                        continue;
                    }
                    _ => return,
                },
                Err(_) => return,
            };
            buffer.copy_within(question.head_bytes..filled, 0);
            filled -= question.head_bytes;
            if self.answer(&question).is_err() {
                return;
            }
        }
    }

    fn answer(&mut self, question: &Question) -> std::io::Result<()> {
        if question.path == COUNT_PATH {
            let count = self.sent_bytes.load(Ordering::Relaxed).to_string();
            return self.send_text("200 OK", &count);
        }
        let first_byte_at = self.link.first_byte_at(&self.clock);
        pause_until(&self.clock, first_byte_at);
        // Keys here are plain; the path names a file and nothing above the root.
        let is_plain = !question.path.split('/').any(|part| part == "..");
        let file = File::open(self.root.join(question.path.trim_start_matches('/')));
        let Some(file) = file.ok().filter(|_| is_plain) else {
            return self.send_text("404 Not Found", "");
        };
        let facts = file.metadata()?;
        if !facts.is_file() {
            return self.send_text("404 Not Found", "");
        }
        let (status, range) = match question.range.resolve(facts.len()) {
            Resolved::Whole => ("200 OK", ByteRange::new(0, facts.len())),
            Resolved::Slice(range) => ("206 Partial Content", range),
            _ => return self.send_text("416 Range Not Satisfiable", ""),
        };
        let head = head(status, range, &facts);
        self.stream.write_all(head.as_bytes())?;
        if question.is_head { Ok(()) } else { self.send_body(&file, range, first_byte_at) }
    }

    fn send_text(&mut self, status: &str, text: &str) -> std::io::Result<()> {
        let length = text.len();
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{text}");
        self.stream.write_all(answer.as_bytes())
    }

    fn send_body(&self, file: &File, range: ByteRange, began: Monotonic) -> std::io::Result<()> {
        let mut at = range.start;
        while at < range.end {
            self.link.pace(&self.clock, began, at - range.start);
            let grain =
                if self.link.connection_rate.is_some() { PACED_BYTES } else { UNPACED_BYTES };
            let wanted = (range.end - at).min(grain) as usize;
            let count = sendfile(&self.stream, file, Some(&mut at), wanted)?;
            self.sent_bytes.fetch_add(count as u64, Ordering::Relaxed);
            if count == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }
}

fn head(status: &str, range: ByteRange, facts: &std::fs::Metadata) -> String {
    let (length, whole) = (range.len(), facts.len());
    let mut head = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\naccept-ranges: bytes\r\n\
         content-type: application/octet-stream\r\netag: \"{:x}-{whole:x}\"\r\n\
         last-modified: Sat, 03 Jan 2026 00:00:00 GMT\r\n",
        facts.ino()
    );
    if status.starts_with("206") {
        let last = range.end - 1;
        head.push_str(&format!("content-range: bytes {}-{last}/{whole}\r\n", range.start));
    }
    head + "\r\n"
}

/// The question at the start of `received`; `None` when more must arrive first.
fn parse_question(received: &[u8]) -> std::result::Result<Option<Question>, httparse::Error> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(head_bytes) = request.parse(received)? else {
        return Ok(None);
    };
    let target = request.path.unwrap_or_default();
    let path = target.split('?').next().unwrap_or_default().to_owned();
    let range = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case("range"));
    let range = range.map_or(RangeForm::Absent, |header| parse_range(header.value));
    let is_head = request.method == Some("HEAD");
    Ok(Some(Question { is_head, path, range, head_bytes }))
}

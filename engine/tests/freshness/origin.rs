//! An origin that speaks just enough S3 to be written to, and does with each write as it is told:
//! at once, late, or without a word. A thread a connection.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::time::pause;

/// The request id of every answer.
pub const ORIGIN_ID: &str = "THE-ORIGINS-OWN";

/// What becomes of one write.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    /// It happens, and is answered.
    Happens,
    /// The connection is closed without an answer; the write happens so much later.
    Cut(Duration),
    /// It is answered with this status; the write happens so much later all the same.
    Status(u16, Duration),
    /// It happens and is answered, and before that is overwritten with as many other bytes.
    Overtaken,
    /// It is answered so much later, when it has happened.
    Slow(Duration),
    /// It is answered with 200 at once; so much later it happens, and the answer ends.
    HeadFirst(Duration),
    /// It is answered with 200 and an error in the answer; the write happens so much later.
    ErrorWithin(Duration),
}

/// What is said of the version that an upload has made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// Nothing.
    #[default]
    Silent,
    /// Its ETag.
    Strong,
    /// The same, marked as one that cannot be compared byte by byte.
    Weak,
}

impl Naming {
    fn words(self, etag: String) -> Option<String> {
        match self {
            Naming::Silent => None,
            Naming::Strong => Some(etag),
            Naming::Weak => Some(format!("W/{etag}")),
        }
    }
}

/// One request.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// Its body as it came, chunks and all.
    pub body: Vec<u8>,
}

impl Asked {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, (String, Arc<Vec<u8>>)>,
    writes: u64,
    next_fates: Vec<Fate>,
    refuses_reads_with: Option<u16>,
    refused_keys: Vec<String>,
    leaves_out: Vec<&'static str>,
    names_versions: Naming,
    written: (String, Option<String>),
    asked: Vec<Asked>,
}

/// A running origin; it ends with its process.
#[derive(Clone)]
pub struct WritableOrigin {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl WritableOrigin {
    /// Starts one on a port of its own.
    pub fn start() -> WritableOrigin {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let origin = WritableOrigin { address, state: Arc::default() };
        let serving = origin.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (serving, stream) = (serving.clone(), stream.expect("a connection"));
                std::thread::spawn(move || serving.serve(stream));
            }
        });
        origin
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes an object behind everybody's back.
    pub fn place(&self, path: &str, bytes: &[u8]) -> String {
        let mut state = self.state();
        state.writes += 1;
        let etag = format!("\"version-{}\"", state.writes);
        state.objects.insert(path.to_owned(), (etag.clone(), Arc::new(bytes.to_vec())));
        etag
    }

    /// What an object is now.
    pub fn truth(&self, path: &str) -> Option<Arc<Vec<u8>>> {
        self.state().objects.get(path).map(|(_, bytes)| Arc::clone(bytes))
    }

    /// What becomes of the next write.
    pub fn next_write(&self, fate: Fate) {
        self.state().next_fates.insert(0, fate);
    }

    /// Refuses every read from now on, or none.
    pub fn refuse_reads(&self, status: Option<u16>) {
        self.state().refuses_reads_with = status;
    }

    /// Refuses every read that is signed with this access key (with none, where it is empty), or
    /// does so no more.
    pub fn refuse_key(&self, access_key: &str, refuses: bool) {
        let mut state = self.state();
        state.refused_keys.retain(|refused| refused != access_key);
        if refuses {
            state.refused_keys.push(access_key.to_owned());
        }
    }

    /// Answers every write with this body, and this `Location`.
    pub fn answer_writes_with(&self, body: &str, location: Option<&str>) {
        self.state().written = (body.to_owned(), location.map(str::to_owned));
    }

    /// Leaves these headers out of its answers from now on.
    pub fn leave_out(&self, names: &[&'static str]) {
        self.state().leaves_out = names.to_vec();
    }

    /// What was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.state().asked.clone()
    }

    /// Reads of a path so far.
    pub fn reads(&self, path: &str) -> usize {
        self.requests("GET", path) + self.requests("HEAD", path)
    }

    /// Requests for a path so far.
    pub fn requests(&self, method: &str, path: &str) -> usize {
        let is_one = |asked: &&Asked| asked.target == path && asked.method == method;
        self.state().asked.iter().filter(is_one).count()
    }

    /// Names the version that a write has made from now on, as S3 does, or in other words.
    pub fn name_versions(&self, how: Naming) {
        self.state().names_versions = how;
    }

    fn serve(&self, mut stream: TcpStream) {
        stream.set_nodelay(true).expect("a TCP socket");
        while let Some(asked) = receive(&mut stream) {
            self.state().asked.push(asked.clone());
            let goes_on = match asked.method.as_str() {
                "GET" | "HEAD" => self.answer_read(&mut stream, &asked),
                _ => self.answer_write(&mut stream, asked),
            };
            if !goes_on {
                let _ = stream.shutdown(Shutdown::Both);
                return;
            }
        }
    }

    fn answer_read(&self, stream: &mut TcpStream, asked: &Asked) -> bool {
        let (refusal, leaves_out) = {
            let state = self.state();
            (state.refuses_reads_with, state.leaves_out.clone())
        };
        if let Some(status) = refusal {
            return answer(stream, status, &[], b"", asked);
        }
        if self.state().refused_keys.iter().any(|refused| refused == signer(asked)) {
            let error = b"<Error><Code>AccessDenied</Code></Error>";
            return answer(stream, 403, &[], error, asked);
        }
        if asked.target.contains("list-type=2") {
            return answer(stream, 200, &[], b"<ListBucketResult></ListBucketResult>", asked);
        }
        let path = asked.target.split('?').next().expect("a path");
        let Some((etag, bytes)) = self.state().objects.get(path).cloned() else {
            let error = b"<Error><Code>NoSuchKey</Code></Error>";
            return answer(stream, 404, &[], error, asked);
        };
        let mut headers = vec![("ETag", etag.clone())];
        headers.retain(|(name, _)| !leaves_out.contains(name));
        if asked.header("if-match").is_some_and(|wanted| wanted != etag) {
            return answer(stream, 412, &[], b"", asked);
        }
        if asked.header("if-none-match") == Some(&etag) {
            return answer(stream, 304, &headers, b"", asked);
        }
        match asked.header("range").and_then(|range| resolve(range, bytes.len())) {
            Some((start, end)) => {
                let range = format!("bytes {start}-{}/{}", end - 1, bytes.len());
                headers.push(("Content-Range", range));
                answer(stream, 206, &headers, &bytes[start..end], asked)
            }
            None => answer(stream, 200, &headers, &bytes, asked),
        }
    }

    fn answer_write(&self, stream: &mut TcpStream, asked: Asked) -> bool {
        let fate = self.state().next_fates.pop().unwrap_or(Fate::Happens);
        let etag = match fate {
            Fate::Happens => self.happen(&asked),
            Fate::Overtaken => {
                let etag = self.happen(&asked);
                self.place(&asked.target, &vec![b'!'; asked.body.len()]);
                etag
            }
            Fate::Slow(after) => {
                pause(after);
                self.happen(&asked)
            }
            Fate::Cut(after) => {
                self.happen_later(asked, after);
                return false;
            }
            Fate::Status(status, after) => {
                self.happen_later(asked.clone(), after);
                return answer(stream, status, &[], b"", &asked);
            }
            Fate::ErrorWithin(after) => {
                self.happen_later(asked.clone(), after);
                let error = b"<Error><Code>InternalError</Code></Error>";
                return answer(stream, 200, &[], error, &asked);
            }
            Fate::HeadFirst(after) => {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
                let _ = stream.write_all(b"1\r\n \r\n");
                pause(after);
                self.happen(&asked);
                return stream.write_all(b"7\r\n<done/>\r\n0\r\n\r\n").is_ok();
            }
        };
        let ((body, location), naming) = {
            let state = self.state();
            (state.written.clone(), state.names_versions)
        };
        let mut headers: Vec<(&str, String)> =
            location.map(|location| ("Location", location)).into_iter().collect();
        headers.extend(etag.and_then(|etag| naming.words(etag)).map(|etag| ("ETag", etag)));
        answer(stream, 200, &headers, body.as_bytes(), &asked)
    }

    fn happen_later(&self, asked: Asked, after: Duration) {
        let origin = self.clone();
        std::thread::spawn(move || {
            pause(after);
            origin.happen(&asked);
        });
    }

    /// Gives the ETag of what an upload has made.
    fn happen(&self, asked: &Asked) -> Option<String> {
        let (path, query) = asked.target.split_once('?').unwrap_or((&asked.target, ""));
        let text = String::from_utf8_lossy(&asked.body).into_owned();
        if asked.method == "PUT" {
            return Some(self.place(path, &asked.body));
        } else if asked.method == "DELETE" {
            self.state().objects.remove(path);
        } else if query.starts_with("delete") {
            for key in text.split("<Key>").skip(1) {
                let key = key.split('<').next().expect("a key");
                self.state().objects.remove(&format!("{path}/{key}"));
            }
        } else {
            self.place(path, format!("completed by {text}").as_bytes());
        }
        None
    }
}

/// Whose signature a request bears; empty where it bears none.
pub fn signer(asked: &Asked) -> &str {
    let proof = asked.header("authorization").unwrap_or_default();
    match proof.strip_prefix("AWS ").map(|rest| rest.split(':').next()) {
        Some(old_style) => old_style.unwrap_or_default(),
        None => proof
            .split_once("Credential=")
            .and_then(|(_, rest)| rest.split('/').next())
            .unwrap_or_default(),
    }
}

/// The range of so many bytes; `None` for all of them.
fn resolve(range: &str, length: usize) -> Option<(usize, usize)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let (start, end) = match (first, last) {
        ("", last) => (length.saturating_sub(last.parse().ok()?), length),
        (first, "") => (first.parse().ok()?, length),
        (first, last) => (first.parse().ok()?, last.parse::<usize>().ok()? + 1),
    };
    (start < length).then_some((start, end.min(length)))
}

fn answer(
    stream: &mut TcpStream,
    status: u16,
    headers: &[(&str, String)],
    body: &[u8],
    asked: &Asked,
) -> bool {
    let mut head = format!("HTTP/1.1 {status} X\r\nx-amz-request-id: {ORIGIN_ID}\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if status != 304 {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    let is_bodiless = asked.method == "HEAD" || status == 304;
    let sent = stream.write_all(head.as_bytes());
    sent.is_ok() && (is_bodiless || stream.write_all(body).is_ok())
}

/// The next request; `None` when the connection has ended.
fn receive(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let end = loop {
        match bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            Some(at) => break at + 4,
            None => receive_some(stream, &mut bytes)?,
        }
    };
    let head = String::from_utf8(bytes.drain(..end).collect()).expect("heads are text");
    let mut lines = head.trim_end().split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let header = |line: &str| {
        let (name, value) = line.split_once(": ").expect("name: value");
        (name.to_ascii_lowercase(), value.to_owned())
    };
    let mut asked = Asked { method, target, headers: lines.map(header).collect(), body: bytes };
    let length = asked.header("content-length").map(|length| length.parse().expect("a number"));
    match length {
        Some(length) => {
            while asked.body.len() < length {
                receive_some(stream, &mut asked.body)?;
            }
        }
        None if asked.header("transfer-encoding").is_some() => {
            while !asked.body.ends_with(b"0\r\n\r\n") {
                receive_some(stream, &mut asked.body)?;
            }
        }
        None => {}
    }
    Some(asked)
}

fn receive_some(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    let mut piece = [0; 16 << 10];
    match stream.read(&mut piece) {
        Ok(0) | Err(_) => None,
        Ok(count) => {
            bytes.extend_from_slice(&piece[..count]);
            Some(())
        }
    }
}

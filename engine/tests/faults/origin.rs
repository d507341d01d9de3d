//! An origin that speaks just enough S3, and misbehaves as a script says, request by request: a
//! thread a connection, GET and HEAD with one range and one condition. It counts what it sends.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::behaviour::{Behaviour, Ending, Lie};
use super::time::pause;

/// Bytes that are written at once.
const PIECE_BYTES_MAX: usize = 64 << 10;
/// How often a connection looks whether the origin has been stopped.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// One request, as the script sees it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its number among the object's, from 0.
    pub number: u64,
    /// Its number on its connection, from 0.
    pub on_connection: u64,
    /// GET or HEAD.
    pub method: String,
    /// Bucket and key.
    pub path: String,
    /// The range that was asked for.
    pub range: Option<String>,
    /// `If-Match`.
    pub if_match: Option<String>,
    /// `If-None-Match`.
    pub if_none_match: Option<String>,
}

type Script = dyn Fn(&Asked) -> Behaviour + Send + Sync;

struct Object {
    bytes: Arc<Vec<u8>>,
    etag: String,
}

struct Shared {
    objects: Mutex<BTreeMap<String, Object>>,
    script: Mutex<Arc<Script>>,
    asked: Mutex<Vec<Asked>>,
    body_bytes: AtomicU64,
    writes: AtomicU64,
    is_stopped: AtomicBool,
}

/// A running origin; stopped when dropped.
pub struct FaultyOrigin {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl FaultyOrigin {
    /// One that behaves well, on a port of its own.
    pub fn start() -> FaultyOrigin {
        FaultyOrigin::start_at("127.0.0.1:0".parse().expect("an address"))
    }

    fn start_at(address: SocketAddr) -> FaultyOrigin {
        let script: Arc<Script> = Arc::new(|_: &Asked| Behaviour::well());
        let shared = Arc::new(Shared {
            objects: Mutex::default(),
            script: Mutex::new(script),
            asked: Mutex::default(),
            body_bytes: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            is_stopped: AtomicBool::new(false),
        });
        let mut origin = FaultyOrigin { address, shared };
        origin.listen();
        origin
    }

    fn listen(&mut self) {
        let listener = TcpListener::bind(self.address).expect("a free port");
        self.address = listener.local_addr().expect("an address");
        listener.set_nonblocking(true).expect("a socket");
        let shared = Arc::clone(&self.shared);
        shared.is_stopped.store(false, Ordering::SeqCst);
        std::thread::spawn(move || accept(&listener, &shared));
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Places an object; its ETag is new.
    pub fn place(&self, key: &str, bytes: Vec<u8>) {
        self.shared.place(&super::target(key), bytes);
    }

    /// Misbehaves from now on as `script` says; requests are numbered anew.
    pub fn script(&self, script: impl Fn(&Asked) -> Behaviour + Send + Sync + 'static) {
        lock(&self.shared.asked).clear();
        *lock(&self.shared.script) = Arc::new(script);
    }

    /// Behaves well from now on.
    pub fn behave(&self) {
        self.script(|_| Behaviour::well());
    }

    /// Replaces an object when it is asked for the first time with a number of at least this.
    pub fn replace_at(&self, number: u64, key: &str, bytes: Vec<u8>) {
        let (shared, path) = (Arc::downgrade(&self.shared), super::target(key));
        let is_done = AtomicBool::new(false);
        self.script(move |asked| {
            if asked.number >= number && !is_done.swap(true, Ordering::SeqCst) {
                shared.upgrade().expect("it runs").place(&path, bytes.clone());
            }
            Behaviour::well()
        });
    }

    /// What was asked since the last script.
    pub fn asked(&self) -> Vec<Asked> {
        lock(&self.shared.asked).clone()
    }

    /// Bytes of bodies sent so far.
    pub fn body_bytes(&self) -> u64 {
        self.shared.body_bytes.load(Ordering::SeqCst)
    }

    /// Refuses connections and ends those open, until [`FaultyOrigin::come_back`].
    pub fn go_down(&self) {
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        super::time::eventually("the origin is down", || TcpStream::connect(self.address).is_err());
    }

    /// Listens again, where it did.
    pub fn come_back(&mut self) {
        self.listen();
    }
}

impl Drop for FaultyOrigin {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::SeqCst);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn place(&self, path: &str, bytes: Vec<u8>) {
        let number = self.writes.fetch_add(1, Ordering::SeqCst);
        let object = Object { bytes: Arc::new(bytes), etag: format!("\"version-{number}\"") };
        lock(&self.objects).insert(path.to_owned(), object);
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    while !shared.is_stopped() {
        match listener.accept() {
            Ok((stream, _)) => {
                let shared = Arc::clone(shared);
                std::thread::spawn(move || Connection::new(stream, shared).serve());
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => pause(Duration::from_millis(1)),
            Err(_) => return,
        }
    }
}

/// What becomes of a connection.
enum Next {
    Kept,
    Closed,
    /// Closed with a byte of the request unread: the kernel then resets it.
    Reset,
}

struct Connection {
    stream: TcpStream,
    shared: Arc<Shared>,
    served: u64,
}

impl Connection {
    fn new(stream: TcpStream, shared: Arc<Shared>) -> Connection {
        stream.set_nonblocking(false).expect("a socket");
        stream.set_nodelay(true).expect("a TCP socket");
        stream.set_read_timeout(Some(LOOK_INTERVAL)).expect("a time-out");
        stream.set_write_timeout(Some(Duration::from_secs(20))).expect("a time-out");
        Connection { stream, shared, served: 0 }
    }

    fn serve(mut self) {
        while let Some(head) = self.head() {
            let asked = self.note(&head);
            let script = Arc::clone(&lock(&self.shared.script));
            let behaviour = script(&asked);
            match self.answer(&asked, &behaviour) {
                // The last byte of the request, which was left.
                Next::Kept => drop(self.stream.read_exact(&mut [0])),
                Next::Closed => {
                    drop(self.stream.read_exact(&mut [0]));
                    return;
                }
                Next::Reset => return,
            }
            self.served += 1;
        }
    }

    /// A request's head, all of it read but its last byte.
    fn head(&mut self) -> Option<String> {
        let mut bytes = vec![0; 16 << 10];
        loop {
            if self.shared.is_stopped() {
                return None;
            }
            let count = match self.stream.peek(&mut bytes) {
                Ok(0) => return None,
                Ok(_) if self.shared.is_stopped() => return None,
                Ok(count) => count,
                Err(error) if is_time_out(&error) => continue,
                Err(_) => return None,
            };
            if let Some(end) = bytes[..count].windows(4).position(|four| four == b"\r\n\r\n") {
                let mut head = vec![0; end + 3];
                self.stream.read_exact(&mut head).ok()?;
                return String::from_utf8(head).ok();
            }
            pause(Duration::from_millis(1));
        }
    }

    fn note(&self, head: &str) -> Asked {
        let mut lines = head.split("\r\n");
        let mut first = lines.next().unwrap_or_default().split(' ');
        let (method, path) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
        let header = |wanted: &str| {
            let line = |line: &str| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case(wanted).then(|| value.trim().to_owned())
            };
            head.split("\r\n").find_map(line)
        };
        let mut asked = lock(&self.shared.asked);
        let number = asked.iter().filter(|before| before.path == path).count() as u64;
        let this = Asked {
            number,
            on_connection: self.served,
            method: method.to_owned(),
            path: path.to_owned(),
            range: header("range"),
            if_match: header("if-match"),
            if_none_match: header("if-none-match"),
        };
        asked.push(this.clone());
        this
    }

    fn answer(&mut self, asked: &Asked, behaviour: &Behaviour) -> Next {
        if !behaviour.delay.is_zero() {
            pause(behaviour.delay);
        }
        if behaviour.resets_at_once {
            return Next::Reset;
        }
        if let Some((status, retry_after)) = behaviour.error {
            let next = self.error(asked, status, retry_after, behaviour.closes);
            return if behaviour.closes { Next::Closed } else { next };
        }
        let found = lock(&self.shared.objects)
            .get(&asked.path)
            .map(|object| (Arc::clone(&object.bytes), object.etag.clone()));
        let Some((bytes, etag)) = found else { return self.error(asked, 404, None, false) };
        if asked.if_match.as_ref().is_some_and(|wanted| *wanted != etag) {
            return self.error(asked, 412, None, false);
        }
        if asked.if_none_match.as_ref() == Some(&etag) {
            let head = format!("HTTP/1.1 304 Not Modified\r\nETag: {etag}\r\n\r\n");
            return self.write(head.as_bytes());
        }
        self.object(asked, behaviour, &bytes, &etag)
    }

    fn object(&mut self, asked: &Asked, behaviour: &Behaviour, bytes: &[u8], etag: &str) -> Next {
        let length = bytes.len() as u64;
        let range = match asked.range.as_deref().map(|range| resolve(range, length)) {
            Some(None) => return self.error(asked, 416, None, false),
            Some(Some(range)) if behaviour.lie != Some(Lie::Whole) => Some(range),
            _ => None,
        };
        let (start, end) = range.unwrap_or((0, length));
        let head = head_of(range, length, etag, behaviour.lie);
        if let failed @ (Next::Closed | Next::Reset) = self.write(head.as_bytes()) {
            return failed;
        }
        if asked.method == "HEAD" {
            return Next::Kept;
        }
        let sent = self.body(&bytes[start as usize..end as usize], behaviour);
        match behaviour.lie {
            Some(Lie::LengthTooLong | Lie::LengthTooShort) => Next::Closed,
            _ => sent,
        }
    }

    fn body(&mut self, body: &[u8], behaviour: &Behaviour) -> Next {
        let whole = body.len() as u64;
        let (until, ending) = match behaviour.ending {
            Some((after, ending)) if after < whole => (after, Some(ending)),
            _ => (whole, None),
        };
        for piece in body[..until as usize].chunks(PIECE_BYTES_MAX) {
            if !matches!(self.write(piece), Next::Kept) {
                return Next::Closed;
            }
            self.shared.body_bytes.fetch_add(piece.len() as u64, Ordering::SeqCst);
        }
        match ending {
            None => Next::Kept,
            Some(Ending::Cut) => Next::Closed,
            Some(Ending::Reset) => Next::Reset,
            Some(Ending::Stall) => self.stall(),
        }
    }

    /// Stays silent until the other side has gone.
    fn stall(&mut self) -> Next {
        // The byte that was left is taken; after it, the end shows.
        let mut byte = [0];
        while !self.shared.is_stopped() {
            match self.stream.read(&mut byte) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if is_time_out(&error) => {}
                Err(_) => break,
            }
        }
        Next::Closed
    }

    fn error(
        &mut self,
        asked: &Asked,
        status: u16,
        retry_after: Option<&str>,
        closes: bool,
    ) -> Next {
        let code = match status {
            404 => "NoSuchKey",
            412 => "PreconditionFailed",
            416 => "InvalidRange",
            503 => "SlowDown",
            _ => "InternalError",
        };
        let body = format!("<Error><Code>{code}</Code><Message>on purpose</Message></Error>");
        let later = retry_after.map_or(String::new(), |wait| format!("Retry-After: {wait}\r\n"));
        let connection = if closes { "Connection: close\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {status} On Purpose\r\n{later}{connection}Content-Type: application/xml\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        let text = if asked.method == "HEAD" { head } else { head + &body };
        self.write(text.as_bytes())
    }

    fn write(&mut self, bytes: &[u8]) -> Next {
        if self.stream.write_all(bytes).is_ok() { Next::Kept } else { Next::Closed }
    }
}

fn head_of(range: Option<(u64, u64)>, length: u64, etag: &str, lie: Option<Lie>) -> String {
    let (start, end) = range.unwrap_or((0, length));
    let said_length = match lie {
        Some(Lie::LengthTooLong) => end - start + 1,
        Some(Lie::LengthTooShort) => end - start - 1,
        _ => end - start,
    };
    let total = if lie == Some(Lie::TotalTooLong) { length + 1 } else { length };
    let shift = u64::from(lie == Some(Lie::RangeShifted));
    let status = if range.is_some() { "206 Partial Content" } else { "200 OK" };
    let mut head = format!("HTTP/1.1 {status}\r\nContent-Length: {said_length}\r\n");
    if lie != Some(Lie::NoEtag) {
        head += &format!("ETag: {etag}\r\n");
    }
    if range.is_some() && lie != Some(Lie::NoRange) {
        let (first, last) = (start + shift, end - 1 + shift);
        head += &format!("Content-Range: bytes {first}-{last}/{total}\r\n");
    }
    head + "Last-Modified: Thu, 01 Jan 2015 00:00:00 GMT\r\nContent-Type: x/y\r\n\r\n"
}

/// The bytes of a range, or none of them.
fn resolve(range: &str, length: u64) -> Option<(u64, u64)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    if first.is_empty() {
        let count: u64 = last.parse().ok()?;
        return (count > 0 && length > 0).then(|| (length - count.min(length), length));
    }
    let first: u64 = first.parse().ok()?;
    let end = last.parse::<u64>().map_or(length, |last| last.saturating_add(1).min(length));
    (first < end).then_some((first, end))
}

fn is_time_out(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

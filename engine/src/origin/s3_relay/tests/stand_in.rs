//! An S3 server of a test's own: plain sockets, so that what arrives is seen byte for byte.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use nilas_base::Clock;
use nilas_net::S3Error;
use nilas_net::aws_chunked::{AwsChunkedDecoder, Step};
use nilas_net::chunked::{ChunkedDecoder, Step as ChunkStep};
use nilas_net::head::{BodyLength, Parsed, RequestHead, parse_head};
use nilas_net::sigv4::{Credential, Credentials, PayloadHash, Presented, Verifier};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::origin::question::{Told, ask};
use crate::origin::{BodyFraming, BodyPart, LocalDirectory, Origin};

/// What goes wrong with one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nothing.
    None,
    /// The connection is closed instead of an answer.
    Close,
    /// There is no answer, and the connection stays.
    Stall,
    /// The connection is closed after so many bytes of the answer's body.
    CutBody(usize),
    /// Nothing comes after so many bytes of the answer's body.
    StallBody(usize),
    /// The answer is whole; then the connection is closed without a word.
    CloseAfter,
    /// The answer is sent before the body is read.
    EarlyAnswer,
}

#[derive(Debug)]
struct Shared {
    _folder: tempfile::TempDir,
    directory: Arc<dyn Origin>,
    faults: Mutex<VecDeque<Fault>>,
    heads: Mutex<Vec<String>>,
    connections: AtomicUsize,
    ended: AtomicUsize,
}

impl std::fmt::Debug for dyn Origin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.describe())
    }
}

/// The server, for as long as it is held.
pub(super) struct StandIn {
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct OneKey;

impl Credentials for OneKey {
    fn find(&self, access_key: &str) -> Option<Credential<'_>> {
        (access_key == "origin-key").then_some(Credential { index: 0, secret: "origin-secret" })
    }
}

impl StandIn {
    /// One with an empty bucket `lake`.
    pub(super) async fn start() -> StandIn {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(folder.path().join("lake")).expect("made");
        let directory = LocalDirectory::open(folder.path(), Clock::system()).expect("usable");
        let shared = Arc::new(Shared {
            _folder: folder,
            directory: Arc::new(directory),
            faults: Mutex::default(),
            heads: Mutex::default(),
            connections: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        StandIn { address, shared, task }
    }

    /// The faults of the next answers, in order.
    pub(super) fn fail(&self, faults: &[Fault]) {
        self.shared.faults.lock().expect("no test panics with it").extend(faults);
    }

    /// The heads that arrived, as they were sent.
    pub(super) fn heads(&self) -> Vec<String> {
        self.shared.heads.lock().expect("no test panics with it").clone()
    }

    pub(super) fn last_head(&self) -> String {
        self.heads().pop().expect("a request came")
    }

    pub(super) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Waits until so many connections have ended.
    pub(super) async fn until_ended(&self, connections: usize) {
        while self.shared.ended.load(Ordering::SeqCst) < connections {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }

    /// The origin behind it.
    pub(super) fn directory(&self) -> &Arc<dyn Origin> {
        &self.shared.directory
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        shared.connections.fetch_add(1, Ordering::SeqCst);
        connections.spawn(serve(stream, Arc::clone(&shared)));
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let mut received = Vec::new();
    while serve_one(&mut stream, &mut received, &shared).await {}
    shared.ended.fetch_add(1, Ordering::SeqCst);
}

/// Serves a request; whether the connection goes on.
async fn serve_one(stream: &mut TcpStream, received: &mut Vec<u8>, shared: &Shared) -> bool {
    let Some(raw) = read_head(stream, received).await else { return false };
    shared
        .heads
        .lock()
        .expect("no test panics with it")
        .push(String::from_utf8_lossy(&raw).into_owned());
    let Ok(Parsed::Whole(head, _)) = parse_head(&raw) else { panic!("it was whole before") };
    let fault = shared.faults.lock().expect("no test panics with it").pop_front();
    let fault = fault.unwrap_or(Fault::None);
    if fault == Fault::EarlyAnswer {
        let early = "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        return stream.write_all(early.as_bytes()).await.is_err();
    }
    let Some(body) = read_body(stream, received, head.body()).await else { return false };
    match fault {
        Fault::Close => return false,
        Fault::Stall => return wait_for_close(stream).await,
        _ => {}
    }
    let told = match prove(&head, &body) {
        Ok(proved) => answer(&head, proved, shared).await,
        Err(error) => refuse(&error),
    };
    send(stream, &told, &head, fault).await
}

async fn read_head(stream: &mut TcpStream, received: &mut Vec<u8>) -> Option<Vec<u8>> {
    loop {
        if let Parsed::Whole(_, bytes) = parse_head(received).expect("a well-formed head") {
            return Some(received.drain(..bytes).collect());
        }
        if stream.read_buf(received).await.ok()? == 0 {
            return None;
        }
    }
}

async fn read_body(
    stream: &mut TcpStream,
    received: &mut Vec<u8>,
    length: BodyLength,
) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    let mut chunks = ChunkedDecoder::new();
    loop {
        match length {
            BodyLength::None => return Some(body),
            BodyLength::Bytes(bytes) if received.len() as u64 >= bytes => {
                return Some(received.drain(..bytes as usize).collect());
            }
            BodyLength::Bytes(_) => {}
            BodyLength::Chunked => {
                let mut rest = received.as_slice();
                let is_done = loop {
                    match chunks.step(&mut rest).expect("well-formed chunks") {
                        ChunkStep::Data(data) => body.extend_from_slice(data),
                        ChunkStep::NeedMore => break false,
                        ChunkStep::Done => break true,
                    }
                };
                *received = rest.to_vec();
                if is_done {
                    return Some(body);
                }
            }
        }
        if stream.read_buf(received).await.ok()? == 0 {
            return None;
        }
    }
}

/// A body, decoded and verified.
struct Proved {
    body: Vec<u8>,
    framing: BodyFraming,
    trailer: Vec<(String, String)>,
}

fn prove(head: &RequestHead<'_>, body: &[u8]) -> Result<Proved, S3Error> {
    let now = Clock::system().wall();
    let (payload, chain) = match Verifier::new().authenticate(head, &OneKey, now)? {
        Presented::V4(verified) => (verified.payload, verified.chain),
        Presented::Anonymous => {
            let said = head.header("x-amz-content-sha256").and_then(PayloadHash::parse);
            (said.unwrap_or(PayloadHash::Unsigned), None)
        }
        Presented::SigV2 => panic!("nothing here signs so"),
    };
    if let PayloadHash::Sha256(digest) = payload {
        let found = nilas_net::checksum::checksum(nilas_net::checksum::Algorithm::Sha256, body);
        assert_eq!(found.bytes(), digest, "the signed digest is the body's");
    }
    if !payload.is_streaming() {
        let framing = BodyFraming::Plain { payload_sha256: crate::origin::PayloadHash::Unsigned };
        return Ok(Proved { body: body.to_vec(), framing, trailer: Vec::new() });
    }
    let mut decoder = AwsChunkedDecoder::of(head, payload, chain)?;
    let (mut rest, mut decoded) = (body, Vec::new());
    while let Step::Data(data) = decoder.step(&mut rest)? {
        decoded.extend_from_slice(data);
    }
    decoder.finish()?;
    let trailer = decoder.trailer().to_vec();
    let trailer_names = trailer.iter().map(|(name, _)| name.clone()).collect();
    Ok(Proved {
        body: decoded,
        framing: BodyFraming::AwsChunked { signed: false, trailer_names },
        trailer,
    })
}

async fn answer(head: &RequestHead<'_>, proved: Proved, shared: &Shared) -> Told {
    let target = match head.query_raw() {
        "" => head.path_raw().to_owned(),
        query => format!("{}?{query}", head.path_raw()),
    };
    let bucket_host = head.host().strip_prefix("lake.");
    let target = if bucket_host.is_some() { format!("/lake{target}") } else { target };
    let mut question = ask(head.method().name(), &target);
    for (name, value) in head.headers() {
        let value = std::str::from_utf8(value).expect("a test's header is UTF-8");
        question = question.header(name, value);
    }
    if head.body() != BodyLength::None {
        let mut parts = vec![BodyPart::Data(Bytes::from(proved.body.clone()))];
        if !proved.trailer.is_empty() {
            parts.push(BodyPart::Trailer(proved.trailer));
        }
        parts.push(BodyPart::End);
        let length = Some(proved.body.len() as u64);
        question = question.parts(length, proved.framing, parts);
    }
    question.tell(&shared.directory).await.expect("the directory answers")
}

fn refuse(error: &S3Error) -> Told {
    let mut body = Vec::new();
    error.write_xml("", "", &mut body);
    let mut headers = HeaderMap::new();
    headers.insert("content-length", HeaderValue::from(body.len()));
    Told { status: error.status(), headers, length: Some(body.len() as u64), body }
}

async fn send(stream: &mut TcpStream, told: &Told, head: &RequestHead<'_>, fault: Fault) -> bool {
    let mut text =
        format!("HTTP/1.1 {} Said\r\nKeep-Alive: timeout=5\r\nX-Odd: kept\r\n", told.status);
    let mut headers = told.headers.clone();
    if told.status != 304 && head.method().name() != "HEAD" {
        headers.insert("content-length", HeaderValue::from(told.body.len()));
    }
    for (name, value) in &headers {
        let (name, value): (&HeaderName, &HeaderValue) = (name, value);
        text += &format!("{name}: {}\r\n", String::from_utf8_lossy(value.as_bytes()));
    }
    text += "\r\n";
    if stream.write_all(text.as_bytes()).await.is_err() {
        return false;
    }
    let (sent, goes_on) = match fault {
        Fault::CutBody(bytes) | Fault::StallBody(bytes) => (&told.body[..bytes], false),
        Fault::CloseAfter => (&told.body[..], false),
        _ => (&told.body[..], true),
    };
    if stream.write_all(sent).await.is_err() {
        return false;
    }
    match fault {
        Fault::StallBody(_) => wait_for_close(stream).await,
        _ => goes_on,
    }
}

/// Waits until the other side has had enough.
async fn wait_for_close(stream: &mut TcpStream) -> bool {
    let mut rest = [0; 64];
    while matches!(stream.read(&mut rest).await, Ok(bytes) if bytes > 0) {}
    false
}

//! The proxy: one connection to the origin for each connection of a client, opened with its first
//! request and renewed when the origin has closed it. Bodies stream both ways.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::{convert::Infallible, io};

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1 as client;
use hyper::header::{CONNECTION, RANGE};
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use super::ledger::{Ledger, Record};

type Answer = Response<BoxBody<Bytes, hyper::Error>>;
type OriginSender = client::SendRequest<Counted>;

/// Passes every connection on to the origin.
pub(super) async fn serve(
    clients: TcpListener,
    origin: SocketAddr,
    ledger: Arc<Ledger>,
) -> io::Result<()> {
    loop {
        let (socket, _) = clients.accept().await?;
        socket.set_nodelay(true)?;
        let link = Arc::new(Link { origin, ledger: Arc::clone(&ledger), sender: Mutex::default() });
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let link = Arc::clone(&link);
                async move { link.pass(request).await }
            });
            let mut builder = server::Builder::new();
            builder.preserve_header_case(true);
            // A client that goes away ends its connection and nothing else.
            let _ = builder.serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

/// What stands between one client's connection and the origin.
struct Link {
    origin: SocketAddr,
    ledger: Arc<Ledger>,
    sender: Mutex<Option<OriginSender>>,
}

impl Link {
    async fn pass(&self, request: Request<Incoming>) -> Result<Answer, Infallible> {
        let entry = Arc::new(Entry::open(&self.ledger, &request));
        let latency = self.ledger.latency();
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        let received = Arc::clone(&entry);
        let request = request.map(|body| Counted::new(body, received, Direction::Received));
        match self.ask(request).await {
            Ok(answer) => {
                entry.amend(|record| record.status = answer.status().as_u16());
                Ok(answer.map(|body| Counted::new(body, entry, Direction::Sent).boxed()))
            }
            Err(error) => Ok(refuse(&error)),
        }
    }

    async fn ask(&self, mut request: Request<Counted>) -> io::Result<Response<Incoming>> {
        // This header speaks of the client's connection; the origin's has a life of its own.
        request.headers_mut().remove(CONNECTION);
        let mut held = self.sender.lock().await;
        let usable = match held.as_mut() {
            Some(sender) => sender.ready().await.is_ok(),
            None => false,
        };
        if !usable {
            *held = Some(connect(self.origin).await?);
        }
        let sender = held.as_mut().expect("connected above");
        let mut answer = sender.send_request(request).await.map_err(io::Error::other)?;
        answer.headers_mut().remove(CONNECTION);
        Ok(answer)
    }
}

fn refuse(error: &io::Error) -> Answer {
    let text = format!("the recorder could not reach the origin: {error}\n");
    let body = Full::from(text).map_err(|never: Infallible| match never {}).boxed();
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::BAD_GATEWAY;
    answer
}

async fn connect(origin: SocketAddr) -> io::Result<OriginSender> {
    let socket = TcpStream::connect(origin).await?;
    socket.set_nodelay(true)?;
    let mut builder = client::Builder::new();
    builder.preserve_header_case(true);
    let handshake = builder.handshake(TokioIo::new(socket)).await;
    let (sender, connection) = handshake.map_err(io::Error::other)?;
    tokio::spawn(connection);
    Ok(sender)
}

/// One request's place in the ledger, held until both its bodies are done with.
struct Entry {
    ledger: Arc<Ledger>,
    place: usize,
}

impl Entry {
    fn open(ledger: &Arc<Ledger>, request: &Request<Incoming>) -> Entry {
        let range = request.headers().get(RANGE);
        let record = Record {
            method: request.method().to_string(),
            path: request.uri().path().into(),
            query: request.uri().query().unwrap_or("").into(),
            range: range.map(|range| String::from_utf8_lossy(range.as_bytes()).into_owned()),
            ..Record::default()
        };
        Entry { ledger: Arc::clone(ledger), place: ledger.open(record) }
    }

    fn amend(&self, change: impl FnOnce(&mut Record)) {
        self.ledger.amend(self.place, change);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.ledger.close();
    }
}

#[derive(Clone, Copy)]
enum Direction {
    Received,
    Sent,
}

/// A body whose bytes are counted as they pass.
struct Counted {
    body: Incoming,
    entry: Arc<Entry>,
    direction: Direction,
}

impl Counted {
    fn new(body: Incoming, entry: Arc<Entry>, direction: Direction) -> Counted {
        let counted = Counted { body, entry, direction };
        counted.count(0);
        counted
    }

    /// Counts bytes that have passed; an answer is complete once its body says so.
    fn count(&self, bytes: u64) {
        let ended = self.body.is_end_stream();
        self.entry.amend(|record| match self.direction {
            Direction::Received => record.bytes_received += bytes,
            Direction::Sent => {
                record.bytes_sent += bytes;
                record.complete |= ended;
            }
        });
    }
}

impl Body for Counted {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                self.count(frame.data_ref().map_or(0, |data| data.len() as u64));
            }
            Poll::Ready(None) => self.count(0),
            _ => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

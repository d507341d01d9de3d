//! What stands between one client's connection and the origin: a connection of its own, opened with
//! the first request and renewed when the origin has closed it. Bodies stream both ways.
//! Faults before an answer's head are played here; what happens to its bytes is left to `wire`.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1 as client;
use hyper::header::{CONNECTION, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use super::Shared;
use super::entry::{Counted, Direction, Entry};
use super::rule::{Asks, Before, Fault, Spot};
use super::spoil::{Spoil, Twist};
use super::wire::Spoiler;

type AnyBody = BoxBody<Bytes, hyper::Error>;
type Answer = Response<AnyBody>;
type Asked = Request<AnyBody>;
type OriginSender = client::SendRequest<AnyBody>;

/// One client's way to the origin; clones share the connection.
#[derive(Clone)]
pub(super) struct Link {
    origin: SocketAddr,
    shared: Shared,
    spoiler: Spoiler,
    sender: Arc<Mutex<Option<OriginSender>>>,
}

/// The connection ends here, by a fault.
#[derive(Debug)]
pub(super) struct Ended;

impl std::fmt::Display for Ended {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the connection was to end here")
    }
}

impl std::error::Error for Ended {}

/// One request on its way, with its place in the ledger.
struct Passing {
    request: Asked,
    entry: Arc<Entry>,
}

impl Link {
    /// A link that has asked nothing yet.
    pub(super) fn new(origin: SocketAddr, shared: Shared, spoiler: Spoiler) -> Link {
        Link { origin, shared, spoiler, sender: Arc::default() }
    }

    /// Passes one request on, as far as no fault meets it.
    pub(super) async fn pass(&self, request: Request<Incoming>) -> Result<Answer, Ended> {
        self.spoiler.spare();
        let entry = Arc::new(Entry::open(&self.shared.ledger, &request));
        let fault = self.shared.script.meet(&request);
        entry.amend(|record| record.fault = fault.as_ref().map(Fault::name));
        let latency = self.shared.ledger.latency();
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        let counted = Arc::clone(&entry);
        let request = request.map(|body| Counted::new(body, counted, Direction::Received).boxed());
        let passing = Passing { request, entry };
        match fault {
            None => Ok(self.honestly(passing).await),
            Some(fault) => self.badly(passing, fault).await,
        }
    }

    async fn badly(&self, passing: Passing, fault: Fault) -> Result<Answer, Ended> {
        if let Some(twist) = Twist::of(&fault) {
            return Ok(self.twisted(passing, twist).await);
        }
        match fault {
            Fault::Delay { time, before: Before::Request } => {
                tokio::time::sleep(time).await;
                Ok(self.honestly(passing).await)
            }
            Fault::Delay { time, before: Before::Answer } => {
                let answer = self.settled(passing).await;
                tokio::time::sleep(time).await;
                Ok(answer)
            }
            Fault::Stall { at: Spot::Head(asks), time } => self.stalled(passing, asks, time).await,
            Fault::Reset { at: Spot::Head(asks) } => {
                self.spoiler.reset_at_end();
                self.ended(passing, asks).await
            }
            Fault::Cut { at: Spot::Head(asks) } => self.ended(passing, asks).await,
            Fault::Status { status, code, retry_after_s, asks } => {
                self.worked_on(passing, asks).await;
                Ok(error_answer(status, &code, retry_after_s))
            }
            other => unreachable!("{} is done to bytes or to listeners", other.name()),
        }
    }

    /// The origin's answer as it comes.
    async fn honestly(&self, passing: Passing) -> Answer {
        let Passing { request, entry } = passing;
        match self.ask(request).await {
            Ok(answer) => {
                entry.amend(|record| record.status = answer.status().as_u16());
                answer.map(|body| Counted::new(body, entry, Direction::Sent).boxed())
            }
            Err(error) => unreachable_answer(&error),
        }
    }

    /// The origin's answer once the deed is done: that to a write has been read to its end, since it
    /// may begin before.
    async fn settled(&self, passing: Passing) -> Answer {
        let is_read = matches!(*passing.request.method(), Method::GET | Method::HEAD);
        let (head, body) = self.honestly(passing).await.into_parts();
        if is_read {
            return Response::from_parts(head, body);
        }
        let bytes = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        Response::from_parts(head, whole(bytes))
    }

    /// The origin's answer, with something done to its bytes on the wire.
    async fn twisted(&self, passing: Passing, twist: Twist) -> Answer {
        let entry = Arc::clone(&passing.entry);
        let is_head = passing.request.method() == Method::HEAD;
        let answer = self.settled(passing).await;
        let body_bytes = if is_head { Some(0) } else { answer.body().size_hint().exact() };
        self.spoiler.spoil(Spoil::new(twist, body_bytes, entry));
        answer
    }

    async fn stalled(
        &self,
        passing: Passing,
        asks: Asks,
        time: Option<Duration>,
    ) -> Result<Answer, Ended> {
        let answer = self.worked_on(passing, asks).await;
        match time {
            Some(time) => tokio::time::sleep(time).await,
            None => pending().await,
        }
        answer.ok_or(Ended)
    }

    async fn ended(&self, passing: Passing, asks: Asks) -> Result<Answer, Ended> {
        self.worked_on(passing, asks).await;
        Err(Ended)
    }

    /// Has the origin do what was asked, where and when it is to; the client's body is read first in
    /// any case, so that the client is not interrupted. The answer, where there is one by now.
    async fn worked_on(&self, passing: Passing, asks: Asks) -> Option<Answer> {
        if asks == Asks::First {
            return Some(self.settled(passing).await);
        }
        let Passing { request, entry } = passing;
        let (head, body) = request.into_parts();
        let body = body.collect().await.ok()?.to_bytes();
        if let Asks::Later(wait) = asks {
            let (link, request) = (self.clone(), Request::from_parts(head, whole(body)));
            // Whoever asked may be long gone by then.
            tokio::spawn(async move {
                tokio::time::sleep(wait).await;
                link.settled(Passing { request, entry }).await
            });
        }
        None
    }

    async fn ask(&self, mut request: Asked) -> io::Result<Response<Incoming>> {
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

fn whole(bytes: Bytes) -> AnyBody {
    Full::from(bytes).map_err(|never| match never {}).boxed()
}

fn unreachable_answer(error: &io::Error) -> Answer {
    let text = format!("the recorder could not reach the origin: {error}\n");
    let mut answer = Response::new(whole(text.into()));
    *answer.status_mut() = StatusCode::BAD_GATEWAY;
    answer
}

/// An error as an S3 tells it.
fn error_answer(status: u16, code: &str, retry_after_s: Option<u64>) -> Answer {
    let xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code>\
         <Message>The recorder was told to say so.</Message></Error>"
    );
    let mut answer = Response::new(whole(xml.into()));
    *answer.status_mut() = StatusCode::from_u16(status).expect("rules hold statuses alone");
    if let Some(retry_after_s) = retry_after_s {
        answer.headers_mut().insert(RETRY_AFTER, retry_after_s.into());
    }
    answer
}

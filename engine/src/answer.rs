//! Answers of the node's own: heads written into pooled memory, errors as S3 spells them.
//! What an origin answered is passed on by `relay`; what a mapping proves is answered by `get`.

use std::borrow::Cow;

use bytes::Bytes;
use nilas_base::Monotonic;
use nilas_net::date::UnixSeconds;
use nilas_net::response::ResponseHead;
use nilas_net::{Code, S3Error, Sink};
use nilas_shards::{HeadBuffer, Parts};

use crate::client::Client;
use crate::metrics::{self, Operation, Tier};
use crate::origin::OriginError;
use crate::request::{Next, Request, RequestId};
use crate::shard::Shard;

/// What the node calls itself.
const SERVER: &[u8] = b"Nilas";

/// A response head in pooled memory; one that is too large for it continues on the heap.
pub struct HeadSink {
    buffer: HeadBuffer,
    overflow: Vec<u8>,
}

impl HeadSink {
    /// An empty head.
    pub fn new(shard: &Shard) -> HeadSink {
        HeadSink { buffer: shard.reactor.head_buffer(), overflow: Vec::new() }
    }

    /// Appends the head to a send.
    pub fn push_to(self, parts: &mut Parts) {
        parts.push_head(self.buffer);
        if !self.overflow.is_empty() {
            parts.push_bytes(Bytes::from(self.overflow));
        }
    }
}

impl Sink for HeadSink {
    fn put(&mut self, bytes: &[u8]) {
        if !self.overflow.is_empty() || self.buffer.write(bytes).is_err() {
            self.overflow.extend_from_slice(bytes);
        }
    }
}

/// Begins a head with what every answer carries.
pub fn begin<'s>(
    sink: &'s mut HeadSink,
    shard: &Shard,
    id: RequestId,
    status: u16,
    next: Next,
) -> ResponseHead<'s, HeadSink> {
    let head = ResponseHead::new(sink, status).header("x-amz-request-id", &id.digits());
    begun(head, shard, next)
}

/// Begins a head whose request id the origin gave.
pub fn begin_relayed<'s>(
    sink: &'s mut HeadSink,
    shard: &Shard,
    status: u16,
    next: Next,
) -> ResponseHead<'s, HeadSink> {
    begun(ResponseHead::new(sink, status), shard, next)
}

fn begun<'s>(
    head: ResponseHead<'s, HeadSink>,
    shard: &Shard,
    next: Next,
) -> ResponseHead<'s, HeadSink> {
    let head =
        head.date("Date", UnixSeconds::from(shard.reactor.clock().wall())).header("Server", SERVER);
    match next {
        Next::KeepAlive => head.header("Connection", b"keep-alive"),
        Next::Close | Next::Linger => head.header("Connection", b"close"),
    }
}

/// Refuses a request that was not read.
pub async fn refuse_unread(shard: &Shard, client: &Client, error: &S3Error) -> Next {
    let id = RequestId(shard.next_request_id());
    refuse(shard, client, error, ("/", false, id), shard.reactor.clock().now()).await
}

/// Refuses a request of which no more than the path is known, and whether it is a HEAD.
pub async fn refuse(
    shard: &Shard,
    client: &Client,
    error: &S3Error,
    (resource, is_head, id): (&str, bool, RequestId),
    started: Monotonic,
) -> Next {
    let latency = shard.reactor.clock().now().since(started).as_nanos() as u64;
    shard.counters.request(Operation::Other, error.status(), Tier::Node, latency);
    send_error(shard, client, (error, resource, id), is_head, Next::Linger).await
}

/// Answers a request with an error. `next` is what its connection can still be used for.
pub async fn fail(
    shard: &Shard,
    client: &Client,
    request: &Request<'_>,
    error: &S3Error,
    next: Next,
) -> Next {
    request.count(shard, error.status(), Tier::Node);
    request.notes.code(error);
    let is_head = request.head.method() == nilas_net::head::Method::Head;
    let about = (error, request.head.path_raw(), request.id);
    send_error(shard, client, about, is_head, next).await
}

async fn send_error(
    shard: &Shard,
    client: &Client,
    (error, resource, id): (&S3Error, &str, RequestId),
    is_head: bool,
    next: Next,
) -> Next {
    let digits = id.digits();
    let mut xml = Vec::new();
    let id_text = std::str::from_utf8(&digits).expect("hexadecimal digits are ASCII");
    error.write_xml(resource, id_text, &mut xml);
    let mut sink = HeadSink::new(shard);
    let mut head = begin(&mut sink, shard, id, error.status(), next)
        .header("Content-Type", b"application/xml")
        .number("Content-Length", xml.len() as u64);
    if error.status() == 503 {
        head = head.number("Retry-After", RETRY_AFTER_SECONDS);
    }
    head.finish();
    let mut parts = client.parts();
    sink.push_to(&mut parts);
    if !is_head {
        shard.counters.sent(Tier::Node, xml.len() as u64);
        parts.push_bytes(Bytes::from(xml));
    }
    match client.send(parts).await {
        Ok(_) => next,
        Err(_) => Next::Close,
    }
}

/// What a 503 asks the client to wait.
const RETRY_AFTER_SECONDS: u64 = 1;

/// An origin's silence as a client sees it, and how it is counted.
pub fn origin_failure(error: &OriginError) -> (S3Error, metrics::Failure) {
    let because =
        |code, message: String| S3Error::because(code, Cow::<'static, str>::Owned(message));
    match error {
        OriginError::Unreachable { .. }
        | OriginError::Credentials { .. }
        | OriginError::Resting { .. } => (
            because(Code::ServiceUnavailable, format!("The origin cannot be used now: {error}")),
            metrics::Failure::OriginUnreachable,
        ),
        OriginError::TimedOut { .. } => (
            because(Code::ServiceUnavailable, format!("The origin was too slow: {error}")),
            metrics::Failure::OriginTimeout,
        ),
        OriginError::Broken { .. } => (
            because(Code::ServiceUnavailable, format!("The origin's answer broke off: {error}")),
            metrics::Failure::OriginBroken,
        ),
        OriginError::BodyAborted => {
            (because(Code::IncompleteBody, error.to_string()), metrics::Failure::ClientGone)
        }
        OriginError::Busy => (S3Error::new(Code::SlowDown), metrics::Failure::Overloaded),
        OriginError::Closed => {
            (because(Code::ServiceUnavailable, error.to_string()), metrics::Failure::Internal)
        }
    }
}

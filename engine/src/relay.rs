//! The story of a request that the origin answers: told on as it came, but for the client's proof of
//! identity; its answer passed back as it came. What it may have changed is forgotten here before it
//! is sent and again before its answer is passed on. Bodies on their way up are checked by `put`.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use nilas_net::hop::{connection_names, is_body_framing, is_client_auth, is_hop_by_hop};
use nilas_net::operation::Effect;
use nilas_net::response::ResponseHead;

use crate::answer::{self, HeadSink};
use crate::client::Client;
use crate::invalidate::{self, Touched};
use crate::metrics::{Failure, Tier};
use crate::mutation::Mutation;
use crate::origin::{OriginAnswer, OriginError, OriginRequest, OriginResult, RequestBody};
use crate::put::{self, Upload, UploadError};
use crate::request::{Next, Request};
use crate::shard::Shard;
use crate::wire::is_told_anew;

/// Tells a request on, and its answer back.
pub async fn relay(shard: &Rc<Shard>, client: &mut Client, request: &Request<'_>) -> Next {
    let touched = touched(request);
    let (body, upload) = match put::prepare(request) {
        Ok(prepared) => prepared,
        Err(error) => return answer::fail(shard, client, request, &error, Next::Linger).await,
    };
    if !Mutation::NoBumpBeforeRelay.is_planted() {
        invalidate::announce(shard, touched).await;
    }
    let asked = origin_request(request, body);
    let outcome = exchange(shard, client, asked, upload).await;
    if !Mutation::NoBumpAfterRelay.is_planted() {
        invalidate::announce(shard, touched).await;
    }
    match outcome {
        Outcome::Answered(Ok(answer)) => pass_on(shard, client, request, answer).await,
        Outcome::AnsweredEarly(Ok(answer)) => {
            pass_on_then(shard, client, request, answer, Next::Linger).await
        }
        Outcome::Answered(Err(error)) => {
            unanswered(shard, client, request, &error, request.next(shard)).await
        }
        Outcome::AnsweredEarly(Err(error)) => {
            unanswered(shard, client, request, &error, Next::Linger).await
        }
        Outcome::Refused(error) => refused(shard, client, request, error).await,
    }
}

async fn unanswered(
    shard: &Rc<Shard>,
    client: &Client,
    request: &Request<'_>,
    error: &OriginError,
    next: Next,
) -> Next {
    let (error, failure) = answer::origin_failure(error);
    shard.counters.failure(failure);
    answer::fail(shard, client, request, &error, next).await
}

async fn refused(
    shard: &Rc<Shard>,
    client: &Client,
    request: &Request<'_>,
    error: UploadError,
) -> Next {
    shard.counters.failure(error.failure());
    match error.answer() {
        Some(error) => answer::fail(shard, client, request, &error, Next::Linger).await,
        None => Next::Close,
    }
}

enum Outcome {
    Answered(OriginResult),
    /// Answered before the client's body was read to its end.
    AnsweredEarly(OriginResult),
    /// The body broke off or failed a check; the origin was told to throw it away.
    Refused(UploadError),
}

/// Sends the body and waits for the answer, whichever ends first.
async fn exchange(
    shard: &Rc<Shard>,
    client: &mut Client,
    asked: OriginRequest,
    upload: Option<Upload>,
) -> Outcome {
    let Some(upload) = upload else {
        return Outcome::Answered(shard.origin.ask(asked).await);
    };
    let mut ask = pin!(shard.origin.ask(asked));
    let mut send = pin!(upload.send(shard, client));
    let mut sent = None;
    poll_fn(move |context| {
        if sent.is_none()
            && let Poll::Ready(result) = send.as_mut().poll(context)
        {
            match result {
                Ok(()) => sent = Some(true),
                Err(UploadError::OriginStopped) => sent = Some(false),
                Err(error) => return Poll::Ready(Outcome::Refused(error)),
            }
        }
        ask.as_mut().poll(context).map(|answer| match sent {
            Some(true) => Outcome::Answered(answer),
            Some(false) | None => Outcome::AnsweredEarly(answer),
        })
    })
    .await
}

fn touched<'a>(request: &Request<'a>) -> Touched<'a> {
    match (request.classified.operation.effect(), request.name(), request.target.bucket) {
        (Effect::Reads, _, _) | (_, None, None) => Touched::Nothing,
        (Effect::WritesObject | Effect::ChangesAccess, Some(name), _) => Touched::Key(name),
        (_, _, Some(bucket)) => Touched::Bucket(bucket),
        (_, Some(name), None) => Touched::Key(name),
    }
}

fn origin_request(request: &Request<'_>, body: RequestBody) -> OriginRequest {
    let mut path = Vec::new();
    request.target.path_style(&mut path);
    let mut query = Vec::new();
    nilas_net::query::without_presign(request.head.query_raw(), &mut query);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("a request line is UTF-8");
    OriginRequest {
        method: http::Method::from_bytes(request.head.method().name().as_bytes())
            .expect("the head's parser takes tokens only"),
        bucket: request.target.bucket.unwrap_or_default().to_owned(),
        key: request.target.key.map(str::to_owned),
        path_raw: text(path),
        query_raw: text(query),
        headers: end_to_end_headers(request),
        body,
    }
}

/// The headers that travel on.
fn end_to_end_headers(request: &Request<'_>) -> HeaderMap {
    let connection = request.head.header("connection").unwrap_or_default();
    let mut headers = HeaderMap::new();
    for (name, value) in request.head.headers() {
        let ends_here = is_hop_by_hop(name)
            || is_client_auth(name)
            || is_body_framing(name)
            || connection_names(connection, name)
            || name.eq_ignore_ascii_case("host")
            || name.eq_ignore_ascii_case("content-length");
        if ends_here {
            continue;
        }
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value))
        {
            headers.append(name, value);
        }
    }
    headers
}

/// Passes an origin's answer on as it came.
pub async fn pass_on(
    shard: &Rc<Shard>,
    client: &mut Client,
    request: &Request<'_>,
    answer: OriginAnswer,
) -> Next {
    pass_on_then(shard, client, request, answer, request.next(shard)).await
}

async fn pass_on_then(
    shard: &Rc<Shard>,
    client: &mut Client,
    request: &Request<'_>,
    answer: OriginAnswer,
    next: Next,
) -> Next {
    let status = answer.status;
    let next = passed_on(shard, client, request, answer, next).await;
    request.count(shard, status, Tier::Origin);
    next
}

/// How the end of a passed-on body is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// There is no body.
    None,
    /// By its length.
    Length(u64),
    /// By HTTP chunks.
    Chunks,
    /// By the end of the connection.
    Close,
}

async fn passed_on(
    shard: &Rc<Shard>,
    client: &mut Client,
    request: &Request<'_>,
    mut answer: OriginAnswer,
    next: Next,
) -> Next {
    let framing = framing(request, &answer);
    let next = match (framing, next) {
        (Framing::Close, Next::KeepAlive) => Next::Close,
        (_, next) => next,
    };
    let mut sink = HeadSink::new(shard);
    let head = answer::begin(&mut sink, shard, request.id, answer.status, next);
    put_head(head, &answer, framing);
    let mut parts = client.parts();
    sink.push_to(&mut parts);
    if framing == Framing::None {
        return if client.send(parts).await.is_ok() { next } else { Next::Close };
    }
    loop {
        let piece = match answer.body.next().await {
            Some(Ok(piece)) => Some(piece),
            None => None,
            Some(Err(_)) => {
                // The client must see that the body is short: the connection is cut.
                shard.counters.failure(Failure::OriginBroken);
                let _ = client.send(parts).await;
                return Next::Close;
            }
        };
        let is_last = piece.is_none();
        shard.counters.sent(Tier::Origin, piece.as_ref().map_or(0, |piece| piece.len() as u64));
        put_piece(&mut parts, framing, piece);
        if client.send(std::mem::replace(&mut parts, client.parts())).await.is_err() {
            shard.counters.failure(Failure::ClientGone);
            return Next::Close;
        }
        if is_last {
            return next;
        }
    }
}

fn framing(request: &Request<'_>, answer: &OriginAnswer) -> Framing {
    let is_bodiless = request.head.method() == nilas_net::head::Method::Head
        || matches!(answer.status, 100..=199 | 204 | 304);
    match (is_bodiless, answer.length) {
        (true, _) => Framing::None,
        (false, Some(length)) => Framing::Length(length),
        (false, None) if request.takes_chunks() => Framing::Chunks,
        (false, None) => Framing::Close,
    }
}

fn put_head(mut head: ResponseHead<'_, HeadSink>, answer: &OriginAnswer, framing: Framing) {
    for (name, value) in &answer.headers {
        let is_kept = !is_told_anew(name.as_str()) || name == http::header::CONTENT_RANGE;
        if is_kept {
            head = head.header(name.as_str(), value.as_bytes());
        }
    }
    head = match (framing, answer.length) {
        (Framing::Chunks, _) => head.header("Transfer-Encoding", b"chunked"),
        (Framing::Close, _) => head,
        (Framing::None, _) if matches!(answer.status, 204 | 304) => head,
        (Framing::None | Framing::Length(_), Some(length)) => head.number("Content-Length", length),
        (Framing::None | Framing::Length(_), None) => head,
    };
    head.finish();
}

/// Appends a piece of the body, or its end.
fn put_piece(parts: &mut nilas_shards::Parts, framing: Framing, piece: Option<Bytes>) {
    match (framing, piece) {
        (Framing::Chunks, Some(piece)) => {
            parts.push_bytes(Bytes::from(format!("{:x}\r\n", piece.len())));
            parts.push_bytes(piece);
            parts.push_static(b"\r\n");
        }
        (Framing::Chunks, None) => parts.push_static(b"0\r\n\r\n"),
        (_, Some(piece)) => parts.push_bytes(piece),
        (_, None) => {}
    }
}

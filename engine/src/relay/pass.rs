//! An origin's answer on its way to the client, piece by piece, framed anew.
//! It keeps nothing: a body that comes out longer or shorter than announced cuts the connection.

use std::rc::Rc;

use bytes::Bytes;
use nilas_net::response::ResponseHead;

use super::location::{self, Addresses, Retelling};
use super::settle::Passing;
use crate::answer::{self, HeadSink};
use crate::client::{Client, Scarce};
use crate::invalidate::Write;
use crate::metrics::{Failure, Tier};
use crate::origin::OriginAnswer;
use crate::request::{Next, Request};
use crate::shard::Shard;
use crate::wire::is_told_anew;

/// Passes the origin's answer to a read on as it came.
pub async fn pass_on(
    shard: &Rc<Shard>,
    client: &mut Client,
    request: &Request<'_>,
    answer: OriginAnswer,
) -> Next {
    let answer = (answer, &Write::NONE);
    pass_on_then(shard, client, request, answer, request.next(shard)).await
}

/// Passes an answer on, whose end settles the write to what it touched.
pub(super) async fn pass_on_then(
    shard: &Rc<Shard>,
    client: &mut Client,
    request: &Request<'_>,
    (mut answer, write): (OriginAnswer, &Write<'_>),
    next: Next,
) -> Next {
    let mut passing = Passing::new(shard, &mut answer, write);
    let next = passed_on(shard, client, request, (&answer, &mut passing), next).await;
    passing.settle().await;
    if shard.audit.is_on() {
        request.notes.origin_answer(&answer);
    }
    request.count(shard, answer.status, Tier::Origin);
    next
}

/// Headers by which the origin's operators find this very answer; its body may name them too.
const REQUEST_IDS: [&str; 2] = ["x-amz-request-id", "x-amz-id-2"];

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

impl Framing {
    /// Whether so many bytes are more than the head has announced.
    fn is_exceeded_by(self, bytes: u64) -> bool {
        matches!(self, Framing::Length(length) if bytes > length)
    }

    /// Whether a body may end after so many bytes.
    fn is_ended_by(self, bytes: u64) -> bool {
        !matches!(self, Framing::Length(length) if bytes != length)
    }
}

async fn passed_on(
    shard: &Rc<Shard>,
    client: &mut Client,
    request: &Request<'_>,
    (answer, body): (&OriginAnswer, &mut Passing<'_>),
    next: Next,
) -> Next {
    let addresses = Addresses::of(shard, request);
    let mut retelling = addresses
        .filter(|_| matches!(answer.status, 200 | 201) && answer.length != Some(0))
        .filter(|_| location::is_told_in_body(request.classified.operation))
        .map(Retelling::new);
    let framing = framing(request, answer, retelling.is_some());
    let next = match (framing, next) {
        (Framing::Close, Next::KeepAlive) => Next::Close,
        (_, next) => next,
    };
    let mut sink = HeadSink::new(shard);
    let head = match answer.headers.contains_key(REQUEST_IDS[0]) {
        true => answer::begin_relayed(&mut sink, shard, answer.status, next),
        false => answer::begin(&mut sink, shard, request.id, answer.status, next),
    };
    put_head(head, answer, framing, addresses);
    let mut parts = client.parts();
    sink.push_to(&mut parts);
    if framing == Framing::None {
        return if client.send(parts).await.is_ok() { next } else { Next::Close };
    }
    let mut passed_bytes = 0;
    loop {
        let piece = body.next().await;
        passed_bytes +=
            piece.as_ref().map_or(0, |piece| piece.as_ref().map_or(0, Bytes::len)) as u64;
        let piece = match piece {
            Some(Ok(piece)) if !framing.is_exceeded_by(passed_bytes) => Some(piece),
            None if framing.is_ended_by(passed_bytes) => None,
            _ => {
                // The client must see that the body is short: the connection is cut.
                shard.counters.failure(Failure::OriginBroken);
                let _ = client.send(parts).await;
                return Next::Close;
            }
        };
        let is_last = piece.is_none();
        shard.counters.sent(Tier::Origin, piece.as_ref().map_or(0, |piece| piece.len() as u64));
        put_retold(&mut parts, framing, piece, retelling.as_mut());
        client.keep_ahead(Scarce::Buffers);
        if let Err(error) = client.send(std::mem::replace(&mut parts, client.parts())).await {
            error.failure().into_iter().for_each(|failure| shard.counters.failure(failure));
            return Next::Close;
        }
        if is_last {
            return next;
        }
    }
}

fn framing(request: &Request<'_>, answer: &OriginAnswer, is_retold: bool) -> Framing {
    let is_bodiless = request.head.method() == nilas_net::head::Method::Head
        || matches!(answer.status, 100..=199 | 204 | 304);
    match (is_bodiless, answer.length.filter(|_| !is_retold)) {
        (true, _) => Framing::None,
        (false, Some(length)) => Framing::Length(length),
        (false, None) if request.takes_chunks() => Framing::Chunks,
        (false, None) => Framing::Close,
    }
}

fn put_head(
    mut head: ResponseHead<'_, HeadSink>,
    answer: &OriginAnswer,
    framing: Framing,
    addresses: Option<Addresses<'_>>,
) {
    for (name, value) in &answer.headers {
        let is_kept = !is_told_anew(name.as_str())
            || name == http::header::CONTENT_RANGE
            || REQUEST_IDS.contains(&name.as_str());
        let retold = addresses
            .filter(|_| name == http::header::LOCATION)
            .and_then(|addresses| addresses.retold(value.to_str().ok()?));
        if let Some(retold) = retold {
            head = head.header(name.as_str(), retold.as_bytes());
        } else if is_kept {
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

/// Appends a piece of the body, or its end, with the origin's address told anew.
fn put_retold(
    parts: &mut nilas_shards::Parts,
    framing: Framing,
    piece: Option<Bytes>,
    retelling: Option<&mut Retelling<'_>>,
) {
    let Some(retelling) = retelling else { return put_piece(parts, framing, piece) };
    let is_last = piece.is_none();
    let told = match piece {
        Some(piece) => retelling.pass(piece),
        None => retelling.end(),
    };
    // A chunk of no bytes would end the body.
    if !told.is_empty() {
        put_piece(parts, framing, Some(told));
    }
    if is_last {
        put_piece(parts, framing, None);
    }
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

//! The heads of served answers: what the mapping holds, and what depends on the request.

use std::rc::Rc;

use nilas_base::ByteRange;
use nilas_net::operation::overrides;
use nilas_net::response::ResponseHead;

use super::Served;
use crate::answer::{self, HeadSink};
use crate::client::Client;
use crate::mapping::{Mapping, Part};
use crate::metrics::Tier;
use crate::request::{Next, Request};
use crate::shard::Shard;

/// What of an object an answer is about.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape<'a> {
    /// All of it: 200.
    Whole,
    /// A range that was asked for: 206.
    Slice(ByteRange),
    /// A part of an object that was uploaded in parts: 206.
    Part(&'a Part),
}

impl Shape<'_> {
    fn status(self) -> u16 {
        match self {
            Shape::Whole => 200,
            Shape::Slice(_) | Shape::Part(_) => 206,
        }
    }

    /// The bytes of an object of this length.
    pub(super) fn bytes(self, length: u64) -> ByteRange {
        match self {
            Shape::Whole => ByteRange::new(0, length),
            Shape::Slice(slice) => slice,
            Shape::Part(part) => part.range,
        }
    }
}

/// Writes the head of a 200 or 206.
pub(super) fn write(
    shard: &Shard,
    request: &Request<'_>,
    mapping: &Mapping,
    shape: Shape<'_>,
) -> HeadSink {
    let mut sink = HeadSink::new(shard);
    let next = request.next(shard);
    let head = answer::begin(&mut sink, shard, request.id, shape.status(), next);
    let mut head = put_lines(head, &mapping.headers, request);
    let bytes = shape.bytes(mapping.length);
    head = match (shape, &mapping.checksums) {
        (Shape::Whole, Some(checksums)) if request.classified.checksum_mode => {
            head.lines(checksums)
        }
        (Shape::Whole, _) => head,
        (Shape::Slice(_), _) => head.content_range(bytes, mapping.length),
        (Shape::Part(part), _) => head.lines(&part.lines).content_range(bytes, mapping.length),
    };
    head.number("Content-Length", bytes.len()).finish();
    sink
}

/// The mapping's lines, but for those that the query overrides.
fn put_lines<'s>(
    mut head: ResponseHead<'s, HeadSink>,
    lines: &[u8],
    request: &Request<'_>,
) -> ResponseHead<'s, HeadSink> {
    let query = request.head.query_raw();
    if query.is_empty() || overrides(query).next().is_none() {
        return head.lines(lines);
    }
    let is_overridden = |line: &[u8]| overrides(query).any(|(name, _)| is_named(line, name));
    for line in lines.split_inclusive(|&byte| byte == b'\n') {
        if !is_overridden(line) {
            head = head.lines(line);
        }
    }
    for (name, pair) in overrides(query) {
        if let Ok(value) = pair.decoded() {
            head = head.header(name, value.as_bytes());
        }
    }
    head
}

/// Whether a header's line is of this name.
fn is_named(line: &[u8], name: &str) -> bool {
    line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes()))
        && line.get(name.len()) == Some(&b':')
}

/// Answers a HEAD.
pub(super) async fn alone(
    shard: &Rc<Shard>,
    client: &Client,
    request: &Request<'_>,
    mapping: &Mapping,
    shape: Shape<'_>,
) -> Served {
    send(shard, client, request, write(shard, request, mapping, shape), shape.status()).await
}

/// What a 304 tells of an object (RFC 9110 §15.4.5), and which version it is of.
const TOLD_UNMODIFIED: [&str; 6] =
    ["etag", "last-modified", "accept-ranges", "cache-control", "expires", "vary"];

/// Answers 304.
pub(super) async fn not_modified(
    shard: &Rc<Shard>,
    client: &Client,
    request: &Request<'_>,
    mapping: &Mapping,
) -> Served {
    let mut sink = HeadSink::new(shard);
    let mut head = answer::begin(&mut sink, shard, request.id, 304, request.next(shard));
    for line in mapping.headers.split_inclusive(|&byte| byte == b'\n') {
        if TOLD_UNMODIFIED.iter().any(|name| is_named(line, name)) {
            head = head.lines(line);
        }
    }
    head.finish();
    send(shard, client, request, sink, 304).await
}

async fn send(
    shard: &Rc<Shard>,
    client: &Client,
    request: &Request<'_>,
    sink: HeadSink,
    status: u16,
) -> Served {
    let mut parts = client.parts();
    sink.push_to(&mut parts);
    let sent = client.send(parts).await;
    request.count(shard, status, Tier::Mapping);
    Served::Done(if sent.is_ok() { request.next(shard) } else { Next::Close })
}

//! One request's place in the ledger, and the bodies that are counted into it as they pass.
//! The bytes of an answer that a fault meets on the wire are counted there instead: what was handed
//! to the connection may never have left it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::Request;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::RANGE;

use super::ledger::{Ledger, Record};

/// One request's place in the ledger, held until both its bodies are done with.
pub(super) struct Entry {
    ledger: Arc<Ledger>,
    place: usize,
    is_counted_on_wire: AtomicBool,
}

impl Entry {
    /// A place for a request that has arrived.
    pub(super) fn open(ledger: &Arc<Ledger>, request: &Request<Incoming>) -> Entry {
        let range = request.headers().get(RANGE);
        let record = Record {
            method: request.method().to_string(),
            path: request.uri().path().into(),
            query: request.uri().query().unwrap_or("").into(),
            range: range.map(|range| String::from_utf8_lossy(range.as_bytes()).into_owned()),
            ..Record::default()
        };
        let place = ledger.open(record);
        Entry { ledger: Arc::clone(ledger), place, is_counted_on_wire: AtomicBool::new(false) }
    }

    /// Writes what has become known.
    pub(super) fn amend(&self, change: impl FnOnce(&mut Record)) {
        self.ledger.amend(self.place, change);
    }

    /// From now on the wire counts the answer's bytes.
    pub(super) fn count_on_wire(&self) {
        self.is_counted_on_wire.store(true, Ordering::Relaxed);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.ledger.close();
    }
}

/// Which way a body passes.
#[derive(Clone, Copy)]
pub(super) enum Direction {
    /// From the client.
    Received,
    /// To the client.
    Sent,
}

/// A body whose bytes are counted as they pass.
pub(super) struct Counted {
    body: Incoming,
    entry: Arc<Entry>,
    direction: Direction,
}

impl Counted {
    /// A body of this entry's.
    pub(super) fn new(body: Incoming, entry: Arc<Entry>, direction: Direction) -> Counted {
        let counted = Counted { body, entry, direction };
        counted.count(0);
        counted
    }

    /// Counts bytes that have passed; an answer is complete once its body says so.
    fn count(&self, bytes: u64) {
        let ended = self.body.is_end_stream();
        let on_wire = self.entry.is_counted_on_wire.load(Ordering::Relaxed);
        self.entry.amend(|record| match self.direction {
            Direction::Received => record.bytes_received += bytes,
            Direction::Sent if on_wire => {}
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

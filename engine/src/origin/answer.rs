//! What an origin answers: a head, then a body that arrives in bounded pieces. A body that breaks
//! off is told apart from one that ends, whatever its length; dropping it cancels its source.

use bytes::Bytes;
use http::HeaderMap;
use tokio::sync::mpsc;

use super::OriginError;
use super::meter::BodyMeter;
use super::place::Place;

/// Parts of an answer's body that wait for their reader.
pub const BODY_PARTS_MAX: usize = 4;
/// The largest part.
pub const BODY_PART_BYTES_MAX: usize = 256 * 1024;

/// An origin's answer.
#[derive(Debug)]
pub struct OriginAnswer {
    /// The status as given.
    pub status: u16,
    /// End-to-end headers as given, `content-length` among them.
    pub headers: HeaderMap,
    /// The body.
    pub body: AnswerBody,
    /// The body's length in bytes as announced; of a HEAD, what a GET would have.
    pub length: Option<u64>,
}

impl OriginAnswer {
    /// An answer without a body.
    pub fn empty(status: u16, headers: HeaderMap) -> OriginAnswer {
        OriginAnswer { status, headers, body: AnswerBody::empty(), length: Some(0) }
    }
}

/// A body on its way from the origin.
#[derive(Debug)]
pub struct AnswerBody {
    source: Source,
    place: Option<Place>,
    meter: Option<Box<dyn BodyMeter>>,
}

#[derive(Debug)]
enum Source {
    Ended,
    Whole(Bytes),
    Parts(mpsc::Receiver<AnswerPart>),
}

#[derive(Debug)]
enum AnswerPart {
    Data(Bytes),
    Failed(OriginError),
    End,
}

impl AnswerBody {
    /// A body of no bytes.
    pub fn empty() -> AnswerBody {
        AnswerBody::of(Source::Ended)
    }

    /// A body that is already here.
    pub fn whole(bytes: Bytes) -> AnswerBody {
        AnswerBody::of(if bytes.is_empty() { Source::Ended } else { Source::Whole(bytes) })
    }

    /// A body that arrives, and what feeds it.
    pub fn channel() -> (AnswerSender, AnswerBody) {
        let (parts, receiver) = mpsc::channel(BODY_PARTS_MAX);
        (AnswerSender { parts }, AnswerBody::of(Source::Parts(receiver)))
    }

    fn of(source: Source) -> AnswerBody {
        AnswerBody { source, place: None, meter: None }
    }

    /// The next bytes, never none of them; `None` at the end, which is not reached after an error.
    /// Works on any executor; a dropped call loses nothing.
    pub async fn next(&mut self) -> Option<Result<Bytes, OriginError>> {
        let part = match &mut self.source {
            Source::Ended => return None,
            Source::Whole(bytes) => {
                AnswerPart::Data(bytes.split_to(bytes.len().min(BODY_PART_BYTES_MAX)))
            }
            Source::Parts(parts) => parts.recv().await.unwrap_or_else(|| {
                AnswerPart::Failed(OriginError::broken("the origin's body was given up half-way"))
            }),
        };
        self.step(part)
    }

    fn step(&mut self, part: AnswerPart) -> Option<Result<Bytes, OriginError>> {
        match part {
            AnswerPart::Data(bytes) if !bytes.is_empty() => {
                self.meter.iter_mut().for_each(|meter| meter.passed(bytes.len()));
                Some(Ok(bytes))
            }
            AnswerPart::Data(_) | AnswerPart::End => {
                self.end();
                None
            }
            AnswerPart::Failed(error) => {
                self.meter.iter_mut().for_each(|meter| meter.failed());
                self.end();
                Some(Err(error))
            }
        }
    }

    fn end(&mut self) {
        *self = AnswerBody::empty();
    }

    /// The whole body, where it is no longer than `bytes_max`.
    pub async fn collect(mut self, bytes_max: usize) -> Result<Vec<u8>, OriginError> {
        let mut all = Vec::new();
        while let Some(part) = self.next().await {
            let part = part?;
            if all.len() + part.len() > bytes_max {
                return Err(OriginError::broken(format!(
                    "an answer is longer than {bytes_max} bytes"
                )));
            }
            all.extend_from_slice(&part);
        }
        Ok(all)
    }

    /// Holds a place among the requests in flight until the body ends.
    pub(super) fn hold(&mut self, place: Place) {
        if !matches!(self.source, Source::Ended) {
            self.place = Some(place);
        }
    }

    /// Counts the bytes that are read; dropped when the body ends.
    pub(super) fn meter(&mut self, meter: Box<dyn BodyMeter>) {
        if !matches!(self.source, Source::Ended) {
            self.meter = Some(meter);
        }
    }
}

/// The origin's side of an [`AnswerBody`]. Dropped before [`AnswerSender::end`], the body breaks off.
#[derive(Debug)]
pub struct AnswerSender {
    parts: mpsc::Sender<AnswerPart>,
}

/// Nobody reads the body any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverGone;

/// Room for some parts in the queue of an [`AnswerSender`], its own until it is filled.
#[derive(Debug)]
pub struct AnswerRoom<'a>(mpsc::PermitIterator<'a, AnswerPart>);

impl AnswerRoom<'_> {
    /// How many parts.
    pub fn parts(&self) -> u64 {
        self.0.len() as u64
    }

    /// Sends these parts, of which there is room for each.
    pub fn fill(self, parts: Vec<Bytes>) {
        assert!(parts.len() <= self.0.len(), "no more than there is room for");
        for (permit, part) in self.0.zip(parts) {
            debug_assert!(part.len() <= BODY_PART_BYTES_MAX, "a part is bounded");
            permit.send(AnswerPart::Data(part));
        }
    }
}

impl AnswerSender {
    /// Waits until there is room for so many parts.
    ///
    /// # Panics
    /// Where they are more than [`BODY_PARTS_MAX`].
    pub async fn room(&self, parts: usize) -> Result<AnswerRoom<'_>, ReceiverGone> {
        assert!(parts <= BODY_PARTS_MAX, "{parts} parts would never have room");
        let room = self.parts.reserve_many(parts).await;
        room.map(AnswerRoom).map_err(|_| ReceiverGone)
    }

    /// Sends bytes, in parts of at most [`BODY_PART_BYTES_MAX`], waiting for room.
    pub async fn send(&self, mut bytes: Bytes) -> Result<(), ReceiverGone> {
        while !bytes.is_empty() {
            let part = bytes.split_to(bytes.len().min(BODY_PART_BYTES_MAX));
            self.parts.send(AnswerPart::Data(part)).await.map_err(|_| ReceiverGone)?;
        }
        Ok(())
    }

    /// Says that the body is whole.
    pub async fn end(self) {
        // Nobody to tell is as good as told.
        let _ = self.parts.send(AnswerPart::End).await;
    }

    /// Says why the body breaks off.
    pub async fn fail(self, error: OriginError) {
        // Nobody to tell is as good as told.
        let _ = self.parts.send(AnswerPart::Failed(error)).await;
    }

    /// Completes when nobody reads any more.
    pub async fn closed(&self) {
        self.parts.closed().await;
    }
}

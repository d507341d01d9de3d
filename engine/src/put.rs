//! A body on its way to the origin: read as fast as the origin takes it, checked as it passes, its
//! last bytes held back until every check has passed, so that a failing one leaves the origin's
//! object as it was. `check` knows what is to be checked; what the cache is to have of it, `aside`.

mod aside;
mod check;

pub use aside::{Aside, Brought, WriteAllocate};

use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use nilas_net::head::BodyLength;
use nilas_net::sigv4::PayloadHash as Payload;
use nilas_net::{Code, S3Error};

use crate::buffers::NoBuffers;
use crate::client::Client;
use crate::client::body::{Body, BodyError};
use crate::metrics::Failure;
use crate::origin::{BodyFraming, BodyPart, BodySender, BodyStream, PayloadHash, RequestBody};
use crate::persist::NotDurable;
use crate::request::Request;
use crate::shard::Shard;
use check::Check;

/// What a relayed request sends, and who sends it.
pub type Prepared = (RequestBody, Option<Upload>);

/// What is read ahead is looked at anew when it has grown by one part in so many.
const LOOK_DIVISOR: usize = 8;

/// A body to be sent.
pub struct Upload {
    body: Body,
    check: Check,
    origin: BodySender,
    /// Its decoded length, where it is known beforehand.
    length: Option<u64>,
    /// What was read and not sent.
    ahead: VecDeque<Bytes>,
}

/// Why a body was not sent whole.
#[derive(Debug)]
pub enum UploadError {
    /// The origin takes no more: its answer says why.
    OriginStopped,
    /// The client's body did not arrive.
    Body(BodyError),
    /// A check failed.
    Check(S3Error),
    /// There was no memory for it for too long.
    NoBuffers,
    /// It could not be noted on the disk that it begins.
    NotDurable,
}

impl From<NoBuffers> for UploadError {
    fn from(_: NoBuffers) -> UploadError {
        UploadError::NoBuffers
    }
}

impl From<NotDurable> for UploadError {
    fn from(_: NotDurable) -> UploadError {
        UploadError::NotDurable
    }
}

impl UploadError {
    /// How it is counted.
    pub fn failure(&self) -> Failure {
        match self {
            UploadError::OriginStopped => Failure::OriginBroken,
            UploadError::Body(BodyError::Gone | BodyError::Ended) => Failure::ClientGone,
            UploadError::Body(BodyError::Slow) => Failure::ClientTimeout,
            UploadError::Body(BodyError::Chunks(_)) => Failure::Malformed,
            UploadError::Check(_) => Failure::BodyCheck,
            UploadError::NoBuffers => Failure::Overloaded,
            UploadError::NotDurable => Failure::Internal,
        }
    }

    /// What the client is told; `None` where it has gone.
    pub fn answer(self) -> Option<S3Error> {
        match self {
            UploadError::OriginStopped | UploadError::Body(BodyError::Gone) => None,
            UploadError::Body(BodyError::Ended) => Some(S3Error::new(Code::IncompleteBody)),
            UploadError::Body(BodyError::Slow) => Some(S3Error::new(Code::RequestTimeout)),
            UploadError::Body(BodyError::Chunks(error)) => Some(error.into()),
            UploadError::Check(error) => Some(error),
            UploadError::NoBuffers => Some(S3Error::new(Code::SlowDown)),
            UploadError::NotDurable => {
                let message = NotDurable.to_string();
                Some(S3Error::because(Code::ServiceUnavailable, message))
            }
        }
    }
}

/// Makes ready to send a request's body.
pub fn prepare(request: &Request<'_>) -> Result<Prepared, S3Error> {
    let head = request.head;
    if matches!(head.body(), BodyLength::None | BodyLength::Bytes(0))
        && !request.sender.payload.is_streaming()
    {
        Check::new(request)?.end()?;
        return Ok((RequestBody::Empty, None));
    }
    let check = Check::new(request)?;
    let length = check.decoded_length().or(head.content_length());
    let framing = framing(request);
    let (origin, stream) = BodyStream::channel(length, framing);
    let upload = Upload { body: Body::of(head), check, origin, length, ahead: VecDeque::new() };
    Ok((RequestBody::Stream(stream), Some(upload)))
}

fn framing(request: &Request<'_>) -> BodyFraming {
    let trailer_names = || {
        let announced = request.head.headers_named("x-amz-trailer");
        announced
            .flat_map(nilas_net::hop::tokens)
            .map(|name| String::from_utf8_lossy(name).to_ascii_lowercase())
            .collect()
    };
    match request.sender.payload {
        Payload::Unsigned => BodyFraming::Plain { payload_sha256: PayloadHash::Unsigned },
        Payload::Sha256(digest) => {
            BodyFraming::Plain { payload_sha256: PayloadHash::Sha256(digest) }
        }
        Payload::StreamingSigned { .. } => {
            BodyFraming::AwsChunked { signed: true, trailer_names: trailer_names() }
        }
        Payload::StreamingUnsignedTrailer => {
            BodyFraming::AwsChunked { signed: false, trailer_names: trailer_names() }
        }
    }
}

impl Upload {
    /// As long as this is kept, a body that is not sent whole is not known to be given up.
    pub fn keep_open(&self) -> BodySender {
        self.origin.clone()
    }

    /// Its decoded length in bytes, where it is known beforehand.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// Reads the body to its end before any of it is sent, and gives it; `None` of one that is
    /// longer than `bytes_max`. Either way it is still to be sent, and its checks to be ended.
    pub async fn read_ahead(
        &mut self,
        shard: &Shard,
        client: &mut Client,
        bytes_max: usize,
    ) -> Result<Option<Bytes>, UploadError> {
        let seen = self.peek(shard, client, bytes_max, |_| Ok(false)).await?;
        Ok((seen.len() <= bytes_max).then_some(seen))
    }

    /// Reads the body until `is_enough` of it is here, or it is longer than `bytes_max`, or ended;
    /// gives what was read, all of which is still to be sent. However small the pieces are in which it
    /// comes, it is looked at a few times only, and kept as one.
    pub async fn peek(
        &mut self,
        shard: &Shard,
        client: &mut Client,
        bytes_max: usize,
        mut is_enough: impl FnMut(&[u8]) -> Result<bool, S3Error>,
    ) -> Result<Bytes, UploadError> {
        let mut seen = Vec::new();
        let mut look_at = 1;
        loop {
            let pieces = match seen.len() <= bytes_max {
                true => self.next(shard, client).await?,
                false => None,
            };
            let is_all = pieces.is_none();
            pieces.into_iter().flatten().for_each(|piece| seen.extend_from_slice(&piece));
            if seen.len() >= look_at || is_all {
                look_at = seen.len() + seen.len() / LOOK_DIVISOR + 1;
                if is_enough(&seen).map_err(UploadError::Check)? || is_all {
                    break;
                }
            }
        }
        let seen = Bytes::from(seen);
        self.ahead.push_back(seen.clone());
        Ok(seen)
    }

    /// The object's bytes in the next piece that HTTP brings; `None` at the end.
    async fn next(
        &mut self,
        shard: &Shard,
        client: &mut Client,
    ) -> Result<Option<Vec<Bytes>>, UploadError> {
        let Some(piece) = self.body.next(client).await.map_err(UploadError::Body)? else {
            return Ok(None);
        };
        client.pay(piece.len() as u64);
        shard.counters.received(piece.len() as u64);
        self.check.pass(piece).map(Some).map_err(UploadError::Check)
    }

    /// Sends the body to its end, the last bytes only when all checks have passed; all of it is kept
    /// aside too, where there is room.
    pub async fn send(
        mut self,
        shard: &Rc<Shard>,
        client: &mut Client,
        mut aside: Option<&mut Aside>,
    ) -> Result<(), UploadError> {
        let mut held: Option<Bytes> = None;
        loop {
            while let Some(piece) = self.ahead.pop_front() {
                if let Some(aside) = &mut aside {
                    aside.keep(&piece);
                }
                if let Some(earlier) = held.replace(piece) {
                    tell(&self.origin, BodyPart::Data(earlier)).await?;
                }
            }
            match self.next(shard, client).await? {
                Some(pieces) => self.ahead.extend(pieces),
                None => break,
            }
        }
        let Upload { check, origin, .. } = self;
        let trailer = check.end().map_err(UploadError::Check)?;
        if let Some(last) = held {
            tell(&origin, BodyPart::Data(last)).await?;
        }
        if !trailer.is_empty() {
            tell(&origin, BodyPart::Trailer(trailer)).await?;
        }
        tell(&origin, BodyPart::End).await
    }
}

async fn tell(origin: &BodySender, part: BodyPart) -> Result<(), UploadError> {
    origin.send(part).await.map_err(|_| UploadError::OriginStopped)
}

//! A body on its way to the origin: read as fast as the origin takes it, checked as it passes, its
//! last bytes held back until every check has passed, so that a failing one leaves the origin's
//! object as it was. `check` knows what is to be checked.

mod check;

use std::rc::Rc;

use bytes::Bytes;
use nilas_net::head::BodyLength;
use nilas_net::sigv4::PayloadHash as Payload;
use nilas_net::{Code, S3Error};

use crate::client::Client;
use crate::client::body::{Body, BodyError};
use crate::metrics::Failure;
use crate::origin::{BodyFraming, BodyPart, BodySender, BodyStream, PayloadHash, RequestBody};
use crate::request::Request;
use crate::shard::Shard;
use check::Check;

/// What a relayed request sends, and who sends it.
pub type Prepared = (RequestBody, Option<Upload>);

/// A body to be sent.
pub struct Upload {
    body: Body,
    check: Check,
    origin: BodySender,
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
        }
    }
}

/// Makes ready to send a request's body.
pub fn prepare(request: &Request<'_>) -> Result<Prepared, S3Error> {
    let head = request.head;
    if matches!(head.body(), BodyLength::None | BodyLength::Bytes(0))
        && !request.verified.payload.is_streaming()
    {
        Check::new(request)?.end()?;
        return Ok((RequestBody::Empty, None));
    }
    let check = Check::new(request)?;
    let length = check.decoded_length().or(head.content_length());
    let framing = framing(request);
    let (origin, stream) = BodyStream::channel(length, framing);
    let upload = Upload { body: Body::of(head), check, origin };
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
    match request.verified.payload {
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
    /// Sends the body to its end, the last bytes only when all checks have passed.
    pub async fn send(self, shard: &Rc<Shard>, client: &mut Client) -> Result<(), UploadError> {
        let Upload { mut body, mut check, origin } = self;
        let mut held: Option<Bytes> = None;
        while let Some(piece) = body.next(client).await.map_err(UploadError::Body)? {
            shard.counters.received(piece.len() as u64);
            for decoded in check.pass(piece).map_err(UploadError::Check)? {
                if let Some(earlier) = held.replace(decoded) {
                    tell(&origin, BodyPart::Data(earlier)).await?;
                }
            }
        }
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

//! What is asked of an origin. The path, the query and the headers are kept as the client sent
//! them, so that a relay can pass on what it does not understand.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, Method};
use nilas_net::form::FormRewrite;
use tokio::sync::{Notify, mpsc};

use super::meter::BodyMeter;
use super::signer::Signer;

/// Parts of a request body that wait between the connection and the origin.
pub const REQUEST_PARTS_MAX: usize = 4;

/// One request, free of the client's credentials unless they are to be kept.
#[derive(Debug)]
pub struct OriginRequest {
    /// The method as sent.
    pub method: Method,
    /// The bucket; empty for a request on the service itself (`ListBuckets`).
    pub bucket: String,
    /// The key, percent-decoded once; `None` for a request on the bucket.
    pub key: Option<String>,
    /// `/bucket/key` as it was percent-encoded by the client, in path style.
    pub path_raw: String,
    /// The query as sent, without the question mark. Presigning parameters are dropped by the relay.
    pub query_raw: String,
    /// As whom the origin is asked.
    pub signer: Signer,
    /// End-to-end headers, without host, authorisation and hop-by-hop ones.
    pub headers: HeaderMap,
    /// The body.
    pub body: RequestBody,
}

/// A request's body.
#[derive(Debug)]
pub enum RequestBody {
    /// None, or one of zero bytes.
    Empty,
    /// Bytes that arrive while the request is under way.
    Stream(BodyStream),
}

/// A body on its way from a client, decoded.
#[derive(Debug)]
pub struct BodyStream {
    parts: mpsc::Receiver<BodyPart>,
    meter: Option<Box<dyn BodyMeter>>,
    /// Decoded length in bytes, where it is known beforehand.
    pub length: Option<u64>,
    /// How the client framed it, which is how it is framed for the origin.
    pub framing: BodyFraming,
    /// Where the client waits for a word of the origin's before it sends: told when that has come.
    pub awaited: Option<Arc<Notify>>,
}

/// How the client framed a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyFraming {
    /// As it is.
    Plain {
        /// What the signature says of the content.
        payload_sha256: PayloadHash,
    },
    /// In `aws-chunked` pieces.
    AwsChunked {
        /// Whether each piece was signed.
        signed: bool,
        /// The names announced by `x-amz-trailer`, in lower case.
        trailer_names: Vec<String>,
    },
    /// As the file of a form, which is made anew around it.
    Form(Box<OriginForm>),
}

/// A form around a body: whoever is asked as signs its policy, not the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginForm {
    /// Its fields.
    pub form: FormRewrite,
    /// Bytes of the client's form from its file on, where they are known beforehand: those of this
    /// one are as many, so that its length is known, too.
    pub rest_bytes: Option<u64>,
}

/// The content hash that a signature covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadHash {
    /// `UNSIGNED-PAYLOAD`.
    Unsigned,
    /// The SHA-256 of the body, which the node checks before it lets the body end.
    Sha256([u8; 32]),
}

/// One step of a body. A sender dropped before `End` means that the client failed or a check did:
/// whatever was uploaded is to be thrown away.
#[derive(Debug)]
pub enum BodyPart {
    /// The next bytes, decoded.
    Data(Bytes),
    /// The trailer, at most once, just before `End`.
    Trailer(Vec<(String, String)>),
    /// The body is whole and every check has passed.
    End,
}

/// The connection's side of a [`BodyStream`].
pub type BodySender = mpsc::Sender<BodyPart>;

impl BodyStream {
    /// A body of `length` decoded bytes, and what feeds it. A failing send means that the origin
    /// has already answered, or given up: its answer says which.
    pub fn channel(length: Option<u64>, framing: BodyFraming) -> (BodySender, BodyStream) {
        let (sender, parts) = mpsc::channel(REQUEST_PARTS_MAX);
        (sender, BodyStream { parts, meter: None, length, framing, awaited: None })
    }

    /// The form that is made around it, if one is.
    pub fn form(&self) -> Option<&OriginForm> {
        match &self.framing {
            BodyFraming::Form(form) => Some(form),
            _ => None,
        }
    }

    /// The next part; `None` before [`BodyPart::End`] means that the body broke off.
    pub async fn next(&mut self) -> Option<BodyPart> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// The next part, polled.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<BodyPart>> {
        let part = ready!(self.parts.poll_recv(context));
        if let (Some(BodyPart::Data(bytes)), Some(meter)) = (&part, &mut self.meter) {
            meter.passed(bytes.len());
        }
        Poll::Ready(part)
    }

    /// Counts the bytes that are read from here on.
    pub(super) fn meter(&mut self, meter: Box<dyn BodyMeter>) {
        self.meter = Some(meter);
    }
}

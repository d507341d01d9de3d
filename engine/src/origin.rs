//! Where bytes come from: one port, two bodies (`s3_relay`, `local_directory`), two wrappers
//! (`observed`, `latency`). Shards ask through [`OriginPort`]; the work runs on the control runtime.
//! Nothing here caches, and no client credential gets this far: see `relay` and `get` for who asks.

mod answer;
mod build;
mod counters;
mod credentials;
mod error;
mod latency;
mod lent;
mod local_directory;
mod meter;
mod observed;
mod place;
mod port;
#[cfg(test)]
mod question;
mod request;
mod s3_relay;
mod settings;
mod signer;

pub use answer::{
    AnswerBody, AnswerSender, BODY_PART_BYTES_MAX, BODY_PARTS_MAX, OriginAnswer, ReceiverGone,
};
pub use build::{OriginSetupError, build};
pub use counters::{
    LATENCY_BOUNDS_MICROS, OPERATIONS, OperationSnapshot, OriginCounters, OriginOperation,
    OriginSnapshot,
};
pub(crate) use credentials::Credentials;
pub use error::OriginError;
pub use latency::Latency;
pub use lent::{LentKey, LentKeys};
pub use local_directory::LocalDirectory;
pub use observed::Observed;
pub use port::{
    ORIGIN_IN_FLIGHT_MAX, ORIGIN_QUEUE_MAX, OriginPort, OriginQueue, PortLimits, Replier,
};
pub use request::{
    BodyFraming, BodyPart, BodySender, BodyStream, OriginForm, OriginRequest, PayloadHash,
    REQUEST_PARTS_MAX, RequestBody,
};
pub use s3_relay::S3Relay;
pub(crate) use s3_relay::{Connector, Endpoint};
pub use settings::{
    Addressing, CredentialSource, LocalDirectorySettings, OriginSettings, S3Settings,
};
pub use signer::{IdentityId, Signer, SigningKey};

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A boxed future that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a request to an origin comes to.
pub type OriginResult = Result<OriginAnswer, OriginError>;

/// A place that holds the objects. Its answers, errors included, are the reference for ours.
pub trait Origin: Send + Sync + 'static {
    /// Answers one request. The future ends with the answer's head; the body follows through it.
    /// Dropping the future or the body cancels the work.
    fn handle(self: Arc<Self>, request: OriginRequest) -> BoxFuture<'static, OriginResult>;

    /// The first 16 bytes of the SHA-256 of what identifies the origin: kind, endpoint or path,
    /// never credentials.
    fn id(&self) -> [u8; 16];

    /// One phrase for logs and error messages; holds no secret.
    fn describe(&self) -> String;

    /// Requests, bytes and latency, where they are counted.
    fn counters(&self) -> Option<Arc<OriginCounters>> {
        None
    }

    /// Whether it can be reached with these credentials; `bucket`, where given, is what is asked
    /// for. The sentence says what was found, or what to do about it.
    fn probe(self: Arc<Self>, bucket: Option<String>)
    -> BoxFuture<'static, Result<String, String>>;
}

//! Signature Version 4 as S3 has it (AWS General Reference, "Signature Version 4 signing process").
//! `verifier` proves clients, `signer` signs for the origin; both build one `canonical` request.
//! No secret leaves this room: not in an error, not in a `Debug`.

mod canonical;
mod chain;
mod claim;
mod key;
mod refusal;
mod signer;
#[cfg(test)]
mod tests;
mod verifier;

use std::borrow::Cow;

pub use chain::ChunkChain;
pub use claim::{claimed_access_key, has_odd_lifetime};
pub use key::{form_credential, form_signature, is_form_credential};
pub use signer::{Signed, SigningIdentity, ToSign, presign, sign};
pub use verifier::{Verifier, claimed_payload};

/// How far a request's time may be from ours.
pub const SKEW_SECONDS_MAX: u64 = 15 * 60;
/// How long a presigned URL may live.
pub const PRESIGN_SECONDS_MAX: u64 = 7 * 24 * 3600;
/// Names in one SignedHeaders list.
pub const SIGNED_HEADERS_MAX: usize = crate::head::HEADERS_MAX;
/// Signing keys kept; one for each access key, day and region in use.
pub const SIGNING_KEYS_MAX: usize = 1024;

/// The one algorithm.
pub const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const TERMINATOR: &str = "aws4_request";
const SERVICE: &str = "s3";
/// SHA-256 of nothing.
const EMPTY_SHA256_HEX: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// A client's credential, as the node's configuration has it.
#[derive(Clone, Copy)]
pub struct Credential<'a> {
    /// Its place in the configuration; comes back in [`Verified`].
    pub index: usize,
    /// Its secret key.
    pub secret: &'a str,
}

/// Where access keys are looked up.
pub trait Credentials {
    /// The credential of this access key.
    fn find(&self, access_key: &str) -> Option<Credential<'_>>;
}

/// What a request proves itself by.
#[derive(Debug)]
pub enum Presented {
    /// Nothing.
    Anonymous,
    /// Signature Version 2, in a header or the query; not verified.
    SigV2,
    /// Signature Version 4, verified.
    V4(Verified),
}

/// A verified request.
#[derive(Debug)]
pub struct Verified {
    /// Whose: [`Credential::index`].
    pub credential: usize,
    /// Whether by a presigned URL.
    pub presigned: bool,
    /// What the signature says of the body.
    pub payload: PayloadHash,
    /// For signed chunks: the chain that starts at this request's signature.
    pub chain: Option<Box<ChunkChain>>,
}

/// What `x-amz-content-sha256` says of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadHash {
    /// `UNSIGNED-PAYLOAD`.
    Unsigned,
    /// The body's digest.
    Sha256([u8; 32]),
    /// `STREAMING-AWS4-HMAC-SHA256-PAYLOAD`, with `-TRAILER` or without.
    StreamingSigned {
        /// Whether a signed trailer follows.
        trailer: bool,
    },
    /// `STREAMING-UNSIGNED-PAYLOAD-TRAILER`.
    StreamingUnsignedTrailer,
}

impl PayloadHash {
    /// The digest of an empty body.
    pub fn empty() -> PayloadHash {
        PayloadHash::parse(EMPTY_SHA256_HEX.as_bytes()).expect("the constant is a digest")
    }

    /// Parses the header's value.
    pub fn parse(value: &[u8]) -> Option<PayloadHash> {
        // By far the most common first.
        if value.len() == 64 {
            let mut digest = [0; 32];
            hex::decode_to_slice(value, &mut digest).ok()?;
            return Some(PayloadHash::Sha256(digest));
        }
        match value {
            b"UNSIGNED-PAYLOAD" => Some(PayloadHash::Unsigned),
            b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD" => {
                Some(PayloadHash::StreamingSigned { trailer: false })
            }
            b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER" => {
                Some(PayloadHash::StreamingSigned { trailer: true })
            }
            b"STREAMING-UNSIGNED-PAYLOAD-TRAILER" => Some(PayloadHash::StreamingUnsignedTrailer),
            _ => None,
        }
    }

    /// The header's value.
    pub fn header_value(&self) -> Cow<'static, str> {
        match self {
            PayloadHash::Unsigned => "UNSIGNED-PAYLOAD".into(),
            PayloadHash::Sha256(digest) => hex::encode(digest).into(),
            PayloadHash::StreamingSigned { trailer: false } => {
                "STREAMING-AWS4-HMAC-SHA256-PAYLOAD".into()
            }
            PayloadHash::StreamingSigned { trailer: true } => {
                "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER".into()
            }
            PayloadHash::StreamingUnsignedTrailer => "STREAMING-UNSIGNED-PAYLOAD-TRAILER".into(),
        }
    }

    /// Whether the body comes in S3's own chunks; see [`crate::aws_chunked`].
    pub fn is_streaming(&self) -> bool {
        matches!(self, PayloadHash::StreamingSigned { .. } | PayloadHash::StreamingUnsignedTrailer)
    }
}

impl std::fmt::Debug for Credential<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Credential({}, secret hidden)", self.index)
    }
}

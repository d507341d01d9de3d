//! Who may ask, and as whom the origin is then asked. A request is admitted on its head alone: its
//! signature, or the lack of one, against the credentials of the moment; then its bucket, and what
//! its credential may do.
//! What the credentials are is `roster`; where they come from, `source`; how they are replaced while
//! the node runs, `door`.

mod door;
mod limits;
mod roster;
mod scope;
mod source;

pub use door::{AccessDoor, AccessView};
pub use limits::{Account, LimitNumbers, Limits};
pub use roster::{Grant, Roster, Unproven};
pub use scope::{Mode, Scope, is_administrative};
pub use source::{CredentialSource, follow};

use std::sync::Arc;

use nilas_net::head::{Method, RequestHead};
use nilas_net::operation::{Operation, classify};
use nilas_net::sigv4::{
    ChunkChain, Credentials, PayloadHash, Presented, claimed_access_key, claimed_payload,
    has_odd_lifetime,
};
use nilas_net::target::Target;
use nilas_net::{Code, S3Error};

use crate::origin::Signer;
use crate::shard::Shard;

/// Who sent a request, as far as it was proved, and what was signed of its body.
#[derive(Debug)]
pub struct Sender {
    /// What it may do, and as whom the origin is asked for it.
    pub grant: Arc<Grant>,
    /// What is claimed of the body.
    pub payload: PayloadHash,
    /// Whether its proof is in its body: a form.
    pub is_form: bool,
    /// For signed chunks: the chain that starts at the request's signature.
    pub chain: Option<Box<ChunkChain>>,
}

/// Admits a request, or says why not.
pub fn admit(
    shard: &Shard,
    head: &RequestHead<'_>,
    target: &Target<'_>,
) -> Result<Sender, S3Error> {
    let roster = shard.access.current();
    let sender = prove(shard, &roster, (head, target))?;
    match target.bucket {
        Some(bucket) if !shard.settings.allows_bucket(bucket) => Err(S3Error::because(
            Code::AccessDenied,
            "This bucket is not served here. Add it to buckets.allow in the node's configuration.",
        )),
        _ => Ok(sender),
    }
}

fn prove(
    shard: &Shard,
    roster: &Roster,
    (head, target): (&RequestHead<'_>, &Target<'_>),
) -> Result<Sender, S3Error> {
    let now = shard.reactor.clock().wall();
    let unproven =
        |policy: Unproven, signer: Signer, code: Code, because: &'static str| match policy {
            Unproven::Deny => Err(S3Error::because(code, because)),
            Unproven::Relay => left_to_origin(head, roster, signer),
        };
    let is_of_shared_key = || {
        claimed_access_key(head)
            .and_then(|access_key| roster.find(&access_key))
            .is_some_and(|it| roster.grant(it.index).is_known_to_origin)
    };
    // A browser asks before it uses a signature: its question bears none, or one of another request.
    // There are origins where a bucket is one of the key's tenant.
    if head.method() == Method::Options {
        let signer = if is_of_shared_key() { Signer::AsSent } else { Signer::Nobody };
        return left_to_origin(head, roster, signer);
    }
    let presented = match shard.verifier.borrow_mut().authenticate(head, roster, now) {
        // No origin takes such a lifetime, but each has words of its own for it.
        Err(_) if has_odd_lifetime(head) && is_of_shared_key() => {
            return left_to_origin(head, roster, Signer::AsSent);
        }
        presented => presented?,
    };
    match presented {
        Presented::V4(verified) => Ok(Sender {
            grant: Arc::clone(roster.grant(verified.credential)),
            payload: verified.payload,
            is_form: false,
            chain: verified.chain,
        }),
        Presented::Anonymous if is_form(head, target) => Ok(Sender {
            grant: Grant::left_to_origin(Signer::AsSent),
            payload: PayloadHash::Unsigned,
            is_form: true,
            chain: None,
        }),
        Presented::Anonymous => {
            unproven(roster.anonymous, Signer::Nobody, Code::AccessDenied, ANONYMOUS_REFUSED)
        }
        Presented::SigV2 => {
            unproven(roster.sigv2, Signer::AsSent, Code::InvalidRequest, SIGV2_REFUSED)
        }
    }
}

/// A sender whom the origin judges. One who claims a key of this node has no more than its scope.
fn left_to_origin(
    head: &RequestHead<'_>,
    roster: &Roster,
    signer: Signer,
) -> Result<Sender, S3Error> {
    let claimed = match signer {
        Signer::AsSent => claimed_access_key(head),
        _ => None,
    };
    let grant = match claimed.and_then(|access_key| roster.find(&access_key).map(|it| it.index)) {
        Some(index) => roster.grant(index).as_sent(),
        None => Grant::left_to_origin(signer),
    };
    Ok(Sender { grant, payload: claimed_payload(head)?, is_form: false, chain: None })
}

/// Whether a request without a proof in its head is a form, which has it in its body.
fn is_form(head: &RequestHead<'_>, target: &Target<'_>) -> bool {
    let operation = classify(head, target.bucket.is_some(), target.key.is_some()).operation;
    operation == Operation::PostObject
}

const ANONYMOUS_REFUSED: &str = "Anonymous requests are not served. Sign the request with an access \
    key of this node, or let the operator set auth.anonymous.";
const SIGV2_REFUSED: &str = "Signature version 2 is not served. Please use AWS4-HMAC-SHA256.";

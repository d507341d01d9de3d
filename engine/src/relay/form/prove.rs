//! Whose a form is, and who judges its policy: the origin, where it shares the key that signed it, or
//! the node.

use std::sync::Arc;

use nilas_net::form::{FormHead, FormProof};
use nilas_net::sigv4::Credentials;
use nilas_net::{Code, S3Error};

use crate::access::{Grant, Roster, Unproven};

/// A form that is somebody's, or is left to the origin as nobody's.
pub(super) enum Proved {
    /// It goes on as it came: the origin judges. A key of this node that it claims bounds it.
    LeftToOrigin(Option<Arc<Grant>>),
    /// Its policy is the node's to judge.
    JudgedHere(Arc<Grant>),
}

impl Proved {
    /// What its key may do, if this node knows it.
    pub(super) fn grant(&self) -> Option<&Arc<Grant>> {
        match self {
            Proved::LeftToOrigin(grant) => grant.as_ref(),
            Proved::JudgedHere(grant) => Some(grant),
        }
    }
}

/// Proves a form, or says what is wrong with its proof.
pub(super) fn prove(
    roster: &Roster,
    proof: FormProof<'_>,
    form: &FormHead,
) -> Result<Proved, S3Error> {
    let Some(access_key) = proof.access_key() else {
        return match roster.anonymous {
            Unproven::Relay => Ok(Proved::LeftToOrigin(None)),
            Unproven::Deny => Err(S3Error::because(Code::AccessDenied, UNSIGNED)),
        };
    };
    let is_version_2 = matches!(proof, FormProof::V2 { .. });
    let Some(found) = roster.find(access_key) else {
        return match (is_version_2, roster.sigv2) {
            (true, Unproven::Relay) => Ok(Proved::LeftToOrigin(None)),
            _ => Err(S3Error::new(Code::InvalidAccessKeyId)),
        };
    };
    let grant = Arc::clone(roster.grant(found.index));
    // What an origin makes of a form it may make of other fields than were seen here, after the file
    // say: a key that may not write everywhere is not left to it.
    let is_origins = grant.is_known_to_origin && (grant.scope.covers_every_key() || is_version_2);
    let is_origins_to_refuse =
        proof.is_unsigned() && grant.is_known_to_origin && grant.scope.covers_every_key();
    if !is_origins && !is_version_2 {
        FormProof::check_whole(form)?;
    }
    if !is_origins_to_refuse && !proof.holds(found.secret) {
        return Err(S3Error::new(Code::SignatureDoesNotMatch));
    }
    match (is_origins, is_version_2) {
        (true, _) => Ok(Proved::LeftToOrigin(Some(grant))),
        (false, false) => Ok(Proved::JudgedHere(grant)),
        (false, true) => Err(S3Error::because(Code::NotImplemented, UNKNOWN_TO_ORIGIN)),
    }
}

const UNSIGNED: &str = "Forms without a signed policy are not served.";
const UNKNOWN_TO_ORIGIN: &str = "This access key is the node's own, and the policy of the form is \
    signed with it by signature version 2. Please use AWS4-HMAC-SHA256.";

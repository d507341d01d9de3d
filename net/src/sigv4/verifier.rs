//! Proves a request: its claim, held against the secret of the access key it names.
//! With the signing key kept, a header-signed request is verified without allocating.

use nilas_base::UnixMillis;
use subtle::ConstantTimeEq;

use super::canonical::{Canonical, Parts};
use super::chain::ChunkChain;
use super::claim::{self, Claim, SignedClaim};
use super::key::{KeyCache, Scope, SigningKey};
use super::{Credential, Credentials, PayloadHash, Presented, SKEW_SECONDS_MAX, Verified, refusal};
use crate::date::UnixSeconds;
use crate::head::RequestHead;
use crate::{Code, S3Error, query};

/// Verifies requests; one a shard. Keeps signing keys and scratch memory.
#[derive(Default)]
pub struct Verifier {
    keys: KeyCache,
    canonical: Canonical,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Verifier(keys hidden)")
    }
}

impl Verifier {
    /// One that keeps no key yet.
    pub fn new() -> Verifier {
        Verifier::default()
    }

    /// What the request proves itself by, proved. Bodies are not looked at: the payload hash, chunk
    /// signatures and checksums are for whoever streams the body.
    pub fn authenticate<C: Credentials + ?Sized>(
        &mut self,
        head: &RequestHead<'_>,
        credentials: &C,
        now: UnixMillis,
    ) -> Result<Presented, S3Error> {
        match claim::read(head)? {
            Claim::Anonymous => Ok(Presented::Anonymous),
            Claim::SigV2 => Ok(Presented::SigV2),
            Claim::V4(claim) => {
                let scope = claim.scope();
                let credential = credentials.find(scope.access_key).ok_or_else(|| {
                    refusal::unknown_key(scope.access_key, has_session_token(head))
                })?;
                check_time(&claim, now)?;
                refuse_unsigned_headers(head, &claim.signed_headers)?;
                self.verify(head, &claim, scope, credential).map(Presented::V4)
            }
        }
    }

    fn verify(
        &mut self,
        head: &RequestHead<'_>,
        claim: &SignedClaim<'_>,
        scope: Scope<'_>,
        credential: Credential<'_>,
    ) -> Result<Verified, S3Error> {
        let (payload_text, payload) = payload_hash(head, claim)?;
        let parts = Parts {
            method: head.method().name(),
            path_raw: head.path_raw(),
            query_raw: head.query_raw(),
            headers: head.fields(),
            signed_headers: &claim.signed_headers,
            payload_hash: &payload_text,
        };
        let digest = self.canonical.digest(&parts).map_err(|bad| {
            S3Error::because(Code::InvalidURI, format!("Couldn't parse the specified URI: {bad}."))
        })?;
        let derived;
        let kept = self.keys.find(&claim.credential, credential.secret);
        let key = match kept {
            Some(key) => key,
            None => {
                derived = SigningKey::derive(credential.secret, scope.date, scope.region);
                &derived
            }
        };
        let expected = key.sign_request(&claim.amz_date, scope.text, digest);
        if !same_signature(&claim.signature, &expected) {
            return Err(refusal::mismatch(claim, self.canonical.text(), digest));
        }
        let chain = matches!(payload, PayloadHash::StreamingSigned { .. })
            .then(|| Box::new(ChunkChain::new(key.clone(), claim.amz_date, scope.text, expected)));
        if kept.is_none() {
            let key = key.clone();
            self.keys.keep(&claim.credential, credential.secret, key);
        }
        let presigned = claim.expires_seconds.is_some();
        Ok(Verified { credential: credential.index, presigned, payload, chain })
    }
}

fn same_signature(provided: &str, expected: &[u8; 32]) -> bool {
    let mut bytes = [0; 32];
    hex::decode_to_slice(provided, &mut bytes).is_ok() && bool::from(bytes.ct_eq(expected))
}

fn has_session_token(head: &RequestHead<'_>) -> bool {
    head.header("x-amz-security-token").is_some()
        || query::find(head.query_raw(), "X-Amz-Security-Token").is_some()
}

fn check_time(claim: &SignedClaim<'_>, now: UnixMillis) -> Result<(), S3Error> {
    let (time, current) = (claim.time, UnixSeconds::from(now));
    match claim.expires_seconds {
        None if time.0.abs_diff(current.0) > SKEW_SECONDS_MAX => {
            Err(refusal::too_skewed(time, now))
        }
        Some(_) if time.0 > current.0 + SKEW_SECONDS_MAX => Err(refusal::not_yet_valid(time, now)),
        // To the millisecond: a lifetime of zero has always passed.
        Some(expires_seconds) if now.0 >= (time.0 + expires_seconds).saturating_mul(1000) => {
            Err(refusal::expired(time, expires_seconds, now))
        }
        _ => Ok(()),
    }
}

/// Every `x-amz-*` header must be signed, lest someone in between adds one.
fn refuse_unsigned_headers(head: &RequestHead<'_>, signed_headers: &str) -> Result<(), S3Error> {
    for (name, _) in head.fields() {
        let is_amz = name.get(..6).is_some_and(|prefix| prefix.eq_ignore_ascii_case(b"x-amz-"));
        let mut signed = signed_headers.as_bytes().split(|&byte| byte == b';');
        if is_amz && !signed.any(|signed| signed.eq_ignore_ascii_case(name)) {
            return Err(refusal::unsigned_header(&String::from_utf8_lossy(name)));
        }
    }
    Ok(())
}

/// What a request that proves nothing says of its body: unsigned where it says nothing.
pub fn claimed_payload(head: &RequestHead<'_>) -> Result<PayloadHash, S3Error> {
    let Some(text) = head.headers_named("x-amz-content-sha256").next() else {
        return Ok(PayloadHash::Unsigned);
    };
    match PayloadHash::parse(text) {
        // Chunks can only be signed by somebody.
        None | Some(PayloadHash::StreamingSigned { .. }) => Err(refusal::bad_payload_hash(text)),
        Some(payload) => Ok(payload),
    }
}

/// The text that was signed for the payload, and what it means.
fn payload_hash<'a>(
    head: &RequestHead<'a>,
    claim: &SignedClaim<'_>,
) -> Result<(std::borrow::Cow<'a, str>, PayloadHash), S3Error> {
    let header = head.headers_named("x-amz-content-sha256").next();
    let in_query = match claim.expires_seconds {
        Some(_) => query::find(head.query_raw(), "X-Amz-Content-Sha256"),
        None => None,
    };
    let text = match (in_query, header) {
        (Some(pair), _) => pair.decoded().map_err(|_| refusal::bad_payload_hash(b""))?,
        (None, Some(value)) => {
            std::str::from_utf8(value).map_err(|_| refusal::bad_payload_hash(value))?.into()
        }
        (None, None) if claim.expires_seconds.is_some() => "UNSIGNED-PAYLOAD".into(),
        (None, None) => return Err(refusal::no_payload_hash()),
    };
    let payload = PayloadHash::parse(text.as_bytes())
        .ok_or_else(|| refusal::bad_payload_hash(text.as_bytes()))?;
    Ok((text, payload))
}

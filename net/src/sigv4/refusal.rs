//! The refusals of authentication, worded as S3 words them where it does.
//! They may repeat what the client sent, but neither a secret nor the signature that would have been right.

use nilas_base::UnixMillis;

use super::SKEW_SECONDS_MAX;
use super::claim::SignedClaim;
use crate::date::{UnixSeconds, amz_date, iso_date};
use crate::{Code, S3Error};

pub(super) fn malformed(detail: &str) -> S3Error {
    S3Error::because(
        Code::AuthorizationHeaderMalformed,
        format!("The authorization header is malformed; {detail}."),
    )
}

pub(super) fn bad_presign(message: &str) -> S3Error {
    S3Error::because(Code::AuthorizationQueryParametersError, message.to_owned())
}

pub(super) fn two_mechanisms() -> S3Error {
    S3Error::because(
        Code::InvalidArgument,
        "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature query string \
         parameter or the Authorization header should be specified",
    )
    .with("ArgumentName", "Authorization")
}

pub(super) fn unsupported_authorization() -> S3Error {
    S3Error::because(
        Code::InvalidArgument,
        "Unsupported Authorization Type. Sign with AWS Signature Version 4 (AWS4-HMAC-SHA256).",
    )
    .with("ArgumentName", "Authorization")
}

pub(super) fn algorithm(name: &str) -> S3Error {
    if name.starts_with("AWS4-ECDSA-") {
        return S3Error::because(
            Code::NotImplemented,
            "Signature Version 4A is not supported. Configure the client to sign for one region (AWS4-HMAC-SHA256).",
        );
    }
    unsupported_authorization()
}

pub(super) fn no_date() -> S3Error {
    S3Error::because(
        Code::AccessDenied,
        "AWS authentication requires a valid Date or x-amz-date header",
    )
}

pub(super) fn unknown_key(access_key: &str, has_session_token: bool) -> S3Error {
    let message = if has_session_token {
        "The AWS Access Key Id you provided does not exist in our records. The request carries a session token: \
         its credentials were made for the object store itself, perhaps vended by a catalog. Configure the client \
         with an access key of this endpoint, and turn credential vending off."
    } else {
        "The AWS Access Key Id you provided does not exist in our records. Configure the client with an access key \
         of this endpoint."
    };
    S3Error::because(Code::InvalidAccessKeyId, message).with("AWSAccessKeyId", access_key)
}

pub(super) fn too_skewed(time: UnixSeconds, now: UnixMillis) -> S3Error {
    S3Error::new(Code::RequestTimeTooSkewed)
        .with("RequestTime", ascii(&amz_date(time)))
        .with("ServerTime", ascii(&iso_date(now)))
        .with("MaxAllowedSkewMilliseconds", (SKEW_SECONDS_MAX * 1000).to_string())
}

pub(super) fn expired(time: UnixSeconds, expires_seconds: u64, now: UnixMillis) -> S3Error {
    let end = UnixMillis(time.0.saturating_add(expires_seconds).saturating_mul(1000));
    S3Error::because(Code::AccessDenied, "Request has expired")
        .with("X-Amz-Expires", expires_seconds.to_string())
        .with("Expires", ascii(&iso_date(end)))
        .with("ServerTime", ascii(&iso_date(now)))
}

pub(super) fn not_yet_valid(time: UnixSeconds, now: UnixMillis) -> S3Error {
    S3Error::because(Code::AccessDenied, "Request is not valid yet")
        .with("RequestTime", ascii(&amz_date(time)))
        .with("ServerTime", ascii(&iso_date(now)))
}

pub(super) fn unsigned_header(name: &str) -> S3Error {
    S3Error::because(
        Code::AccessDenied,
        "There were headers present in the request which were not signed",
    )
    .with("HeadersNotSigned", name)
}

pub(super) fn no_payload_hash() -> S3Error {
    S3Error::because(
        Code::InvalidRequest,
        "Missing required header for this request: x-amz-content-sha256",
    )
}

pub(super) fn bad_payload_hash(value: &[u8]) -> S3Error {
    if value.starts_with(b"STREAMING-AWS4-ECDSA-") {
        return algorithm("AWS4-ECDSA-P256-SHA256");
    }
    S3Error::because(
        Code::InvalidArgument,
        "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, \
         STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER or a valid sha256 value.",
    )
    .with("ArgumentName", "x-amz-content-sha256")
    .with("ArgumentValue", String::from_utf8_lossy(value))
}

/// `canonical` is the canonical request as it was hashed; session tokens in it are hidden.
pub(super) fn mismatch(claim: &SignedClaim<'_>, canonical: &[u8], digest: [u8; 32]) -> S3Error {
    let string_to_sign = format!(
        "{}\n{}\n{}\n{}",
        super::ALGORITHM,
        ascii(&claim.amz_date),
        claim.scope().text,
        hex::encode(digest)
    );
    let canonical = without_tokens(&String::from_utf8_lossy(canonical));
    S3Error::new(Code::SignatureDoesNotMatch)
        .with("AWSAccessKeyId", claim.scope().access_key)
        .with("StringToSignBytes", spaced_hex(&string_to_sign))
        .with("StringToSign", string_to_sign)
        .with("SignatureProvided", claim.signature.as_ref())
        .with("CanonicalRequestBytes", spaced_hex(&canonical))
        .with("CanonicalRequest", canonical)
}

/// Hides the values of session tokens, in the header's line and in the query's.
fn without_tokens(canonical: &str) -> String {
    let lines = canonical.split('\n').map(|line| {
        if line.starts_with("x-amz-security-token:") {
            return "x-amz-security-token:(hidden)".to_owned();
        }
        let pieces = line.split('&').map(|piece| {
            if piece.starts_with("X-Amz-Security-Token=") {
                "X-Amz-Security-Token=(hidden)"
            } else {
                piece
            }
        });
        pieces.collect::<Vec<_>>().join("&")
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn spaced_hex(text: &str) -> String {
    let pairs: Vec<String> = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(" ")
}

fn ascii(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

//! Whether an S3 origin can be used: one request, and a sentence on what came of it.

use http::{HeaderMap, Method};

use super::S3Relay;
use crate::origin::{Origin, OriginRequest, RequestBody, Signer};

/// Bytes of an error's XML that are looked at.
const ERROR_BYTES_MAX: usize = 16 * 1024;

/// Asks for the bucket's first key, or for the buckets.
pub(super) async fn probe(relay: &S3Relay, bucket: Option<&str>) -> Result<String, String> {
    let request = OriginRequest {
        method: Method::GET,
        bucket: bucket.unwrap_or_default().to_owned(),
        key: None,
        path_raw: format!("/{}", bucket.unwrap_or_default()),
        query_raw: bucket.map_or("", |_| "list-type=2&max-keys=1").to_owned(),
        signer: Signer::Node,
        headers: HeaderMap::new(),
        body: RequestBody::Empty,
    };
    let origin = relay.describe();
    let what = bucket.map_or("the list of buckets".to_owned(), |name| format!("bucket {name:?}"));
    let answer = relay.relay(request).await.map_err(|error| error.to_string())?;
    let status = answer.status;
    if status == 200 {
        return Ok(format!("{origin} answers and lets these credentials read {what}"));
    }
    let text = answer.body.collect(ERROR_BYTES_MAX).await.unwrap_or_default();
    let code = code_of(&String::from_utf8_lossy(&text));
    Err(format!("{origin} answers {status} {code} for {what}: {}", cure(&code, status)))
}

fn code_of(xml: &str) -> String {
    let code = xml.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    let plain = |code: &&str| code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    code.map(|(code, _)| code).filter(plain).unwrap_or("without an S3 error code").to_owned()
}

fn cure(code: &str, status: u16) -> &'static str {
    match (code, status) {
        ("InvalidAccessKeyId" | "SignatureDoesNotMatch", _) => {
            "check the access key and the secret key"
        }
        ("RequestTimeTooSkewed", _) => "set this machine's clock",
        ("AuthorizationHeaderMalformed" | "PermanentRedirect", _) | (_, 301 | 307) => {
            "check the region and the endpoint"
        }
        ("NoSuchBucket", _) | (_, 404) => "check the bucket's name, or create it",
        ("ExpiredToken" | "InvalidToken", _) => "renew the session token",
        (_, 401 | 403) => "let these credentials list it (s3:ListBucket)",
        (_, 500..) => "the origin itself is in trouble; try again",
        _ => "check that the endpoint speaks S3",
    }
}

//! PutObject: receive, verify, then commit by one rename.

use http::HeaderMap;
use http::header::ETAG;

use super::call::{Call, check_key};
use super::checksums::FULL_OBJECT;
use super::commit::{Content, commit};
use super::condition::Conditions;
use super::described::{WRITE_HEADERS, describe};
use super::failure::Outcome;
use super::file_body::blocking;
use super::incoming::{Expected, Received, receive};
use super::read::{quoted, value_of};
use super::sidecar::Sidecar;
use crate::origin::{OriginAnswer, RequestBody};

/// Answers `PUT /bucket/key`.
pub(super) async fn put_object(call: Call, body: RequestBody) -> Outcome<OriginAnswer> {
    check_key(&call.key)?;
    call.allow_parameters(&[])?;
    call.allow_headers(&WRITE_HEADERS)?;
    let sidecar = describe(&call)?;
    let conditions = Conditions::of(&call.headers, "");
    conditions.check_write_form()?;
    let expected = Expected::of(&call, &body)?;
    let (call, bucket) = blocking(move || call.bucket().map(|bucket| (call, bucket))).await?;
    let received = receive(&bucket, body, expected).await?;
    blocking(move || {
        let sidecar = complete_sidecar(sidecar, &received);
        let answer = written(&sidecar)?;
        let content = Content { file: received.file, sidecar };
        commit(&bucket, &call.key, content, &conditions, || Ok(()))?;
        Ok(answer)
    })
    .await
}

/// The sidecar of an object that was written in one piece.
pub(super) fn complete_sidecar(mut sidecar: Sidecar, received: &Received) -> Sidecar {
    sidecar.etag = received.md5.hex();
    sidecar.checksums.clone_from(&received.checksums);
    sidecar.checksum_type = (!sidecar.checksums.is_empty()).then(|| FULL_OBJECT.to_owned());
    sidecar
}

/// The answer to a write.
fn written(sidecar: &Sidecar) -> Outcome<OriginAnswer> {
    let mut headers = HeaderMap::new();
    headers.insert(ETAG, quoted(&sidecar.etag)?);
    for (name, value) in &sidecar.checksums {
        let name = http::HeaderName::from_bytes(name.as_bytes()).expect("a known header's name");
        headers.insert(name, value_of(value)?);
    }
    if let Some(kind) = &sidecar.checksum_type {
        headers.insert("x-amz-checksum-type", value_of(kind)?);
    }
    Ok(OriginAnswer::empty(200, headers))
}

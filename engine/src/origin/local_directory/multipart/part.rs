//! UploadPart. A part is a file of bytes and a small file that names it; writing the latter is
//! what makes it the part of its number.

use std::fs;
use std::io;
use std::path::PathBuf;

use http::HeaderMap;
use http::header::ETAG;
use nilas_net::Code;
use nilas_net::checksum::Algorithm;
use serde::{Deserialize, Serialize};

use super::super::bucket::{Bucket, unique_name};
use super::super::call::Call;
use super::super::copy::COPY_SOURCE;
use super::super::failure::{Outcome, not_implemented, refused_because};
use super::super::file_body::blocking;
use super::super::incoming::{Expected, Received, receive};
use super::super::read::{quoted, value_of};
use super::upload::Upload;
use crate::origin::{OriginAnswer, RequestBody};

/// S3's limit on part numbers.
pub(super) const PART_NUMBER_MAX: u32 = 10_000;

/// A part that was received.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Part {
    pub(super) number: u32,
    pub(super) etag: String,
    pub(super) bytes: u64,
    pub(super) modified_ms: u64,
    /// The checksum by the upload's algorithm, as base64.
    pub(super) checksum: Option<String>,
    /// The name of the file with its bytes, in the upload's folder.
    pub(super) file: String,
}

impl Part {
    fn path(upload: &Upload, number: u32) -> PathBuf {
        upload.folder.join(format!("{number:05}.part"))
    }
}

/// Answers `PUT /bucket/key?partNumber&uploadId`.
pub(in super::super) async fn upload_part(call: Call, body: RequestBody) -> Outcome<OriginAnswer> {
    call.allow_parameters(&["partNumber", "uploadId"])?;
    if call.headers.contains_key(COPY_SOURCE) {
        return Err(not_implemented("UploadPartCopy"));
    }
    call.allow_headers(&["x-amz-checksum-"])?;
    let number = part_number(&call)?;
    let mut expected = Expected::of(&call, &body)?;
    let (call, bucket, upload) = blocking(move || {
        let bucket = call.bucket()?;
        let upload = Upload::open(&bucket, &call)?;
        Ok((call, bucket, upload))
    })
    .await?;
    let algorithm = upload.said.algorithm();
    expected.also(algorithm);
    let received = receive(&bucket, body, expected).await?;
    blocking(move || keep(&call, &bucket, &upload, received, number)).await
}

fn part_number(call: &Call) -> Outcome<u32> {
    let number = call.number("partNumber", 0)?;
    if (1..=PART_NUMBER_MAX).contains(&number) {
        return Ok(number);
    }
    let message =
        format!("Part number must be an integer between 1 and {PART_NUMBER_MAX}, inclusive");
    Err(refused_because(Code::InvalidArgument, message))
}

fn keep(
    call: &Call,
    bucket: &Bucket,
    upload: &Upload,
    received: Received,
    number: u32,
) -> Outcome<OriginAnswer> {
    let answer = received_answer(&received)?;
    let part = Part {
        number,
        etag: received.md5.hex(),
        bytes: received.bytes,
        modified_ms: call.clock.wall().0,
        checksum: checksum_of(&received, upload.said.algorithm()),
        file: unique_name(),
    };
    let _lock = bucket.lock()?;
    upload.check_is_open()?;
    received.file.place(&upload.folder.join(&part.file))?;
    let path = Part::path(upload, number);
    let old = fs::read(&path).ok().and_then(|old| serde_json::from_slice::<Part>(&old).ok());
    let text = serde_json::to_vec(&part).expect("strings and numbers are always JSON");
    bucket.write_whole(&path, &text)?;
    if let Some(old) = old {
        remove_if_there(&upload.folder.join(old.file))?;
    }
    Ok(answer)
}

fn checksum_of(received: &Received, algorithm: Option<Algorithm>) -> Option<String> {
    received.checksums.get(algorithm?.header_name()).cloned()
}

fn remove_if_there(path: &std::path::Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn received_answer(received: &Received) -> Outcome<OriginAnswer> {
    let mut headers = HeaderMap::new();
    headers.insert(ETAG, quoted(&received.md5.hex())?);
    for (name, value) in &received.checksums {
        let name = http::HeaderName::from_bytes(name.as_bytes()).expect("a known header's name");
        headers.insert(name, value_of(value)?);
    }
    Ok(OriginAnswer::empty(200, headers))
}

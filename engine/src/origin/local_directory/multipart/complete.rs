//! CompleteMultipartUpload: the named parts become one file, whose ETag is the MD5 of their MD5s
//! and their number, as S3's is. The upload ends under the lock under which the key changes.

use std::collections::BTreeMap;
use std::fs::File;

use nilas_base::ByteRange;
use nilas_net::checksum::{Algorithm, Checksum, checksum};
use nilas_net::{Code, S3Error};

use super::super::bucket::Bucket;
use super::super::call::Call;
use super::super::checksums::write_checksums;
use super::super::commit::{Content, commit};
use super::super::condition::Conditions;
use super::super::document::{CompletedPart, read_completed_parts};
use super::super::failure::{Failure, Outcome, refused, refused_because, xml_answer};
use super::super::file_body::{blocking, read_exactly};
use super::super::incoming::{Expected, Received, Writer, receive_small};
use super::super::sidecar::Sidecar;
use super::super::xml::XmlWriter;
use super::part::{PART_NUMBER_MAX, Part};
use super::upload::Upload;
use crate::origin::{BODY_PART_BYTES_MAX, OriginAnswer, RequestBody};

/// S3's lower limit on every part but the last.
const PART_BYTES_MIN: u64 = 5 * 1024 * 1024;
/// Bytes of a list of all parts, with their checksums.
const PART_LIST_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Answers `POST /bucket/key?uploadId`.
pub(in super::super) async fn complete_upload(
    call: Call,
    body: RequestBody,
) -> Outcome<OriginAnswer> {
    call.allow_parameters(&["uploadId"])?;
    call.allow_headers(&["x-amz-checksum-", "x-amz-mp-object-size"])?;
    // Checksums in its headers are the object's, not the list's.
    let list = receive_small(body, Expected::default(), PART_LIST_BYTES_MAX).await?;
    let named = read_completed_parts(&list, PART_NUMBER_MAX as usize)?;
    blocking(move || complete(&call, &named)).await
}

fn complete(call: &Call, named: &[CompletedPart]) -> Outcome<OriginAnswer> {
    let conditions = Conditions::of(&call.headers, "");
    conditions.check_write_form()?;
    let bucket = call.bucket()?;
    let upload = Upload::open(&bucket, call)?;
    let parts = chosen(&upload, named)?;
    let received = join(&bucket, &upload, &parts)?;
    check_size(call, received.bytes)?;
    let sidecar = sidecar_of(&upload, &parts, &received)?;
    check_checksums(call, &sidecar)?;
    let answer = completed(call, &sidecar);
    let content = Content { file: received.file, sidecar };
    commit(&bucket, &call.key, content, &conditions, || upload.check_is_open())?;
    let _lock = bucket.lock()?;
    // The object is there; what is left of the upload is litter.
    if let Err(error) = upload.remove() {
        tracing::warn!(%error, upload = upload.id, "a completed upload could not be removed");
    }
    Ok(answer)
}

fn chosen(upload: &Upload, named: &[CompletedPart]) -> Outcome<Vec<Part>> {
    let there = upload.parts()?;
    if named.windows(2).any(|pair| pair[0].number >= pair[1].number) {
        return Err(refused(Code::InvalidPartOrder));
    }
    let find = |wanted: &CompletedPart| {
        let found = there.iter().find(|part| part.number == wanted.number && wanted.fits(part));
        found.cloned().ok_or_else(|| {
            let error = S3Error::new(Code::InvalidPart)
                .with("PartNumber", wanted.number.to_string())
                .with("UploadId", upload.id.clone());
            Failure::Refused(error)
        })
    };
    let parts = named.iter().map(find).collect::<Outcome<Vec<Part>>>()?;
    let all_but_last = parts.split_last().map_or(&[][..], |(_, others)| others);
    match all_but_last.iter().find(|part| part.bytes < PART_BYTES_MIN) {
        Some(part) => {
            let error = S3Error::new(Code::EntityTooSmall)
                .with("PartNumber", part.number.to_string())
                .with("MinSizeAllowed", PART_BYTES_MIN.to_string());
            Err(Failure::Refused(error))
        }
        None => Ok(parts),
    }
}

impl CompletedPart {
    fn fits(&self, part: &Part) -> bool {
        let checksum_fits = self.checksum.is_none() || self.checksum == part.checksum;
        self.etag.trim_matches('"') == part.etag && checksum_fits
    }
}

fn join(bucket: &Bucket, upload: &Upload, parts: &[Part]) -> Outcome<Received> {
    let whole: Vec<Algorithm> =
        upload.said.algorithm().into_iter().filter(|_| upload.said.is_full_object()).collect();
    let mut writer = Writer::begin(bucket, &whole)?;
    for part in parts {
        let file = File::open(upload.folder.join(&part.file))?;
        let mut at = 0;
        while at < part.bytes {
            let piece = ByteRange::new(at, part.bytes.min(at + BODY_PART_BYTES_MAX as u64));
            writer.write(&read_exactly(&file, piece)?)?;
            at = piece.end;
        }
    }
    writer.finish()
}

fn check_size(call: &Call, bytes: u64) -> Outcome<()> {
    match call.header("x-amz-mp-object-size")? {
        Some(said) if said.parse() != Ok(bytes) => {
            let message = format!("x-amz-mp-object-size is {said}, the parts have {bytes} bytes");
            Err(refused_because(Code::InvalidRequest, message))
        }
        _ => Ok(()),
    }
}

fn sidecar_of(upload: &Upload, parts: &[Part], received: &Received) -> Outcome<Sidecar> {
    let mut tags = Vec::with_capacity(16 * parts.len());
    for part in parts {
        tags.extend(hex::decode(&part.etag).map_err(std::io::Error::other)?);
    }
    let checksums = match upload.said.algorithm() {
        Some(algorithm) if !upload.said.is_full_object() => composite(algorithm, parts),
        _ => received.checksums.clone(),
    };
    Ok(Sidecar {
        etag: format!("{}-{}", checksum(Algorithm::Md5, &tags).hex(), parts.len()),
        checksum_type: upload.said.checksum_type.clone().filter(|_| !checksums.is_empty()),
        checksums,
        ..upload.said.sidecar.clone()
    })
}

fn composite(algorithm: Algorithm, parts: &[Part]) -> BTreeMap<String, String> {
    let mut all = Vec::with_capacity(algorithm.digest_bytes() * parts.len());
    for part in parts {
        let said = part.checksum.as_deref().unwrap_or_default();
        match Checksum::parse(algorithm, said.as_bytes()) {
            Some(sum) => all.extend_from_slice(sum.bytes()),
            None => return BTreeMap::new(),
        }
    }
    let value = format!("{}-{}", checksum(algorithm, &all).base64(), parts.len());
    BTreeMap::from([(algorithm.header_name().to_owned(), value)])
}

fn check_checksums(call: &Call, sidecar: &Sidecar) -> Outcome<()> {
    for (name, value) in &sidecar.checksums {
        match call.header(name)? {
            // A composite checksum may be given without the number of parts.
            Some(said)
                if said != value && value.split_once('-').is_none_or(|(sum, _)| sum != said) =>
            {
                return Err(refused(Code::BadDigest));
            }
            _ => {}
        }
    }
    Ok(())
}

fn completed(call: &Call, sidecar: &Sidecar) -> OriginAnswer {
    let xml = XmlWriter::document("CompleteMultipartUploadResult", |xml| {
        xml.text("Location", &format!("/{}/{}", call.bucket_name, call.key));
        xml.text("Bucket", &call.bucket_name);
        xml.text("Key", &call.key);
        xml.text("ETag", &format!("\"{}\"", sidecar.etag));
        write_checksums(xml, &sidecar.checksums);
        xml.optional("ChecksumType", sidecar.checksum_type.as_deref());
    });
    xml_answer(200, xml.into())
}

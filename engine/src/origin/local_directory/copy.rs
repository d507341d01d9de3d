//! CopyObject. The source is percent-decoded exactly once, before it is split; the copy is written
//! like any other object, so that its ETag is that of its bytes.

use nilas_base::ByteRange;
use nilas_net::Code;
use nilas_net::copy_source::parse_copy_source;

use super::call::{Call, check_key};
use super::checksums::write_checksums;
use super::commit::{Content, commit};
use super::condition::Conditions;
use super::described::{WRITE_HEADERS, describe};
use super::failure::{Outcome, not_implemented, refused, refused_because, xml_answer};
use super::file_body::{blocking, read_exactly};
use super::incoming::{Writer, algorithms_of};
use super::list::iso;
use super::object::StoredObject;
use super::put::complete_sidecar;
use super::sidecar::Sidecar;
use super::xml::XmlWriter;
use crate::origin::{BODY_PART_BYTES_MAX, OriginAnswer};

/// The header that makes a PUT a copy.
pub(super) const COPY_SOURCE: &str = "x-amz-copy-source";

/// Answers `PUT /bucket/key` with a source.
pub(super) async fn copy_object(call: Call) -> Outcome<OriginAnswer> {
    check_key(&call.key)?;
    call.allow_parameters(&[])?;
    let mut allowed = WRITE_HEADERS.to_vec();
    allowed.extend([
        COPY_SOURCE,
        "x-amz-copy-source-if-match",
        "x-amz-copy-source-if-modified-since",
        "x-amz-copy-source-if-none-match",
        "x-amz-copy-source-if-unmodified-since",
        "x-amz-metadata-directive",
    ]);
    call.allow_headers(&allowed)?;
    blocking(move || copy(&call)).await
}

fn copy(call: &Call) -> Outcome<OriginAnswer> {
    let conditions = Conditions::of(&call.headers, "");
    conditions.check_write_form()?;
    let (source_bucket, source_key) = parse_source(call.header(COPY_SOURCE)?.unwrap_or_default())?;
    let replaces = replaces_metadata(call)?;
    if !replaces && source_bucket == call.bucket_name && source_key == call.key {
        let message = "This copy request is illegal because it is trying to copy an object to itself \
                       without changing the object's metadata, storage class, website redirect \
                       location or encryption attributes.";
        return Err(refused_because(Code::InvalidRequest, message));
    }
    let source = StoredObject::open(&call.bucket_named(&source_bucket)?, &source_key)?
        .ok_or_else(|| refused(Code::NoSuchKey))?;
    Conditions::of(&call.headers, "x-amz-copy-source-").allow_source(&source)?;
    let described = if replaces { describe(call)? } else { source.sidecar.clone() };

    let bucket = call.bucket()?;
    let mut writer = Writer::begin(&bucket, &algorithms_of(&source.sidecar))?;
    copy_bytes(&source, &mut writer)?;
    let received = writer.finish()?;
    let sidecar = complete_sidecar(described, &received);
    let answer = copied(call, &sidecar);
    commit(&bucket, &call.key, Content { file: received.file, sidecar }, &conditions, || Ok(()))?;
    Ok(answer)
}

fn copy_bytes(source: &StoredObject, writer: &mut Writer) -> Outcome<()> {
    let mut at = 0;
    while at < source.bytes {
        let piece = ByteRange::new(at, source.bytes.min(at + BODY_PART_BYTES_MAX as u64));
        writer.write(&read_exactly(&source.file, piece)?)?;
        at = piece.end;
    }
    Ok(())
}

fn copied(call: &Call, sidecar: &Sidecar) -> OriginAnswer {
    let xml = XmlWriter::document("CopyObjectResult", |xml| {
        xml.text("LastModified", &iso(call.clock.wall()));
        xml.text("ETag", &format!("\"{}\"", sidecar.etag));
        write_checksums(xml, &sidecar.checksums);
    });
    xml_answer(200, xml.into())
}

fn replaces_metadata(call: &Call) -> Outcome<bool> {
    match call.header("x-amz-metadata-directive")? {
        None | Some("COPY") => Ok(false),
        Some("REPLACE") => Ok(true),
        Some(other) => Err(refused_because(
            Code::InvalidArgument,
            format!("Unknown metadata directive: {other}"),
        )),
    }
}

/// Bucket and key of a copy's source.
fn parse_source(source: &str) -> Outcome<(String, String)> {
    let source = parse_copy_source(source.as_bytes())
        .map_err(|error| refused_because(Code::InvalidArgument, error.to_string()))?;
    match source.version_id {
        Some(_) => Err(not_implemented("copies of an object's earlier version")),
        None => Ok((source.bucket, source.key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_source_is_decoded_exactly_once() {
        for (source, key) in [
            ("b/a b", "a b"),
            ("/b/a%20b", "a b"),
            ("/b/a%2Bb", "a+b"),
            ("/b/a+b", "a+b"),
            ("/b/a%252Fb", "a%2Fb"),
            ("b%2Fdir%2Fk", "dir/k"),
            ("b//k", "/k"),
        ] {
            let found = parse_source(source).expect("well formed");
            assert_eq!(found, ("b".to_owned(), key.to_owned()), "{source}");
        }
    }

    #[test]
    fn a_source_without_bucket_and_key_is_refused() {
        for source in ["", "/", "b", "b/", "/b/%zz", "/b/k?versionId=1", "/b/%ff"] {
            assert!(parse_source(source).is_err(), "{source}");
        }
    }
}

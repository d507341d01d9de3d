//! What a writer says of an object: content headers, user metadata, and which checksums.

use std::collections::BTreeMap;

use nilas_net::{Code, hop};

use super::call::{Call, text_of};
use super::failure::{Outcome, not_implemented, refused};
use super::sidecar::Sidecar;

/// Content headers that are kept and given back.
pub(super) const KEPT_HEADERS: [&str; 6] = [
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-type",
    "expires",
];
/// S3's limit on user metadata, names and values together.
const METADATA_BYTES_MAX: usize = 2048;

/// `x-amz-` headers of every write.
pub(super) const WRITE_HEADERS: [&str; 4] =
    ["x-amz-acl", "x-amz-checksum-", "x-amz-meta-", "x-amz-storage-class"];

/// Reads what the request says of the object. The ETag and the checksums come later.
pub(super) fn describe(call: &Call) -> Outcome<Sidecar> {
    check_only_value(call, "x-amz-acl", &["private", "bucket-owner-full-control"])?;
    check_only_value(call, "x-amz-storage-class", &["STANDARD"])?;
    let mut sidecar = Sidecar { metadata: metadata(call)?, ..Sidecar::default() };
    for name in KEPT_HEADERS {
        let Some(value) = call.header(name)? else { continue };
        let kept = match name {
            "content-encoding" => hop::content_encoding_at_rest(value),
            _ => Some(value.to_owned()),
        };
        sidecar.headers.extend(kept.map(|value| (name.to_owned(), value)));
    }
    Ok(sidecar)
}

fn check_only_value(call: &Call, name: &str, known: &[&str]) -> Outcome<()> {
    match call.header(name)? {
        Some(value) if !known.contains(&value) => Err(not_implemented(&format!("{name}: {value}"))),
        _ => Ok(()),
    }
}

fn metadata(call: &Call) -> Outcome<BTreeMap<String, String>> {
    let mut metadata = BTreeMap::<String, String>::new();
    for (name, value) in &call.headers {
        let Some(short) = name.as_str().strip_prefix("x-amz-meta-") else { continue };
        let value = text_of(name.as_str(), value.as_bytes())?;
        metadata
            .entry(short.to_owned())
            .and_modify(|known| {
                known.push(',');
                known.push_str(value);
            })
            .or_insert_with(|| value.to_owned());
    }
    let bytes: usize = metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > METADATA_BYTES_MAX {
        return Err(refused(Code::MetadataTooLarge));
    }
    Ok(metadata)
}

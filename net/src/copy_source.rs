//! The source of a copy: `/bucket/key?versionId=id` in a header, percent-encoded. Decoded exactly
//! once, before it is split.

use crate::percent::{Plus, decode};

/// What a copy reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopySource {
    /// The bucket.
    pub bucket: String,
    /// The key, decoded.
    pub key: String,
    /// The version, where one is named, as sent.
    pub version_id: Option<String>,
}

/// A header that names no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Copy Source must mention the source bucket and key: sourcebucket/sourcekey")]
pub struct NoSource;

/// Parses the header's value.
pub fn parse_copy_source(value: &[u8]) -> Result<CopySource, NoSource> {
    let text = std::str::from_utf8(value).map_err(|_| NoSource)?;
    let (path, version_id) = match text.split_once("?versionId=") {
        Some((path, version)) => (path, Some(version.to_owned())),
        None => (text, None),
    };
    let mut decoded = Vec::new();
    decode(path.as_bytes(), Plus::Literal, &mut decoded).map_err(|_| NoSource)?;
    let decoded = String::from_utf8(decoded).map_err(|_| NoSource)?;
    let decoded = decoded.strip_prefix('/').unwrap_or(&decoded);
    match decoded.split_once('/') {
        Some((bucket, key)) if !bucket.is_empty() && !key.is_empty() => {
            Ok(CopySource { bucket: bucket.to_owned(), key: key.to_owned(), version_id })
        }
        _ => Err(NoSource),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(value: &str) -> Option<(String, String, Option<String>)> {
        let source = parse_copy_source(value.as_bytes()).ok()?;
        Some((source.bucket, source.key, source.version_id))
    }

    fn is(value: &str, bucket: &str, key: &str, version_id: Option<&str>) {
        let expected = (bucket.to_owned(), key.to_owned(), version_id.map(str::to_owned));
        assert_eq!(parsed(value), Some(expected), "{value}");
    }

    #[test]
    fn a_source_is_decoded_once() {
        is("bucket/key", "bucket", "key", None);
        is("/bucket/a%2Bb", "bucket", "a+b", None);
        is("/bucket/a+b", "bucket", "a+b", None);
        is("/bucket/a%252Bb", "bucket", "a%2Bb", None);
        is("bucket%2Fa%20b", "bucket", "a b", None);
        is("bucket//a//b", "bucket", "/a//b", None);
        is("bucket/k?versionId=v%2B1", "bucket", "k", Some("v%2B1"));
    }

    #[test]
    fn what_names_no_object_is_refused() {
        for value in ["", "/", "bucket", "bucket/", "//key", "bucket/%zz", "bucket/%ff"] {
            assert_eq!(parsed(value), None, "{value}");
        }
    }
}

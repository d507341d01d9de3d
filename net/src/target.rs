//! Bucket and key out of host and path, path-style or virtual-host style. The key is decoded exactly
//! once and never normalised: `//`, `.`, `..`, `+` and `%2F` are what they are.

use crate::percent::{self, Plus};
use crate::{Code, S3Error};

/// The domain names under which buckets are hosts (`bucket.domain`).
#[derive(Clone, Debug, Default)]
pub struct Addressing {
    /// Longest first, so that the closest of overlapping domains decides.
    domains: Vec<String>,
}

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// The bucket; `None` for the service itself.
    pub bucket: Option<&'a str>,
    /// The key, decoded; `None` for a bucket or the service.
    pub key: Option<&'a str>,
    /// The key, as sent.
    pub key_raw: &'a str,
    /// The path, as sent.
    pub path_raw: &'a str,
    /// Whether the host named the bucket.
    pub is_virtual_host: bool,
}

/// A path that names no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Half an escape in the path.
    #[error(
        "Couldn't parse the specified URI: the percent sign at byte {at} of the path is not followed by two hexadecimal digits. Encode a literal percent sign as %25."
    )]
    BadEscape {
        /// Where, in bytes.
        at: usize,
    },
    /// A key or bucket that does not decode to UTF-8.
    #[error("Couldn't parse the specified URI: the path does not decode to UTF-8.")]
    NotUtf8,
    /// A path such as `//key`.
    #[error("The specified bucket is not valid: the path names none. Send /bucket/key.")]
    EmptyBucket,
}

impl From<TargetError> for S3Error {
    fn from(error: TargetError) -> S3Error {
        let code = match error {
            TargetError::BadEscape { .. } | TargetError::NotUtf8 => Code::InvalidURI,
            TargetError::EmptyBucket => Code::InvalidBucketName,
        };
        S3Error::because(code, error.to_string())
    }
}

impl Addressing {
    /// For these domains, each without port and without a leading dot.
    pub fn new(domains: impl IntoIterator<Item = String>) -> Addressing {
        let mut domains: Vec<String> =
            domains.into_iter().map(|domain| domain.to_ascii_lowercase()).collect();
        domains.sort_by_key(|domain| std::cmp::Reverse(domain.len()));
        Addressing { domains }
    }

    /// Finds bucket and key. `scratch` holds what had to be decoded; it is cleared first.
    pub fn resolve<'a>(
        &self,
        host: &'a str,
        path_raw: &'a str,
        scratch: &'a mut Vec<u8>,
    ) -> Result<Target<'a>, TargetError> {
        debug_assert!(path_raw.starts_with('/'), "the head's parser sees to it");
        scratch.clear();
        match self.bucket_of_host(host) {
            Some(bucket) => {
                let key_raw = &path_raw[1..];
                decode_into(scratch, key_raw, 1)?;
                let key = text(key_raw, scratch)?;
                Ok(target(Some(bucket), key, key_raw, path_raw, true))
            }
            None => resolve_path_style(path_raw, scratch),
        }
    }

    /// The bucket that the host names, port or no port.
    fn bucket_of_host<'a>(&self, host: &'a str) -> Option<&'a str> {
        let name = without_port(host);
        self.domains.iter().find_map(|domain| {
            let split = name.len().checked_sub(domain.len())?;
            let (front, back) = (name.get(..split)?, name.get(split..)?);
            if !back.eq_ignore_ascii_case(domain) {
                return None;
            }
            // The domain itself is no bucket's, nor is a longer domain that merely ends so.
            Some(front.strip_suffix('.').filter(|bucket| !bucket.is_empty()))
        })?
    }
}

impl Target<'_> {
    /// Writes the path with the bucket in it, the key as it was sent; bytes that no URI may hold are
    /// escaped, so that an HTTP client cannot cut it short at a `#`.
    pub fn path_style<S: crate::Sink + ?Sized>(&self, sink: &mut S) {
        if let (true, Some(bucket)) = (self.is_virtual_host, self.bucket) {
            sink.put(b"/");
            percent::encode_path(bucket.as_bytes(), sink);
        }
        percent::escape_illegal(self.path_raw.as_bytes(), sink);
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn resolve_path_style<'a>(
    path_raw: &'a str,
    scratch: &'a mut Vec<u8>,
) -> Result<Target<'a>, TargetError> {
    let rest = &path_raw[1..];
    if rest.is_empty() {
        return Ok(target(None, "", "", path_raw, false));
    }
    let (bucket_raw, key_raw) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket_raw.is_empty() {
        return Err(TargetError::EmptyBucket);
    }
    decode_into(scratch, bucket_raw, 1)?;
    let bucket_length = scratch.len();
    decode_into(scratch, key_raw, bucket_raw.len() + 2)?;
    let (bucket_decoded, key_decoded) = scratch.split_at(bucket_length);
    let bucket = text(bucket_raw, bucket_decoded)?;
    Ok(target(Some(bucket), text(key_raw, key_decoded)?, key_raw, path_raw, false))
}

/// Appends the decoded text, or nothing when it is plain. `starts_at` is its place in the path.
fn decode_into(scratch: &mut Vec<u8>, raw: &str, starts_at: usize) -> Result<(), TargetError> {
    if percent::is_plain(raw.as_bytes(), Plus::Literal) {
        return Ok(());
    }
    percent::decode(raw.as_bytes(), Plus::Literal, scratch)
        .map_err(|bad| TargetError::BadEscape { at: starts_at + bad.at })
}

fn text<'a>(raw: &'a str, decoded: &'a [u8]) -> Result<&'a str, TargetError> {
    if percent::is_plain(raw.as_bytes(), Plus::Literal) {
        return Ok(raw);
    }
    std::str::from_utf8(decoded).map_err(|_| TargetError::NotUtf8)
}

/// Keys of any length: how long one may be, and who minds, is the origin's to say.
fn target<'a>(
    bucket: Option<&'a str>,
    key: &'a str,
    key_raw: &'a str,
    path_raw: &'a str,
    is_virtual_host: bool,
) -> Target<'a> {
    Target { bucket, key: (!key.is_empty()).then_some(key), key_raw, path_raw, is_virtual_host }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addressing() -> Addressing {
        Addressing::new(["s3.local".to_owned(), "eu.S3.local".to_owned()])
    }

    fn check(host: &str, path: &str, bucket: Option<&str>, key: Option<&str>) {
        let mut scratch = b"old".to_vec();
        let target = addressing().resolve(host, path, &mut scratch).expect("well formed");
        assert_eq!((target.bucket, target.key), (bucket, key), "{host} {path}");
        assert_eq!(target.path_raw, path);
    }

    #[test]
    fn paths_name_bucket_and_key() {
        check("127.0.0.1:9000", "/", None, None);
        check("127.0.0.1:9000", "/b", Some("b"), None);
        check("127.0.0.1:9000", "/b/", Some("b"), None);
        check("[::1]:9000", "/b/k", Some("b"), Some("k"));
        check("s3.local", "/b/k", Some("b"), Some("k"));
        check("other.example", "/b/k", Some("b"), Some("k"));
        check("", "/b/k", Some("b"), Some("k"));
        check("s3.local:80", "/b%2Dc/k", Some("b-c"), Some("k"));
    }

    #[test]
    fn hosts_name_buckets_with_and_without_a_port() {
        check("b.s3.local", "/k", Some("b"), Some("k"));
        check("b.s3.local:9000", "/k/l", Some("b"), Some("k/l"));
        check("my.dotted.S3.Local:9000", "/", Some("my.dotted"), None);
        check("b.eu.s3.local", "/k", Some("b"), Some("k"));
        check("eu.s3.local", "/b/k", Some("b"), Some("k"));
        check("nots3.local", "/b/k", Some("b"), Some("k"));
    }

    #[test]
    fn keys_are_decoded_once_and_never_normalised() {
        for (raw, key) in [
            ("a+b", "a+b"),
            ("a%2Bb", "a+b"),
            ("a%20b", "a b"),
            ("a%252Fb", "a%2Fb"),
            ("p%2Fq", "p/q"),
            ("/k", "/k"),
            ("a//b/", "a//b/"),
            ("./../x", "./../x"),
            ("%2E%2E/x", "../x"),
            ("a#b", "a#b"),
            ("a%23b", "a#b"),
            ("d=2024-01-01%2F%C3%BC", "d=2024-01-01/ü"),
            ("ü", "ü"),
            ("a@b:c", "a@b:c"),
        ] {
            check("h", &format!("/b/{raw}"), Some("b"), Some(key));
            check("b.s3.local", &format!("/{raw}"), Some("b"), Some(key));
        }
    }

    #[test]
    fn bad_paths_say_what_is_wrong() {
        for (path, expected, code) in [
            ("/b/a%", TargetError::BadEscape { at: 4 }, Code::InvalidURI),
            ("/b/a%zz", TargetError::BadEscape { at: 4 }, Code::InvalidURI),
            ("/b%/a", TargetError::BadEscape { at: 2 }, Code::InvalidURI),
            ("/b/%ff", TargetError::NotUtf8, Code::InvalidURI),
            ("//k", TargetError::EmptyBucket, Code::InvalidBucketName),
        ] {
            let mut scratch = Vec::new();
            let error = addressing().resolve("h", path, &mut scratch).expect_err(path);
            assert_eq!(error, expected);
            assert_eq!(S3Error::from(error).code, code);
        }
    }

    #[test]
    fn a_long_key_is_the_origins_to_refuse() {
        check("h", &format!("/b/{}", "%6B".repeat(2000)), Some("b"), Some(&"k".repeat(2000)));
    }

    #[test]
    fn the_path_to_the_origin_holds_the_bucket_and_the_key_as_sent() {
        for (host, path, expected) in [
            ("b.s3.local", "/a%2Bb//c", "/b/a%2Bb//c"),
            ("h", "/b/a%2Bb//c", "/b/a%2Bb//c"),
            ("h", "/b/a#b%23ü", "/b/a%23b%23%C3%BC"),
            ("b.s3.local", "/", "/b/"),
            ("h", "/", "/"),
        ] {
            let mut scratch = Vec::new();
            let mut written = Vec::new();
            let addressing = addressing();
            addressing
                .resolve(host, path, &mut scratch)
                .expect("well formed")
                .path_style(&mut written);
            assert_eq!(written, expected.as_bytes());
        }
    }
}

//! From an origin's answer to a mapping. Bytes are cached only when the answer's headers prove
//! which version, which range and which length they are; anything less is passed on, not kept.

use std::sync::Arc;

use http::HeaderMap;
use nilas_base::ByteRange;

use super::{Mapping, StoreClass};
use crate::identity::{Geometry, HomeHash, ObjectName};
use crate::wire::is_told_anew;

/// What was asked, as far as it changes how an answer is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Whether a range was asked for.
    pub range: bool,
    /// Whether it was a HEAD.
    pub head: bool,
}

/// A mapping, and which bytes of the object the answer's body holds.
#[derive(Debug)]
pub struct Learned {
    /// What is now known.
    pub mapping: Arc<Mapping>,
    /// The bytes that follow; empty after a HEAD.
    pub body: ByteRange,
}

/// The answer does not prove what it holds; it may be passed on but not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unproven {
    /// Not a success.
    Status,
    /// No strong ETag: two versions could not be told apart.
    NoEtag,
    /// The length or the range is missing, malformed or contradicts itself.
    NoRange,
    /// The body is transformed on the way.
    Encoded,
}

/// Whose answer is read.
pub struct Subject<'a> {
    /// The object.
    pub name: &'a Arc<ObjectName>,
    /// Its home's hash.
    pub home_hash: HomeHash,
    /// The store of its class.
    pub class: StoreClass,
}

/// Reads an answer's head.
pub fn learn(
    geometry: &Geometry,
    subject: &Subject<'_>,
    asked: Asked,
    status: u16,
    headers: &HeaderMap,
) -> Result<Learned, Unproven> {
    let etag = strong_etag(headers).ok_or(Unproven::NoEtag);
    if headers.contains_key(http::header::TRANSFER_ENCODING) {
        return Err(Unproven::Encoded);
    }
    let content_length = number(headers, http::header::CONTENT_LENGTH).ok_or(Unproven::NoRange);
    let (length, body) = match status {
        200 => {
            let length = content_length?;
            (length, if asked.head { ByteRange::new(0, 0) } else { ByteRange::new(0, length) })
        }
        206 if asked.range && !asked.head => {
            let (range, length) = content_range(headers).ok_or(Unproven::NoRange)?;
            if content_length? != range.len() {
                return Err(Unproven::NoRange);
            }
            (length, range)
        }
        _ => return Err(Unproven::Status),
    };
    let mapping = mapping(geometry, subject, etag?, length, (status == 200).then_some(()), headers);
    Ok(Learned { mapping: Arc::new(mapping), body })
}

fn mapping(
    geometry: &Geometry,
    subject: &Subject<'_>,
    etag: &str,
    length: u64,
    whole: Option<()>,
    headers: &HeaderMap,
) -> Mapping {
    let name = subject.name.as_ref().as_ref();
    let (checksums, lines): (Vec<_>, Vec<_>) = headers
        .iter()
        .filter(|(name, _)| !is_told_anew(name.as_str()))
        .partition(|(name, _)| name.as_str().starts_with("x-amz-checksum-"));
    Mapping {
        name: Arc::clone(subject.name),
        home_hash: subject.home_hash,
        version: geometry.version(name, etag, length),
        etag: etag.into(),
        length,
        last_modified: text(headers, http::header::LAST_MODIFIED).map(Into::into),
        headers: header_lines(&lines),
        checksums: whole.map(|()| header_lines(&checksums)),
        class: subject.class,
    }
}

fn header_lines(lines: &[(&http::HeaderName, &http::HeaderValue)]) -> Box<[u8]> {
    let mut bytes = Vec::new();
    for (name, value) in lines {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            bytes.extend_from_slice(part);
        }
    }
    bytes.into_boxed_slice()
}

fn text(headers: &HeaderMap, name: http::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

fn number(headers: &HeaderMap, name: http::HeaderName) -> Option<u64> {
    let value = text(headers, name)?;
    value.bytes().all(|byte| byte.is_ascii_digit()).then(|| value.parse().ok())?
}

fn strong_etag(headers: &HeaderMap) -> Option<&str> {
    let etag = text(headers, http::header::ETAG)?;
    (!etag.is_empty() && !etag.starts_with("W/")).then_some(etag)
}

/// `bytes a-b/length`, with `a ≤ b < length`.
fn content_range(headers: &HeaderMap) -> Option<(ByteRange, u64)> {
    let value = text(headers, http::header::CONTENT_RANGE)?.strip_prefix("bytes ")?;
    let (range, length) = value.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last, length): (u64, u64, u64) =
        (first.parse().ok()?, last.parse().ok()?, length.parse().ok()?);
    (first <= last && last < length).then(|| (ByteRange::new(first, last + 1), length))
}

//! From an origin's answer to a mapping. Bytes are cached only when the answer's headers prove
//! which version, which range and which length they are; anything less is passed on, not kept.

use std::sync::Arc;

use http::HeaderMap;
use nilas_base::ByteRange;

use super::{Mapping, StoreClass};
use crate::identity::{Geometry, HomeHash, ObjectName};
use crate::purge::Era;
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

/// Bytes of an object at most: no store has longer ones, and the blocks of these can be counted.
const OBJECT_BYTES_MAX: u64 = 1 << 51;

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
    /// After which purge the question was asked.
    pub era: Era,
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
    let content_length = length_of(headers).ok_or(Unproven::NoRange);
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
    if length > OBJECT_BYTES_MAX {
        return Err(Unproven::NoRange);
    }
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
        version: geometry.version(name, etag, length, subject.era),
        etag: etag.into(),
        length,
        last_modified: text(headers, http::header::LAST_MODIFIED).map(Into::into),
        headers: header_lines(&lines),
        checksums: whole.map(|()| header_lines(&checksums)),
        era: subject.era,
        class: subject.class,
        tail_start: length,
    }
}

pub(super) fn header_lines(lines: &[(&http::HeaderName, &http::HeaderValue)]) -> Box<[u8]> {
    let mut bytes = Vec::new();
    for (name, value) in lines {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            bytes.extend_from_slice(part);
        }
    }
    bytes.into_boxed_slice()
}

/// A header's value, if it is text and the only one: of two, nobody knows which is meant.
fn text(headers: &HeaderMap, name: http::HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// The length of an answer's body.
pub(super) fn length_of(headers: &HeaderMap) -> Option<u64> {
    number(headers, http::header::CONTENT_LENGTH)
}

fn number(headers: &HeaderMap, name: http::HeaderName) -> Option<u64> {
    digits(text(headers, name)?)
}

/// Digits alone: no sign, no space.
fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// The one ETag that an answer names, if it can tell versions apart byte by byte.
pub fn strong_etag(headers: &HeaderMap) -> Option<&str> {
    let etag = text(headers, http::header::ETAG)?;
    (!etag.is_empty() && !etag.starts_with("W/")).then_some(etag)
}

/// `bytes a-b/length`, with `a ≤ b < length`.
pub(super) fn content_range(headers: &HeaderMap) -> Option<(ByteRange, u64)> {
    let value = text(headers, http::header::CONTENT_RANGE)?.strip_prefix("bytes ")?;
    let (range, length) = value.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last, length) = (digits(first)?, digits(last)?, digits(length)?);
    (first <= last && last < length).then(|| (ByteRange::new(first, last + 1), length))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Asked = Asked { range: false, head: false };
    const RANGE: Asked = Asked { range: true, head: false };
    const HEAD: Asked = Asked { range: false, head: true };

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let line = |(name, value): &(&str, &str)| {
            let name = http::HeaderName::from_bytes(name.as_bytes()).expect("a name");
            (name, http::HeaderValue::from_bytes(value.as_bytes()).expect("a value"))
        };
        lines.iter().map(line).collect()
    }

    fn learn_from(asked: Asked, status: u16, lines: &[(&str, &str)]) -> Result<Learned, Unproven> {
        let geometry = Geometry { origin_id: [7; 16], block_bytes: 1 << 20, shards: 2 };
        let name = Arc::new(ObjectName { bucket: "lake".into(), key: "key".into() });
        let subject =
            Subject { name: &name, home_hash: HomeHash(1), class: StoreClass::Data, era: Era(0) };
        learn(&geometry, &subject, asked, status, &headers(lines))
    }

    fn check(
        asked: Asked,
        status: u16,
        lines: &[(&str, &str)],
        expected: Result<(u64, u64, u64), Unproven>,
    ) {
        let found = learn_from(asked, status, lines)
            .map(|learned| (learned.mapping.length, learned.body.start, learned.body.end));
        assert_eq!(found, expected, "{asked:?} {status} {lines:?}");
    }

    const ETAG: (&str, &str) = ("etag", "\"a\"");

    #[test]
    fn a_whole_answer_proves_its_length() {
        check(WHOLE, 200, &[ETAG, ("content-length", "10")], Ok((10, 0, 10)));
        check(WHOLE, 200, &[ETAG, ("content-length", "0")], Ok((0, 0, 0)));
        check(RANGE, 200, &[ETAG, ("content-length", "10")], Ok((10, 0, 10)));
        check(HEAD, 200, &[ETAG, ("content-length", "10")], Ok((10, 0, 0)));
    }

    #[test]
    fn a_part_proves_where_it_lies() {
        let part = |range, length| [ETAG, ("content-range", range), ("content-length", length)];
        check(RANGE, 206, &part("bytes 5-9/20", "5"), Ok((20, 5, 10)));
        check(RANGE, 206, &part("bytes 0-0/1", "1"), Ok((1, 0, 1)));
        for (range, length) in [
            ("bytes 5-9/20", "6"),
            ("bytes 5-9/20", "4"),
            ("bytes 9-5/20", "5"),
            ("bytes 5-20/20", "16"),
            ("bytes 5-9/*", "5"),
            ("bytes */20", "0"),
            ("bytes 5-9", "5"),
            ("items 5-9/20", "5"),
            ("bytes=5-9/20", "5"),
            ("bytes -1-3/20", "5"),
            ("bytes +5-9/20", "5"),
            ("bytes 5-9/+20", "5"),
            ("bytes 5-9/99999999999999999999", "5"),
            ("", "5"),
        ] {
            check(RANGE, 206, &part(range, length), Err(Unproven::NoRange));
        }
        check(RANGE, 206, &[ETAG, ("content-length", "5")], Err(Unproven::NoRange));
        check(RANGE, 206, &[ETAG, ("content-range", "bytes 5-9/20")], Err(Unproven::NoRange));
        let twice = [("content-range", "bytes 0-4/20"), ("content-range", "bytes 5-9/20")];
        check(
            RANGE,
            206,
            &[&[ETAG, ("content-length", "5")], &twice[..]].concat(),
            Err(Unproven::NoRange),
        );
    }

    #[test]
    fn what_does_not_prove_its_version_is_not_kept() {
        let length = ("content-length", "10");
        check(WHOLE, 200, &[length], Err(Unproven::NoEtag));
        check(WHOLE, 200, &[length, ("etag", "")], Err(Unproven::NoEtag));
        check(WHOLE, 200, &[length, ("etag", "W/\"a\"")], Err(Unproven::NoEtag));
        check(
            WHOLE,
            200,
            &[length, ("last-modified", "Thu, 01 Jan 2015 00:00:00 GMT")],
            Err(Unproven::NoEtag),
        );
        check(WHOLE, 200, &[length, ETAG, ("etag", "\"b\"")], Err(Unproven::NoEtag));
    }

    #[test]
    fn a_length_that_no_object_has_is_not_believed() {
        let longest = OBJECT_BYTES_MAX.to_string();
        check(HEAD, 200, &[ETAG, ("content-length", &longest)], Ok((OBJECT_BYTES_MAX, 0, 0)));
        for length in [OBJECT_BYTES_MAX + 1, u64::MAX] {
            let length = length.to_string();
            check(HEAD, 200, &[ETAG, ("content-length", &length)], Err(Unproven::NoRange));
            let range = format!("bytes 5-9/{length}");
            let part = [ETAG, ("content-range", range.as_str()), ("content-length", "5")];
            check(RANGE, 206, &part, Err(Unproven::NoRange));
        }
    }

    #[test]
    fn a_length_that_is_none_or_two_is_not_believed() {
        for length in ["", "x", "-1", "+10", "1 0", "0x10", "99999999999999999999"] {
            check(WHOLE, 200, &[ETAG, ("content-length", length)], Err(Unproven::NoRange));
        }
        check(WHOLE, 200, &[ETAG], Err(Unproven::NoRange));
        let two = [ETAG, ("content-length", "10"), ("content-length", "11")];
        check(WHOLE, 200, &two, Err(Unproven::NoRange));
        let chunked = [ETAG, ("content-length", "10"), ("transfer-encoding", "chunked")];
        check(WHOLE, 200, &chunked, Err(Unproven::Encoded));
    }

    #[test]
    fn other_answers_and_unasked_parts_are_not_kept() {
        let part = [ETAG, ("content-range", "bytes 5-9/20"), ("content-length", "5")];
        check(WHOLE, 206, &part, Err(Unproven::Status));
        check(HEAD, 206, &part, Err(Unproven::Status));
        for status in [201, 203, 204, 301, 304, 400, 403, 404, 412, 416, 500, 503] {
            check(RANGE, status, &part, Err(Unproven::Status));
        }
    }

    #[test]
    fn checksums_are_kept_apart_and_only_of_the_whole_object() {
        let lines = [
            ETAG,
            ("content-length", "5"),
            ("x-amz-checksum-crc32", "AAAAAA=="),
            ("x-amz-meta-a", "b"),
        ];
        let whole = learn_from(WHOLE, 200, &lines).expect("proven").mapping;
        assert_eq!(whole.checksums.as_deref(), Some(&b"x-amz-checksum-crc32: AAAAAA==\r\n"[..]));
        assert_eq!(&*whole.headers, b"etag: \"a\"\r\nx-amz-meta-a: b\r\n");
        let part = [&lines[..], &[("content-range", "bytes 0-4/20")]].concat();
        let part = learn_from(RANGE, 206, &part).expect("proven").mapping;
        assert!(!part.is_complete() && part.headers == whole.headers);
        assert_ne!(part.version, whole.version, "another length is another version");
    }
}

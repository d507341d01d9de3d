//! Parts of objects that were uploaded in parts: where one lies in its object and what an answer to it
//! tells beside what every answer tells. Only the origin knows; what it has told once, a shard tells
//! again while the object is the same to the last of its headers. A part never makes a version known.

use std::rc::Rc;

use http::HeaderMap;
use nilas_base::ByteRange;
use nilas_net::range::{RangeForm, SingleRange};

use super::Mapping;
use super::learned::{content_range, header_lines, length_of, strong_etag};
use crate::identity::{HomeHash, NameRef};
use crate::wire::is_told_anew;

/// Parts that a shard knows at most; one that loses its place to another is asked for anew.
const PARTS_MAX: usize = 256;
/// Bytes of the header lines of an answer, over which it is not kept.
const LINES_BYTES_MAX: usize = 2048;

/// What is asked of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartAsked {
    /// Its number, from 1.
    pub number: u16,
    /// Whether for its bytes, or its head alone.
    pub body: bool,
    /// Whether for its checksums.
    pub checksums: bool,
}

/// What an origin tells of a part.
#[derive(Debug, PartialEq, Eq)]
pub struct Part {
    etag: Box<str>,
    length: u64,
    /// Where it lies in its object.
    pub range: ByteRange,
    /// Header lines that an answer to the whole object has too.
    common: Box<[u8]>,
    /// Header lines of this part alone.
    pub lines: Box<[u8]>,
}

impl Part {
    /// Reads the head of an answer to a question for a part; `None` where it does not prove which
    /// bytes of which version it is.
    pub fn told(status: u16, headers: &HeaderMap) -> Option<Part> {
        let etag = strong_etag(headers).filter(|_| status == 206)?;
        let (range, length) = content_range(headers)?;
        if headers.contains_key(http::header::TRANSFER_ENCODING)
            || length_of(headers) != Some(range.len())
        {
            return None;
        }
        let told = headers.iter().filter(|(name, _)| !is_told_anew(name.as_str()));
        let (own, common): (Vec<_>, Vec<_>) =
            told.partition(|(name, _)| is_of_a_part(name.as_str()));
        let (lines, common) = (header_lines(&own), header_lines(&common));
        let is_short = lines.len() + common.len() <= LINES_BYTES_MAX;
        is_short.then(|| Part { etag: etag.into(), length, range, common, lines })
    }

    /// Whether it is a part of the object as it is known now.
    pub fn is_of(&self, mapping: &Mapping) -> bool {
        *self.etag == *mapping.etag
            && self.length == mapping.length
            && *self.common == *mapping.headers
    }

    /// Its bytes, as a range that a client might have asked for.
    pub fn range_form(&self) -> RangeForm {
        let ByteRange { start: first, end } = self.range;
        RangeForm::Single(SingleRange::FromTo { first, last: end - 1 })
    }
}

/// Whether a header tells of the part rather than of the object.
fn is_of_a_part(name: &str) -> bool {
    name == "x-amz-mp-parts-count" || name.starts_with("x-amz-checksum-")
}

/// The parts that one shard was told of, by the names of their objects.
#[derive(Debug)]
pub struct PartTable {
    slots: Box<[Option<Slot>]>,
}

#[derive(Debug)]
struct Slot {
    bucket: Box<str>,
    key: Box<str>,
    asked: PartAsked,
    part: Rc<Part>,
}

impl Default for PartTable {
    fn default() -> PartTable {
        PartTable { slots: (0..PARTS_MAX).map(|_| None).collect() }
    }
}

impl PartTable {
    /// What was told of a part of the object of this name, whichever version it was.
    pub fn find(&self, name: NameRef<'_>, hash: HomeHash, asked: PartAsked) -> Option<Rc<Part>> {
        let slot = self.slots[place(hash, asked)].as_ref()?;
        let is_it = *slot.bucket == *name.bucket && *slot.key == *name.key && slot.asked == asked;
        is_it.then(|| Rc::clone(&slot.part))
    }

    /// Keeps what was told.
    pub fn keep(&mut self, name: NameRef<'_>, hash: HomeHash, asked: PartAsked, part: Part) {
        let (bucket, key) = (name.bucket.into(), name.key.into());
        let slot = Slot { bucket, key, asked, part: Rc::new(part) };
        self.slots[place(hash, asked)] = Some(slot);
    }
}

fn place(hash: HomeHash, asked: PartAsked) -> usize {
    let PartAsked { number, body, checksums } = asked;
    let form = u64::from(number) << 2 | u64::from(body) << 1 | u64::from(checksums);
    let mixed = (hash.0 ^ form.wrapping_mul(0x9E37_79B9_7F4A_7C15)) >> 32;
    mixed as usize % PARTS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: PartAsked = PartAsked { number: 2, body: true, checksums: false };
    const TOLD: [(&str, &str); 6] = [
        ("etag", "\"a-3\""),
        ("content-range", "bytes 10-19/25"),
        ("content-length", "10"),
        ("x-amz-mp-parts-count", "3"),
        ("x-amz-checksum-crc32", "AAAAAA=="),
        ("content-type", "text/csv"),
    ];

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let line = |(name, value): &(&str, &str)| {
            let name = http::HeaderName::from_bytes(name.as_bytes()).expect("a name");
            (name, http::HeaderValue::from_bytes(value.as_bytes()).expect("a value"))
        };
        lines.iter().map(line).collect()
    }

    fn told_but(name: &str, value: Option<&str>) -> Option<Part> {
        let mut headers = headers(&TOLD);
        headers.remove(name);
        if let Some(value) = value {
            let name = http::HeaderName::from_bytes(name.as_bytes()).expect("a name");
            headers.insert(name, http::HeaderValue::from_str(value).expect("a value"));
        }
        Part::told(206, &headers)
    }

    #[test]
    fn a_part_is_told_by_its_range_and_its_own_lines() {
        let part = Part::told(206, &headers(&TOLD)).expect("it is proven");
        assert_eq!((part.range, part.length), (ByteRange::new(10, 20), 25));
        assert_eq!(&*part.lines, b"x-amz-mp-parts-count: 3\r\nx-amz-checksum-crc32: AAAAAA==\r\n");
        assert_eq!(&*part.common, b"etag: \"a-3\"\r\ncontent-type: text/csv\r\n");
    }

    #[test]
    fn what_proves_no_bytes_of_a_version_is_not_believed() {
        assert_eq!(Part::told(200, &headers(&TOLD)), None);
        for (name, value) in [
            ("etag", None),
            ("etag", Some("W/\"a\"")),
            ("content-range", None),
            ("content-range", Some("bytes */25")),
            ("content-range", Some("bytes 10-30/25")),
            ("content-length", None),
            ("content-length", Some("11")),
            ("transfer-encoding", Some("chunked")),
            ("x-amz-meta-long", Some(&*"a".repeat(LINES_BYTES_MAX))),
        ] {
            assert_eq!(told_but(name, value), None, "{name} {value:?}");
        }
    }

    #[test]
    fn a_table_tells_what_it_was_told_of_that_part_and_that_question_alone() {
        let mut table = PartTable::default();
        let name = NameRef { bucket: "lake", key: "key" };
        let part = || Part::told(206, &headers(&TOLD)).expect("it is proven");
        for number in 1..2000_u16 {
            let asked = PartAsked { number, ..ASKED };
            table.keep(name, HomeHash(7), asked, part());
            assert!(table.find(name, HomeHash(7), asked).is_some());
            let others = [
                PartAsked { body: false, ..asked },
                PartAsked { checksums: true, ..asked },
                PartAsked { number: number + 1, ..asked },
            ];
            assert!(others.iter().all(|it| table.find(name, HomeHash(7), *it).is_none()));
            let other = NameRef { key: "another", ..name };
            assert!(table.find(other, HomeHash(7), asked).is_none());
        }
        assert_eq!(table.slots.len(), PARTS_MAX);
    }
}

//! The `Range` header of reads. One well-formed range is resolved here against an object's length;
//! whatever S3 might read in its own way goes to the origin, which then answers it.

use nilas_base::ByteRange;

use crate::head::RequestHead;

/// What a request says about its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeForm {
    /// No `Range` header.
    Absent,
    /// One well-formed range.
    Single(SingleRange),
    /// Anything else: several ranges, another unit, a malformed or repeated header.
    Other,
}

/// One well-formed range, not yet held against a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SingleRange {
    /// `bytes=first-last`, both included; `first <= last`.
    FromTo {
        /// First byte.
        first: u64,
        /// Last byte.
        last: u64,
    },
    /// `bytes=first-`.
    From {
        /// First byte.
        first: u64,
    },
    /// `bytes=-length`: so many last bytes.
    Last {
        /// How many bytes.
        length: u64,
    },
}

/// A range held against an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// 200 with the whole object.
    Whole,
    /// 206 with these bytes, at least one.
    Slice(ByteRange),
    /// 416 with `Content-Range: bytes */length`.
    Unsatisfiable,
    /// Only the origin knows its answer.
    Relay,
}

/// Digits in a range's number; with more, the origin is asked. Every such number fits an u64.
const DIGITS_MAX: usize = 19;

impl RangeForm {
    /// The range of a request.
    pub fn of(head: &RequestHead<'_>) -> RangeForm {
        let mut values = head.headers_named("range");
        match (values.next(), values.next()) {
            (None, _) => RangeForm::Absent,
            (Some(value), None) => parse_range(value),
            (Some(_), Some(_)) => RangeForm::Other,
        }
    }

    /// Holds the range against an object of `length` bytes.
    pub fn resolve(self, length: u64) -> Resolved {
        let single = match self {
            RangeForm::Absent => return Resolved::Whole,
            RangeForm::Other => return Resolved::Relay,
            // Origins differ on empty objects: 416 on some, 200 on others.
            RangeForm::Single(_) if length == 0 => return Resolved::Relay,
            RangeForm::Single(single) => single,
        };
        match single {
            SingleRange::FromTo { first, .. } | SingleRange::From { first } if first >= length => {
                Resolved::Unsatisfiable
            }
            SingleRange::FromTo { first, last } => {
                Resolved::Slice(ByteRange::new(first, last.saturating_add(1).min(length)))
            }
            SingleRange::From { first } => Resolved::Slice(ByteRange::new(first, length)),
            // Origins differ on a suffix of no bytes, too.
            SingleRange::Last { length: 0 } => Resolved::Relay,
            SingleRange::Last { length: wanted } => {
                Resolved::Slice(ByteRange::new(length - wanted.min(length), length))
            }
        }
    }
}

/// Parses the value of one `Range` header.
pub fn parse_range(value: &[u8]) -> RangeForm {
    single(value).map_or(RangeForm::Other, RangeForm::Single)
}

fn single(value: &[u8]) -> Option<SingleRange> {
    let spec = value.strip_prefix(b"bytes=")?;
    let dash = spec.iter().position(|&byte| byte == b'-')?;
    let (first, last) = (&spec[..dash], &spec[dash + 1..]);
    Some(match (first.is_empty(), last.is_empty()) {
        (true, true) => return None,
        (true, false) => SingleRange::Last { length: number(last)? },
        (false, true) => SingleRange::From { first: number(first)? },
        (false, false) => {
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return None;
            }
            SingleRange::FromTo { first, last }
        }
    })
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.len() > DIGITS_MAX {
        return None;
    }
    digits.iter().try_fold(0u64, |sum, &digit| {
        digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(header: &str, length: u64, expected: Resolved) {
        assert_eq!(
            parse_range(header.as_bytes()).resolve(length),
            expected,
            "{header} of {length}"
        );
    }

    fn slice(start: u64, end: u64) -> Resolved {
        Resolved::Slice(ByteRange::new(start, end))
    }

    #[test]
    fn one_range_is_clipped_to_the_object() {
        check("bytes=0-9", 100, slice(0, 10));
        check("bytes=0-0", 1, slice(0, 1));
        check("bytes=90-1000", 100, slice(90, 100));
        check("bytes=90-", 100, slice(90, 100));
        check("bytes=-10", 100, slice(90, 100));
        check("bytes=-1000", 100, slice(0, 100));
        check("bytes=00000-0009", 100, slice(0, 10));
        check("bytes=0-9223372036854775807", 3, slice(0, 3));
        check("bytes=0-9999999999999999999", 3, slice(0, 3));
    }

    #[test]
    fn a_start_past_the_end_is_unsatisfiable() {
        check("bytes=100-", 100, Resolved::Unsatisfiable);
        check("bytes=100-200", 100, Resolved::Unsatisfiable);
        check("bytes=9999999999999999999-", 100, Resolved::Unsatisfiable);
    }

    #[test]
    fn a_range_of_an_empty_object_is_the_origins_to_answer() {
        for header in ["bytes=0-", "bytes=0-0", "bytes=-1", "bytes=-0", "bytes=5-9"] {
            check(header, 0, Resolved::Relay);
        }
        check("bytes=-0", 100, Resolved::Relay);
    }

    #[test]
    fn odd_range_headers_are_the_origins_to_answer() {
        for header in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "bytes=0-a",
            "bytes=5-2",
            "bytes=0-1,3-4",
            "bytes=0-1,",
            "Bytes=0-1",
            "bytes =0-1",
            "bytes= 0-1",
            "bytes=0 -1",
            "bytes=0- 1",
            "bytes=0-1 ",
            "bytes=+0-1",
            "bytes=-+1",
            "bytes=--1",
            "bytes=0--1",
            "bytes=0x0-0x1",
            "items=0-1",
            "0-1",
            "bytes=0-1-2",
            "bytes=0-99999999999999999999",
            "bytes=99999999999999999999-",
            "bytes=٣-",
        ] {
            check(header, 100, Resolved::Relay);
        }
    }

    /// The obvious model: the positions that a range names, counted one by one.
    fn named_positions(range: SingleRange, length: u64) -> Vec<u64> {
        (0..length)
            .filter(|&at| match range {
                SingleRange::FromTo { first, last } => first <= at && at <= last,
                SingleRange::From { first } => first <= at,
                SingleRange::Last { length: wanted } => length - at <= wanted,
            })
            .collect()
    }

    proptest! {
        #[test]
        fn the_bytes_resolved_are_the_bytes_named(first in 0..40u64, span in 0..40u64, kind in 0..3, length in 1..40u64) {
            let (header, range) = match kind {
                0 => (format!("bytes={first}-{}", first + span),
                      SingleRange::FromTo { first, last: first + span }),
                1 => (format!("bytes={first}-"), SingleRange::From { first }),
                _ => (format!("bytes=-{}", first + 1), SingleRange::Last { length: first + 1 }),
            };
            prop_assert_eq!(parse_range(header.as_bytes()), RangeForm::Single(range));
            let named = named_positions(range, length);
            match parse_range(header.as_bytes()).resolve(length) {
                Resolved::Slice(bytes) => prop_assert_eq!((bytes.start..bytes.end).collect::<Vec<_>>(), named),
                Resolved::Unsatisfiable => prop_assert!(named.is_empty()),
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }
}

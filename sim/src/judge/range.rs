//! What a `Range` header asks for, as S3 reads it: one range that makes sense, or the whole object.

use nilas_base::ByteRange;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The object, with 200.
    Whole,
    /// A part of it, with 206.
    Slice(ByteRange),
    /// 416.
    Nothing,
}

/// What is due of an object of this length.
pub fn wanted(range: Option<&str>, length: u64) -> Wanted {
    let Some((first, last)) = range.and_then(ends) else { return Wanted::Whole };
    let (start, end) = match (first, last) {
        (Some(first), last) => (first, last.map_or(length, |last| length.min(last + 1))),
        (None, Some(count)) => (length.saturating_sub(count), length),
        (None, None) => return Wanted::Whole,
    };
    if start < end { Wanted::Slice(ByteRange::new(start, end)) } else { Wanted::Nothing }
}

/// The bytes of a range that says where it begins.
pub fn single(range: &str) -> Option<ByteRange> {
    let (first, last) = ends(range)?;
    Some(ByteRange::new(first?, last.map_or(u64::MAX, |last| last + 1)))
}

/// First and last number of a single range that makes sense.
fn ends(range: &str) -> Option<(Option<u64>, Option<u64>)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| match text.is_empty() {
        true => Some(None),
        false => text.parse::<u64>().ok().map(Some),
    };
    let (first, last) = (number(first)?, number(last)?);
    match (first, last) {
        (None, None) => None,
        (Some(first), Some(last)) if first > last => None,
        ends => Some(ends),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_mean_what_s3_says_they_mean() {
        let slice = |start, end| Wanted::Slice(ByteRange::new(start, end));
        for (range, length, due) in [
            (None, 10, Wanted::Whole),
            (Some("bytes=0-"), 10, slice(0, 10)),
            (Some("bytes=3-4"), 10, slice(3, 5)),
            (Some("bytes=3-400"), 10, slice(3, 10)),
            (Some("bytes=-4"), 10, slice(6, 10)),
            (Some("bytes=-400"), 10, slice(0, 10)),
            (Some("bytes=10-"), 10, Wanted::Nothing),
            (Some("bytes=-0"), 10, Wanted::Nothing),
            (Some("bytes=0-"), 0, Wanted::Nothing),
            (Some("bytes=5-3"), 10, Wanted::Whole),
            (Some("bytes=0-1,3-4"), 10, Wanted::Whole),
            (Some("lines=0-1"), 10, Wanted::Whole),
        ] {
            assert_eq!(wanted(range, length), due, "{range:?} of {length}");
        }
    }
}

//! Conditional reads, decided from a mapping's validators by S3's precedence: If-Match over
//! If-Unmodified-Since, If-None-Match over If-Modified-Since, the failing precondition first.
//! Forms on which origins differ (`*`, lists, weak tags, odd or future dates, If-Range) are relayed.

use nilas_base::UnixMillis;

use crate::date::{UnixSeconds, parse_http_date};
use crate::head::RequestHead;

/// The conditional headers of one request, as sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions<'a> {
    if_match: Option<&'a [u8]>,
    if_none_match: Option<&'a [u8]>,
    if_modified_since: Option<&'a [u8]>,
    if_unmodified_since: Option<&'a [u8]>,
    odd: bool,
}

/// What an object's current version is known by.
#[derive(Clone, Copy, Debug)]
pub struct Validators<'a> {
    /// The ETag header as the origin gave it.
    pub etag: &'a [u8],
    /// Its Last-Modified, when the origin gave one.
    pub last_modified: Option<UnixSeconds>,
}

/// What the conditions make of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Answer as though there were none.
    Proceed,
    /// 304.
    NotModified,
    /// 412, with the header that failed.
    PreconditionFailed(&'static str),
    /// Only the origin knows its answer.
    Relay,
}

impl<'a> Conditions<'a> {
    /// Collects the conditional headers.
    pub fn of(head: &RequestHead<'a>) -> Conditions<'a> {
        let mut conditions = Conditions::default();
        for (name, value) in head.fields() {
            // All their names begin so; most headers end here.
            if name.len() < 8 || !name[..3].eq_ignore_ascii_case(b"if-") {
                continue;
            }
            let slot = if name.eq_ignore_ascii_case(b"if-match") {
                &mut conditions.if_match
            } else if name.eq_ignore_ascii_case(b"if-none-match") {
                &mut conditions.if_none_match
            } else if name.eq_ignore_ascii_case(b"if-modified-since") {
                &mut conditions.if_modified_since
            } else if name.eq_ignore_ascii_case(b"if-unmodified-since") {
                &mut conditions.if_unmodified_since
            } else {
                conditions.odd |= name.eq_ignore_ascii_case(b"if-range");
                continue;
            };
            conditions.odd |= slot.replace(value).is_some();
        }
        conditions
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == Conditions::default()
    }

    /// Decides; `now` tells a date in the future, which origins may ignore.
    pub fn verdict(&self, validators: Validators<'_>, now: UnixMillis) -> Verdict {
        if self.is_empty() {
            return Verdict::Proceed;
        }
        self.decide(validators, UnixSeconds::from(now)).unwrap_or(Verdict::Relay)
    }

    fn decide(&self, validators: Validators<'_>, now: UnixSeconds) -> Option<Verdict> {
        if self.odd {
            return None;
        }
        let etag = strong_tag(validators.etag)?;
        // Every value is read before any decides, so that an odd one is never passed over.
        let matches = self.if_match.map(|value| strong_tag(value).map(|tag| tag == etag));
        let none_match = self.if_none_match.map(|value| strong_tag(value).map(|tag| tag == etag));
        let unmodified = self.since(self.if_unmodified_since, validators, now);
        let modified = self.since(self.if_modified_since, validators, now);
        let (matches, none_match) = (flatten(matches)?, flatten(none_match)?);
        let (unmodified, modified) = (flatten(unmodified)?, flatten(modified)?);

        if matches == Some(false) {
            return Some(Verdict::PreconditionFailed("If-Match"));
        }
        if matches.is_none() && unmodified == Some(false) {
            return Some(Verdict::PreconditionFailed("If-Unmodified-Since"));
        }
        let unchanged = none_match.or(modified).unwrap_or(false);
        Some(if unchanged { Verdict::NotModified } else { Verdict::Proceed })
    }

    /// Whether the object is no newer than the date in the header.
    #[expect(clippy::option_option, reason = "no header, an odd header, a yes or no")]
    fn since(
        &self,
        value: Option<&[u8]>,
        validators: Validators<'_>,
        now: UnixSeconds,
    ) -> Option<Option<bool>> {
        value.map(|value| {
            let date = parse_http_date(value).filter(|date| *date <= now)?;
            Some(validators.last_modified? <= date)
        })
    }
}

/// `None` for an odd value; else what the header says, if it is there.
#[expect(clippy::option_option, reason = "no header, an odd header, a yes or no")]
fn flatten(value: Option<Option<bool>>) -> Option<Option<bool>> {
    match value {
        None => Some(None),
        Some(odd_or_answer) => odd_or_answer.map(Some),
    }
}

/// The opaque part of one strong entity tag, with its quotes or without.
fn strong_tag(value: &[u8]) -> Option<&[u8]> {
    let value = value.trim_ascii();
    let inner = match value.strip_prefix(b"\"") {
        Some(quoted) => quoted.strip_suffix(b"\"")?,
        None => value,
    };
    let plain = inner
        .iter()
        .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b'*' | b'/'));
    (plain && !inner.is_empty()).then_some(inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::{Parsed, parse_head};

    const NOW: UnixMillis = UnixMillis(784_111_777_000);
    const MODIFIED: UnixSeconds = UnixSeconds(784_000_000);
    const OLDER: &str = "Sat, 05 Nov 1994 01:00:00 GMT";
    const SAME: &str = "Sat, 05 Nov 1994 01:46:40 GMT";
    const NEWER: &str = "Sun, 06 Nov 1994 01:00:00 GMT";
    const FUTURE: &str = "Sun, 06 Nov 2094 01:00:00 GMT";

    fn check(headers: &[(&str, &str)], expected: Verdict) {
        let lines: String =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let request = format!("GET /b/k HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
        let Parsed::Whole(head, _) = parse_head(request.as_bytes()).expect("well formed") else {
            panic!("the head is whole")
        };
        let validators = Validators { etag: b"\"abc-2\"", last_modified: Some(MODIFIED) };
        assert_eq!(Conditions::of(&head).verdict(validators, NOW), expected, "{headers:?}");
    }

    const NO_MATCH: Verdict = Verdict::PreconditionFailed("If-Match");
    const TOO_NEW: Verdict = Verdict::PreconditionFailed("If-Unmodified-Since");

    #[test]
    fn one_condition_decides_alone() {
        check(&[], Verdict::Proceed);
        check(&[("If-Match", "\"abc-2\"")], Verdict::Proceed);
        check(&[("If-Match", "abc-2")], Verdict::Proceed);
        check(&[("If-Match", "\"abd\"")], NO_MATCH);
        check(&[("if-none-match", "\"abc-2\"")], Verdict::NotModified);
        check(&[("If-None-Match", "abc-2")], Verdict::NotModified);
        check(&[("If-None-Match", "\"x\"")], Verdict::Proceed);
        check(&[("If-Modified-Since", OLDER)], Verdict::Proceed);
        check(&[("If-Modified-Since", SAME)], Verdict::NotModified);
        check(&[("If-Modified-Since", NEWER)], Verdict::NotModified);
        check(&[("If-Unmodified-Since", OLDER)], TOO_NEW);
        check(&[("If-Unmodified-Since", SAME)], Verdict::Proceed);
    }

    #[test]
    fn a_tag_takes_precedence_over_a_date() {
        check(&[("If-Match", "abc-2"), ("If-Unmodified-Since", OLDER)], Verdict::Proceed);
        check(&[("If-Match", "x"), ("If-Unmodified-Since", NEWER)], NO_MATCH);
        check(&[("If-None-Match", "abc-2"), ("If-Modified-Since", OLDER)], Verdict::NotModified);
        check(&[("If-None-Match", "x"), ("If-Modified-Since", NEWER)], Verdict::Proceed);
    }

    #[test]
    fn a_failing_precondition_comes_before_not_modified() {
        check(&[("If-Match", "x"), ("If-None-Match", "abc-2")], NO_MATCH);
        check(&[("If-None-Match", "abc-2"), ("If-Unmodified-Since", OLDER)], TOO_NEW);
    }

    #[test]
    fn odd_conditions_are_the_origins_to_answer() {
        for (name, value) in [
            ("If-Match", "*"),
            ("If-Match", "\"a\", \"abc-2\""),
            ("If-Match", "W/\"abc-2\""),
            ("If-Match", ""),
            ("If-Match", "\"abc-2"),
            ("If-None-Match", "*"),
            ("If-None-Match", "W/\"abc-2\""),
            ("If-None-Match", "\"\""),
            ("If-Modified-Since", "yesterday"),
            ("If-Modified-Since", FUTURE),
            ("If-Unmodified-Since", "0"),
            ("If-Range", "\"abc-2\""),
        ] {
            check(&[(name, value)], Verdict::Relay);
            check(&[("If-Match", "x"), (name, value)], Verdict::Relay);
        }
    }
}

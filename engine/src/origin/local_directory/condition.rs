//! Conditional requests, by S3's precedence: If-Match over If-Unmodified-Since, If-None-Match over
//! If-Modified-Since, a failing precondition before "not modified".

use http::HeaderMap;
use nilas_base::UnixMillis;
use nilas_net::date::{UnixSeconds, parse_http_date};
use nilas_net::{Code, S3Error};

use super::failure::{Failure, Outcome, not_implemented, refused};
use super::object::StoredObject;

/// The conditions of one request.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    matches: Option<String>,
    none_match: Option<String>,
    modified_since: Option<UnixSeconds>,
    unmodified_since: Option<UnixSeconds>,
}

/// What conditions make of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Proceed,
    NotModified,
    Failed(&'static str),
}

impl Conditions {
    /// The conditions in the headers whose names are `prefix` and the usual name. A date that is
    /// none is no condition (RFC 9110 §13.1.3).
    pub(super) fn of(headers: &HeaderMap, prefix: &str) -> Conditions {
        let text = |name: &str| {
            let value = headers.get(format!("{prefix}{name}"))?;
            Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let date = |name: &str| parse_http_date(text(name)?.as_bytes());
        Conditions {
            matches: text("if-match"),
            none_match: text("if-none-match"),
            modified_since: date("if-modified-since"),
            unmodified_since: date("if-unmodified-since"),
        }
    }

    /// What becomes of a read of an object that is known by these.
    pub(super) fn verdict(&self, etag: &str, modified: UnixMillis) -> Verdict {
        let modified = UnixSeconds::from(modified);
        match (&self.matches, self.unmodified_since) {
            (Some(tags), _) if !names(tags, etag) => return Verdict::Failed("If-Match"),
            (None, Some(date)) if modified > date => return Verdict::Failed("If-Unmodified-Since"),
            _ => {}
        }
        let unchanged = match (&self.none_match, self.modified_since) {
            (Some(tags), _) => names(tags, etag),
            (None, Some(date)) => modified <= date,
            (None, None) => false,
        };
        if unchanged { Verdict::NotModified } else { Verdict::Proceed }
    }

    /// Refuses a copy from a source that is not as it should be.
    pub(super) fn allow_source(&self, source: &StoredObject) -> Outcome<()> {
        match self.verdict(&source.sidecar.etag, source.modified) {
            Verdict::Proceed => Ok(()),
            Verdict::NotModified => Err(failed("x-amz-copy-source-If-None-Match")),
            Verdict::Failed(condition) => Err(failed(condition)),
        }
    }

    /// Refuses a write over an object that is not as it should be.
    pub(super) fn allow_write(&self, current: Option<&StoredObject>) -> Outcome<()> {
        match (&self.matches, current) {
            (Some(_), None) => return Err(refused(Code::NoSuchKey)),
            (Some(tags), Some(object)) if !names(tags, &object.sidecar.etag) => {
                return Err(failed("If-Match"));
            }
            _ => {}
        }
        match (self.none_match.as_deref(), current) {
            (Some("*"), Some(_)) => Err(failed("If-None-Match")),
            _ => Ok(()),
        }
    }

    /// Refuses what no write of S3's can ask for.
    pub(super) fn check_write_form(&self) -> Outcome<()> {
        if self.none_match.as_deref().is_some_and(|tags| tags.trim() != "*") {
            return Err(not_implemented("If-None-Match on a write with anything but *"));
        }
        if self.modified_since.is_some() || self.unmodified_since.is_some() {
            return Err(not_implemented("a date as the condition of a write"));
        }
        Ok(())
    }
}

fn failed(condition: &str) -> Failure {
    Failure::Refused(S3Error::new(Code::PreconditionFailed).with("Condition", condition))
}

/// Whether a list of entity tags names this one. Weak tags match, quotes may be missing.
pub(super) fn names(tags: &str, etag: &str) -> bool {
    tags.split(',').map(str::trim).any(|tag| {
        let tag = tag.strip_prefix("W/").unwrap_or(tag);
        tag == "*" || tag.trim_matches('"') == etag
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(headers: &[(&'static str, &'static str)], expected: Verdict) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, http::HeaderValue::from_static(value));
        }
        let verdict = Conditions::of(&map, "").verdict("abc", UnixMillis(784_000_000_500));
        assert_eq!(verdict, expected, "{headers:?}");
    }

    #[test]
    fn conditions_are_read_by_precedence() {
        const OLDER: &str = "Sat, 05 Nov 1994 01:00:00 GMT";
        const SAME: &str = "Sat, 05 Nov 1994 01:46:40 GMT";
        check(&[], Verdict::Proceed);
        check(&[("if-match", "\"abc\"")], Verdict::Proceed);
        check(&[("if-match", "*")], Verdict::Proceed);
        check(&[("if-match", "\"x\", \"abc\"")], Verdict::Proceed);
        check(&[("if-match", "\"x\"")], Verdict::Failed("If-Match"));
        check(&[("if-match", "abc"), ("if-unmodified-since", OLDER)], Verdict::Proceed);
        check(&[("if-unmodified-since", OLDER)], Verdict::Failed("If-Unmodified-Since"));
        check(&[("if-unmodified-since", SAME)], Verdict::Proceed);
        check(&[("if-none-match", "W/\"abc\"")], Verdict::NotModified);
        check(&[("if-none-match", "\"x\""), ("if-modified-since", SAME)], Verdict::Proceed);
        check(&[("if-modified-since", SAME)], Verdict::NotModified);
        check(&[("if-modified-since", OLDER)], Verdict::Proceed);
        check(&[("if-modified-since", "yesterday")], Verdict::Proceed);
        check(&[("if-match", "x"), ("if-none-match", "abc")], Verdict::Failed("If-Match"));
    }
}

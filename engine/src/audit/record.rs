//! One line of the audit file. Its fields are all that is ever told: no header, no query, no body,
//! no signature. What a client chose itself is cut, and escaped as JSON has it.

use nilas_base::UnixMillis;
use nilas_net::date::iso_date;
use serde::Serialize;

/// Bytes of a bucket's name or a method.
const NAME_BYTES_MAX: usize = 255;
/// Bytes of a key: S3's longest.
const KEY_BYTES_MAX: usize = 1024;
/// Bytes of an access key: one that is longer is nobody's.
const ACCESS_KEY_BYTES_MAX: usize = 128;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was not allowed.
    Refused,
    /// It was done.
    Done,
    /// It was allowed, and not done.
    Failed,
    /// No answer tells whether it was done.
    Unknown,
}

impl Outcome {
    /// What an answer of this status tells; zero stands for none.
    pub fn of(status: u16) -> Outcome {
        match status {
            401 | 403 => Outcome::Refused,
            200..=399 => Outcome::Done,
            400..=499 | 501 => Outcome::Failed,
            _ => Outcome::Unknown,
        }
    }
}

/// A record; what it does not know is left empty.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    time: String,
    request_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    origin_request_id: String,
    client: String,
    access_key: String,
    operation: &'static str,
    method: String,
    bucket: String,
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<String>,
    status: u16,
    code: &'static str,
    outcome: Outcome,
}

impl Record {
    /// A record of an operation.
    pub fn new(operation: &'static str, method: &str, outcome: Outcome) -> Record {
        Record {
            time: String::new(),
            request_id: String::new(),
            origin_request_id: String::new(),
            client: String::new(),
            access_key: String::new(),
            operation,
            method: cut(method, NAME_BYTES_MAX),
            bucket: String::new(),
            key: String::new(),
            prefix: None,
            status: 0,
            code: "",
            outcome,
        }
    }

    /// By which ids the node, and the origin, know it.
    #[must_use]
    pub fn ids(mut self, own: &str, of_origin: &str) -> Record {
        own.clone_into(&mut self.request_id);
        self.origin_request_id = cut(of_origin, NAME_BYTES_MAX);
        self
    }

    /// Who asked.
    #[must_use]
    pub fn from(mut self, client: String, access_key: &str) -> Record {
        self.client = client;
        self.access_key = cut(access_key, ACCESS_KEY_BYTES_MAX);
        self
    }

    /// What it was about.
    #[must_use]
    pub fn about(mut self, bucket: Option<&str>, key: Option<&str>) -> Record {
        self.bucket = cut(bucket.unwrap_or_default(), NAME_BYTES_MAX);
        self.key = cut(key.unwrap_or_default(), KEY_BYTES_MAX);
        self
    }

    /// Which beginning of keys it was about.
    #[must_use]
    pub fn under(mut self, prefix: Option<&str>) -> Record {
        self.prefix = prefix.map(|prefix| cut(prefix, KEY_BYTES_MAX));
        self
    }

    /// How it was answered.
    #[must_use]
    pub fn answered(mut self, status: u16, code: &'static str) -> Record {
        (self.status, self.code) = (status, code);
        self
    }

    pub(super) fn at(mut self, time: UnixMillis) -> Record {
        self.time = String::from_utf8_lossy(&iso_date(time)).into_owned();
        self
    }

    /// Appends it as a line.
    pub(super) fn write_line(&self, lines: &mut Vec<u8>) {
        serde_json::to_writer(&mut *lines, self).expect("texts and numbers are JSON");
        lines.push(b'\n');
    }
}

/// The first `bytes_max` bytes at most, in whole characters.
fn cut(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_line_of_json_however_odd_the_key() {
        let key = format!("a\nb\"c\u{1b}[31m{}", "é".repeat(2000));
        let record = Record::new("CreateBucket", "PUT", Outcome::of(200))
            .ids("000000000000000A", "")
            .from("127.0.0.1:1".to_owned(), &"K".repeat(500))
            .about(Some("lake"), Some(&key))
            .answered(200, "")
            .at(UnixMillis(1_700_000_000_123));
        let mut lines = Vec::new();
        record.write_line(&mut lines);
        let text = String::from_utf8(lines).expect("JSON is UTF-8");
        assert_eq!(text.matches('\n').count(), 1, "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        let told: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(told["time"], "2023-11-14T22:13:20.123Z");
        assert_eq!(told["outcome"], "done");
        assert_eq!(told["access_key"].as_str().map(str::len), Some(ACCESS_KEY_BYTES_MAX));
        assert!(told["key"].as_str().is_some_and(|told| key.starts_with(told)));
        assert!(told.get("origin_request_id").is_none() && told.get("prefix").is_none());
    }

    #[test]
    fn the_status_tells_what_became_of_it() {
        let of = [200, 204, 304, 403, 401, 404, 409, 501, 500, 503, 0].map(Outcome::of);
        use Outcome::{Done, Failed, Refused, Unknown};
        assert_eq!(of[..3], [Done; 3]);
        assert_eq!(of[3..5], [Refused; 2]);
        assert_eq!(of[5..8], [Failed; 3]);
        assert_eq!(of[8..], [Unknown; 3]);
    }
}

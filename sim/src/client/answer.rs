//! An answer as a client has read it.

use bytes::Bytes;
use nilas_base::ByteRange;

use super::ANSWER_MARK;
use crate::history::{ToldId, VersionId};

/// Status and headers.
#[derive(Clone, Debug)]
pub struct Head {
    /// The status; zero where the status line is none.
    pub status: u16,
    /// Names in lower case, in order.
    pub headers: Vec<(String, String)>,
}

/// A head and what came of its body.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The head.
    pub head: Head,
    /// The body as far as it was read.
    pub body: Bytes,
    /// Whether it was read to its announced end.
    pub is_whole: bool,
}

impl Head {
    /// Reads a head, its empty line included.
    pub fn parse(text: &str) -> Head {
        let mut lines = text.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let headers = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        Head { status: status.unwrap_or(0), headers }
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The announced length.
    pub fn content_length(&self) -> Option<u64> {
        self.header("content-length")?.parse().ok()
    }

    /// How many bytes of body follow the head of an answer to this method.
    pub fn body_bytes(&self, method: &str) -> u64 {
        match (method, self.status) {
            ("HEAD", _) | (_, 100..=199 | 204 | 304) => 0,
            _ => self.content_length().unwrap_or(0),
        }
    }

    /// The version that the ETag names.
    pub fn version(&self) -> Option<VersionId> {
        VersionId::of_etag(self.header("etag")?)
    }

    /// The range and the length that the Content-Range names.
    pub fn content_range(&self) -> Option<(ByteRange, u64)> {
        let (range, length) =
            self.header("content-range")?.strip_prefix("bytes ")?.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last).then_some(())?;
        Some((ByteRange::new(first, last + 1), length.parse().ok()?))
    }

    /// Which of the origin's answers the head is from.
    pub fn told(&self) -> Option<ToldId> {
        self.header(ANSWER_MARK)?.parse().ok().map(ToldId)
    }

    /// Whether the connection ends after this answer.
    pub fn closes(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

//! The request head, parsed in place: one look at the bytes, no allocation, spans into the buffer.
//! What could be read in two ways (two lengths, a folded header, a bare line feed …) is refused here,
//! so that no later room has to wonder. See `head/parse` for the steps and `head/error` for refusals.

mod error;
mod parse;
#[cfg(test)]
mod tests;

pub use error::HeadError;
pub use parse::parse_head;

/// Bytes of the request line: a key of 1024 bytes, each escaped, and a presigned query with a long token.
pub const REQUEST_LINE_BYTES_MAX: usize = 8 * 1024;
/// Bytes of header names and values together: S3's limit.
pub const HEADER_BYTES_MAX: usize = 8 * 1024;
/// Bytes of user metadata, names (without `x-amz-meta-`) and values together: S3's limit.
pub const USER_METADATA_BYTES_MAX: usize = 2 * 1024;
/// Headers of one request.
pub const HEADERS_MAX: usize = 100;
/// Bytes of a whole head: the two limits above, and what separates headers. Offsets fit sixteen bits.
pub const HEAD_BYTES_MAX: usize = 17 * 1024;
/// Bytes of a method's name.
pub const METHOD_BYTES_MAX: usize = 32;

/// What the bytes at hand make.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box would be an allocation a request")]
pub enum Parsed<'a> {
    /// Not yet a whole head: read on, and parse again from the start.
    Partial,
    /// A whole head, and how many bytes it took.
    Whole(RequestHead<'a>, usize),
}

/// A request's method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method<'a> {
    /// GET
    Get,
    /// HEAD
    Head,
    /// PUT
    Put,
    /// POST
    Post,
    /// DELETE
    Delete,
    /// OPTIONS
    Options,
    /// Any other token, as sent.
    Other(&'a str),
}

impl<'a> Method<'a> {
    /// The method of this (case-sensitive) name.
    pub fn of(name: &'a str) -> Method<'a> {
        match name {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "PUT" => Method::Put,
            "POST" => Method::Post,
            "DELETE" => Method::Delete,
            "OPTIONS" => Method::Options,
            other => Method::Other(other),
        }
    }

    /// Its name.
    pub fn name(self) -> &'a str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Put => "PUT",
            Method::Post => "POST",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
            Method::Other(name) => name,
        }
    }
}

/// The HTTP version of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

/// How the body that follows a head is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// No body.
    None,
    /// So many bytes; may be zero.
    Bytes(u64),
    /// In HTTP chunks; see [`crate::chunked`].
    Chunked,
}

/// A name and a value as offsets into the head.
#[derive(Clone, Copy, Debug, Default)]
struct FieldSpan {
    name_start: u16,
    name_length: u16,
    value_start: u16,
    value_length: u16,
}

/// One request head, borrowed from the buffer it was received into.
#[derive(Debug)]
pub struct RequestHead<'a> {
    bytes: &'a [u8],
    method: Method<'a>,
    target: &'a str,
    path_raw: &'a str,
    query_raw: &'a str,
    version: Version,
    host: &'a str,
    body: BodyLength,
    keep_alive: bool,
    expect_continue: bool,
    expects_otherwise: bool,
    field_count: usize,
    fields: [FieldSpan; HEADERS_MAX],
}

impl<'a> RequestHead<'a> {
    /// The method.
    pub fn method(&self) -> Method<'a> {
        self.method
    }

    /// The request target, as sent.
    pub fn target(&self) -> &'a str {
        self.target
    }

    /// The path, as sent; begins with `/`.
    pub fn path_raw(&self) -> &'a str {
        self.path_raw
    }

    /// The query, as sent, without its `?`; empty when there is none.
    pub fn query_raw(&self) -> &'a str {
        self.query_raw
    }

    /// The version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The host as sent, port included; empty only on HTTP/1.0.
    pub fn host(&self) -> &'a str {
        self.host
    }

    /// How the body is delimited.
    pub fn body(&self) -> BodyLength {
        self.body
    }

    /// The `Content-Length`, if one was sent.
    pub fn content_length(&self) -> Option<u64> {
        match self.body {
            BodyLength::Bytes(length) => Some(length),
            BodyLength::None | BodyLength::Chunked => None,
        }
    }

    /// Whether the body comes in HTTP chunks.
    pub fn is_chunked(&self) -> bool {
        self.body == BodyLength::Chunked
    }

    /// Whether the client keeps the connection open after this request.
    pub fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// Whether the client waits for `100 Continue` before it sends a body.
    pub fn expect_continue(&self) -> bool {
        self.expect_continue
    }

    /// Whether it expects something that HTTP does not know: whoever answers may refuse it, or not.
    pub fn expects_otherwise(&self) -> bool {
        self.expects_otherwise
    }

    /// Names and values in order, as sent; values without the white space around them.
    pub fn headers(
        &self,
    ) -> impl ExactSizeIterator<Item = (&'a str, &'a [u8])> + Clone + use<'a, '_> {
        self.fields().map(|(name, value)| {
            (std::str::from_utf8(name).expect("a header name is a token, hence ASCII"), value)
        })
    }

    /// The same, names as bytes: what is compared need not be proved text first.
    pub(crate) fn fields(
        &self,
    ) -> impl ExactSizeIterator<Item = (&'a [u8], &'a [u8])> + Clone + use<'a, '_> {
        let bytes = self.bytes;
        self.fields[..self.field_count].iter().map(move |field| field.read(bytes))
    }

    /// The first header of this name, compared without case.
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.headers_named(name).next()
    }

    /// The first header of this name, if its value is text.
    pub fn header_text(&self, name: &str) -> Option<&'a str> {
        self.header(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// Every value of this name, in order.
    pub fn headers_named<'n>(
        &self,
        name: &'n str,
    ) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a, 'n, '_> {
        self.fields()
            .filter(move |(found, _)| found.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value)
    }
}

impl FieldSpan {
    fn read(self, bytes: &[u8]) -> (&[u8], &[u8]) {
        let name = &bytes[usize::from(self.name_start)..][..usize::from(self.name_length)];
        let value = &bytes[usize::from(self.value_start)..][..usize::from(self.value_length)];
        (name, value)
    }
}

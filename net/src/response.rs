//! Response heads, written straight into a sink: no allocation, no formatting machinery.
//! A value can never break out of its line: line breaks and NULs in it become spaces.

use nilas_base::ByteRange;

use crate::Sink;
use crate::date::{UnixSeconds, http_date};
use crate::sink::put_decimal;

/// The interim answer to `Expect: 100-continue`.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Writes one response head; dropped before [`ResponseHead::finish`], the head is left open.
#[derive(Debug)]
pub struct ResponseHead<'s, S: Sink + ?Sized> {
    sink: &'s mut S,
}

impl<'s, S: Sink + ?Sized> ResponseHead<'s, S> {
    /// Writes the status line.
    pub fn new(sink: &'s mut S, status: u16) -> Self {
        sink.put(b"HTTP/1.1 ");
        put_decimal(sink, u64::from(status));
        sink.put(b" ");
        sink.put(reason(status).as_bytes());
        sink.put(b"\r\n");
        ResponseHead { sink }
    }

    /// Writes a header.
    pub fn header(self, name: &str, value: &[u8]) -> Self {
        self.sink.put(name.as_bytes());
        self.sink.put(b": ");
        put_value(self.sink, value);
        self.sink.put(b"\r\n");
        self
    }

    /// Writes a header, if there is a value.
    pub fn header_if(self, name: &str, value: Option<&[u8]>) -> Self {
        match value {
            Some(value) => self.header(name, value),
            None => self,
        }
    }

    /// Writes a header whose value is a number.
    pub fn number(self, name: &str, value: u64) -> Self {
        self.sink.put(name.as_bytes());
        self.sink.put(b": ");
        put_decimal(self.sink, value);
        self.sink.put(b"\r\n");
        self
    }

    /// Writes a header whose value is a date.
    pub fn date(self, name: &str, value: UnixSeconds) -> Self {
        self.header(name, &http_date(value))
    }

    /// `Content-Range` of a 206: `range` is not empty and lies within `length`.
    pub fn content_range(self, range: ByteRange, length: u64) -> Self {
        assert!(!range.is_empty() && range.end <= length, "a 206 carries at least one byte");
        self.sink.put(b"Content-Range: bytes ");
        put_decimal(self.sink, range.start);
        self.sink.put(b"-");
        put_decimal(self.sink, range.end - 1);
        self.sink.put(b"/");
        put_decimal(self.sink, length);
        self.sink.put(b"\r\n");
        self
    }

    /// `Content-Range` of a 416.
    pub fn unsatisfied_range(self, length: u64) -> Self {
        self.sink.put(b"Content-Range: bytes */");
        put_decimal(self.sink, length);
        self.sink.put(b"\r\n");
        self
    }

    /// Writes header lines made beforehand, each with its line end.
    pub fn lines(self, lines: &[u8]) -> Self {
        self.sink.put(lines);
        self
    }

    /// Ends the head.
    pub fn finish(self) {
        self.sink.put(b"\r\n");
    }
}

fn put_value<S: Sink + ?Sized>(sink: &mut S, value: &[u8]) {
    let mut rest = value;
    while let Some(at) = memchr::memchr3(b'\r', b'\n', 0, rest) {
        sink.put(&rest[..at]);
        sink.put(b" ");
        rest = &rest[at + 1..];
    }
    sink.put(rest);
}

/// The reason phrase of a status; empty for one that is not known.
pub fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_what_http_wants() {
        let mut head = Vec::new();
        ResponseHead::new(&mut head, 206)
            .number("Content-Length", 10)
            .content_range(ByteRange::new(5, 15), 100)
            .date("Last-Modified", UnixSeconds(784_111_777))
            .header_if("x-amz-version-id", None)
            .header("ETag", b"\"a\"")
            .finish();
        assert_eq!(
            std::str::from_utf8(&head).expect("ASCII"),
            "HTTP/1.1 206 Partial Content\r\nContent-Length: 10\r\nContent-Range: bytes 5-14/100\r\n\
             Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nETag: \"a\"\r\n\r\n"
        );
    }

    #[test]
    fn an_unsatisfiable_range_names_the_length() {
        let mut head = Vec::new();
        ResponseHead::new(&mut head, 416).unsatisfied_range(0).finish();
        assert_eq!(head, b"HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */0\r\n\r\n");
    }

    #[test]
    fn a_value_cannot_open_a_new_line() {
        let mut head = Vec::new();
        ResponseHead::new(&mut head, 200).header("a", b"x\r\nb: y\0\n").finish();
        assert_eq!(head, b"HTTP/1.1 200 OK\r\na: x  b: y  \r\n\r\n");
    }
}

//! The steps of parsing a head: tokens by httparse, then framing, then what each header means.
//! It refuses every shape that two parsers could read in two ways; it never allocates.

use std::mem::MaybeUninit;

use super::{
    BodyLength, FieldSpan, HEAD_BYTES_MAX, HEADER_BYTES_MAX, HEADERS_MAX, HeadError,
    METHOD_BYTES_MAX, Method, Parsed, REQUEST_LINE_BYTES_MAX, RequestHead, USER_METADATA_BYTES_MAX,
    Version,
};
use crate::hop::tokens;

const USER_METADATA_PREFIX: &str = "x-amz-meta-";
/// Digits of a Content-Length; any such number fits an u64.
const CONTENT_LENGTH_DIGITS_MAX: usize = 19;

/// Parses the head at the start of `received`. Bytes after it (a body, the next request) are not looked at.
pub fn parse_head(received: &[u8]) -> Result<Parsed<'_>, HeadError> {
    let window = &received[..received.len().min(HEAD_BYTES_MAX)];
    let mut storage = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut []);
    let length = match request.parse_with_uninit_headers(window, &mut storage) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return partial(window),
        Err(error) => return Err(diagnose(error, window)),
    };
    let bytes = &window[..length];
    refuse_bare_line_feeds(bytes)?;
    let method = request.method.ok_or(HeadError::BadRequestLine)?;
    refuse_long_line(&bytes[offset(bytes, method.as_bytes())..])?;
    if method.len() > METHOD_BYTES_MAX {
        return Err(HeadError::MethodTooLong);
    }
    let version = if request.version == Some(0) { Version::Http10 } else { Version::Http11 };
    let target = split_target(request.path.ok_or(HeadError::BadRequestLine)?)?;
    let facts = Facts::gather(request.headers, version)?;
    let head = RequestHead {
        bytes,
        method: Method::of(method),
        target: target.whole,
        path_raw: target.path_raw,
        query_raw: target.query_raw,
        version,
        host: facts.host(target.authority, version)?,
        body: facts.body(version)?,
        keep_alive: facts.keep_alive(version),
        expect_continue: facts.expect_continue,
        expects_otherwise: facts.expects_otherwise,
        field_count: request.headers.len(),
        fields: spans(bytes, request.headers),
    };
    Ok(Parsed::Whole(head, length))
}

fn partial(window: &[u8]) -> Result<Parsed<'_>, HeadError> {
    let line_start = window.iter().position(|byte| !matches!(byte, b'\r' | b'\n'));
    refuse_long_line(&window[line_start.unwrap_or(window.len())..])?;
    if window.len() == HEAD_BYTES_MAX { Err(HeadError::HeadTooLarge) } else { Ok(Parsed::Partial) }
}

/// `from_line` begins with the request line; its line end does not count.
fn refuse_long_line(from_line: &[u8]) -> Result<(), HeadError> {
    let length = memchr::memchr(b'\r', from_line).unwrap_or(from_line.len());
    if length > REQUEST_LINE_BYTES_MAX { Err(HeadError::RequestLineTooLong) } else { Ok(()) }
}

fn refuse_bare_line_feeds(bytes: &[u8]) -> Result<(), HeadError> {
    let bare = memchr::memchr_iter(b'\n', bytes).any(|at| at == 0 || bytes[at - 1] != b'\r');
    if bare { Err(HeadError::BareLineFeed) } else { Ok(()) }
}

/// Says which of several faults made the tokeniser stop.
fn diagnose(error: httparse::Error, window: &[u8]) -> HeadError {
    match error {
        httparse::Error::TooManyHeaders => HeadError::TooManyHeaders,
        httparse::Error::Version => HeadError::BadVersion,
        httparse::Error::HeaderName => bad_name(window),
        httparse::Error::HeaderValue => HeadError::BadHeaderValue,
        _ if refuse_long_line(window).is_err() => HeadError::RequestLineTooLong,
        _ => HeadError::BadRequestLine,
    }
}

fn bad_name(window: &[u8]) -> HeadError {
    for line in window.split(|&byte| byte == b'\n').skip(1) {
        if matches!(line.first(), Some(b' ' | b'\t')) {
            return HeadError::FoldedHeader;
        }
        let name = line.split(|&byte| byte == b':').next().unwrap_or(line);
        if name.len() < line.len() && name.trim_ascii_end().len() < name.len() {
            return HeadError::SpaceBeforeColon;
        }
    }
    HeadError::BadHeaderName
}

struct TargetParts<'a> {
    whole: &'a str,
    authority: Option<&'a str>,
    path_raw: &'a str,
    query_raw: &'a str,
}

fn split_target(whole: &str) -> Result<TargetParts<'_>, HeadError> {
    let (authority, rest) = if whole.starts_with('/') {
        (None, whole)
    } else {
        let scheme = whole.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://"));
        let after = &whole[scheme.ok_or(HeadError::BadTarget)?.len()..];
        let end = after.find(['/', '?']).unwrap_or(after.len());
        (Some(&after[..end]), &after[end..])
    };
    if authority.is_some_and(|authority| !is_host(authority)) {
        return Err(HeadError::BadTarget);
    }
    let (path_raw, query_raw) = rest.split_once('?').unwrap_or((rest, ""));
    let path_raw = if path_raw.is_empty() { "/" } else { path_raw };
    Ok(TargetParts { whole, authority, path_raw, query_raw })
}

/// A name or address and an optional port; no user, no path.
fn is_host(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| {
            byte.is_ascii_alphanumeric()
                || matches!(byte, b'-' | b'.' | b'_' | b'~' | b':' | b'[' | b']')
        })
}

fn offset(bytes: &[u8], part: &[u8]) -> usize {
    part.as_ptr().addr() - bytes.as_ptr().addr()
}

fn spans(bytes: &[u8], headers: &[httparse::Header<'_>]) -> [FieldSpan; HEADERS_MAX] {
    let sixteen = |number: usize| u16::try_from(number).expect("a head is under 64 KiB");
    let mut fields = [FieldSpan::default(); HEADERS_MAX];
    for (field, header) in fields.iter_mut().zip(headers) {
        *field = FieldSpan {
            name_start: sixteen(offset(bytes, header.name.as_bytes())),
            name_length: sixteen(header.name.len()),
            // An empty value may point nowhere near the buffer.
            value_start: if header.value.is_empty() {
                0
            } else {
                sixteen(offset(bytes, header.value))
            },
            value_length: sixteen(header.value.len()),
        };
    }
    fields
}

/// What the headers that concern this hop say, checked.
#[derive(Default)]
struct Facts<'a> {
    host: Option<&'a str>,
    content_length: Option<u64>,
    chunked: bool,
    expect_continue: bool,
    expects_otherwise: bool,
    says_close: bool,
    says_keep_alive: bool,
    header_bytes: usize,
    metadata_bytes: usize,
}

impl<'a> Facts<'a> {
    fn gather(headers: &[httparse::Header<'a>], version: Version) -> Result<Facts<'a>, HeadError> {
        let mut facts = Facts::default();
        for header in headers {
            facts.note_size(header);
            match header.name.len() {
                4 if header.name.eq_ignore_ascii_case("host") => facts.note_host(header.value)?,
                6 if header.name.eq_ignore_ascii_case("expect") => {
                    facts.note_expect(header.value, version);
                }
                10 if header.name.eq_ignore_ascii_case("connection") => {
                    facts.note_connection(header.value)
                }
                14 if header.name.eq_ignore_ascii_case("content-length") => {
                    facts.note_content_length(header.value)?;
                }
                17 if header.name.eq_ignore_ascii_case("transfer-encoding") => {
                    facts.note_transfer_encoding(header.value)?;
                }
                _ => {}
            }
        }
        if facts.header_bytes > HEADER_BYTES_MAX {
            return Err(HeadError::HeadersTooLarge { size_bytes: facts.header_bytes });
        }
        if facts.metadata_bytes > USER_METADATA_BYTES_MAX {
            return Err(HeadError::MetadataTooLarge { size_bytes: facts.metadata_bytes });
        }
        Ok(facts)
    }

    fn note_size(&mut self, header: &httparse::Header<'_>) {
        let size_bytes = header.name.len() + header.value.len();
        self.header_bytes += size_bytes;
        let prefix = header.name.get(..USER_METADATA_PREFIX.len());
        if prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(USER_METADATA_PREFIX)) {
            self.metadata_bytes += size_bytes - USER_METADATA_PREFIX.len();
        }
    }

    fn note_host(&mut self, value: &'a [u8]) -> Result<(), HeadError> {
        let host = std::str::from_utf8(value).map_err(|_| HeadError::BadHost)?;
        if !host.is_empty() && !is_host(host) {
            return Err(HeadError::BadHost);
        }
        if self.host.replace(host).is_some() { Err(HeadError::RepeatedHost) } else { Ok(()) }
    }

    fn note_expect(&mut self, value: &[u8], version: Version) {
        // A list without an item expects nothing (RFC 9110 §10.1.1).
        if value.is_empty() {
            return;
        }
        if !value.eq_ignore_ascii_case(b"100-continue") {
            self.expects_otherwise = true;
            return;
        }
        // A client of HTTP/1.0 would not understand the interim answer (RFC 9110 §10.1.1).
        self.expect_continue = version == Version::Http11;
    }

    fn note_connection(&mut self, value: &[u8]) {
        for token in tokens(value) {
            self.says_close |= token.eq_ignore_ascii_case(b"close");
            self.says_keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    fn note_content_length(&mut self, value: &[u8]) -> Result<(), HeadError> {
        let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        if !digits || value.len() > CONTENT_LENGTH_DIGITS_MAX {
            return Err(HeadError::BadContentLength);
        }
        let length = value.iter().fold(0, |sum, &digit| sum * 10 + u64::from(digit - b'0'));
        match self.content_length.replace(length) {
            Some(other) if other != length => Err(HeadError::DifferingContentLengths),
            _ => Ok(()),
        }
    }

    fn note_transfer_encoding(&mut self, value: &[u8]) -> Result<(), HeadError> {
        if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
            return Err(HeadError::BadTransferEncoding);
        }
        self.chunked = true;
        Ok(())
    }

    fn host(&self, authority: Option<&'a str>, version: Version) -> Result<&'a str, HeadError> {
        let host = match (authority, self.host) {
            (Some(authority), Some(host)) if !authority.eq_ignore_ascii_case(host) => {
                return Err(HeadError::HostMismatch);
            }
            (_, Some(host)) => host,
            (Some(authority), None) if version == Version::Http10 => authority,
            (_, None) => "",
        };
        if host.is_empty() && version == Version::Http11 {
            return Err(HeadError::MissingHost);
        }
        Ok(host)
    }

    fn body(&self, version: Version) -> Result<BodyLength, HeadError> {
        match (self.chunked, self.content_length) {
            (true, Some(_)) => Err(HeadError::TwoLengths),
            (true, None) if version == Version::Http10 => Err(HeadError::TransferEncodingTooNew),
            (true, None) => Ok(BodyLength::Chunked),
            (false, Some(length)) => Ok(BodyLength::Bytes(length)),
            (false, None) => Ok(BodyLength::None),
        }
    }

    fn keep_alive(&self, version: Version) -> bool {
        !self.says_close && (version == Version::Http11 || self.says_keep_alive)
    }
}

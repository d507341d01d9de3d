//! Heads good and bad, each with what is made of it.

use super::*;
use crate::{Code, S3Error};

fn whole(text: &[u8]) -> (RequestHead<'_>, usize) {
    match parse_head(text) {
        Ok(Parsed::Whole(head, length)) => (head, length),
        other => panic!("{other:?} of {:?}", String::from_utf8_lossy(text)),
    }
}

#[test]
fn a_head_is_read_in_place() {
    let text = b"GET /b/k%2B?x=1&y HTTP/1.1\r\nHost: s3.local:9000\r\nX-Amz-Meta-A:  a b \r\n\
        x-empty:\r\nx-two: 1\r\nX-Two: 2\r\n\r\nrest";
    let (head, length) = whole(text);
    assert_eq!(&text[length..], b"rest");
    assert_eq!(head.method(), Method::Get);
    assert_eq!(head.target(), "/b/k%2B?x=1&y");
    assert_eq!((head.path_raw(), head.query_raw()), ("/b/k%2B", "x=1&y"));
    assert_eq!((head.version(), head.host()), (Version::Http11, "s3.local:9000"));
    assert_eq!(head.header("x-amz-meta-a"), Some(&b"a b"[..]));
    assert_eq!(head.header("X-EMPTY"), Some(&b""[..]));
    assert_eq!(head.headers_named("x-TWO").collect::<Vec<_>>(), [b"1", b"2"]);
    assert_eq!(head.header("x-three"), None);
    assert_eq!(head.headers().len(), 5);
    assert_eq!(head.body(), BodyLength::None);
    assert!(head.keep_alive() && !head.expect_continue());
}

#[test]
fn every_cut_of_a_head_is_partial() {
    let text = b"PUT /b/k HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n";
    for cut in 0..text.len() {
        assert!(matches!(parse_head(&text[..cut]), Ok(Parsed::Partial)), "{cut}");
    }
    assert_eq!(whole(text).0.content_length(), Some(5));
}

#[test]
fn pipelined_heads_are_read_one_after_the_other() {
    let text = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n\r\nHEAD /b HTTP/1.1\r\nHost: h\r\n\r\n";
    let (first, length) = whole(text);
    assert_eq!(first.path_raw(), "/a");
    let (second, second_length) = whole(&text[length..]);
    assert_eq!((second.path_raw(), second.method()), ("/b", Method::Head));
    assert_eq!(length + second_length, text.len());
}

#[test]
fn targets_come_in_two_forms() {
    for (target, path, query) in [
        ("/", "/", ""),
        ("/?list-type=2", "/", "list-type=2"),
        ("/a?b?c", "/a", "b?c"),
        ("//a/../b", "//a/../b", ""),
        ("/a#b", "/a#b", ""),
        ("/ü", "/ü", ""),
        ("http://h", "/", ""),
        ("http://H/a?b", "/a", "b"),
        ("HTTP://h?b", "/", "b"),
    ] {
        let text = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
        let (head, _) = whole(text.as_bytes());
        assert_eq!(
            (head.path_raw(), head.query_raw(), head.host()),
            (path, query, "h"),
            "{target}"
        );
    }
}

#[test]
fn connections_stay_open_as_the_version_and_the_client_say() {
    for (version, connection, expected) in [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: TE, Close\r\n", false),
        ("1.1", "Connection: keep-alive\r\nConnection: close\r\n", false),
        ("1.0", "", false),
        ("1.0", "Connection: Keep-Alive\r\n", true),
    ] {
        let text = format!("GET / HTTP/{version}\r\nHost: h\r\n{connection}\r\n");
        assert_eq!(whole(text.as_bytes()).0.keep_alive(), expected, "{version} {connection}");
    }
}

#[test]
fn an_old_client_needs_no_host_and_gets_no_interim_answer() {
    let (head, _) = whole(b"PUT / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
    assert_eq!((head.host(), head.expect_continue()), ("", false));
    let (head, _) =
        whole(b"PUT / HTTP/1.1\r\nHost: h\r\nexpect: 100-Continue\r\nContent-Length: 0\r\n\r\n");
    assert!(head.expect_continue() && head.body() == BodyLength::Bytes(0));
}

#[test]
fn equal_content_lengths_are_one() {
    let (head, _) =
        whole(b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 05\r\n\r\n");
    assert_eq!(head.content_length(), Some(5));
}

/// Every refusal with the code it becomes; the head is given without its last empty line.
#[test]
fn malformed_heads_are_refused_with_a_clear_error() {
    use HeadError as E;
    for (text, expected, code) in [
        ("GET / HTTP/1.1\nHost: h\r\n", E::BareLineFeed, Code::BadRequest),
        ("GET / HTTP/1.1\r\nHost: h\nA: b\r\n", E::BareLineFeed, Code::BadRequest),
        ("\nGET / HTTP/1.1\r\nHost: h\r\n", E::BareLineFeed, Code::BadRequest),
        ("GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\n", E::FoldedHeader, Code::BadRequest),
        ("GET / HTTP/1.1\r\n Host: h\r\n", E::FoldedHeader, Code::BadRequest),
        ("GET / HTTP/1.1\r\nHost : h\r\n", E::SpaceBeforeColon, Code::BadRequest),
        ("GET / HTTP/1.1\r\nHost\t: h\r\n", E::SpaceBeforeColon, Code::BadRequest),
        ("GET / HTTP/1.1\r\nHost h\r\n", E::BadHeaderName, Code::BadRequest),
        ("GET / HTTP/1.1\r\n: h\r\n", E::BadHeaderName, Code::BadRequest),
        ("GET / HTTP/1.1\r\nHost: h\r\nA\0: b\r\n", E::BadHeaderName, Code::BadRequest),
        ("GET / HTTP/1.1\r\nHost: h\r\nA: b\0c\r\n", E::BadHeaderValue, Code::BadRequest),
        ("GET / HTTP/1.1\r\nHost: h\r\nA: b\rc\r\n", E::BadHeaderValue, Code::BadRequest),
        ("GET / HTTP/1.1\r\nHost: h\r\nA: b\u{7f}\r\n", E::BadHeaderValue, Code::BadRequest),
        ("GET /\0 HTTP/1.1\r\nHost: h\r\n", E::BadRequestLine, Code::BadRequest),
        ("GET  / HTTP/1.1\r\nHost: h\r\n", E::BadRequestLine, Code::BadRequest),
        ("GET /a b HTTP/1.1\r\nHost: h\r\n", E::BadVersion, Code::UnsupportedHttpVersion),
        ("G(T / HTTP/1.1\r\nHost: h\r\n", E::BadRequestLine, Code::BadRequest),
        ("GET / HTTP/2.0\r\nHost: h\r\n", E::BadVersion, Code::UnsupportedHttpVersion),
        ("GET / http/1.1\r\nHost: h\r\n", E::BadVersion, Code::UnsupportedHttpVersion),
        ("GET a HTTP/1.1\r\nHost: h\r\n", E::BadTarget, Code::InvalidURI),
        ("OPTIONS * HTTP/1.1\r\nHost: h\r\n", E::BadTarget, Code::InvalidURI),
        ("CONNECT h:80 HTTP/1.1\r\nHost: h\r\n", E::BadTarget, Code::InvalidURI),
        ("GET https://h/ HTTP/1.1\r\nHost: h\r\n", E::BadTarget, Code::InvalidURI),
        ("GET http:///a HTTP/1.1\r\nHost: h\r\n", E::BadTarget, Code::InvalidURI),
        ("GET http://u@h/ HTTP/1.1\r\nHost: h\r\n", E::BadTarget, Code::InvalidURI),
        ("GET http://g/ HTTP/1.1\r\nHost: h\r\n", E::HostMismatch, Code::BadRequest),
        ("GET / HTTP/1.1\r\nA: b\r\n", E::MissingHost, Code::BadRequest),
        ("GET / HTTP/1.1\r\nHost:\r\n", E::MissingHost, Code::BadRequest),
        ("GET http://h/ HTTP/1.1\r\nA: b\r\n", E::MissingHost, Code::BadRequest),
        ("GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n", E::RepeatedHost, Code::BadRequest),
        ("GET / HTTP/1.1\r\nHost: a/b\r\n", E::BadHost, Code::BadRequest),
        ("GET / HTTP/1.1\r\nHost: a b\r\n", E::BadHost, Code::BadRequest),
        ("GET / HTTP/1.1\r\nHost: a,b\r\n", E::BadHost, Code::BadRequest),
    ] {
        refuse(&format!("{text}\r\n"), expected, code);
    }
}

#[test]
fn bodies_of_doubtful_length_are_refused() {
    use HeadError as E;
    for (lines, expected, code) in [
        ("Content-Length: +5\r\n", E::BadContentLength, Code::BadRequest),
        ("Content-Length: -5\r\n", E::BadContentLength, Code::BadRequest),
        ("Content-Length: 5 5\r\n", E::BadContentLength, Code::BadRequest),
        ("Content-Length: 5, 5\r\n", E::BadContentLength, Code::BadRequest),
        ("Content-Length: 0x5\r\n", E::BadContentLength, Code::BadRequest),
        ("Content-Length:\r\n", E::BadContentLength, Code::BadRequest),
        ("Content-Length: 99999999999999999999\r\n", E::BadContentLength, Code::BadRequest),
        (
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            E::DifferingContentLengths,
            Code::BadRequest,
        ),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", E::TwoLengths, Code::BadRequest),
        ("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", E::TwoLengths, Code::BadRequest),
        ("Transfer-Encoding: gzip, chunked\r\n", E::BadTransferEncoding, Code::NotImplemented),
        ("Transfer-Encoding: identity\r\n", E::BadTransferEncoding, Code::NotImplemented),
        ("Transfer-Encoding: xchunked\r\n", E::BadTransferEncoding, Code::NotImplemented),
        ("Transfer-Encoding: \"chunked\"\r\n", E::BadTransferEncoding, Code::NotImplemented),
        ("Transfer-Encoding:\r\n", E::BadTransferEncoding, Code::NotImplemented),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            E::BadTransferEncoding,
            Code::NotImplemented,
        ),
    ] {
        refuse(&format!("PUT /b/k HTTP/1.1\r\nHost: h\r\n{lines}\r\n"), expected, code);
    }
    let old = "PUT / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    refuse(old, E::TransferEncodingTooNew, Code::BadRequest);
}

fn refuse(text: &str, expected: HeadError, code: Code) {
    let error = parse_head(text.as_bytes()).expect_err(text);
    assert_eq!(error, expected, "{text:?}");
    assert_eq!(S3Error::from(error).code, code, "{text:?}");
}

#[test]
fn the_request_line_has_a_limit() {
    let line = |length: usize| format!("GET /{} HTTP/1.1", "k".repeat(length - 14));
    let fits = format!("{}\r\nHost: h\r\n\r\n", line(REQUEST_LINE_BYTES_MAX));
    whole(fits.as_bytes());
    let over = format!("{}\r\nHost: h\r\n\r\n", line(REQUEST_LINE_BYTES_MAX + 1));
    refuse(&over, HeadError::RequestLineTooLong, Code::InvalidURI);
    refuse(&over[..REQUEST_LINE_BYTES_MAX + 1], HeadError::RequestLineTooLong, Code::InvalidURI);
}

#[test]
fn the_number_of_headers_has_a_limit() {
    let head =
        |count: usize| format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "a: b\r\n".repeat(count - 1));
    assert_eq!(whole(head(HEADERS_MAX).as_bytes()).0.headers().len(), HEADERS_MAX);
    let code = Code::RequestHeaderSectionTooLarge;
    refuse(&head(HEADERS_MAX + 1), HeadError::TooManyHeaders, code);
}

#[test]
fn header_bytes_have_a_limit() {
    let head = |size: usize| {
        let filler = "v".repeat(size - "Hosth".len() - 1);
        format!("GET / HTTP/1.1\r\nHost: h\r\na: {filler}\r\n\r\n")
    };
    whole(head(HEADER_BYTES_MAX).as_bytes());
    let size_bytes = HEADER_BYTES_MAX + 1;
    refuse(
        &head(size_bytes),
        HeadError::HeadersTooLarge { size_bytes },
        Code::RequestHeaderSectionTooLarge,
    );
}

#[test]
fn user_metadata_has_a_limit() {
    let head = |size: usize| {
        let half = size / 2;
        let (one, two) = ("v".repeat(half - 1), "v".repeat(size - half - 1));
        format!("PUT / HTTP/1.1\r\nHost: h\r\nx-amz-meta-a: {one}\r\nX-AMZ-META-b: {two}\r\n\r\n")
    };
    whole(head(USER_METADATA_BYTES_MAX).as_bytes());
    let size_bytes = USER_METADATA_BYTES_MAX + 1;
    refuse(&head(size_bytes), HeadError::MetadataTooLarge { size_bytes }, Code::MetadataTooLarge);
}

#[test]
fn the_whole_head_has_a_limit_while_it_is_still_coming() {
    let code = Code::RequestHeaderSectionTooLarge;
    let endless = format!("GET / HTTP/1.1\r\nHost: h\r\na: {}", "v".repeat(HEAD_BYTES_MAX));
    let cut = &endless[..HEAD_BYTES_MAX];
    assert!(matches!(parse_head(&cut.as_bytes()[..HEAD_BYTES_MAX - 1]), Ok(Parsed::Partial)));
    refuse(cut, HeadError::HeadTooLarge, code);
    refuse(&endless, HeadError::HeadTooLarge, code);
    refuse(&"\r\n".repeat(HEAD_BYTES_MAX), HeadError::HeadTooLarge, code);
    let method = format!("{} / HTTP/1.1\r\nHost: h\r\n\r\n", "M".repeat(METHOD_BYTES_MAX + 1));
    refuse(&method, HeadError::MethodTooLong, Code::BadRequest);
}

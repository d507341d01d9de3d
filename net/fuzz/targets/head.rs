//! Any bytes as a request head: no panic, no doubt about where it ends, and what was read can be
//! written and read again. The rooms that read a head are walked through as well.

use nilas_base::UnixMillis;
use nilas_net::conditional::{Conditions, Validators};
use nilas_net::head::{
    HEAD_BYTES_MAX, HEADER_BYTES_MAX, HEADERS_MAX, Parsed, RequestHead, Version, parse_head,
};
use nilas_net::operation::classify;
use nilas_net::percent::{Plus, decode, encode_path};
use nilas_net::range::RangeForm;
use nilas_net::target::Addressing;
use nilas_net::{S3Error, query};

/// Prefixes looked at of one input.
const CUTS_MAX: usize = 64;

pub fn run(data: &[u8]) {
    match parse_head(data) {
        Ok(Parsed::Partial) => assert!(data.len() < HEAD_BYTES_MAX),
        Ok(Parsed::Whole(head, length)) => {
            check_whole(&head, &data[..length]);
            check_cuts(&data[..length]);
            check_round_trip(&head);
            walk(&head);
        }
        Err(error) => check_error(&S3Error::from(error)),
    }
}

fn check_error(error: &S3Error) {
    assert!((400..600).contains(&error.status()) && error.message.len() > 10);
}

fn check_whole(head: &RequestHead<'_>, bytes: &[u8]) {
    assert!(bytes.len() <= HEAD_BYTES_MAX && bytes.ends_with(b"\r\n\r\n"));
    assert!(head.path_raw().starts_with('/') && !head.path_raw().contains('?'));
    assert!(head.headers().len() <= HEADERS_MAX);
    assert!(head.version() == Version::Http10 || !head.host().is_empty());
    let mut sum = 0;
    for (name, value) in head.headers() {
        assert!(!name.is_empty() && !name.contains([' ', ':']));
        assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
        assert!(head.header(name).is_some());
        sum += name.len() + value.len();
    }
    assert!(sum <= HEADER_BYTES_MAX);
    assert!(!(head.is_chunked() && head.header("content-length").is_some()));
}

/// However much of a good head has come, it is never refused and never whole too early.
fn check_cuts(bytes: &[u8]) {
    let step = (bytes.len() / CUTS_MAX).max(1);
    for cut in (0..bytes.len()).step_by(step) {
        assert!(matches!(parse_head(&bytes[..cut]), Ok(Parsed::Partial)), "cut at {cut}");
    }
}

fn check_round_trip(head: &RequestHead<'_>) {
    let version = if head.version() == Version::Http10 { "0" } else { "1" };
    let mut text =
        format!("{} {} HTTP/1.{version}\r\n", head.method().name(), head.target()).into_bytes();
    for (name, value) in head.headers() {
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value);
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"\r\n");
    match parse_head(&text) {
        Ok(Parsed::Whole(again, length)) => {
            assert_eq!(length, text.len());
            assert_eq!(again.target(), head.target());
            assert_eq!((again.body(), again.host()), (head.body(), head.host()));
            assert!(again.headers().eq(head.headers()));
        }
        // The space after each colon may have been what was too much.
        other => assert!(text.len() > HEAD_BYTES_MAX, "{other:?}"),
    }
}

fn walk(head: &RequestHead<'_>) {
    let addressing = Addressing::new(["s3.local".to_owned()]);
    let mut scratch = Vec::new();
    match addressing.resolve(head.host(), head.path_raw(), &mut scratch) {
        Err(error) => check_error(&S3Error::from(error)),
        Ok(target) => {
            classify(head, target.bucket.is_some(), target.key.is_some());
            let (mut encoded, mut decoded) = (Vec::new(), Vec::new());
            let key = target.key.unwrap_or("").as_bytes();
            encode_path(key, &mut encoded);
            decode(&encoded, Plus::Literal, &mut decoded).expect("encoded by us");
            assert_eq!(decoded, key);
            let mut path = Vec::new();
            target.path_style(&mut path);
            assert!(path.starts_with(b"/") && path.iter().all(|byte| (0x21..0x7f).contains(byte)));
        }
    }
    for pair in query::pairs(head.query_raw()) {
        let _ = pair.decoded();
    }
    let mut rest = Vec::new();
    query::without_presign(head.query_raw(), &mut rest);
    assert!(rest.len() <= head.query_raw().len());
    let validators = Validators { etag: b"\"e\"", last_modified: None };
    Conditions::of(head).verdict(validators, UnixMillis(0));
    RangeForm::of(head).resolve(100);
}

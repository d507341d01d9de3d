//! Any bytes as a Range header, against an oracle that splits text with the standard library; as an HTTP
//! date; as an entity tag. The first byte is the object's length.

use nilas_base::{ByteRange, UnixMillis};
use nilas_net::conditional::{Conditions, Validators, Verdict};
use nilas_net::date::{http_date, parse_amz_date, parse_http_date};
use nilas_net::head::{Parsed, parse_head};
use nilas_net::range::{Resolved, parse_range};

pub fn run(data: &[u8]) {
    let [length, header @ ..] = data else { return };
    for length in [u64::from(*length), u64::MAX] {
        assert_eq!(parse_range(header).resolve(length), oracle(header, length));
    }
    date(header);
    tag(header);
}

fn oracle(header: &[u8], length: u64) -> Resolved {
    expected(header, length).unwrap_or(Resolved::Relay)
}

fn expected(header: &[u8], length: u64) -> Option<Resolved> {
    let spec = std::str::from_utf8(header).ok()?.strip_prefix("bytes=")?;
    let (first, last) = spec.split_once('-')?;
    let number = |text: &str| -> Option<u64> {
        let is_number = text.len() < 20 && text.chars().all(|digit| digit.is_ascii_digit());
        if is_number { text.parse().ok() } else { None }
    };
    let slice = |start: u64, end: u64| Some(Resolved::Slice(ByteRange::new(start, end)));
    match (first, last) {
        ("", _) => match number(last)? {
            0 => None,
            _ if length == 0 => None,
            wanted => slice(length.saturating_sub(wanted), length),
        },
        (_, "") => match number(first)? {
            _ if length == 0 => None,
            first if first >= length => Some(Resolved::Unsatisfiable),
            first => slice(first, length),
        },
        _ => match (number(first)?, number(last)?) {
            (first, last) if first > last || length == 0 => None,
            (first, _) if first >= length => Some(Resolved::Unsatisfiable),
            (first, last) => slice(first, length.min(last.saturating_add(1))),
        },
    }
}

fn date(text: &[u8]) {
    let _ = parse_amz_date(text);
    if let Some(time) = parse_http_date(text) {
        assert_eq!(parse_http_date(&http_date(time)), Some(time));
    }
}

/// A tag that equals the object's is never found unequal, and the two headers never agree.
fn tag(text: &[u8]) {
    let verdict = |name: &str| {
        let mut wire = format!("GET / HTTP/1.1\r\nHost: h\r\n{name}: ").into_bytes();
        wire.extend_from_slice(text);
        wire.extend_from_slice(b"\r\n\r\n");
        let Ok(Parsed::Whole(head, length)) = parse_head(&wire) else { return None };
        // The bytes may have brought a head's end with them.
        let is_one_header = length == wire.len() && head.headers().len() == 2;
        let validators = Validators { etag: b"\"abc\"", last_modified: None };
        is_one_header.then(|| Conditions::of(&head).verdict(validators, UnixMillis(0)))
    };
    let (matches, none_match) = (verdict("If-Match"), verdict("If-None-Match"));
    match matches {
        Some(Verdict::Proceed) => assert_eq!(none_match, Some(Verdict::NotModified)),
        Some(Verdict::PreconditionFailed(_)) => assert_eq!(none_match, Some(Verdict::Proceed)),
        Some(Verdict::Relay) => assert_eq!(none_match, Some(Verdict::Relay)),
        _ => assert_eq!(none_match, None),
    }
}

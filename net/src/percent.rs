//! Percent-encoding as S3 does it: everything but the unreserved characters, `/` kept in keys.
//! Decoding is strict and done once; a `+` is a plus in a path and a space in a query.

use crate::Sink;

/// A `%` that is not followed by two hexadecimal digits; at this byte of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the percent sign at byte {at} is not followed by two hexadecimal digits")]
pub struct BadEscape {
    /// Where the percent sign stands, in bytes.
    pub at: usize,
}

/// What `+` means in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plus {
    /// A path: plus is plus.
    Literal,
    /// A query: plus is a space.
    Space,
}

const HEX_UPPER: &[u8; 16] = b"0123456789ABCDEF";

const fn unreserved_table() -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = matches!(byte as u8,
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~');
        byte += 1;
    }
    table
}

static UNRESERVED: [bool; 256] = unreserved_table();

/// Encodes a key or path: `/` stays.
pub fn encode_path<S: Sink + ?Sized>(decoded: &[u8], sink: &mut S) {
    encode(decoded, sink, |byte| UNRESERVED[usize::from(byte)] || byte == b'/');
}

/// Encodes a query name or value: `/` becomes `%2F`.
pub fn encode_query<S: Sink + ?Sized>(decoded: &[u8], sink: &mut S) {
    encode(decoded, sink, |byte| UNRESERVED[usize::from(byte)]);
}

/// Makes a raw path or query fit for any HTTP client: bytes that no URI may hold (`#`, quotes, braces,
/// non-ASCII …) are encoded; escapes that are there stay as they are, so it decodes to the same text.
pub fn escape_illegal<S: Sink + ?Sized>(raw: &[u8], sink: &mut S) {
    encode(
        raw,
        sink,
        |byte| matches!(byte, b'!' | b'$'..=b';' | b'=' | b'?'..=b'Z' | b'_' | b'a'..=b'z' | b'~'),
    );
}

fn encode<S: Sink + ?Sized>(text: &[u8], sink: &mut S, stays: impl Fn(u8) -> bool) {
    let mut rest = text;
    while !rest.is_empty() {
        let plain = rest.iter().position(|&byte| !stays(byte)).unwrap_or(rest.len());
        if plain > 0 {
            sink.put(&rest[..plain]);
        }
        let Some(&byte) = rest.get(plain) else { return };
        sink.put(&[b'%', HEX_UPPER[usize::from(byte >> 4)], HEX_UPPER[usize::from(byte & 15)]]);
        rest = &rest[plain + 1..];
    }
}

/// Which characters an encoding leaves alone besides the unreserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slash {
    Kept,
    Encoded,
}

/// Decodes and encodes again in one pass: the canonical form of a raw path or query part.
pub(crate) fn recode<S: Sink + ?Sized>(
    raw: &[u8],
    plus: Plus,
    slash: Slash,
    sink: &mut S,
) -> Result<(), BadEscape> {
    let stays = |byte: u8| UNRESERVED[usize::from(byte)] || (byte == b'/' && slash == Slash::Kept);
    let mut at = 0;
    while at < raw.len() {
        let plain = raw[at..].iter().position(|&byte| !stays(byte)).unwrap_or(raw.len() - at);
        if plain > 0 {
            sink.put(&raw[at..at + plain]);
            at += plain;
            continue;
        }
        let (byte, width) = match raw[at] {
            b'%' => (escaped_byte(raw, at).ok_or(BadEscape { at })?, 3),
            b'+' if plus == Plus::Space => (b' ', 1),
            byte => (byte, 1),
        };
        encode(&[byte], sink, stays);
        at += width;
    }
    Ok(())
}

/// Appends the decoded text to `decoded`. What was there stays, also on an error.
pub fn decode(raw: &[u8], plus: Plus, decoded: &mut Vec<u8>) -> Result<(), BadEscape> {
    let mut at = 0;
    while at < raw.len() {
        match raw[at] {
            b'%' => {
                decoded.push(escaped_byte(raw, at).ok_or(BadEscape { at })?);
                at += 3;
            }
            b'+' if plus == Plus::Space => {
                decoded.push(b' ');
                at += 1;
            }
            byte => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    Ok(())
}

/// Whether decoding would change nothing.
pub fn is_plain(raw: &[u8], plus: Plus) -> bool {
    !raw.iter().any(|&byte| byte == b'%' || (byte == b'+' && plus == Plus::Space))
}

fn escaped_byte(raw: &[u8], at: usize) -> Option<u8> {
    let high = hex_digit(*raw.get(at + 1)?)?;
    let low = hex_digit(*raw.get(at + 2)?)?;
    Some(high << 4 | low)
}

pub(crate) fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(raw: &str, plus: Plus) -> Result<Vec<u8>, BadEscape> {
        let mut out = Vec::new();
        decode(raw.as_bytes(), plus, &mut out).map(|()| out)
    }

    fn encoded(text: &[u8]) -> String {
        let mut out = Vec::new();
        encode_path(text, &mut out);
        String::from_utf8(out).expect("only ASCII is written")
    }

    #[test]
    fn keys_are_encoded_as_s3_does() {
        for (key, expected) in [
            ("a/b", "a/b"),
            ("a b+c", "a%20b%2Bc"),
            ("x@y=z:1", "x%40y%3Dz%3A1"),
            ("100%", "100%25"),
            ("#?", "%23%3F"),
            ("ü", "%C3%BC"),
            ("-._~", "-._~"),
        ] {
            assert_eq!(encoded(key.as_bytes()), expected);
        }
    }

    #[test]
    fn a_plus_is_a_plus_in_a_path_and_a_space_in_a_query() {
        assert_eq!(decoded("a+b", Plus::Literal).expect("well formed"), b"a+b");
        assert_eq!(decoded("a+b", Plus::Space).expect("well formed"), b"a b");
    }

    #[test]
    fn decoding_is_done_once() {
        assert_eq!(decoded("%252F", Plus::Literal).expect("well formed"), b"%2F");
    }

    #[test]
    fn half_an_escape_is_refused_with_its_place() {
        for (raw, at) in [("%", 0), ("a%", 1), ("ab%4", 2), ("%zz", 0), ("%2%20", 0), ("x%+1", 1)] {
            assert_eq!(decoded(raw, Plus::Literal), Err(BadEscape { at }), "{raw}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes_to_itself(text in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut back = Vec::new();
            decode(encoded(&text).as_bytes(), Plus::Literal, &mut back).expect("encoded by us");
            prop_assert_eq!(&back, &text);
            let mut query = Vec::new();
            encode_query(&text, &mut query);
            let mut back = Vec::new();
            decode(&query, Plus::Space, &mut back).expect("encoded by us");
            prop_assert_eq!(&back, &text);
        }

        #[test]
        fn encoding_is_what_a_byte_by_byte_encoder_gives(text in any::<Vec<u8>>()) {
            let naive: String = text.iter().map(|&byte| match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' =>
                    char::from(byte).to_string(),
                _ => format!("%{byte:02X}"),
            }).collect();
            prop_assert_eq!(encoded(&text), naive);
        }

        #[test]
        fn recoding_is_decoding_then_encoding(raw in "[ -~ü]{0,24}|(%[0-9a-fA-F]{2}|[a/+]){0,9}") {
            for plus in [Plus::Literal, Plus::Space] {
                let mut recoded = Vec::new();
                let found = recode(raw.as_bytes(), plus, Slash::Kept, &mut recoded);
                match decoded(&raw, plus) {
                    Ok(text) => prop_assert_eq!(encoded(&text).into_bytes(), recoded),
                    Err(bad) => prop_assert_eq!(found, Err(bad)),
                }
            }
        }

        #[test]
        fn escaping_the_illegal_keeps_the_meaning(raw in "[ -~ü%#\"{}<>]{0,24}") {
            let mut legal = Vec::new();
            escape_illegal(raw.as_bytes(), &mut legal);
            prop_assert!(legal.iter().all(|byte| (0x21..0x7f).contains(byte) && *byte != b'#'));
            prop_assert_eq!(
                decoded(std::str::from_utf8(&legal).expect("ASCII"), Plus::Literal).ok(),
                decoded(&raw, Plus::Literal).ok());
        }
    }
}

//! Percent-encoding of path segments and query values: everything but RFC 3986's unreserved characters.
//! A space is `%20`, never `+`.

use std::fmt::Write;

/// `text` as a segment of a path.
pub(super) fn segment(text: &str) -> String {
    // A segment of dots alone is a step within the path to whoever normalises it.
    if !text.is_empty() && text.bytes().all(|byte| byte == b'.') {
        return "%2E".repeat(text.len());
    }
    encode(text)
}

/// `text` as a value of a query or a form.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// A part of a path that its server wrote: what is legal there stays, escapes too; the rest is escaped.
pub(super) fn keep_legal(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for (at, character) in text.char_indices() {
        let is_escape = character == '%' && is_hex_pair(&text.as_bytes()[at + 1..]);
        let is_legal =
            character.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@/".contains(character);
        if is_escape || is_legal {
            kept.push(character);
        } else {
            kept.push_str(&encode(character.encode_utf8(&mut [0; 4])));
        }
    }
    kept
}

/// The text that `text` encodes; itself where it encodes none.
pub(super) fn decode(text: &str) -> String {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'%' && is_hex_pair(after) {
            let digit = |at: usize| char::from(after[at]).to_digit(16).unwrap_or_default() as u8;
            decoded.push(digit(0) << 4 | digit(1));
            rest = &after[2..];
        } else {
            decoded.push(byte);
            rest = after;
        }
    }
    String::from_utf8(decoded).unwrap_or_else(|_| text.to_owned())
}

fn is_hex_pair(bytes: &[u8]) -> bool {
    bytes.len() >= 2 && bytes[..2].iter().all(u8::is_ascii_hexdigit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_segment_can_be_any_text() {
        for (text, encoded) in [
            ("orders", "orders"),
            ("a b", "a%20b"),
            ("a/b", "a%2Fb"),
            ("50%", "50%25"),
            ("a%2Fb", "a%252Fb"),
            ("#1?", "%231%3F"),
            ("größe", "gr%C3%B6%C3%9Fe"),
            ("..", "%2E%2E"),
            ("a.b", "a.b"),
        ] {
            assert_eq!(segment(text), encoded);
        }
    }

    #[test]
    fn what_a_server_wrote_is_kept_as_far_as_it_is_legal() {
        for (text, kept) in [
            ("catalogs/1234", "catalogs/1234"),
            ("arn%3Aaws%3As3tables", "arn%3Aaws%3As3tables"),
            ("a b#c?d", "a%20b%23c%3Fd"),
            ("50%", "50%25"),
            ("ü", "%C3%BC"),
        ] {
            assert_eq!(keep_legal(text), kept);
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes_to_the_same(text: String) {
            prop_assert_eq!(decode(&encode(&text)), text.clone());
            prop_assert_eq!(decode(&segment(&text)), text);
        }

        #[test]
        fn no_text_panics(text: String) {
            let kept = keep_legal(&text);
            prop_assert!(kept.is_ascii());
            decode(&text);
        }
    }
}

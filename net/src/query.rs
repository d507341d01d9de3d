//! Raw query strings: pairs as they were sent, compared and decoded one at a time.
//! A `+` is a space here, as S3 reads it; empty pieces (`&&`) are no pairs.

use std::borrow::Cow;

use crate::Sink;
use crate::percent::{self, BadEscape, Plus};

/// One `name=value` as sent; a name alone has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair<'a> {
    /// Not decoded.
    pub name: &'a str,
    /// Not decoded.
    pub value: Option<&'a str>,
    /// Whether the name holds an escape: almost none does, and then names compare as they are.
    is_name_escaped: bool,
}

/// Parameters by which a presigned URL proves itself; they end at this node.
const PRESIGN: [&str; 8] = [
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    "X-Amz-Date",
    "X-Amz-Expires",
    "X-Amz-SignedHeaders",
    "X-Amz-Signature",
    "X-Amz-Security-Token",
    "X-Amz-Content-Sha256",
];

/// The pairs of a raw query, in order.
pub fn pairs(query_raw: &str) -> impl Iterator<Item = Pair<'_>> + Clone {
    query_raw.split('&').filter(|piece| !piece.is_empty()).map(Pair::of)
}

/// The first pair of this (decoded) name.
pub fn find<'a>(query_raw: &'a str, name: &str) -> Option<Pair<'a>> {
    pairs(query_raw).find(|pair| pair.is(name))
}

/// Decodes a name or value; borrows when there is nothing to decode. Bytes that are no UTF-8 become U+FFFD.
pub fn decode(raw: &str) -> Result<Cow<'_, str>, BadEscape> {
    if percent::is_plain(raw.as_bytes(), Plus::Space) {
        return Ok(Cow::Borrowed(raw));
    }
    let mut decoded = Vec::with_capacity(raw.len());
    percent::decode(raw.as_bytes(), Plus::Space, &mut decoded)?;
    Ok(Cow::Owned(match String::from_utf8(decoded) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }))
}

/// Writes the query without the parameters of a presigned URL, the rest as it was sent.
pub fn without_presign<S: Sink + ?Sized>(query_raw: &str, sink: &mut S) {
    let mut first = true;
    for piece in query_raw.split('&').filter(|piece| !piece.is_empty()) {
        if Pair::of(piece).is_presign() {
            continue;
        }
        if !first {
            sink.put(b"&");
        }
        first = false;
        sink.put(piece.as_bytes());
    }
}

/// Whether the raw name is a parameter of presigned URLs.
pub fn is_presign(name: &str) -> bool {
    Pair::of(name).is_presign()
}

impl<'a> Pair<'a> {
    /// The pair of one piece between ampersands.
    fn of(piece: &'a str) -> Pair<'a> {
        let (name, value) = match piece.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (piece, None),
        };
        Pair { name, value, is_name_escaped: !percent::is_plain(name.as_bytes(), Plus::Space) }
    }

    /// Whether the decoded name is `name`.
    pub fn is(&self, name: &str) -> bool {
        if self.is_name_escaped {
            return decode(self.name).is_ok_and(|decoded| decoded == name);
        }
        self.name == name
    }

    /// Whether it is a parameter by which a presigned URL proves itself.
    pub fn is_presign(&self) -> bool {
        PRESIGN.iter().any(|known| self.is(known))
    }

    /// The decoded value; empty when there is none.
    pub fn decoded(&self) -> Result<Cow<'a, str>, BadEscape> {
        decode(self.value.unwrap_or(""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_keep_order_and_rawness() {
        let found: Vec<_> =
            pairs("a=1&b&&c=%20=+&=x").map(|pair| (pair.name, pair.value)).collect();
        assert_eq!(found, [("a", Some("1")), ("b", None), ("c", Some("%20=+")), ("", Some("x"))]);
    }

    #[test]
    fn names_are_found_through_their_escapes() {
        let pair = find("version%49d=x%2By+z", "versionId").expect("it is there");
        assert_eq!(pair.decoded().expect("well formed"), "x+y z");
    }

    #[test]
    fn only_the_proof_leaves_a_presigned_query() {
        let mut rest = Vec::new();
        without_presign(
            "a=1&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=f&x-id=GetObject&X-Amz-Security%2DToken=t",
            &mut rest,
        );
        assert_eq!(rest, b"a=1&x-id=GetObject");
    }

    #[test]
    fn a_broken_escape_is_an_error_not_a_guess() {
        assert!(decode("%").is_err() && decode("%f").is_err());
        assert_eq!(decode("%ff").expect("well formed"), "\u{fffd}");
    }
}

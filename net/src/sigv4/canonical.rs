//! The canonical request: what both sides of a signature must spell alike.
//! Path: decoded once and encoded again, never normalised. Query: the same, sorted by name, then value.
//! Headers: in the order of SignedHeaders, values trimmed, runs of white space one space, repeats joined.

use sha2::{Digest, Sha256};

use crate::percent::{BadEscape, Plus, Slash, recode};
use crate::query;

/// Scratch for canonical requests; its memory is used again and again.
#[derive(Debug, Default)]
pub(super) struct Canonical {
    text: Vec<u8>,
    query: Vec<u8>,
    pairs: Vec<PairSpan>,
}

/// An encoded pair in `Canonical::query`: `start..middle` the name, `middle..end` the value.
#[derive(Clone, Copy, Debug)]
struct PairSpan {
    start: usize,
    middle: usize,
    end: usize,
}

/// What a canonical request is made of.
pub(super) struct Parts<'a, H> {
    pub(super) method: &'a str,
    pub(super) path_raw: &'a str,
    pub(super) query_raw: &'a str,
    pub(super) headers: H,
    /// Lower-case names, separated by `;`.
    pub(super) signed_headers: &'a str,
    pub(super) payload_hash: &'a str,
}

impl Canonical {
    /// Builds the request and gives its SHA-256.
    pub(super) fn digest<'h, H>(&mut self, parts: &Parts<'_, H>) -> Result<[u8; 32], BadEscape>
    where
        H: Iterator<Item = (&'h [u8], &'h [u8])> + Clone,
    {
        self.text.clear();
        self.text.extend_from_slice(parts.method.as_bytes());
        self.text.push(b'\n');
        recode(parts.path_raw.as_bytes(), Plus::Literal, Slash::Kept, &mut self.text)?;
        self.text.push(b'\n');
        self.put_query(parts.query_raw)?;
        self.text.push(b'\n');
        for name in parts.signed_headers.split(';') {
            self.put_header(name, parts.headers.clone());
        }
        self.text.push(b'\n');
        self.text.extend_from_slice(parts.signed_headers.as_bytes());
        self.text.push(b'\n');
        self.text.extend_from_slice(parts.payload_hash.as_bytes());
        Ok(Sha256::digest(&self.text).into())
    }

    /// The request last built.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// A presigned URL's own signature is not part of what it signs.
    fn put_query(&mut self, query_raw: &str) -> Result<(), BadEscape> {
        self.query.clear();
        self.pairs.clear();
        for pair in query::pairs(query_raw).filter(|pair| !pair.is("X-Amz-Signature")) {
            let start = self.query.len();
            recode(pair.name.as_bytes(), Plus::Space, Slash::Encoded, &mut self.query)?;
            let middle = self.query.len();
            let value = pair.value.unwrap_or("");
            recode(value.as_bytes(), Plus::Space, Slash::Encoded, &mut self.query)?;
            self.pairs.push(PairSpan { start, middle, end: self.query.len() });
        }
        let encoded = &self.query;
        self.pairs.sort_unstable_by_key(|pair| {
            (&encoded[pair.start..pair.middle], &encoded[pair.middle..pair.end])
        });
        for (at, pair) in self.pairs.iter().enumerate() {
            if at > 0 {
                self.text.push(b'&');
            }
            self.text.extend_from_slice(&encoded[pair.start..pair.middle]);
            self.text.push(b'=');
            self.text.extend_from_slice(&encoded[pair.middle..pair.end]);
        }
        Ok(())
    }

    fn put_header<'h>(&mut self, name: &str, headers: impl Iterator<Item = (&'h [u8], &'h [u8])>) {
        let start = self.text.len();
        self.text.extend_from_slice(name.as_bytes());
        self.text[start..].make_ascii_lowercase();
        self.text.push(b':');
        let mut first = true;
        for (_, value) in headers.filter(|(found, _)| found.eq_ignore_ascii_case(name.as_bytes())) {
            if !first {
                self.text.push(b',');
            }
            first = false;
            self.put_value(value.trim_ascii());
        }
        self.text.push(b'\n');
    }

    fn put_value(&mut self, value: &[u8]) {
        if !value.iter().any(u8::is_ascii_whitespace) {
            return self.text.extend_from_slice(value);
        }
        let words = value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        for (at, word) in words.enumerate() {
            if at > 0 {
                self.text.push(b' ');
            }
            self.text.extend_from_slice(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(path: &str, query: &str, headers: &[(&str, &[u8])], signed: &str) -> String {
        let mut canonical = Canonical::default();
        let parts = Parts {
            method: "GET",
            path_raw: path,
            query_raw: query,
            headers: headers.iter().map(|(name, value)| (name.as_bytes(), *value)),
            signed_headers: signed,
            payload_hash: "H",
        };
        canonical.digest(&parts).expect("well formed");
        String::from_utf8(canonical.text().to_vec()).expect("UTF-8")
    }

    #[test]
    fn paths_are_encoded_once_and_never_normalised() {
        for (path, expected) in [
            ("/a+b@c=d:e", "/a%2Bb%40c%3Dd%3Ae"),
            ("/a%2bb%20c", "/a%2Bb%20c"),
            ("/a%252F", "/a%252F"),
            ("//a/../b/./c//", "//a/../b/./c//"),
            ("/a%2Fb", "/a/b"),
            ("/ü#", "/%C3%BC%23"),
            ("/a%7Eb", "/a~b"),
        ] {
            assert_eq!(
                canonical(path, "", &[], "host"),
                format!("GET\n{expected}\n\nhost:\n\nhost\nH")
            );
        }
    }

    #[test]
    fn queries_are_sorted_by_encoded_name_then_value() {
        for (query, expected) in [
            ("b=2&a=1", "a=1&b=2"),
            ("acl", "acl="),
            ("a=2&a=10&a=1", "a=1&a=10&a=2"),
            ("a-b=1&a=2", "a=2&a-b=1"),
            ("p=a/b&q=a+b", "p=a%2Fb&q=a%20b"),
            ("X-Amz-Signature=s&x=%7e", "x=~"),
            ("&&a=b=c&", "a=b%3Dc"),
            ("A=1&a=2&%41=0", "A=0&A=1&a=2"),
        ] {
            assert_eq!(
                canonical("/", query, &[], "host"),
                format!("GET\n/\n{expected}\nhost:\n\nhost\nH")
            );
        }
    }

    #[test]
    fn header_values_are_trimmed_collapsed_and_joined() {
        let headers: [(&str, &[u8]); 4] =
            [("Host", b"h"), ("X-Amz-A", b" a \t  b "), ("x-amz-b", b"1"), ("X-AMZ-B", b"2")];
        assert_eq!(
            canonical("/", "", &headers, "host;x-amz-a;x-amz-b"),
            "GET\n/\n\nhost:h\nx-amz-a:a b\nx-amz-b:1,2\n\nhost;x-amz-a;x-amz-b\nH"
        );
    }
}

//! Headers that end at this node: hop-by-hop ones, the client's proof of identity, S3's body framing.
//! What is not named here travels to the origin, and back, as it came.

/// Hop-by-hop headers (RFC 9110 §7.6.1), and those that a message's sender sets anew.
pub const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What a client proves itself with; replaced by the origin's credential on a relay.
pub const CLIENT_AUTH: [&str; 5] = [
    "authorization",
    "x-amz-date",
    "x-amz-content-sha256",
    "x-amz-security-token",
    "x-amz-region-set",
];

/// The framing of aws-chunked bodies; written anew when the body is framed anew.
pub const BODY_FRAMING: [&str; 2] = ["x-amz-decoded-content-length", "x-amz-trailer"];

/// Whether the header ends at this hop, whatever `Connection` says.
pub fn is_hop_by_hop(name: &str) -> bool {
    is_any(&HOP_BY_HOP, name)
}

/// Whether the header belongs to the client's authentication.
pub fn is_client_auth(name: &str) -> bool {
    is_any(&CLIENT_AUTH, name)
}

/// Whether the header belongs to the framing of an aws-chunked body.
pub fn is_body_framing(name: &str) -> bool {
    is_any(&BODY_FRAMING, name)
}

/// Whether a `Connection` header's value names this header as hop-by-hop.
pub fn connection_names(connection: &[u8], name: &str) -> bool {
    tokens(connection).any(|token| token.eq_ignore_ascii_case(name.as_bytes()))
}

/// The comma-separated tokens of a header's value, trimmed, empty ones left out.
pub fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|token| !token.is_empty())
}

/// A `Content-Encoding` without its `aws-chunked`; `None` when nothing is left to say.
pub fn content_encoding_at_rest(value: &str) -> Option<String> {
    let kept: Vec<&str> = value
        .split(',')
        .map(str::trim)
        .filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("aws-chunked"))
        .collect();
    (!kept.is_empty()).then(|| kept.join(","))
}

fn is_any(names: &[&str], name: &str) -> bool {
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_without_case() {
        assert!(is_hop_by_hop("Transfer-Encoding") && is_client_auth("AUTHORIZATION"));
        assert!(!is_hop_by_hop("content-length") && !is_client_auth("x-amz-meta-date"));
    }

    #[test]
    fn a_header_named_by_connection_is_hop_by_hop() {
        assert!(connection_names(b"close , X-Secret", "x-secret"));
        assert!(!connection_names(b"close", "x-secret"));
    }

    #[test]
    fn only_aws_chunked_leaves_the_content_encoding() {
        for (value, expected) in [
            ("aws-chunked", None),
            ("aws-chunked,gzip", Some("gzip")),
            ("gzip, AWS-Chunked", Some("gzip")),
            ("gzip", Some("gzip")),
            ("", None),
        ] {
            assert_eq!(content_encoding_at_rest(value).as_deref(), expected, "{value}");
        }
    }
}

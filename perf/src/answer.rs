//! The head of an HTTP/1.1 answer, as far as a load generator needs it: status and length.
//! Never more: what headers a server must send is tested elsewhere, here each costs client time.

use crate::error::{Error, Result};

/// A longer head is refused.
pub const HEAD_BYTES_MAX: usize = 16 << 10;
/// More headers are refused.
const HEADERS_MAX: usize = 64;

/// What the load generator reads from a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerHead {
    /// Status code.
    pub status: u16,
    /// Bytes of the head, its blank line included.
    pub head_bytes: usize,
    /// The body's length by `content-length`.
    pub body_bytes: u64,
}

/// Parses the head at the start of `received`; `None` when more must arrive first.
pub fn parse_answer_head(received: &[u8]) -> Result<Option<AnswerHead>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let head_bytes = match response.parse(received) {
        Ok(httparse::Status::Complete(head_bytes)) => head_bytes,
        Ok(httparse::Status::Partial) if received.len() < HEAD_BYTES_MAX => return Ok(None),
        Ok(httparse::Status::Partial) => {
            return Err(Error::Answer(format!("a head of more than {HEAD_BYTES_MAX} bytes")));
        }
        Err(error) => return Err(Error::Answer(format!("not an HTTP/1.1 head: {error}"))),
    };
    let status = response.code.expect("a complete head has a status");
    let body_bytes = content_length(response.headers)?;
    Ok(Some(AnswerHead { status, head_bytes, body_bytes }))
}

fn content_length(headers: &[httparse::Header<'_>]) -> Result<u64> {
    let mut lengths =
        headers.iter().filter(|header| header.name.eq_ignore_ascii_case("content-length"));
    let length = lengths.next().ok_or_else(|| Error::Answer("no content-length".to_owned()))?;
    if lengths.next().is_some() {
        return Err(Error::Answer("two content-lengths".to_owned()));
    }
    std::str::from_utf8(length.value)
        .ok()
        .and_then(|digits| digits.trim().parse().ok())
        .ok_or_else(|| Error::Answer("a content-length that is no number".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 4096\r\n\r\n";

    #[test]
    fn a_whole_head_gives_status_and_lengths() {
        let mut received = HEAD.to_vec();
        received.extend_from_slice(b"body");
        let head = parse_answer_head(&received).expect("well formed").expect("whole");
        assert_eq!(head, AnswerHead { status: 200, head_bytes: HEAD.len(), body_bytes: 4096 });
    }

    #[test]
    fn every_prefix_of_a_head_waits_for_more() {
        for length in 0..HEAD.len() {
            assert_eq!(parse_answer_head(&HEAD[..length]).expect("a prefix is no error"), None);
        }
    }

    #[test]
    fn an_answer_without_one_length_is_refused() {
        for head in [
            &b"HTTP/1.1 200 OK\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            b"nonsense\r\n\r\n",
        ] {
            assert!(matches!(parse_answer_head(head), Err(Error::Answer(_))), "{head:?}");
        }
    }

    #[test]
    fn an_endless_head_is_refused() {
        let mut received = b"HTTP/1.1 200 OK\r\nx: ".to_vec();
        received.resize(HEAD_BYTES_MAX, b'a');
        assert!(parse_answer_head(&received).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(received in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse_answer_head(&received);
        }
    }
}

//! Bodies in S3's own chunks, signed and not, with trailers and without, however HTTP delimits them:
//! right ones are written, and of wrong ones nothing is, and the old object is still there.

use nilas_net::aws_chunked::AwsChunkedEncoder;
use nilas_net::checksum::{Algorithm, checksum};
use nilas_net::sigv4::PayloadHash;
use nilas_shards::RingBody;

use crate::client::{Answer, TestClient};
use crate::node::{BUCKET, TestNode};
use crate::{noise, on_both_bodies};

on_both_bodies! {
    every_framing_is_taken_apart_and_written
    a_wrong_framing_leaves_the_old_object
    trailers_of_every_algorithm_are_compared
    a_streamed_body_without_its_length_is_refused
}

const SIGNED: PayloadHash = PayloadHash::StreamingSigned { trailer: false };
const SIGNED_TRAILER: PayloadHash = PayloadHash::StreamingSigned { trailer: true };
const TRAILER: PayloadHash = PayloadHash::StreamingUnsignedTrailer;

/// An upload in S3's chunks; fields say what is sent, right or wrong.
struct Streamed<'a> {
    bytes: &'a [u8],
    payload: PayloadHash,
    /// Name and value.
    trailer: Option<(&'static str, String)>,
    in_http_chunks: bool,
    decoded_length: usize,
    /// Changes the body as it is sent.
    spoil: fn(&mut Vec<u8>),
}

impl<'a> Streamed<'a> {
    fn new(bytes: &'a [u8], payload: PayloadHash) -> Streamed<'a> {
        let has_trailer = payload != SIGNED;
        let name = Algorithm::Crc32.header_name();
        let trailer = has_trailer.then(|| (name, checksum(Algorithm::Crc32, bytes).base64()));
        let decoded_length = bytes.len();
        Streamed { bytes, payload, trailer, in_http_chunks: false, decoded_length, spoil: |_| {} }
    }

    fn put(&self, client: &mut TestClient, target: &str) -> Answer {
        let length = self.decoded_length.to_string();
        let mut wording = client.wording("PUT", target).payload(self.payload).headers(&[
            ("Content-Encoding", "aws-chunked"),
            ("x-amz-decoded-content-length", &length),
        ]);
        if let Some((name, _)) = &self.trailer {
            wording = wording.header("x-amz-trailer", name);
        }
        let (_, chain) = wording.head_and_chain();
        let chain = matches!(self.payload, PayloadHash::StreamingSigned { .. }).then_some(chain);
        let trailer: Vec<_> =
            self.trailer.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let mut body = AwsChunkedEncoder::new(self.payload, chain).encode(self.bytes, &trailer);
        (self.spoil)(&mut body);
        if self.in_http_chunks {
            let framed = body.chunks(10_007).flat_map(|chunk| {
                [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat()
            });
            body = framed.collect();
            body.extend_from_slice(b"0\r\n\r\n");
            wording.unsigned_headers.push(("Transfer-Encoding".into(), "chunked".into()));
        } else {
            wording.unsigned_headers.push(("Content-Length".into(), body.len().to_string()));
        }
        client.write(&wording.head());
        client.try_write(&body);
        client.answer(false)
    }
}

fn every_framing_is_taken_apart_and_written(ring: RingBody) {
    write_in_every_framing(&TestNode::start(ring, &[]));
}

pub fn write_in_every_framing(node: &TestNode) {
    let mut client = node.client();
    let target = format!("/{BUCKET}/object");
    for (seed, length) in [(1, 0), (2, 1), (3, 65_536), (4, 65_537), (5, 1_000_000)] {
        let bytes = noise(seed, length);
        for payload in [SIGNED, SIGNED_TRAILER, TRAILER] {
            for in_http_chunks in [false, true] {
                let about = format!("{payload:?} {length} {in_http_chunks}");
                let put = Streamed { in_http_chunks, ..Streamed::new(&bytes, payload) }
                    .put(&mut client, &target);
                assert_eq!(put.status, 200, "{about}: {}", put.text());
                let read = client.get(&target, &[("x-amz-checksum-mode", "ENABLED")]);
                assert!(read.status == 200 && read.body == bytes, "{about}");
                assert!(
                    read.header("content-encoding").is_none_or(|it| !it.contains("aws-chunked")),
                    "{about}"
                );
                if payload != SIGNED {
                    let sum = checksum(Algorithm::Crc32, &bytes).base64();
                    assert_eq!(read.header("x-amz-checksum-crc32"), Some(sum.as_str()), "{about}");
                }
            }
        }
    }
}

/// Replaces the last occurrence.
fn replace_last(body: &mut Vec<u8>, old: &[u8], new: &[u8]) {
    let at = body.windows(old.len()).rposition(|window| window == old).expect("it is there");
    body.splice(at..at + old.len(), new.iter().copied());
}

/// Flips a bit of the byte after the last occurrence.
fn flip_after(body: &mut [u8], text: &[u8]) {
    let at = body.windows(text.len()).rposition(|window| window == text).expect("it is there");
    let digit = &mut body[at + text.len()];
    *digit = if *digit == b'0' { b'1' } else { b'0' };
}

fn a_wrong_framing_leaves_the_old_object(ring: RingBody) {
    write_in_wrong_framings(&TestNode::start(ring, &["--cache.mutable_ttl", "1h"]));
}

pub fn write_in_wrong_framings(node: &TestNode) {
    let target = format!("/{BUCKET}/object");
    let (old, bytes) = (noise(1, 100_000), noise(2, 200_000));
    assert_eq!(node.client().request("PUT", &target, &[], &old).status, 200);
    let right = |payload| Streamed::new(&bytes, payload);
    let wrong_sum = checksum(Algorithm::Crc32, b"something else").base64();
    let wrong_trailer = Some((Algorithm::Crc32.header_name(), wrong_sum));
    let cases: Vec<(&str, Streamed<'_>, &str)> = vec![
        (
            "a wrong trailer",
            Streamed { trailer: wrong_trailer.clone(), ..right(TRAILER) },
            "BadDigest",
        ),
        (
            "a wrong signed trailer",
            Streamed { trailer: wrong_trailer, ..right(SIGNED_TRAILER) },
            "BadDigest",
        ),
        (
            "a changed byte",
            Streamed { spoil: |body| body[70_000] ^= 1, ..right(TRAILER) },
            "BadDigest",
        ),
        (
            "a changed signed byte",
            Streamed { spoil: |body| body[70_000] ^= 1, ..right(SIGNED) },
            "SignatureDoesNotMatch",
        ),
        (
            "a wrong chunk signature",
            Streamed { spoil: |body| flip_after(body, b";chunk-signature="), ..right(SIGNED) },
            "SignatureDoesNotMatch",
        ),
        (
            "a wrong trailer signature",
            Streamed {
                spoil: |body| flip_after(body, b"x-amz-trailer-signature:"),
                ..right(SIGNED_TRAILER)
            },
            "SignatureDoesNotMatch",
        ),
        (
            "no trailer",
            Streamed {
                spoil: |body| {
                    let name = b"x-amz-checksum-crc32:";
                    let at = body.windows(name.len()).rposition(|it| it == name);
                    body.truncate(at.expect("it is there"));
                    body.extend_from_slice(b"\r\n");
                },
                ..right(TRAILER)
            },
            "MalformedTrailerError",
        ),
        (
            "a cut body",
            Streamed { spoil: |body| body.truncate(100_000), ..right(SIGNED) },
            "IncompleteBody",
        ),
        (
            "a cut end",
            Streamed { spoil: |body| body.truncate(body.len() - 3), ..right(TRAILER) },
            "IncompleteBody",
        ),
        (
            "fewer bytes than said",
            Streamed { decoded_length: 200_001, ..right(TRAILER) },
            "IncompleteBody",
        ),
        (
            "more bytes than said",
            Streamed { decoded_length: 199_999, ..right(TRAILER) },
            "IncompleteBody",
        ),
        (
            "an unannounced trailer",
            Streamed {
                spoil: |body| {
                    replace_last(body, b"x-amz-checksum-crc32:", b"x-amz-checksum-crc3x:")
                },
                ..right(TRAILER)
            },
            "MalformedTrailerError",
        ),
        (
            "a malformed size",
            Streamed { spoil: |body| body[0] = b'x', ..right(TRAILER) },
            "InvalidRequest",
        ),
    ];
    for (about, streamed, code) in cases {
        for in_http_chunks in [false, true] {
            let streamed =
                Streamed { in_http_chunks, trailer: streamed.trailer.clone(), ..streamed };
            let mut client = node.client();
            let answer = streamed.put(&mut client, &target);
            let found = (answer.status / 100, answer.code());
            assert_eq!(found, (4, code.to_owned()), "{about} {in_http_chunks}: {}", answer.text());
            assert!(node.client().get(&target, &[]).body == old, "{about}");
        }
    }
    let kept = std::fs::read(node.bucket_directory().join("object")).expect("the object");
    assert!(kept == old);
}

fn trailers_of_every_algorithm_are_compared(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    let target = format!("/{BUCKET}/object");
    let bytes = noise(1, 150_000);
    for algorithm in Algorithm::ALL.into_iter().filter(|known| *known != Algorithm::Md5) {
        let name = algorithm.header_name();
        for payload in [TRAILER, SIGNED_TRAILER] {
            let right = Some((name, checksum(algorithm, &bytes).base64()));
            let put = Streamed { trailer: right, ..Streamed::new(&bytes, payload) }
                .put(&mut node.client(), &target);
            assert_eq!(put.status, 200, "{name}: {}", put.text());
            let wrong = Some((name, checksum(algorithm, b"other").base64()));
            let put = Streamed { trailer: wrong, ..Streamed::new(&bytes, payload) }
                .put(&mut node.client(), &target);
            assert_eq!((put.status, put.code().as_str()), (400, "BadDigest"), "{name}");
        }
    }
    assert!(node.client().get(&target, &[]).body == bytes);
}

fn a_streamed_body_without_its_length_is_refused(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    let mut client = node.client();
    let wording = client
        .wording("PUT", &format!("/{BUCKET}/object"))
        .payload(TRAILER)
        .headers(&[("Content-Length", "5")]);
    let answer = client.send(&wording, b"0\r\n\r\n");
    assert_eq!((answer.status, answer.code().as_str()), (411, "MissingContentLength"));
}

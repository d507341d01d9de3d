//! The documentation's own bodies, bodies of real clients' shapes, random ones, and bad ones.

use proptest::prelude::*;

use super::*;
use crate::checksum::{Algorithm, checksum};
use crate::head::{Parsed, parse_head};
use crate::sigv4::{ChunkChain, PayloadHash, SigningIdentity, ToSign, sign};
use crate::{Code, S3Error};
use nilas_base::UnixMillis;

const SIGNED: PayloadHash = PayloadHash::StreamingSigned { trailer: false };
const SIGNED_TRAILER: PayloadHash = PayloadHash::StreamingSigned { trailer: true };
const UNSIGNED: PayloadHash = PayloadHash::StreamingUnsignedTrailer;

fn chain() -> ChunkChain {
    let identity =
        SigningIdentity { access_key: "a", secret: "s", session_token: None, region: "r" };
    let request = ToSign {
        method: "PUT",
        host: "h",
        path_raw: "/b/k",
        query_raw: "",
        headers: &[],
        payload: SIGNED,
    };
    sign(&identity, &request, UnixMillis(0)).expect("well formed").chain
}

fn chain_for(payload: PayloadHash) -> Option<ChunkChain> {
    matches!(payload, PayloadHash::StreamingSigned { .. }).then(chain)
}

fn names(fields: &[(String, String)]) -> Vec<String> {
    fields.iter().map(|(name, _)| name.clone()).collect()
}

fn decoder(payload: PayloadHash, length: u64, trailer_names: Vec<String>) -> AwsChunkedDecoder {
    AwsChunkedDecoder::new(payload, chain_for(payload).map(Box::new), length, trailer_names)
}

/// Decodes `wire` cut at `cuts`, to the end.
fn run(
    decoder: &mut AwsChunkedDecoder,
    wire: &[u8],
    cuts: &[usize],
) -> Result<Vec<u8>, AwsChunkedError> {
    let (mut body, mut from) = (Vec::new(), 0);
    for to in cuts.iter().copied().chain([wire.len()]) {
        let to = to.clamp(from, wire.len());
        let mut input = &wire[from..to];
        while let Step::Data(data) = decoder.step(&mut input)? {
            body.extend_from_slice(data);
        }
        assert!(input.is_empty() && decoder.verified_bytes() <= decoder.decoded_bytes());
        from = to;
    }
    decoder.finish()?;
    assert_eq!(decoder.verified_bytes(), body.len() as u64);
    Ok(body)
}

fn encode(payload: PayloadHash, body: &[u8], cut: usize, trailer: &[(String, String)]) -> Vec<u8> {
    let mut encoder = AwsChunkedEncoder::new(payload, chain_for(payload));
    let (mut wire, mut gathered) = (Vec::new(), Vec::new());
    for mut piece in body.chunks(cut.max(1)) {
        while !piece.is_empty() {
            let (now, later) = piece.split_at(encoder.take(piece));
            gathered.extend_from_slice(now);
            piece = later;
            if encoder.is_full() {
                encoder.put_chunk_line(&mut wire);
                wire.append(&mut gathered);
            }
        }
    }
    if !encoder.is_empty() {
        encoder.put_chunk_line(&mut wire);
        wire.append(&mut gathered);
    }
    encoder.finish(trailer, &mut wire);
    assert_eq!(wire, AwsChunkedEncoder::new(payload, chain_for(payload)).encode(body, trailer));
    wire
}

fn crc_trailer(body: &[u8]) -> Vec<(String, String)> {
    let sum = checksum(Algorithm::Crc32C, body).base64();
    vec![(Algorithm::Crc32C.header_name().to_owned(), sum)]
}

proptest! {
    #[test]
    fn what_is_encoded_decodes_to_itself_however_it_is_cut(
        body in proptest::collection::vec(any::<u8>(), 0..300),
        repeat in 0..400usize,
        cuts in proptest::collection::vec(0..140_000usize, 0..8),
        push in 1..70_000usize,
    ) {
        let body = body.repeat(repeat);
        let mut cuts = cuts;
        cuts.sort_unstable();
        for payload in [SIGNED, SIGNED_TRAILER, UNSIGNED] {
            let trailer = if payload == SIGNED { Vec::new() } else { crc_trailer(&body) };
            let wire = encode(payload, &body, push, &trailer);
            let shape: Vec<_> = trailer.iter().map(|(name, value)| (name.as_str(), value.len())).collect();
            prop_assert_eq!(encoded_length(body.len() as u64, payload, &shape), wire.len() as u64);
            let mut decoder = decoder(payload, body.len() as u64, names(&trailer));
            prop_assert_eq!(&run(&mut decoder, &wire, &cuts).expect("encoded by us"), &body);
            prop_assert_eq!(decoder.trailer(), &trailer[..]);
        }
    }

    #[test]
    fn one_changed_byte_is_noticed(at in 0..600usize, change in 1..=255u8) {
        let body = [7u8; 300];
        for payload in [SIGNED, SIGNED_TRAILER] {
            let trailer = if payload == SIGNED { Vec::new() } else { crc_trailer(&body) };
            let mut wire = encode(payload, &body, 300, &trailer);
            let at = at % wire.len();
            wire[at] ^= change;
            let mut decoder = decoder(payload, 300, names(&trailer));
            // Of the framing, only the case of a hexadecimal digit or of a name, and a line end that may be
            // short, are free.
            if let Ok(found) = run(&mut decoder, &wire, &[]) {
                prop_assert_eq!(&found[..], &body[..]);
                prop_assert_eq!(decoder.trailer(), &trailer[..]);
            }
        }
    }
}

#[test]
fn an_empty_body_is_one_last_chunk() {
    for payload in [SIGNED, SIGNED_TRAILER, UNSIGNED] {
        let wire = encode(payload, b"", 1, &[]);
        assert_eq!(encoded_length(0, payload, &[]), wire.len() as u64);
        let mut decoder = decoder(payload, 0, Vec::new());
        assert_eq!(run(&mut decoder, &wire, &[]), Ok(Vec::new()));
    }
}

/// As botocore, and the other SDKs with default settings, send it.
#[test]
fn an_unsigned_body_with_a_trailing_checksum_is_accepted() {
    let wire = b"b\r\nhello world\r\n0\r\nx-amz-checksum-crc32:DUoRhQ==\r\n\r\n";
    let mut decoder = decoder(UNSIGNED, 11, vec!["x-amz-checksum-crc32".to_owned()]);
    assert_eq!(run(&mut decoder, wire, &[]).expect("well formed"), b"hello world");
    let field =
        ("x-amz-checksum-crc32".to_owned(), checksum(Algorithm::Crc32, b"hello world").base64());
    assert_eq!(decoder.trailer(), [field]);
}

/// minio-go ends trailer lines in a line feed and sends one empty line more.
#[test]
fn the_trailers_of_minio_go_are_accepted() {
    let unsigned = b"1\r\na\r\n0\r\nx-amz-checksum-crc32c:wdBDMA==\n\r\n\r\n";
    let field = vec!["x-amz-checksum-crc32c".to_owned()];
    assert_eq!(run(&mut decoder(UNSIGNED, 1, field.clone()), unsigned, &[]), Ok(b"a".to_vec()));

    let trailer = vec![("x-amz-checksum-crc32c".to_owned(), "wdBDMA==".to_owned())];
    let wire = String::from_utf8(encode(SIGNED_TRAILER, b"a", 1, &trailer)).expect("ASCII");
    let wire = wire.replace("wdBDMA==\r\n", "wdBDMA==\n\r\n");
    assert_eq!(
        run(&mut decoder(SIGNED_TRAILER, 1, field), wire.as_bytes(), &[]),
        Ok(b"a".to_vec())
    );
}

#[test]
fn malformed_unsigned_bodies_are_refused() {
    use AwsChunkedError as E;
    let long_line = format!("1;{}\r\n", "x".repeat(CHUNK_LINE_BYTES_MAX));
    let long_trailer = format!("5\r\nhello\r\n0\r\nx-a:{}\r\n", "x".repeat(TRAILER_BYTES_MAX));
    for (wire, expected, code) in [
        ("", E::Truncated, Code::IncompleteBody),
        ("5\r\nhello\r\n", E::Truncated, Code::IncompleteBody),
        ("5\r\nhello\r\n0\r\n", E::Truncated, Code::IncompleteBody),
        ("5\r\nhello\r\n0\r\nx-a:1\r\n", E::Truncated, Code::IncompleteBody),
        ("5\r\nhello\r\n0\r\n\r\n", E::BadTrailer, Code::MalformedTrailerError),
        ("5\r\nhello\r\n0\r\nx-b:1\r\n\r\n", E::BadTrailer, Code::MalformedTrailerError),
        ("5\r\nhello\r\n0\r\nx-a:1\r\nx-a:1\r\n\r\n", E::BadTrailer, Code::MalformedTrailerError),
        ("5\r\nhello\r\n0\r\nx-a\r\n\r\n", E::BadTrailer, Code::MalformedTrailerError),
        (
            "5\r\nhello\r\n0\r\nx-a:1\r\nx-amz-trailer-signature:00\r\n\r\n",
            E::BadTrailer,
            Code::MalformedTrailerError,
        ),
        (&long_trailer, E::TrailerTooLong, Code::MalformedTrailerError),
        ("5\r\nhello\r\n0\r\nx-a:1\r\n\r\nmore", E::TrailingBytes, Code::InvalidRequest),
        ("5\r\nhello\r\n0\r\nx-a:1\r\n\r\n\r\n\r\n", E::TrailingBytes, Code::InvalidRequest),
        ("6\r\nhello!\r\n", E::WrongLength, Code::IncompleteBody),
        ("4\r\nhell\r\n0\r\n", E::WrongLength, Code::IncompleteBody),
        ("5\r\nhello\r\n1\r\n", E::WrongLength, Code::IncompleteBody),
        ("5\r\nhelloo\r\n", E::BadChunkEnd, Code::InvalidRequest),
        ("5\r\nhello\r\r", E::BadChunkEnd, Code::InvalidRequest),
        ("\r\n", E::BadChunkLine, Code::InvalidRequest),
        ("5\n", E::BadChunkLine, Code::InvalidRequest),
        ("-5\r\n", E::BadChunkLine, Code::InvalidRequest),
        ("+5\r\n", E::BadChunkLine, Code::InvalidRequest),
        ("0x5\r\n", E::BadChunkLine, Code::InvalidRequest),
        ("5 \r\n", E::BadChunkLine, Code::InvalidRequest),
        ("\u{e9}\r\n", E::BadChunkLine, Code::InvalidRequest),
        ("ffffffffffffffff\r\n", E::ChunkTooLarge, Code::EntityTooLarge),
        ("140000001\r\n", E::ChunkTooLarge, Code::EntityTooLarge),
        ("10000000000000000\r\n", E::BadChunkLine, Code::InvalidRequest),
        (&long_line, E::LineTooLong, Code::InvalidRequest),
    ] {
        let found = run(&mut decoder(UNSIGNED, 5, vec!["x-a".to_owned()]), wire.as_bytes(), &[]);
        assert_eq!(found.expect_err("malformed"), expected, "{wire:?}");
        assert_eq!(S3Error::from(expected).code, code);
        let cuts: Vec<usize> = (0..wire.len()).collect();
        let in_bytes =
            run(&mut decoder(UNSIGNED, 5, vec!["x-a".to_owned()]), wire.as_bytes(), &cuts);
        assert_eq!(in_bytes.expect_err("malformed"), expected, "{wire:?} byte by byte");
    }
}

#[test]
fn unsigned_or_wrongly_signed_chunks_are_refused() {
    let zeros = "0".repeat(64);
    let whole = String::from_utf8(encode(SIGNED, b"hello", 5, &[])).expect("ASCII");
    let last_wrong = format!("{}0;chunk-signature={zeros}\r\n\r\n", &whole[..whole.len() - 86]);
    for (wire, expected) in [
        ("5\r\nhello\r\n".to_owned(), AwsChunkedError::NoChunkSignature),
        ("5;signature=0\r\nhello\r\n".to_owned(), AwsChunkedError::NoChunkSignature),
        ("5;chunk-signature=\r\nhello\r\n".to_owned(), AwsChunkedError::BadSignature),
        ("5;chunk-signature=xyz\r\nhello\r\n".to_owned(), AwsChunkedError::BadSignature),
        (format!("5;chunk-signature={zeros}\r\nhello\r\n"), AwsChunkedError::BadSignature),
        (last_wrong, AwsChunkedError::BadSignature),
    ] {
        let found = run(&mut decoder(SIGNED, 5, Vec::new()), wire.as_bytes(), &[]);
        assert_eq!(found.expect_err("malformed"), expected, "{wire:?}");
    }
}

#[test]
fn a_signed_trailer_must_be_signed_and_come_last() {
    let trailer = vec![("x-a".to_owned(), "1".to_owned())];
    let whole = String::from_utf8(encode(SIGNED_TRAILER, b"", 1, &trailer)).expect("ASCII");
    let (front, signature) = whole.split_once("x-amz-trailer-signature:").expect("it is signed");
    let after = format!("{front}x-amz-trailer-signature:{}x-b:1\r\n\r\n", &signature[..66]);
    for (wire, expected) in [
        (format!("{front}\r\n"), AwsChunkedError::Truncated),
        (whole.replace("x-a:1", "x-a:2"), AwsChunkedError::BadSignature),
        (format!("{front}x-amz-trailer-signature:1\r\n\r\n"), AwsChunkedError::BadSignature),
        (after, AwsChunkedError::BadTrailer),
    ] {
        let found = run(&mut decoder(SIGNED_TRAILER, 0, names(&trailer)), wire.as_bytes(), &[]);
        assert_eq!(found.expect_err("malformed"), expected, "{wire:?}");
    }
}

#[test]
fn the_decoded_length_is_required_and_one_number() {
    for (headers, expected, code) in [
        ("", AwsChunkedError::NoDecodedLength, Code::MissingContentLength),
        (
            "x-amz-decoded-content-length:\r\n",
            AwsChunkedError::BadDecodedLength,
            Code::InvalidArgument,
        ),
        (
            "x-amz-decoded-content-length: -1\r\n",
            AwsChunkedError::BadDecodedLength,
            Code::InvalidArgument,
        ),
        (
            "x-amz-decoded-content-length: 99999999999999999999\r\n",
            AwsChunkedError::BadDecodedLength,
            Code::InvalidArgument,
        ),
    ] {
        let text = format!("PUT /b/k HTTP/1.1\r\nHost: h\r\n{headers}\r\n");
        let Ok(Parsed::Whole(head, _)) = parse_head(text.as_bytes()) else { panic!("well formed") };
        let error = AwsChunkedDecoder::of(&head, UNSIGNED, None).expect_err(headers);
        assert_eq!(error, expected);
        assert_eq!(S3Error::from(error).code, code);
    }
    // The decoded length alone is enough: HTTP's own chunks may carry the body.
    let text = b"PUT /b/k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\
        x-amz-decoded-content-length: 5\r\nx-amz-trailer: X-A\r\n\r\n";
    let Ok(Parsed::Whole(head, _)) = parse_head(text) else { panic!("well formed") };
    let mut decoder = AwsChunkedDecoder::of(&head, UNSIGNED, None).expect("well formed");
    assert_eq!(decoder.decoded_length(), 5);
    assert_eq!(run(&mut decoder, b"5\r\nhello\r\n0\r\nX-A: 1\r\n\r\n", &[]), Ok(b"hello".to_vec()));
}

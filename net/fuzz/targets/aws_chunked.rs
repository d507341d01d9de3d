//! Any bytes as a chunked body, S3's kind and HTTP's: no panic, limits hold, and how the bytes are cut
//! changes nothing. Any bytes as content: what is encoded decodes to itself.
//! The first byte chooses the mode, the second the cut.

use nilas_base::UnixMillis;
use nilas_net::aws_chunked::{AwsChunkedDecoder, AwsChunkedEncoder, encoded_length};
use nilas_net::chunked::{ChunkedDecoder, Step};
use nilas_net::sigv4::{ChunkChain, PayloadHash, SigningIdentity, ToSign, sign};

const MODES: [PayloadHash; 3] = [
    PayloadHash::StreamingUnsignedTrailer,
    PayloadHash::StreamingSigned { trailer: false },
    PayloadHash::StreamingSigned { trailer: true },
];
const TRAILER: &str = "x-amz-checksum-crc32";

pub fn run(data: &[u8]) {
    let [mode, cut, wire @ ..] = data else { return };
    let payload = MODES[usize::from(*mode) % MODES.len()];
    let cut = usize::from(*cut) + 1;
    // As long as the bytes say, or as these bodies of the corpus are.
    for length in [0, 5, 11, wire.len() as u64] {
        let whole = decode(payload, length, wire, wire.len().max(1));
        assert_eq!(whole, decode(payload, length, wire, cut));
        assert_eq!(whole, decode(payload, length, wire, 1));
        assert!(whole.0.len() as u64 <= length);
    }
    assert_eq!(decode_http(wire, wire.len().max(1)), decode_http(wire, cut));
    round_trip(payload, wire, cut);
}

fn chain(payload: PayloadHash) -> Option<ChunkChain> {
    let identity =
        SigningIdentity { access_key: "a", secret: "s", session_token: None, region: "r" };
    let request =
        ToSign { method: "PUT", host: "h", path_raw: "/b/k", query_raw: "", headers: &[], payload };
    let signed = sign(&identity, &request, UnixMillis(0)).expect("well formed");
    matches!(payload, PayloadHash::StreamingSigned { .. }).then_some(signed.chain)
}

/// The body handed out, and how it ended.
fn decode(payload: PayloadHash, length: u64, wire: &[u8], cut: usize) -> (Vec<u8>, String) {
    let names = if payload == MODES[1] { Vec::new() } else { vec![TRAILER.to_owned()] };
    let mut decoder = AwsChunkedDecoder::new(payload, chain(payload).map(Box::new), length, names);
    let mut body = Vec::new();
    for mut input in wire.chunks(cut) {
        loop {
            match decoder.step(&mut input) {
                Ok(Step::Data(data)) => body.extend_from_slice(data),
                Ok(Step::NeedMore | Step::Done) => break,
                Err(error) => return (body, error.to_string()),
            }
        }
        assert!(input.is_empty() && decoder.verified_bytes() <= body.len() as u64);
    }
    if decoder.finish().is_ok() {
        assert_eq!((decoder.verified_bytes(), body.len() as u64), (length, length));
    }
    (body, format!("{:?} {:?}", decoder.finish(), decoder.trailer()))
}

fn decode_http(wire: &[u8], cut: usize) -> (Vec<u8>, String) {
    let mut decoder = ChunkedDecoder::new();
    let (mut body, mut used) = (Vec::new(), 0);
    for mut input in wire.chunks(cut) {
        let before = input.len();
        loop {
            match decoder.step(&mut input) {
                Ok(Step::Data(data)) => body.extend_from_slice(data),
                Ok(Step::NeedMore | Step::Done) => break,
                Err(error) => return (body, error.to_string()),
            }
        }
        used += before - input.len();
    }
    (body, format!("{} {used}", decoder.is_done()))
}

fn round_trip(payload: PayloadHash, content: &[u8], cut: usize) {
    let trailer = if payload == MODES[1] {
        Vec::new()
    } else {
        vec![(TRAILER.to_owned(), "AAAAAA==".to_owned())]
    };
    let wire = AwsChunkedEncoder::new(payload, chain(payload)).encode(content, &trailer);
    let shape: Vec<_> = trailer.iter().map(|(name, value)| (name.as_str(), value.len())).collect();
    assert_eq!(encoded_length(content.len() as u64, payload, &shape), wire.len() as u64);
    let (body, end) = decode(payload, content.len() as u64, &wire, cut);
    assert_eq!((body.as_slice(), end), (content, format!("Ok(()) {trailer:?}")));
}

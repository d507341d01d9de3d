//! The encoder: gathers data into chunks of one size, so that the encoded length is known beforehand,
//! and signs them when the origin wants signed chunks.

use sha2::{Digest, Sha256};

use super::{SIGNATURE_EXTENSION, TRAILER_SIGNATURE};
use crate::Sink;
use crate::sigv4::{ChunkChain, PayloadHash};
use crate::sink::put_hex;

/// Bytes of every chunk but the last: what one body holds in memory.
pub const ENCODER_CHUNK_BYTES: usize = 64 * 1024;
/// Hexadecimal digits of a SHA-256 signature.
const SIGNATURE_HEX_BYTES: u64 = 64;

/// The encoder of one body.
#[derive(Debug)]
pub struct AwsChunkedEncoder {
    chain: Option<ChunkChain>,
    has_trailer: bool,
    chunk: Vec<u8>,
}

/// The encoded length of a body of `decoded_length` bytes. `trailer` gives each field's name and the bytes of
/// its value.
pub fn encoded_length(decoded_length: u64, payload: PayloadHash, trailer: &[(&str, usize)]) -> u64 {
    let is_signed = matches!(payload, PayloadHash::StreamingSigned { .. });
    let extension =
        if is_signed { 1 + SIGNATURE_EXTENSION.len() as u64 + SIGNATURE_HEX_BYTES } else { 0 };
    let framed = |data: u64| hex_digits(data) + extension + 2 + data + 2;
    let (whole, rest) =
        (decoded_length / ENCODER_CHUNK_BYTES as u64, decoded_length % ENCODER_CHUNK_BYTES as u64);
    let chunks =
        whole * framed(ENCODER_CHUNK_BYTES as u64) + if rest > 0 { framed(rest) } else { 0 };
    let fields: u64 = trailer.iter().map(|(name, value)| (name.len() + 1 + value + 2) as u64).sum();
    let signature = if payload == (PayloadHash::StreamingSigned { trailer: true }) {
        TRAILER_SIGNATURE.len() as u64 + 1 + SIGNATURE_HEX_BYTES + 2
    } else {
        0
    };
    chunks + framed(0) + fields + signature
}

fn hex_digits(number: u64) -> u64 {
    u64::from(number.checked_ilog2().map_or(1, |log| log / 4 + 1))
}

impl AwsChunkedEncoder {
    /// For a streaming payload; signed chunks, and only they, need a chain.
    pub fn new(payload: PayloadHash, chain: Option<ChunkChain>) -> AwsChunkedEncoder {
        let is_signed = matches!(payload, PayloadHash::StreamingSigned { .. });
        assert!(payload.is_streaming(), "only streaming payloads are framed");
        assert_eq!(is_signed, chain.is_some(), "signed chunks, and only they, have a chain");
        AwsChunkedEncoder {
            chain,
            has_trailer: payload != PayloadHash::StreamingSigned { trailer: false },
            chunk: Vec::with_capacity(ENCODER_CHUNK_BYTES),
        }
    }

    /// Takes data; writes the chunks that it fills.
    pub fn push<S: Sink + ?Sized>(&mut self, data: &[u8], sink: &mut S) {
        let mut rest = data;
        while !rest.is_empty() {
            let (now, later) =
                rest.split_at(rest.len().min(ENCODER_CHUNK_BYTES - self.chunk.len()));
            self.chunk.extend_from_slice(now);
            rest = later;
            if self.chunk.len() == ENCODER_CHUNK_BYTES {
                self.put_chunk(sink);
            }
        }
    }

    /// Writes what is left, the last chunk and the trailer, which is empty for a payload without one.
    pub fn finish<S: Sink + ?Sized>(mut self, trailer: &[(String, String)], sink: &mut S) {
        assert!(self.has_trailer || trailer.is_empty(), "this payload has no trailer");
        if !self.chunk.is_empty() {
            self.put_chunk(sink);
        }
        self.put_chunk_line(sink);
        if self.has_trailer {
            self.put_trailer(trailer, sink);
        }
        sink.put(b"\r\n");
    }

    fn put_chunk<S: Sink + ?Sized>(&mut self, sink: &mut S) {
        self.put_chunk_line(sink);
        sink.put(&self.chunk);
        sink.put(b"\r\n");
        self.chunk.clear();
    }

    fn put_chunk_line<S: Sink + ?Sized>(&mut self, sink: &mut S) {
        put_hex(sink, self.chunk.len() as u64);
        if let Some(chain) = &mut self.chain {
            let signature = chain.sign_chunk(Sha256::digest(&self.chunk).into());
            sink.put(b";");
            sink.put(SIGNATURE_EXTENSION.as_bytes());
            put_signature(sink, signature);
        }
        sink.put(b"\r\n");
    }

    fn put_trailer<S: Sink + ?Sized>(&mut self, trailer: &[(String, String)], sink: &mut S) {
        let mut sha256 = Sha256::new();
        for (name, value) in trailer {
            for piece in [name.as_bytes(), b":", value.as_bytes()] {
                sha256.update(piece);
                sink.put(piece);
            }
            sha256.update(b"\n");
            sink.put(b"\r\n");
        }
        if let Some(chain) = &mut self.chain {
            sink.put(TRAILER_SIGNATURE.as_bytes());
            sink.put(b":");
            put_signature(sink, chain.sign_trailer(sha256.finalize().into()));
            sink.put(b"\r\n");
        }
    }
}

fn put_signature<S: Sink + ?Sized>(sink: &mut S, signature: [u8; 32]) {
    let mut text = [0; 64];
    hex::encode_to_slice(signature, &mut text).expect("two digits a byte");
    sink.put(&text);
}

//! The encoder: cuts data into chunks of one size, so that the encoded length is known beforehand, and signs
//! them when the origin wants signed chunks. The data itself stays where it is.

use sha2::{Digest, Sha256};

use super::{SIGNATURE_EXTENSION, TRAILER_SIGNATURE};
use crate::Sink;
use crate::sigv4::{ChunkChain, PayloadHash};
use crate::sink::put_hex;

/// Bytes of every chunk but the last: what is gathered of one body before its line can be written.
pub const ENCODER_CHUNK_BYTES: usize = 64 * 1024;
/// Hexadecimal digits of a SHA-256 signature.
const SIGNATURE_HEX_BYTES: u64 = 64;

/// The encoder of one body. It holds none of it: it is told of the data in order, and says what goes around it.
#[derive(Debug)]
pub struct AwsChunkedEncoder {
    chain: Option<ChunkChain>,
    has_trailer: bool,
    /// Of the chunk at hand, where chunks are signed.
    sha256: Sha256,
    chunk_bytes: usize,
    /// Whether a chunk's data stands before what is written next.
    follows_data: bool,
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
            sha256: Sha256::new(),
            chunk_bytes: 0,
            follows_data: false,
        }
    }

    /// Counts the front of `data` to the chunk at hand; gives its bytes, none where the chunk is full.
    pub fn take(&mut self, data: &[u8]) -> usize {
        let taken = data.len().min(ENCODER_CHUNK_BYTES - self.chunk_bytes);
        if self.chain.is_some() {
            self.sha256.update(&data[..taken]);
        }
        self.chunk_bytes += taken;
        taken
    }

    /// Whether the chunk at hand is to be written before more is taken.
    pub fn is_full(&self) -> bool {
        self.chunk_bytes == ENCODER_CHUNK_BYTES
    }

    /// Whether nothing was taken since the last chunk.
    pub fn is_empty(&self) -> bool {
        self.chunk_bytes == 0
    }

    /// Writes what goes before the data that was taken since the last chunk, which is to follow.
    pub fn put_chunk_line<S: Sink + ?Sized>(&mut self, sink: &mut S) {
        if std::mem::replace(&mut self.follows_data, self.chunk_bytes > 0) {
            sink.put(b"\r\n");
        }
        put_hex(sink, self.chunk_bytes as u64);
        if let Some(chain) = &mut self.chain {
            let signature = chain.sign_chunk(self.sha256.finalize_reset().into());
            sink.put(b";");
            sink.put(SIGNATURE_EXTENSION.as_bytes());
            put_signature(sink, signature);
        }
        sink.put(b"\r\n");
        self.chunk_bytes = 0;
    }

    /// Writes what goes behind the last chunk's data: the empty chunk and the trailer, which is empty for a payload
    /// without one.
    pub fn finish<S: Sink + ?Sized>(mut self, trailer: &[(String, String)], sink: &mut S) {
        assert!(self.has_trailer || trailer.is_empty(), "this payload has no trailer");
        assert!(self.is_empty(), "what was taken was written");
        self.put_chunk_line(sink);
        if self.has_trailer {
            self.put_trailer(trailer, sink);
        }
        sink.put(b"\r\n");
    }

    /// A whole body at once, copied.
    pub fn encode(mut self, data: &[u8], trailer: &[(String, String)]) -> Vec<u8> {
        let mut wire = Vec::with_capacity(data.len() + data.len() / ENCODER_CHUNK_BYTES * 128);
        let mut rest = data;
        while !rest.is_empty() {
            let (chunk, later) = rest.split_at(self.take(rest));
            self.put_chunk_line(&mut wire);
            wire.extend_from_slice(chunk);
            rest = later;
        }
        self.finish(trailer, &mut wire);
        wire
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

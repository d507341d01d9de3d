//! The chain of chunk signatures: each covers its chunk and the signature before it, from the request's
//! own to the trailer's (AWS, "Signature calculations: transferring payload in multiple chunks").

use super::EMPTY_SHA256_HEX;
use super::key::{SigningKey, hex32};

/// The next link to sign or verify. Holds a derived key, never the secret.
#[derive(Clone, Debug)]
pub struct ChunkChain {
    key: SigningKey,
    amz_date: [u8; 16],
    scope: Box<str>,
    previous: [u8; 64],
}

impl ChunkChain {
    pub(super) fn new(
        key: SigningKey,
        amz_date: [u8; 16],
        scope: &str,
        seed: [u8; 32],
    ) -> ChunkChain {
        ChunkChain { key, amz_date, scope: scope.into(), previous: hex32(&seed) }
    }

    /// The signature of the next chunk, whose data has this digest.
    pub fn sign_chunk(&mut self, data_sha256: [u8; 32]) -> [u8; 32] {
        let signed: [&[u8]; 3] = [EMPTY_SHA256_HEX.as_bytes(), b"\n", &hex32(&data_sha256)];
        self.sign_link(b"AWS4-HMAC-SHA256-PAYLOAD", signed)
    }

    /// The signature of the trailer: `trailer_sha256` is of its lines, `name:value` and a line feed each.
    pub fn sign_trailer(&mut self, trailer_sha256: [u8; 32]) -> [u8; 32] {
        self.sign_link(b"AWS4-HMAC-SHA256-TRAILER", [&hex32(&trailer_sha256), b"", b""])
    }

    fn sign_link(&mut self, algorithm: &[u8], signed: [&[u8]; 3]) -> [u8; 32] {
        let [first, second, third] = signed;
        let signature = self.key.sign(&[
            algorithm,
            b"\n",
            &self.amz_date,
            b"\n",
            self.scope.as_bytes(),
            b"\n",
            &self.previous,
            b"\n",
            first,
            second,
            third,
        ]);
        self.previous = hex32(&signature);
        signature
    }
}

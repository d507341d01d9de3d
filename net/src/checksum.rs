//! Checksums of bodies: S3's algorithms as streams, and the set of checks that one request asks for.
//! `checksum/body` gathers them from headers and trailer and says at the end whether all hold.

mod body;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use crc_fast::CrcAlgorithm;
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

pub use body::BodyChecks;

/// A checksum algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// CRC-32 (ISO-HDLC).
    Crc32,
    /// CRC-32C (Castagnoli).
    Crc32C,
    /// CRC-64/NVME.
    Crc64Nvme,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// MD5, of `Content-MD5` and ETags.
    Md5,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Algorithm; 6] = [
        Algorithm::Crc32,
        Algorithm::Crc32C,
        Algorithm::Crc64Nvme,
        Algorithm::Sha1,
        Algorithm::Sha256,
        Algorithm::Md5,
    ];

    /// The header that carries its base64.
    pub fn header_name(self) -> &'static str {
        match self {
            Algorithm::Crc32 => "x-amz-checksum-crc32",
            Algorithm::Crc32C => "x-amz-checksum-crc32c",
            Algorithm::Crc64Nvme => "x-amz-checksum-crc64nvme",
            Algorithm::Sha1 => "x-amz-checksum-sha1",
            Algorithm::Sha256 => "x-amz-checksum-sha256",
            Algorithm::Md5 => "content-md5",
        }
    }

    /// The algorithm of this header, compared without case.
    pub fn of_header(name: &str) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|known| known.header_name().eq_ignore_ascii_case(name))
    }

    /// S3's name for it in messages and in `x-amz-checksum-algorithm`.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Crc32 => "CRC32",
            Algorithm::Crc32C => "CRC32C",
            Algorithm::Crc64Nvme => "CRC64NVME",
            Algorithm::Sha1 => "SHA1",
            Algorithm::Sha256 => "SHA256",
            Algorithm::Md5 => "Content-MD5",
        }
    }

    /// Bytes of its digest.
    pub fn digest_bytes(self) -> usize {
        match self {
            Algorithm::Crc32 | Algorithm::Crc32C => 4,
            Algorithm::Crc64Nvme => 8,
            Algorithm::Md5 => 16,
            Algorithm::Sha1 => 20,
            Algorithm::Sha256 => 32,
        }
    }

    /// Characters of its digest in base64.
    pub fn base64_bytes(self) -> usize {
        self.digest_bytes().div_ceil(3) * 4
    }
}

/// A digest of any algorithm.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Checksum {
    algorithm: Algorithm,
    bytes: [u8; 32],
}

impl Checksum {
    fn new(algorithm: Algorithm, digest: &[u8]) -> Checksum {
        let mut bytes = [0; 32];
        bytes[..algorithm.digest_bytes()].copy_from_slice(digest);
        Checksum { algorithm, bytes }
    }

    /// Parses a header's value; `None` when it is no base64 of the right length.
    pub fn parse(algorithm: Algorithm, base64: &[u8]) -> Option<Checksum> {
        let digest = BASE64.decode(base64.trim_ascii()).ok()?;
        (digest.len() == algorithm.digest_bytes()).then(|| Checksum::new(algorithm, &digest))
    }

    /// Its algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The digest, as long as the algorithm's is.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.algorithm.digest_bytes()]
    }

    /// A header's value.
    pub fn base64(&self) -> String {
        BASE64.encode(self.bytes())
    }

    /// Lower-case hexadecimal, as in ETags.
    pub fn hex(&self) -> String {
        hex::encode(self.bytes())
    }
}

impl std::fmt::Debug for Checksum {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {}", self.algorithm.name(), self.base64())
    }
}

/// A checksum being computed.
#[derive(Clone, Debug)]
pub struct Hasher {
    algorithm: Algorithm,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Crc(crc_fast::Digest),
    Sha1(Sha1),
    Sha256(Sha256),
    Md5(Md5),
}

impl Hasher {
    /// Before the first byte.
    pub fn new(algorithm: Algorithm) -> Hasher {
        let state = match algorithm {
            Algorithm::Crc32 => State::Crc(crc_fast::Digest::new(CrcAlgorithm::Crc32IsoHdlc)),
            Algorithm::Crc32C => State::Crc(crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi)),
            Algorithm::Crc64Nvme => State::Crc(crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme)),
            Algorithm::Sha1 => State::Sha1(Sha1::new()),
            Algorithm::Sha256 => State::Sha256(Sha256::new()),
            Algorithm::Md5 => State::Md5(Md5::new()),
        };
        Hasher { algorithm, state }
    }

    /// Its algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The next bytes.
    pub fn update(&mut self, data: &[u8]) {
        match &mut self.state {
            State::Crc(crc) => crc.update(data),
            State::Sha1(sha) => sha.update(data),
            State::Sha256(sha) => sha.update(data),
            State::Md5(md5) => md5.update(data),
        }
    }

    /// The checksum of all bytes.
    pub fn finish(self) -> Checksum {
        match self.state {
            State::Crc(crc) => {
                let sum = crc.finalize().to_be_bytes();
                Checksum::new(self.algorithm, &sum[8 - self.algorithm.digest_bytes()..])
            }
            State::Sha1(sha) => Checksum::new(self.algorithm, &sha.finalize()),
            State::Sha256(sha) => Checksum::new(self.algorithm, &sha.finalize()),
            State::Md5(md5) => Checksum::new(self.algorithm, &md5.finalize()),
        }
    }
}

/// The checksum of bytes at hand.
pub fn checksum(algorithm: Algorithm, data: &[u8]) -> Checksum {
    let mut hasher = Hasher::new(algorithm);
    hasher.update(data);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The check values of the algorithms' own specifications, of "123456789".
    #[test]
    fn known_digests_come_out() {
        for (algorithm, expected) in [
            (Algorithm::Crc32, "cbf43926"),
            (Algorithm::Crc32C, "e3069283"),
            (Algorithm::Crc64Nvme, "ae8b14860a799888"),
            (Algorithm::Md5, "25f9e794323b453885f5181f1b624d0b"),
            (Algorithm::Sha1, "f7c3bc1d808e04732adf679965ccc34ca7ae3441"),
            (Algorithm::Sha256, "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"),
        ] {
            let found = checksum(algorithm, b"123456789");
            assert_eq!(found.hex(), expected);
            assert_eq!(found.base64().len(), algorithm.base64_bytes());
            assert_eq!(Checksum::parse(algorithm, found.base64().as_bytes()), Some(found));
            assert_eq!(
                Algorithm::of_header(&algorithm.header_name().to_uppercase()),
                Some(algorithm)
            );
        }
    }

    #[test]
    fn a_digest_of_the_wrong_length_or_alphabet_is_none() {
        for text in ["", "AAAA", "AAAAAAAA", "AAAAA", "????????", "AAAAAA", "AAAAAA="] {
            assert_eq!(Checksum::parse(Algorithm::Crc32, text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_stream_has_the_checksum_of_the_whole(data in any::<Vec<u8>>(), cut in 0..200usize) {
            let cut = cut.min(data.len());
            for algorithm in Algorithm::ALL {
                let mut hasher = Hasher::new(algorithm);
                hasher.update(&data[..cut]);
                hasher.update(&data[cut..]);
                prop_assert_eq!(hasher.finish(), checksum(algorithm, &data));
            }
        }
    }
}

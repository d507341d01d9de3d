//! From bucket and key to the 128 bits that the index knows a file by. No path is kept;
//! why a hash suffices is said at [`PathHash`].

use xxhash_rust::xxh3::xxh3_128_with_secret;

/// Random bytes that a [`PathHash`] is made of: XXH3's secret for keys, and another for buckets.
pub const SECRET_BYTES: usize = 2 * PART_BYTES;
const PART_BYTES: usize = 192;

/// The hash of one process.
///
/// A hash suffices. Two of a million files meet with a chance of 10¹² / 2¹²⁹, about 10⁻²⁷; a million lookups a
/// second for thirty years meet a file that is not theirs with one of about 10⁻¹⁸. XXH3 keeps no secrets from
/// somebody who sees its values, but none ever leave the process, and its secret is random in each: a stranger
/// who chooses names cannot choose collisions. What a collision would cost is an object that may change and is
/// not asked about again, and heat told of the wrong column.
pub struct PathHash {
    key_secret: [u8; PART_BYTES],
    bucket_secret: [u8; PART_BYTES],
}

/// What a file is known by; its path cannot be had back from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FileId(pub(super) u128);

impl PathHash {
    /// The hash of `secret`, which must be random and is to be told to nobody.
    pub fn new(secret: &[u8; SECRET_BYTES]) -> PathHash {
        let mut hash = PathHash { key_secret: [0; PART_BYTES], bucket_secret: [0; PART_BYTES] };
        hash.key_secret.copy_from_slice(&secret[..PART_BYTES]);
        hash.bucket_secret.copy_from_slice(&secret[PART_BYTES..]);
        hash
    }

    /// Two hashes of independent secrets, so that no byte need be copied to stand beside another and
    /// `a` + `bc` is not `ab` + `c`.
    pub(super) fn file_id(&self, bucket: &[u8], key: &[u8]) -> FileId {
        FileId(
            xxh3_128_with_secret(key, &self.key_secret)
                ^ xxh3_128_with_secret(bucket, &self.bucket_secret),
        )
    }
}

impl std::fmt::Debug for PathHash {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("PathHash")
    }
}

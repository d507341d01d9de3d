//! Who an object is and where it lives: its name, the hash that chooses its home shard, the version
//! under which its blocks are found, and the shard that owns each block.
//! A block index never travels without a version: old bytes cannot be found under a new one.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use nilas_base::{ByteRange, ShardId};
use nilas_shards::store::BlockId;
use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::mutation::Mutation;
use crate::purge::Era;

/// The first 16 bytes of a SHA-256.
pub type Digest16 = [u8; 16];

/// A bucket and a key, decoded once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectName {
    /// The bucket.
    pub bucket: Box<str>,
    /// The key.
    pub key: Box<str>,
}

/// An [`ObjectName`] that is borrowed, to look one up without making one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NameRef<'a> {
    /// The bucket.
    pub bucket: &'a str,
    /// The key.
    pub key: &'a str,
}

impl NameRef<'_> {
    /// The name as a value of its own.
    pub fn to_name(self) -> Arc<ObjectName> {
        Arc::new(ObjectName { bucket: self.bucket.into(), key: self.key.into() })
    }
}

impl ObjectName {
    /// Borrowed.
    pub fn as_ref(&self) -> NameRef<'_> {
        NameRef { bucket: &self.bucket, key: &self.key }
    }
}

impl Hash for ObjectName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_ref().hash(state);
    }
}

impl hashbrown::Equivalent<Arc<ObjectName>> for NameRef<'_> {
    fn equivalent(&self, key: &Arc<ObjectName>) -> bool {
        *self == key.as_ref().as_ref()
    }
}

/// The hash of `(origin, bucket, key)`, which chooses the home. Stable: XXH3, 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HomeHash(pub u64);

/// How objects are cut and spread: the same on every shard of a node.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    /// Identifies the origin; see `Origin::id`.
    pub origin_id: Digest16,
    /// Bytes of a block, a power of two.
    pub block_bytes: u64,
    /// Shards of the node.
    pub shards: u16,
}

impl Geometry {
    /// The hash of a name.
    pub fn home_hash(&self, name: NameRef<'_>) -> HomeHash {
        let (seed, _) = self.origin_id.split_at(8);
        let seed = u64::from_le_bytes(seed.try_into().expect("eight bytes were split off"));
        HomeHash(xxh3_64_with_seed(
            name.key.as_bytes(),
            xxh3_64_with_seed(name.bucket.as_bytes(), seed),
        ))
    }

    /// The shard that holds a name's mapping, and its first block.
    pub fn home(&self, hash: HomeHash) -> ShardId {
        ShardId((hash.0 % u64::from(self.shards)) as u16)
    }

    /// The shard that owns a block of it. Neighbours lie on different shards, so that one large
    /// read uses them all.
    pub fn owner(&self, hash: HomeHash, index: u32) -> ShardId {
        ShardId((hash.0.wrapping_add(u64::from(index)) % u64::from(self.shards)) as u16)
    }

    /// The version of an object as its blocks know it: a digest of the full identity, geometry included.
    /// What was purged in between is another version, so that none of its bytes is found again.
    pub fn version(&self, name: NameRef<'_>, etag: &str, length_bytes: u64, era: Era) -> Digest16 {
        let mut version = Digest16::default();
        let identity = self.full_identity(name, etag, length_bytes, era);
        version.copy_from_slice(&Sha256::digest(identity)[..16]);
        version
    }

    /// What the version is a digest of, and what stands beside the bytes wherever more than a digest is to be sure.
    pub fn full_identity(
        &self,
        name: NameRef<'_>,
        etag: &str,
        length_bytes: u64,
        era: Era,
    ) -> Vec<u8> {
        let texts = [name.bucket, name.key, etag];
        let texts_bytes: usize = texts.iter().map(|text| size_of::<u64>() + text.len()).sum();
        let mut identity =
            Vec::with_capacity(self.origin_id.len() + texts_bytes + 3 * size_of::<u64>());
        identity.extend_from_slice(&self.origin_id);
        for text in texts {
            identity.extend_from_slice(&(text.len() as u64).to_le_bytes());
            identity.extend_from_slice(text.as_bytes());
        }
        identity.extend_from_slice(&length_bytes.to_le_bytes());
        identity.extend_from_slice(&self.block_bytes.to_le_bytes());
        if !Mutation::PurgeMissesFills.is_planted() {
            identity.extend_from_slice(&era.0.to_le_bytes());
        }
        identity
    }

    /// The block that holds a byte of an object.
    pub fn block_index(&self, offset_bytes: u64) -> u32 {
        u32::try_from(offset_bytes / self.block_bytes).expect("an object has under 2^32 blocks")
    }

    /// The bytes of an object of this length that lie in a block.
    pub fn block_range(&self, index: u32, length_bytes: u64) -> ByteRange {
        let start = u64::from(index) * self.block_bytes;
        ByteRange::new(start, (start + self.block_bytes).min(length_bytes).max(start))
    }

    /// The first block of a slice of an object of this length, and what of it is wanted, as bytes of the block; `None`
    /// of an empty slice.
    pub fn first_block(&self, slice: ByteRange, length_bytes: u64) -> Option<(u32, ByteRange)> {
        if slice.is_empty() {
            return None;
        }
        let index = self.block_index(slice.start);
        let block = self.block_range(index, length_bytes);
        let wanted = block.intersection(slice)?;
        Some((index, ByteRange::new(wanted.start - block.start, wanted.end - block.start)))
    }
}

/// The block `index` of a version.
pub fn block_id(version: Digest16, index: u32) -> BlockId {
    BlockId { version, index }
}

//! The ground: identifiers, ranges, sizes, the one clock and the one source of randomness.
//! Nothing here does I/O or knows a cache; every other floor stands on it.

mod clock;
mod range;
mod rng;

pub use clock::{Clock, Monotonic, UnixMillis};
pub use range::ByteRange;
pub use rng::Rng;

/// A hash map with a fast, fixed hasher: the same order of iteration for the same insertions.
pub type HashMap<K, V> = hashbrown::HashMap<K, V, foldhash::fast::FixedState>;
/// A hash set with the hasher of [`HashMap`].
pub type HashSet<K> = hashbrown::HashSet<K, foldhash::fast::FixedState>;

/// 1024 bytes.
pub const KIB: u64 = 1 << 10;
/// 1024 KiB.
pub const MIB: u64 = 1 << 20;
/// 1024 MiB.
pub const GIB: u64 = 1 << 30;

/// A shard's number: 0 up to the number of shards, not included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardId(pub u16);

impl ShardId {
    /// The number as an index into per-shard tables.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

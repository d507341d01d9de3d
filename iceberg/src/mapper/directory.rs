//! Where to begin in a sorted array of hashes: their first bits are an index. Hashes are spread evenly, so
//! a bucket has two to four, and a lookup touches two places in memory: the index and the bucket.

use super::path_hash::FileId;

/// Hashes that share an index, on average at most.
const BUCKET_HASHES: usize = 4;
/// More than any array has: four thousand million entries are not addressed by 32 bits.
const BITS_MAX: u32 = 30;

pub(super) struct Directory {
    shift: u32,
    /// Where each bucket begins, and where the last ends.
    starts: Box<[u32]>,
}

impl Directory {
    /// The index of `ids`, which ascend.
    pub(super) fn new(ids: impl ExactSizeIterator<Item = FileId>) -> Directory {
        assert!(u32::try_from(ids.len()).is_ok(), "entries are numbered by 32 bits");
        let buckets = (ids.len() / BUCKET_HASHES).max(1).next_power_of_two();
        let bits = buckets.ilog2().min(BITS_MAX);
        let mut starts = vec![0_u32; (1 << bits) + 1].into_boxed_slice();
        let directory = Directory { shift: 128 - bits, starts: Box::default() };
        for id in ids {
            starts[directory.bucket_of(id) + 1] += 1;
        }
        for bucket in 1..starts.len() {
            starts[bucket] += starts[bucket - 1];
        }
        Directory { starts, ..directory }
    }

    /// The positions among which `id` is, if anywhere.
    pub(super) fn bucket(&self, id: FileId) -> std::ops::Range<usize> {
        let bucket = self.bucket_of(id);
        self.starts[bucket] as usize..self.starts[bucket + 1] as usize
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val::<[u32]>(&self.starts)
    }

    /// No bits at all is one bucket, and a shift by all 128 is not defined.
    fn bucket_of(&self, id: FileId) -> usize {
        id.0.checked_shr(self.shift).unwrap_or(0) as usize
    }
}

//! Half-open ranges of bytes: of an object, of a block, of a buffer.

/// Bytes `start..end`; `start <= end` always holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ByteRange {
    /// The first byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

impl ByteRange {
    /// `start..end`. Panics when `end < start`: a caller's bug, never the world's.
    pub fn new(start: u64, end: u64) -> ByteRange {
        assert!(start <= end, "a range ends at or after its start: {start}..{end}");
        ByteRange { start, end }
    }

    /// Length in bytes.
    pub fn len(self) -> u64 {
        self.end - self.start
    }

    /// Whether it holds no byte.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// The bytes in both, if any.
    pub fn intersection(self, other: ByteRange) -> Option<ByteRange> {
        let start = self.start.max(other.start);
        let end = self.end.min(other.end);
        (start < end).then(|| ByteRange::new(start, end))
    }

    /// Whether every byte of `other` is in `self`.
    pub fn contains(self, other: ByteRange) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// The smallest range of whole `unit`s that contains it; `unit` is in bytes and not zero.
    pub fn rounded_out(self, unit: u64) -> ByteRange {
        ByteRange::new(self.start / unit * unit, self.end.div_ceil(unit) * unit)
    }
}

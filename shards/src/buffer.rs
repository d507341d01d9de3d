//! Buffers that move into an operation and come back with its completion. While the kernel holds
//! one, nothing else can reach it. For what is sent see `parts`; for received heads see `received`.

use bytes::Bytes;

use crate::sys::memory::SlotRoom;

/// Owned bytes: a filled front, and room that the next operation fills.
#[derive(Debug)]
pub struct Buffer {
    memory: Memory,
    /// Bytes before the first aligned one; never used.
    skipped: usize,
    filled: usize,
    limit: usize,
}

/// Whose bytes they are.
#[derive(Debug)]
enum Memory {
    Own(Vec<u8>),
    /// Of an arena.
    Slot(SlotRoom),
}

impl Memory {
    fn bytes(&self) -> &[u8] {
        match self {
            Memory::Own(bytes) => bytes,
            Memory::Slot(room) => room.bytes(),
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Memory::Own(bytes) => bytes,
            Memory::Slot(room) => room.bytes_mut(),
        }
    }
}

impl Buffer {
    /// An empty buffer of `capacity_bytes`, zeroed by the kernel where it is large.
    pub fn with_capacity(capacity_bytes: usize) -> Buffer {
        let memory = Memory::Own(vec![0; capacity_bytes]);
        Buffer { memory, skipped: 0, filled: 0, limit: capacity_bytes }
    }

    /// A buffer whose first byte lies at a multiple of `alignment_bytes`, a power of two: what
    /// `O_DIRECT` asks for.
    pub fn aligned(capacity_bytes: usize, alignment_bytes: usize) -> Buffer {
        assert!(alignment_bytes.is_power_of_two(), "an alignment is a power of two");
        let bytes = vec![0; capacity_bytes + alignment_bytes - 1];
        let skipped = bytes.as_ptr().addr().wrapping_neg() & (alignment_bytes - 1);
        Buffer { memory: Memory::Own(bytes), skipped, filled: 0, limit: capacity_bytes }
    }

    /// An empty buffer of the first `capacity_bytes` of an arena's slot.
    pub(crate) fn of_slot(room: SlotRoom, capacity_bytes: usize) -> Buffer {
        assert!(capacity_bytes <= room.bytes().len(), "a slot has no more room than its size");
        Buffer { memory: Memory::Slot(room), skipped: 0, filled: 0, limit: capacity_bytes }
    }

    /// The slot's room, of a buffer that was made of one.
    pub(crate) fn into_room(self) -> Option<SlotRoom> {
        match self.memory {
            Memory::Own(_) => None,
            Memory::Slot(room) => Some(room),
        }
    }

    /// A full buffer that holds these bytes.
    pub fn from_vec(bytes: Vec<u8>) -> Buffer {
        let filled = bytes.len();
        Buffer { memory: Memory::Own(bytes), skipped: 0, filled, limit: filled }
    }

    /// Lets operations fill it up to `limit_bytes` in all, and no further: a body's receive must not
    /// take the next request's bytes. At most what it was made with.
    pub fn set_limit(&mut self, limit_bytes: usize) {
        assert!(
            self.skipped + limit_bytes <= self.memory.bytes().len(),
            "a limit is within the capacity"
        );
        assert!(self.filled <= limit_bytes, "a limit is not below what is filled");
        self.limit = limit_bytes;
    }

    /// Filled bytes.
    pub fn filled(&self) -> &[u8] {
        &self.memory.bytes()[self.skipped..self.skipped + self.filled]
    }

    /// How many bytes are filled.
    pub fn len(&self) -> usize {
        self.filled
    }

    /// Whether no byte is filled.
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// How many bytes may still be filled.
    pub fn room(&self) -> usize {
        self.limit - self.filled
    }

    /// Room for more bytes; `advance` tells how many were written.
    pub fn unfilled_mut(&mut self) -> &mut [u8] {
        let (start, end) = (self.skipped + self.filled, self.skipped + self.limit);
        &mut self.memory.bytes_mut()[start..end]
    }

    /// Counts `count` more bytes as filled.
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.room(), "no more is filled than there was room for");
        self.filled += count;
    }

    /// Appends a copy of `bytes`, for which there must be room.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.unfilled_mut()[..bytes.len()].copy_from_slice(bytes);
        self.advance(bytes.len());
    }

    /// Forgets what is filled, keeps the memory and the limit.
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    /// The filled bytes, shared without a copy where they are not an arena's.
    pub fn into_bytes(self) -> Bytes {
        match self.memory {
            Memory::Own(mut bytes) => {
                bytes.truncate(self.skipped + self.filled);
                Bytes::from(bytes).slice(self.skipped..)
            }
            Memory::Slot(room) => Bytes::copy_from_slice(&room.bytes()[..self.filled]),
        }
    }
}

/// Counts `count` more bytes as filled, of buffers that were filled one behind the other.
pub(crate) fn advance_all(buffers: &mut [Buffer], mut count: usize) {
    for buffer in buffers {
        let here = count.min(buffer.room());
        buffer.advance(here);
        count -= here;
    }
    assert_eq!(count, 0, "no more is filled than there was room for");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aligned_buffer_begins_at_a_multiple() {
        for alignment in [1_usize, 512, 4096] {
            let mut buffer = Buffer::aligned(8192, alignment);
            assert_eq!(buffer.unfilled_mut().as_ptr().addr() % alignment, 0);
            assert_eq!(buffer.room(), 8192);
            buffer.extend_from_slice(b"abc");
            assert_eq!(&buffer.into_bytes()[..], b"abc");
        }
    }

    #[test]
    fn a_limit_bounds_the_room() {
        let mut buffer = Buffer::with_capacity(100);
        buffer.extend_from_slice(b"abc");
        buffer.set_limit(5);
        assert_eq!(buffer.unfilled_mut().len(), 2);
        buffer.advance(2);
        assert_eq!(buffer.room(), 0);
        buffer.clear();
        assert_eq!((buffer.len(), buffer.room()), (0, 5));
    }
}

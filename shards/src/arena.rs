//! The arena: the memory whose bytes are leased out.

/// Read-only bytes of one slot.
#[derive(Debug)]
pub enum Lease {}

impl std::ops::Deref for Lease {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match *self {}
    }
}

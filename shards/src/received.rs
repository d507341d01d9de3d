//! Bytes received into the ring's own buffers: read in place, given back when dropped.
//! Nothing is copied out of them unless the reader does so.

use crate::sys::provided::HeldBuffer;
use std::ops::Deref;

/// Bytes of one receive; none when the peer has closed its side.
#[derive(Debug)]
pub struct Received(Option<HeldBuffer>);

impl Received {
    pub(crate) fn new(buffer: HeldBuffer) -> Received {
        Received(Some(buffer))
    }

    pub(crate) fn end() -> Received {
        Received(None)
    }
}

impl Deref for Received {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], HeldBuffer::bytes)
    }
}

//! Bytes received into the ring's own buffers: read in place, given back when dropped. When most
//! buffers are in use the bytes are copied out, so that slow readers cannot take the last ones.

use crate::sys::provided::HeldBuffer;
use std::ops::Deref;

/// Bytes of one receive; none when the peer has closed its side.
#[derive(Debug)]
pub struct Received(Kind);

#[derive(Debug)]
enum Kind {
    End,
    Held(HeldBuffer),
    Copied(Box<[u8]>),
}

impl Received {
    pub(crate) fn new(buffer: HeldBuffer) -> Received {
        Received(Kind::Held(buffer))
    }

    pub(crate) fn end() -> Received {
        Received(Kind::End)
    }

    /// The same bytes, with the buffer given back.
    pub(crate) fn detach(self) -> Received {
        match self.0 {
            Kind::Held(buffer) => Received(Kind::Copied(buffer.bytes().into())),
            kind => Received(kind),
        }
    }
}

impl Deref for Received {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Kind::End => &[],
            Kind::Held(buffer) => buffer.bytes(),
            Kind::Copied(bytes) => bytes,
        }
    }
}

//! The message of one vectored send, the rooms of one vectored read: pointers to memory that its owner keeps in place.
//! Building it is safe; giving it to the kernel is done in this room only, by who keeps the owner.

use std::ptr;

use crate::buffer::Buffer;

/// The rooms of buffers that one read fills.
#[derive(Default)]
pub(crate) struct Rooms(Vec<libc::iovec>);

impl Rooms {
    pub(crate) fn of(buffers: &mut [Buffer]) -> Rooms {
        let room = |buffer: &mut Buffer| {
            let room = buffer.unfilled_mut();
            libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() }
        };
        Rooms(buffers.iter_mut().map(room).collect())
    }

    /// The vector, valid while this value lives and the memory that it points at stays where it is.
    pub(crate) fn vector(&self) -> (*const libc::iovec, u32) {
        (self.0.as_ptr(), self.0.len() as u32)
    }
}

/// A message header and its vector of at most `N` slices.
pub(crate) struct Message<const N: usize> {
    header: libc::msghdr,
    slices: [libc::iovec; N],
}

impl<const N: usize> Message<N> {
    /// A message without bytes.
    pub(crate) fn empty() -> Message<N> {
        let nothing = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        Message {
            // SAFETY: all fields of a message header may be zero: no name, no control, no slices.
            header: unsafe { std::mem::zeroed() },
            slices: [nothing; N],
        }
    }

    /// Points at `bytes` but for the first `skipped_bytes` of them; empty slices are left out.
    pub(crate) fn fill<'a>(
        &mut self,
        bytes: impl Iterator<Item = &'a [u8]>,
        mut skipped_bytes: usize,
    ) {
        let mut count = 0;
        for slice in bytes {
            let skipped = skipped_bytes.min(slice.len());
            skipped_bytes -= skipped;
            let rest = &slice[skipped..];
            if !rest.is_empty() {
                let iov_base = rest.as_ptr().cast_mut().cast();
                self.slices[count] = libc::iovec { iov_base, iov_len: rest.len() };
                count += 1;
            }
        }
        self.header.msg_iov = self.slices.as_mut_ptr();
        self.header.msg_iovlen = count as _;
    }

    /// The header, valid while neither this value nor the bytes it points at move.
    pub(crate) fn header(&self) -> *const libc::msghdr {
        &raw const self.header
    }
}

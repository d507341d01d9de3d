//! What one vectored send carries: a response head and slices of leased memory, owned until the
//! kernel has done with them. Both kinds of memory come from pools: a warm answer allocates nothing.

use crate::sys::memory::Lease;
use crate::sys::message::Message;
use arrayvec::ArrayVec;
use bytes::Bytes;
use std::cell::RefCell;
use std::fmt;
use std::io;
use std::rc::Rc;

/// Parts in one send: a head, the sixteen leases of one slice, and some framing around them.
pub const PARTS_MAX: usize = 20;
/// Bytes of one head buffer. An S3 response head with 2 KiB of user metadata, twice escaped, fits.
pub const HEAD_BUFFER_BYTES: usize = 16 << 10;
/// Boxes of parts that a reactor keeps for the next answer; more are freed. A megabyte or two.
const POOLED_PARTS_MAX: usize = 1024;
/// The same of head buffers: two megabytes. A head is in use from its writing to its send's end, so
/// more than this at once are sends that wait for their clients.
const POOLED_HEADS_MAX: usize = 128;

/// Owned pieces of one send, in order.
pub struct Parts {
    body: Option<Box<PartsBody>>,
    pools: Rc<Pools>,
}

pub(crate) struct PartsBody {
    parts: ArrayVec<Part, PARTS_MAX>,
    message: Message<PARTS_MAX>,
}

enum Part {
    Head(HeadBuffer),
    Lease(Lease),
    Bytes(Bytes),
    Static(&'static [u8]),
}

impl Part {
    fn bytes(&self) -> &[u8] {
        match self {
            Part::Head(head) => head.filled(),
            Part::Lease(lease) => lease,
            Part::Bytes(bytes) => bytes,
            Part::Static(bytes) => bytes,
        }
    }
}

impl Parts {
    /// Appends a head.
    pub fn push_head(&mut self, head: HeadBuffer) {
        self.push(Part::Head(head));
    }

    /// Appends leased memory; it is returned to its owner when the send has ended.
    pub fn push_lease(&mut self, lease: Lease) {
        self.push(Part::Lease(lease));
    }

    /// Appends shared bytes.
    pub fn push_bytes(&mut self, bytes: Bytes) {
        self.push(Part::Bytes(bytes));
    }

    /// Appends bytes of the program itself.
    pub fn push_static(&mut self, bytes: &'static [u8]) {
        self.push(Part::Static(bytes));
    }

    /// How many more parts fit.
    pub fn room(&self) -> usize {
        PARTS_MAX - self.body().parts.len()
    }

    /// Bytes in all parts.
    pub fn len(&self) -> usize {
        self.slices().map(<[u8]>::len).sum()
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, part by part.
    pub(crate) fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.body().parts.iter().map(Part::bytes)
    }

    /// The message the kernel is given: all bytes but the first `skipped_bytes`. Its memory lies in
    /// this value's box and in the parts, none of which move while the value is kept.
    pub(crate) fn message(&mut self, skipped_bytes: usize) -> &mut Message<PARTS_MAX> {
        let PartsBody { parts, message } = &mut **self.body_mut();
        message.fill(parts.iter().map(Part::bytes), skipped_bytes);
        message
    }

    /// The planted fault: the leases' memory may be used again while this is still being sent.
    #[cfg(feature = "mutations")]
    pub(crate) fn freed_early_if_planted(mut self) -> Parts {
        for part in &mut self.body_mut().parts {
            if let Part::Lease(lease) = part
                && crate::mutation::frees_leases_at_submit()
            {
                lease.free_early();
            }
        }
        self
    }

    fn push(&mut self, part: Part) {
        let parts = &mut self.body_mut().parts;
        assert!(!parts.is_full(), "a send has at most {PARTS_MAX} parts");
        parts.push(part);
    }

    fn body(&self) -> &PartsBody {
        self.body.as_ref().expect("present until dropped")
    }

    fn body_mut(&mut self) -> &mut Box<PartsBody> {
        self.body.as_mut().expect("present until dropped")
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        let mut body = self.body.take().expect("present until dropped");
        body.parts.clear();
        keep(&self.pools.parts, body, POOLED_PARTS_MAX);
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parts({} bytes in {})", self.len(), PARTS_MAX - self.room())
    }
}

/// A pooled buffer of [`HEAD_BUFFER_BYTES`] for one response head.
pub struct HeadBuffer {
    bytes: Option<Box<[u8; HEAD_BUFFER_BYTES]>>,
    filled: usize,
    pools: Rc<Pools>,
}

/// A head does not fit into its buffer; nothing of the last piece was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the head does not fit into {HEAD_BUFFER_BYTES} bytes")]
pub struct HeadFull;

impl HeadBuffer {
    /// Appends `bytes`, or nothing when they do not all fit.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), HeadFull> {
        let room = &mut self.bytes.as_mut().expect("present until dropped")[self.filled..];
        room.get_mut(..bytes.len()).ok_or(HeadFull)?.copy_from_slice(bytes);
        self.filled += bytes.len();
        Ok(())
    }

    /// What is written.
    pub fn filled(&self) -> &[u8] {
        &self.bytes.as_ref().expect("present until dropped")[..self.filled]
    }

    /// Bytes written.
    pub fn len(&self) -> usize {
        self.filled
    }

    /// Whether nothing is written.
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Forgets what is written.
    pub fn clear(&mut self) {
        self.filled = 0;
    }
}

impl io::Write for HeadBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        HeadBuffer::write(self, bytes).map_err(|_| io::ErrorKind::WriteZero)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for HeadBuffer {
    fn drop(&mut self) {
        let bytes = self.bytes.take().expect("present until dropped");
        keep(&self.pools.heads, bytes, POOLED_HEADS_MAX);
    }
}

impl fmt::Debug for HeadBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeadBuffer({} bytes)", self.filled)
    }
}

/// Boxes that wait for their next use on one shard.
#[derive(Default)]
pub(crate) struct Pools {
    parts: Pool<PartsBody>,
    heads: Pool<[u8; HEAD_BUFFER_BYTES]>,
}

/// The boxes themselves are kept: they move in and out of operations without a copy.
type Pool<T> = RefCell<Vec<Box<T>>>;

impl Pools {
    pub(crate) fn parts(self: &Rc<Self>) -> Parts {
        let body = self.parts.borrow_mut().pop().unwrap_or_else(|| {
            Box::new(PartsBody { parts: ArrayVec::new(), message: Message::empty() })
        });
        Parts { body: Some(body), pools: Rc::clone(self) }
    }

    pub(crate) fn head_buffer(self: &Rc<Self>) -> HeadBuffer {
        let pooled = self.heads.borrow_mut().pop();
        let bytes = pooled.unwrap_or_else(|| {
            vec![0; HEAD_BUFFER_BYTES].try_into().expect("made with this length")
        });
        HeadBuffer { bytes: Some(bytes), filled: 0, pools: Rc::clone(self) }
    }
}

fn keep<T>(pool: &Pool<T>, body: Box<T>, pooled_max: usize) {
    let mut pool = pool.borrow_mut();
    if pool.len() < pooled_max {
        pool.push(body);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_that_does_not_fit_is_refused_whole() {
        let mut head = Rc::new(Pools::default()).head_buffer();
        head.write(&[7; HEAD_BUFFER_BYTES - 1]).expect("one byte less than the room");
        assert_eq!(head.write(b"ab"), Err(HeadFull));
        assert_eq!(head.len(), HEAD_BUFFER_BYTES - 1);
        assert_eq!(head.write(b"a"), Ok(()));
    }

    #[test]
    fn dropped_boxes_are_used_again() {
        let pools = Rc::new(Pools::default());
        let mut parts = pools.parts();
        let head = pools.head_buffer();
        let address = head.filled().as_ptr();
        parts.push_head(head);
        parts.push_static(b"body");
        assert_eq!(parts.len(), 4);
        drop(parts);
        assert_eq!(pools.parts.borrow().len(), 1);
        assert_eq!(pools.head_buffer().filled().as_ptr(), address);
    }
}

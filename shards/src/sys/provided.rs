//! Memory for received heads, lent to the kernel by buffer number and given back when read.
//! One buffer is either free (with the kernel or on the free list) or held by one `HeldBuffer`.

use io_uring::types::BufRingEntry;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, Ordering};

const PAGE_BYTES: usize = 4096;

/// Equal buffers in one piece of memory.
pub(crate) struct BufferPool {
    memory: Pages,
    buffer_bytes: usize,
    held: Vec<Cell<bool>>,
    held_count: Cell<usize>,
    free: Free,
}

enum Free {
    /// Numbers of the free buffers.
    List(RefCell<Vec<u16>>),
    /// The kernel takes free buffers from this ring; `tail` is what was put in so far.
    Kernel { ring: Pages, tail: Cell<u16> },
}

impl BufferPool {
    /// `count` buffers that this process hands out itself.
    pub(crate) fn listed(count: u16, buffer_bytes: usize) -> Rc<BufferPool> {
        let free = Free::List(RefCell::new((0..count).rev().collect()));
        Rc::new(BufferPool::new(count, buffer_bytes, free))
    }

    /// `count` buffers, a power of two, that a kernel's ring will take from `ring_address`.
    pub(crate) fn for_kernel(count: u16, buffer_bytes: usize) -> Rc<BufferPool> {
        assert!(count.is_power_of_two(), "the kernel's ring of buffers is a power of two");
        let ring = Pages::new(usize::from(count) * size_of::<BufRingEntry>());
        let free = Free::Kernel { ring, tail: Cell::new(0) };
        let pool = BufferPool::new(count, buffer_bytes, free);
        (0..count).for_each(|number| pool.give_back(number));
        Rc::new(pool)
    }

    fn new(count: u16, buffer_bytes: usize, free: Free) -> BufferPool {
        BufferPool {
            memory: Pages::new(usize::from(count) * buffer_bytes),
            buffer_bytes,
            held: vec![Cell::new(false); usize::from(count)],
            held_count: Cell::new(0),
            free,
        }
    }

    /// Where the kernel finds the free buffers.
    pub(crate) fn ring_address(&self) -> Option<u64> {
        match &self.free {
            Free::List(_) => None,
            Free::Kernel { ring, .. } => Some(ring.start.addr().get() as u64),
        }
    }

    /// How many buffers there are.
    pub(crate) fn count(&self) -> u16 {
        self.held.len() as u16
    }

    /// Buffers that nobody holds.
    pub(crate) fn free_count(&self) -> usize {
        self.held.len() - self.held_count.get()
    }

    /// Whether three quarters are held.
    pub(crate) fn is_scarce(&self) -> bool {
        4 * self.free_count() < self.held.len()
    }

    /// A free buffer to write into, from the free list.
    pub(crate) fn take(self: &Rc<Self>) -> Option<HeldBuffer> {
        let Free::List(numbers) = &self.free else { return None };
        let number = numbers.borrow_mut().pop()?;
        Some(self.hold(number, self.buffer_bytes))
    }

    /// The buffer that the kernel has filled with `filled_bytes`.
    pub(crate) fn hold(self: &Rc<Self>, number: u16, filled_bytes: usize) -> HeldBuffer {
        assert!(filled_bytes <= self.buffer_bytes, "a buffer is filled within its end");
        assert!(!self.held[usize::from(number)].replace(true), "a held buffer is not lent out");
        self.held_count.set(self.held_count.get() + 1);
        HeldBuffer { pool: Rc::clone(self), number, filled: filled_bytes }
    }

    fn address(&self, number: u16) -> NonNull<u8> {
        assert!(usize::from(number) < self.held.len(), "a buffer's number is below their count");
        // SAFETY: the memory spans `count` buffers, and the number is below the count.
        unsafe { self.memory.start.add(usize::from(number) * self.buffer_bytes) }
    }

    fn give_back(&self, number: u16) {
        match &self.free {
            Free::List(numbers) => numbers.borrow_mut().push(number),
            Free::Kernel { ring, tail } => {
                let index = usize::from(tail.get() & (self.count() - 1));
                let entries = ring.start.cast::<BufRingEntry>().as_ptr();
                // SAFETY: the index is below the count of entries that the pages hold. The kernel
                // does not read an entry before the tail passes it, and each of the `count` buffers
                // is in the ring at most once, so the tail never overtakes the kernel's head. The
                // first entry's `tail` field is not among those written here.
                unsafe {
                    let entry = &mut *entries.add(index);
                    entry.set_addr(self.address(number).addr().get() as u64);
                    entry.set_len(self.buffer_bytes as u32);
                    entry.set_bid(number);
                }
                tail.set(tail.get().wrapping_add(1));
                // SAFETY: the tail is a u16 in the pages, aligned, and only ever read by the kernel.
                unsafe {
                    let shared = BufRingEntry::tail(entries).cast_mut();
                    AtomicU16::from_ptr(shared).store(tail.get(), Ordering::Release);
                }
            }
        }
    }
}

/// One buffer in use; given back when dropped.
pub(crate) struct HeldBuffer {
    pool: Rc<BufferPool>,
    number: u16,
    filled: usize,
}

impl HeldBuffer {
    /// What it holds.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: a held buffer is neither with the kernel nor on the free list, so only this value
        // reaches it; its memory was zeroed when made and lives as long as the pool.
        unsafe { std::slice::from_raw_parts(self.pool.address(self.number).as_ptr(), self.filled) }
    }

    /// The same, to write into.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and this value is borrowed mutably.
        unsafe {
            std::slice::from_raw_parts_mut(self.pool.address(self.number).as_ptr(), self.filled)
        }
    }

    /// Keeps the first `filled_bytes` only.
    pub(crate) fn truncate(&mut self, filled_bytes: usize) {
        self.filled = self.filled.min(filled_bytes);
    }
}

impl Drop for HeldBuffer {
    fn drop(&mut self) {
        self.pool.held[usize::from(self.number)].set(false);
        self.pool.held_count.set(self.pool.held_count.get() - 1);
        self.pool.give_back(self.number);
    }
}

impl fmt::Debug for HeldBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeldBuffer({}: {} bytes)", self.number, self.filled)
    }
}

/// Zeroed memory that begins at a page.
struct Pages {
    start: NonNull<u8>,
    layout: Layout,
}

impl Pages {
    fn new(size_bytes: usize) -> Pages {
        let layout = Layout::from_size_align(size_bytes.max(1), PAGE_BYTES)
            .expect("far below the address space");
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        Pages { start, layout }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_buffer_can_be_taken_again() {
        let pool = BufferPool::listed(2, 64);
        let mut first = pool.take().expect("two are free");
        let second = pool.take().expect("one is free");
        assert!(pool.take().is_none());
        first.bytes_mut()[..2].copy_from_slice(b"ab");
        first.truncate(2);
        assert_eq!(first.bytes(), b"ab");
        drop(second);
        assert_eq!(pool.free_count(), 1);
        assert!(pool.take().is_some());
    }

    #[test]
    fn the_kernels_ring_is_full_at_first_and_takes_buffers_back() {
        let pool = BufferPool::for_kernel(4, 64);
        let tail = |pool: &BufferPool| match &pool.free {
            Free::Kernel { tail, .. } => tail.get(),
            Free::List(_) => unreachable!("made for the kernel"),
        };
        assert_eq!(tail(&pool), 4);
        let held = pool.hold(3, 10);
        assert_eq!(held.bytes(), [0; 10]);
        drop(held);
        assert_eq!(tail(&pool), 5);
        assert_eq!(pool.free_count(), 4);
    }
}

//! The arena's memory: one anonymous mapping cut into equal slots, each an append-only buffer.
//! The rule that makes it sound lives here alone: a filled byte never changes until its slot is
//! cleared, and a slot is cleared only when no lease on it is out. So a `Lease` may be read on any
//! thread, also while later bytes of its slot are appended, also after the owner is gone. A `SlotRoom`
//! is an empty slot lent to one writer, and filled when its owner says so. Nothing here decides what to keep; see `arena` and `store`.

use std::fmt;
use std::io;
use std::ops::{Deref, Range};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use crossbeam_queue::ArrayQueue;

use crate::doorbell::Doorbell;

#[cfg(test)]
mod tests;

/// A slot's place in the mapping, counted from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotNumber(u32);

impl SlotNumber {
    /// The number as an index into per-slot tables.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The owner's side: fills slots, leases their prefixes, takes returned leases back.
pub(crate) struct SlotMemory {
    shared: Arc<Shared>,
    slots: Vec<SlotState>,
    slot_bytes: usize,
    leases_out: usize,
}

#[derive(Clone, Copy, Default)]
struct SlotState {
    filled_bytes: u32,
    leases: u32,
    /// Its room is lent, or was and has not been taken back.
    has_room_out: bool,
}

/// What comes home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Returned {
    Lease(SlotNumber),
    Room(SlotNumber),
}

/// What leases keep alive.
struct Shared {
    mapping: Mapping,
    /// Has a place for every lease and room that is out, so a return never fails and never waits.
    returned: ArrayQueue<Returned>,
    /// The owner waits for memory: the next return rings.
    wanted: AtomicBool,
    doorbell: Doorbell,
}

impl SlotMemory {
    /// Maps `slots` slots of `slot_bytes`, of which at most `leases_max` leases and rooms are ever out.
    pub(crate) fn new(
        slots: u32,
        slot_bytes: u32,
        leases_max: usize,
        doorbell: Doorbell,
    ) -> io::Result<SlotMemory> {
        let slot_bytes = slot_bytes as usize;
        let mapping_bytes = (slots as usize).checked_mul(slot_bytes).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "an arena beyond the address space")
        })?;
        let shared = Shared {
            mapping: Mapping::new(mapping_bytes)?,
            returned: ArrayQueue::new(leases_max),
            wanted: AtomicBool::new(false),
            doorbell,
        };
        Ok(SlotMemory {
            shared: Arc::new(shared),
            slots: vec![SlotState::default(); slots as usize],
            slot_bytes,
            leases_out: 0,
        })
    }

    /// Every slot, in the order of the mapping.
    pub(crate) fn numbers(&self) -> impl DoubleEndedIterator<Item = SlotNumber> + use<> {
        (0..self.slots.len() as u32).map(SlotNumber)
    }

    /// Bytes filled in `slot`.
    pub(crate) fn filled_bytes(&self, slot: SlotNumber) -> u32 {
        self.slots[slot.index()].filled_bytes
    }

    /// What is filled in `slot`.
    pub(crate) fn filled(&self, slot: SlotNumber) -> &[u8] {
        let start = slot.index() * self.slot_bytes;
        let bytes = self.slots[slot.index()].filled_bytes as usize;
        // SAFETY: the slot exists, as above, and its filled bytes lie within it and were written.
        // They change in `append` and `clear` alone, which need `&mut self`.
        unsafe { std::slice::from_raw_parts(self.shared.mapping.base.as_ptr().add(start), bytes) }
    }

    /// Leases on `slot` that were not taken back yet.
    pub(crate) fn leases(&self, slot: SlotNumber) -> u32 {
        self.slots[slot.index()].leases
    }

    /// Leases that were not taken back yet, on all slots.
    pub(crate) fn leases_out(&self) -> u32 {
        self.leases_out as u32
    }

    /// The most that they may be.
    pub(crate) fn leases_max(&self) -> u32 {
        self.shared.returned.capacity() as u32
    }

    /// Copies `bytes` behind what `slot` holds; they fit, or the caller has a bug.
    pub(crate) fn append(&mut self, slot: SlotNumber, bytes: &[u8]) {
        let state = &mut self.slots[slot.index()];
        let filled = state.filled_bytes as usize;
        assert!(bytes.len() <= self.slot_bytes - filled, "a slot holds no more than its size");
        assert!(!state.has_room_out, "what is lent has one writer");
        let start = slot.index() * self.slot_bytes + filled;
        // SAFETY: the slot exists (`slots` was indexed, and the mapping holds as many), and
        // `start..start + len` ends within it. `&mut self` is the one writer. No lease covers
        // unfilled bytes, so nobody reads them and `bytes` cannot overlap them.
        unsafe {
            let target = self.shared.mapping.base.as_ptr().add(start);
            ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
        }
        state.filled_bytes += bytes.len() as u32;
    }

    /// A lease on filled bytes of `slot`; `None` when as many are out as may be.
    pub(crate) fn lease(&mut self, slot: SlotNumber, range: Range<u32>) -> Option<Lease> {
        let state = &mut self.slots[slot.index()];
        assert!(range.start < range.end, "a lease holds a byte");
        assert!(range.end <= state.filled_bytes, "only filled bytes are leased");
        if self.leases_out == self.shared.returned.capacity() {
            return None;
        }
        self.leases_out += 1;
        state.leases += 1;
        let start = slot.index() * self.slot_bytes + range.start as usize;
        // SAFETY: the slot exists and `start` lies within it, as above.
        let base = unsafe { self.shared.mapping.base.add(start) };
        Some(Lease {
            base,
            bytes: range.end - range.start,
            slot,
            shared: self.shared.clone(),
            #[cfg(feature = "mutations")]
            is_freed: false,
        })
    }

    /// All the bytes of an empty slot, for one operation to write into; `None` when as many leases and rooms are out
    /// as may be.
    pub(crate) fn lend(&mut self, slot: SlotNumber) -> Option<SlotRoom> {
        let state = &mut self.slots[slot.index()];
        assert!(state.filled_bytes == 0, "only an empty slot is lent");
        assert!(state.leases == 0 && !state.has_room_out, "and only once");
        if self.leases_out == self.shared.returned.capacity() {
            return None;
        }
        self.leases_out += 1;
        state.has_room_out = true;
        // SAFETY: the slot exists, so its start lies within the mapping.
        let base = unsafe { self.shared.mapping.base.add(slot.index() * self.slot_bytes) };
        Some(SlotRoom { base, bytes: self.slot_bytes, slot, shared: self.shared.clone() })
    }

    /// The first `bytes` of a room are what its slot holds. The room itself comes home like any other.
    pub(crate) fn accept(&mut self, room: SlotRoom, bytes: u32) {
        assert!(Arc::ptr_eq(&self.shared, &room.shared), "a room goes home");
        assert!(bytes as usize <= self.slot_bytes, "a slot holds no more than its size");
        let state = &mut self.slots[room.slot.index()];
        assert!(state.filled_bytes == 0 && state.has_room_out, "it was lent empty");
        // From here on the room is not written to any more: it is dropped, and its slot's bytes are filled.
        drop(room);
        state.filled_bytes = bytes;
    }

    /// Takes one returned lease or room back.
    pub(crate) fn take_returned(&mut self) -> Option<Returned> {
        let returned = self.shared.returned.pop()?;
        self.leases_out -= 1;
        match returned {
            Returned::Lease(slot) => self.slots[slot.index()].leases -= 1,
            Returned::Room(slot) => self.slots[slot.index()].has_room_out = false,
        }
        Some(returned)
    }

    /// Whether the room of `slot` was lent and not taken back yet.
    pub(crate) fn is_lent(&self, slot: SlotNumber) -> bool {
        self.slots[slot.index()].has_room_out
    }

    /// Whether somebody has a lease on `slot`, or its room.
    pub(crate) fn is_out(&self, slot: SlotNumber) -> bool {
        let state = &self.slots[slot.index()];
        state.leases > 0 || state.has_room_out
    }

    /// Forgets the bytes of `slot`, on which no lease is out.
    pub(crate) fn clear(&mut self, slot: SlotNumber) {
        let state = &mut self.slots[slot.index()];
        assert!(state.leases == 0 && !state.has_room_out, "a leased slot is never reused");
        state.filled_bytes = 0;
    }

    /// From now on the next return rings the doorbell. The caller looks at the returns once more
    /// afterwards: one that came just before may have rung nothing.
    pub(crate) fn want_returns(&self) {
        self.shared.wanted.store(true, Ordering::Relaxed);
        // Pairs with the fence in `Lease::drop`: either that side sees the flag, or this side
        // sees the return.
        fence(Ordering::SeqCst);
    }

    /// Bytes of the tables beside the mapping.
    pub(crate) fn table_bytes(&self) -> u64 {
        // A place in the queue holds a stamp and the slot's number, aligned to the stamp.
        let queue_bytes = self.shared.returned.capacity() * 2 * size_of::<usize>();
        (self.slots.capacity() * size_of::<SlotState>() + queue_bytes) as u64
    }
}

/// Read-only bytes of the arena. They stay as they are, whatever the store does, until the lease
/// is dropped; that may happen on any thread, also after the store's end.
pub struct Lease {
    base: NonNull<u8>,
    bytes: u32,
    slot: SlotNumber,
    shared: Arc<Shared>,
    #[cfg(feature = "mutations")]
    is_freed: bool,
}

// SAFETY: the bytes are immutable while the lease lives and the mapping lives as long as `shared`,
// which is itself `Send` and `Sync`.
unsafe impl Send for Lease {}
// SAFETY: as above; `&Lease` gives only `&[u8]`.
unsafe impl Sync for Lease {}

impl Deref for Lease {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `lease` gave filled bytes of one slot. They are written before they are filled
        // and not again before `clear`, which waits for this lease's return. The return goes
        // through the queue, which orders these reads before the owner's next write.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.bytes as usize) }
    }
}

impl Lease {
    /// The planted fault of a simulated world: the slot goes home while this lease reads on. All is
    /// on one thread there, so a read sees old bytes or new ones, and never a write half-way.
    #[cfg(feature = "mutations")]
    pub(crate) fn free_early(&mut self) {
        if !std::mem::replace(&mut self.is_freed, true) {
            self.give_back();
        }
    }

    fn give_back(&self) {
        self.shared.take_home(Returned::Lease(self.slot));
    }
}

impl Shared {
    fn take_home(&self, returned: Returned) {
        self.returned.push(returned).expect("the queue has a place for each that is out");
        // Pairs with the fence in `want_returns`.
        fence(Ordering::SeqCst);
        if self.wanted.load(Ordering::Relaxed) && self.wanted.swap(false, Ordering::Relaxed) {
            self.doorbell.ring();
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        #[cfg(feature = "mutations")]
        if self.is_freed {
            return;
        }
        self.give_back();
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({} bytes of slot {})", self.bytes, self.slot.0)
    }
}

/// The bytes of a slot that nobody else reads or writes, for as long as this lives; that may be on any thread, also
/// after the store's end.
pub(crate) struct SlotRoom {
    base: NonNull<u8>,
    bytes: usize,
    slot: SlotNumber,
    shared: Arc<Shared>,
}

// SAFETY: the one reference to its bytes, and the mapping lives as long as `shared`, which is itself `Send`.
unsafe impl Send for SlotRoom {}

impl SlotRoom {
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `lend` gave a whole slot, mapped and zeroed at the start. While its room is out the slot is neither
        // appended to, leased nor lent again, so this is the only way to its bytes.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.bytes) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` is the only borrow.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.bytes) }
    }
}

impl Drop for SlotRoom {
    fn drop(&mut self) {
        self.shared.take_home(Returned::Room(self.slot));
    }
}

impl fmt::Debug for SlotRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlotRoom({} bytes of slot {})", self.bytes, self.slot.0)
    }
}

/// Zeroed bytes of our own, given back when dropped.
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: plain memory, owned; who may read or write which byte is ruled by `SlotMemory`.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` itself reads and writes nothing.
unsafe impl Sync for Mapping {}

#[cfg(not(miri))]
impl Mapping {
    fn new(bytes: usize) -> io::Result<Mapping> {
        assert!(bytes > 0, "an arena holds a slot");
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing else.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // A kernel without huge pages refuses the advice; the arena works all the same.
        // SAFETY: the range is the mapping just made, and the advice changes no byte.
        let _ = unsafe { libc::madvise(base, bytes, libc::MADV_HUGEPAGE) };
        let base = NonNull::new(base.cast()).expect("the kernel never maps at null unasked");
        Ok(Mapping { base, bytes })
    }
}

#[cfg(not(miri))]
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the range that was mapped; the owner and all leases are gone, or
        // `Shared` would not be dropped.
        let unmapped = unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert_eq!(unmapped, 0, "a mapping of our own can be unmapped");
    }
}

/// Miri knows no advice on mappings; the heap gives the same zeroed bytes.
#[cfg(miri)]
impl Mapping {
    fn new(bytes: usize) -> io::Result<Mapping> {
        assert!(bytes > 0, "an arena holds a slot");
        // SAFETY: the layout has a size above zero.
        let base = unsafe { std::alloc::alloc_zeroed(Mapping::layout(bytes)) };
        let base = NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { base, bytes })
    }

    fn layout(bytes: usize) -> std::alloc::Layout {
        std::alloc::Layout::from_size_align(bytes, 4096).expect("a page's alignment is sound")
    }
}

#[cfg(miri)]
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout; nobody holds a pointer into it.
        unsafe { std::alloc::dealloc(self.base.as_ptr(), Mapping::layout(self.bytes)) }
    }
}

//! The arena: a shard's DRAM budget, cut into slots of one sector each.
//! It knows for every slot whether it is free, in flight, held or detached, and keeps the ceilings
//! on leases. It knows no block: which slot holds what is the store's `index`.
//! The memory itself, and why leasing it is sound, is `sys::memory`.

use std::io;
use std::ops::Range;

use crate::doorbell::Doorbell;
use crate::store::ReadKind;
use crate::sys::memory::{Lease, Returned, SlotMemory, SlotNumber, SlotRoom};

/// One part in so many of each ceiling on leases is kept for small reads.
const SMALL_SHARE_DIVISOR: u32 = 4;

/// What a slot is used for. Each slot is in exactly one use, so the four together are the budget.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SlotUse {
    Free,
    /// Reserved by a fill that has not ended.
    InFlight,
    /// Holds a sector of a block in the index.
    Held,
    /// Gone from the index while leased: free at the last return.
    Detached,
}

/// The size of an arena and the ceilings on its leases.
pub(crate) struct ArenaShape {
    pub(crate) slots: u32,
    pub(crate) slot_bytes: u32,
    /// Slots that may be leased at one time.
    pub(crate) slots_leased_max: u32,
    /// Leases that may be out at one time.
    pub(crate) leases_max: usize,
}

/// Slots by use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotCounts {
    pub(crate) free: u32,
    pub(crate) in_flight: u32,
    pub(crate) held: u32,
    pub(crate) detached: u32,
    /// Of those in flight, held or detached.
    pub(crate) leased: u32,
}

/// Slots of one size in one mapping, with the use of each.
pub(crate) struct Arena {
    memory: SlotMemory,
    uses: Vec<SlotUse>,
    /// The last given back is the first reused: memory that was never needed is never touched.
    free: Vec<SlotNumber>,
    counts: SlotCounts,
    slots_leased_max: u32,
    /// Something a waiter may wait for has happened since `take_gain` was last asked.
    gained: bool,
}

impl Arena {
    pub(crate) fn new(shape: ArenaShape, doorbell: Doorbell) -> io::Result<Arena> {
        let memory = SlotMemory::new(shape.slots, shape.slot_bytes, shape.leases_max, doorbell)?;
        Ok(Arena {
            free: memory.numbers().rev().collect(),
            uses: vec![SlotUse::Free; shape.slots as usize],
            counts: SlotCounts { free: shape.slots, ..SlotCounts::default() },
            slots_leased_max: shape.slots_leased_max,
            gained: false,
            memory,
        })
    }

    pub(crate) fn counts(&self) -> SlotCounts {
        self.counts
    }

    /// A free slot, in flight from now on.
    pub(crate) fn take(&mut self) -> Option<SlotNumber> {
        let slot = self.free.pop()?;
        self.set_use(slot, SlotUse::InFlight);
        Some(slot)
    }

    /// A slot in flight is held from now on.
    pub(crate) fn keep(&mut self, slot: SlotNumber) {
        assert!(self.uses[slot.index()] == SlotUse::InFlight, "only a fill's slot is kept");
        self.set_use(slot, SlotUse::Held);
        self.gained = true;
    }

    /// A slot in flight or held is needed no more: free now, or at the last return.
    pub(crate) fn give_back(&mut self, slot: SlotNumber) {
        let before = self.uses[slot.index()];
        assert!(matches!(before, SlotUse::InFlight | SlotUse::Held), "given back once");
        if self.memory.is_out(slot) {
            self.set_use(slot, SlotUse::Detached);
        } else {
            self.free_slot(slot);
        }
        self.gained = true;
    }

    pub(crate) fn append(&mut self, slot: SlotNumber, bytes: &[u8]) {
        assert!(self.uses[slot.index()] == SlotUse::InFlight, "only a fill appends");
        self.memory.append(slot, bytes);
    }

    /// An empty slot in flight, for one operation to write into; `None` where too much is out.
    pub(crate) fn lend(&mut self, slot: SlotNumber) -> Option<SlotRoom> {
        assert!(self.uses[slot.index()] == SlotUse::InFlight, "only a fill is lent to");
        self.memory.lend(slot)
    }

    /// The first bytes of a slot's room are what it holds.
    pub(crate) fn accept(&mut self, room: SlotRoom, bytes: u32) {
        self.memory.accept(room, bytes);
    }

    /// Takes the room of a slot back that has come home.
    pub(crate) fn take_back(&mut self, slot: SlotNumber) {
        if self.memory.is_lent(slot) {
            self.take_returns();
        }
    }

    pub(crate) fn filled_bytes(&self, slot: SlotNumber) -> u32 {
        self.memory.filled_bytes(slot)
    }

    pub(crate) fn filled(&self, slot: SlotNumber) -> &[u8] {
        self.memory.filled(slot)
    }

    /// The most slots at which a read of this kind may lease one more.
    pub(crate) fn slots_leased_max(&self, kind: ReadKind) -> u32 {
        without_small_share(self.slots_leased_max, kind)
    }

    /// A lease on filled bytes of `slot`; `None` at a ceiling for this kind of read.
    pub(crate) fn lease(
        &mut self,
        slot: SlotNumber,
        range: Range<u32>,
        kind: ReadKind,
    ) -> Option<Lease> {
        let first = self.memory.leases(slot) == 0;
        if first && self.counts.leased >= self.slots_leased_max(kind) {
            return None;
        }
        if self.memory.leases_out() >= without_small_share(self.memory.leases_max(), kind) {
            return None;
        }
        let lease = self.memory.lease(slot, range)?;
        self.counts.leased += u32::from(first);
        Some(lease)
    }

    /// Takes all returned leases back. Ends: no more than the most leases that can be out.
    pub(crate) fn take_returns(&mut self) {
        while let Some(returned) = self.memory.take_returned() {
            self.gained = true;
            let slot = match returned {
                Returned::Lease(slot) => {
                    self.counts.leased -= u32::from(self.memory.leases(slot) == 0);
                    slot
                }
                Returned::Room(slot) => slot,
            };
            if self.uses[slot.index()] == SlotUse::Detached && !self.memory.is_out(slot) {
                self.free_slot(slot);
            }
        }
    }

    /// The same, with the next return to ring the doorbell: for a caller that is about to wait.
    pub(crate) fn take_returns_and_want_more(&mut self) {
        self.memory.want_returns();
        self.take_returns();
    }

    /// Whether slots or leases were gained since the last call.
    pub(crate) fn take_gain(&mut self) -> bool {
        std::mem::take(&mut self.gained)
    }

    /// Bytes of the tables beside the arena's memory.
    pub(crate) fn table_bytes(&self) -> u64 {
        let tables = self.uses.capacity() * size_of::<SlotUse>()
            + self.free.capacity() * size_of::<SlotNumber>();
        tables as u64 + self.memory.table_bytes()
    }

    fn free_slot(&mut self, slot: SlotNumber) {
        self.memory.clear(slot);
        self.set_use(slot, SlotUse::Free);
        self.free.push(slot);
    }

    fn set_use(&mut self, slot: SlotNumber, after: SlotUse) {
        let before = std::mem::replace(&mut self.uses[slot.index()], after);
        *self.count_of(before) -= 1;
        *self.count_of(after) += 1;
    }

    fn count_of(&mut self, slot_use: SlotUse) -> &mut u32 {
        match slot_use {
            SlotUse::Free => &mut self.counts.free,
            SlotUse::InFlight => &mut self.counts.in_flight,
            SlotUse::Held => &mut self.counts.held,
            SlotUse::Detached => &mut self.counts.detached,
        }
    }
}

/// A ceiling as a read of this kind meets it; at least one, so that every read gets on.
fn without_small_share(ceiling: u32, kind: ReadKind) -> u32 {
    match kind {
        ReadKind::Small => ceiling,
        ReadKind::Large => (ceiling - ceiling / SMALL_SHARE_DIVISOR).max(1),
    }
}

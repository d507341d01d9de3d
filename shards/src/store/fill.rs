//! Fills: bytes come into reserved sectors, readable as they arrive.
//! All the memory of a fill is reserved when it begins, so a fill never waits half-way; and fills
//! together never take more than half of the arena, so reading goes on under any load of misses.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

use nilas_base::ByteRange;

use super::index::BlockNumber;
use super::{BlockId, NoSpace, Store};
use crate::buffer::Buffer;
use crate::disk::PAGE_BYTES;

/// Fills have at most one part in so many of the arena.
const IN_FLIGHT_DIVISOR: u32 = 2;

/// The right to fill one run of one block, from its first byte to its last, in order. One that is
/// dropped before [`Store::end_fill`] ends where it stood.
pub struct FillPermit {
    id: BlockId,
    fill: Option<Fill>,
    abandoned: Rc<RefCell<Vec<Fill>>>,
}

/// A fill that goes on.
#[derive(Clone, Copy)]
pub(super) struct Fill {
    block: BlockNumber,
    run: ByteRange,
    written_bytes: u64,
}

impl FillPermit {
    /// The block.
    pub fn id(&self) -> BlockId {
        self.id
    }

    /// The run, as bytes of the block.
    pub fn run(&self) -> ByteRange {
        self.fill().run
    }

    /// What is still to come of the run, as bytes of the block.
    pub fn remaining(&self) -> ByteRange {
        let fill = self.fill();
        ByteRange::new(fill.run.start + fill.written_bytes, fill.run.end)
    }

    fn fill(&self) -> &Fill {
        self.fill.as_ref().expect("a permit has its fill until its end")
    }
}

impl Drop for FillPermit {
    fn drop(&mut self) {
        self.abandoned.borrow_mut().extend(self.fill.take());
    }
}

impl fmt::Debug for FillPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remaining = self.fill.map(|_| self.remaining());
        f.debug_struct("FillPermit").field("id", &self.id).field("remaining", &remaining).finish()
    }
}

impl Store {
    /// Reserves memory for `run`, which [`Store::missing`] gave, evicting where it must.
    pub fn begin_fill(&mut self, id: BlockId, run: ByteRange) -> Result<FillPermit, NoSpace> {
        assert!(!run.is_empty() && run.end <= self.geometry.block_bytes, "a run of the block");
        let sector_bytes = u64::from(self.geometry.sector_bytes);
        assert!(run.start.is_multiple_of(sector_bytes), "a run begins with a sector");
        self.settle_abandoned();
        let sectors = self.geometry.sectors(run);
        let block = self.index.find_or_add(id);
        // Before room is made, so that the block itself does not make it.
        self.index.get_mut(block).fills += 1;
        if let Err(error) = self.make_room(sectors.len() as u32) {
            self.index.get_mut(block).fills -= 1;
            self.drop_if_unused(block);
            return Err(error);
        }
        let take_slot = || self.arena.take().expect("room was made");
        self.index.get_mut(block).sectors.add_run(sectors, take_slot);
        let fill = Some(Fill { block, run, written_bytes: 0 });
        Ok(FillPermit { id, fill, abandoned: Rc::clone(&self.abandoned) })
    }

    /// Copies the run's next bytes in; they can be read at once. More than remain is a bug.
    pub fn append(&mut self, permit: &mut FillPermit, bytes: &[u8]) {
        assert!(Rc::ptr_eq(&self.abandoned, &permit.abandoned), "a permit is for its own store");
        assert!(bytes.len() as u64 <= permit.remaining().len(), "a fill stays in its run");
        let start = permit.remaining().start;
        let fill = permit.fill.as_mut().expect("a permit has its fill until its end");
        fill.written_bytes += bytes.len() as u64;
        let block = self.index.get(fill.block);
        // Nobody could read what a removed block gets.
        let mut rest = if block.linked { bytes } else { &[] };
        let sector_bytes = self.geometry.sector_bytes as usize;
        for sector in block.sectors.contiguous_from(self.geometry.sector_at(start)) {
            if rest.is_empty() {
                return;
            }
            // A room that was accepted has come home, and is still to be taken back.
            self.arena.take_back(sector.slot);
            let room = sector_bytes - self.arena.filled_bytes(sector.slot) as usize;
            let (now, later) = rest.split_at(room.min(rest.len()));
            self.arena.append(sector.slot, now);
            rest = later;
        }
    }

    /// Room for the run's next `bytes`, in the sectors that will hold them, for a device to read whole pages into: one
    /// buffer a sector, in order. Nothing where the next byte begins no sector, or too much is lent or leased.
    pub fn lend(&mut self, permit: &FillPermit, bytes: u64) -> Vec<Buffer> {
        assert!(Rc::ptr_eq(&self.abandoned, &permit.abandoned), "a permit is for its own store");
        assert!(bytes <= permit.remaining().len(), "a fill stays in its run");
        let sector_bytes = u64::from(self.geometry.sector_bytes);
        let start = permit.remaining().start;
        let block = self.index.get(permit.fill().block);
        if !block.linked || !start.is_multiple_of(sector_bytes) || sector_bytes < PAGE_BYTES as u64
        {
            return Vec::new();
        }
        let mut rooms = Vec::new();
        let mut left = bytes;
        for sector in block.sectors.contiguous_from(self.geometry.sector_at(start)) {
            if left == 0 {
                break;
            }
            let Some(room) = self.arena.lend(sector.slot) else { break };
            let here = left.min(sector_bytes);
            rooms.push(Buffer::of_slot(room, here.next_multiple_of(PAGE_BYTES as u64) as usize));
            left -= here;
        }
        // All of it or nothing: what was lent goes home unused.
        if left > 0 { Vec::new() } else { rooms }
    }

    /// What was read into the rooms of [`Store::lend`] are the run's next `bytes`; they can be read from now on.
    pub fn accept(&mut self, permit: &mut FillPermit, rooms: Vec<Buffer>, bytes: u64) {
        assert!(bytes <= permit.remaining().len(), "a fill stays in its run");
        let fill = permit.fill.as_mut().expect("a permit has its fill until its end");
        fill.written_bytes += bytes;
        // Nobody could read what a removed block gets.
        if !self.index.get(fill.block).linked {
            return;
        }
        let mut left = bytes;
        for buffer in rooms {
            let here = left.min(u64::from(self.geometry.sector_bytes));
            let room = buffer.into_room().expect("it was lent");
            self.arena.accept(room, here as u32);
            left -= here;
        }
        assert_eq!(left, 0, "as much was lent");
    }

    /// Ends a fill: keeps the whole sectors and, when the run is complete, its short last one.
    /// The rest of its memory is free, or will be when it is no longer leased.
    pub fn end_fill(&mut self, mut permit: FillPermit) {
        assert!(Rc::ptr_eq(&self.abandoned, &permit.abandoned), "a permit is for its own store");
        let fill = permit.fill.take().expect("a permit has its fill until its end");
        self.settle(fill);
    }

    /// Ends the fills whose permits were dropped.
    pub(super) fn settle_abandoned(&mut self) {
        loop {
            let next = self.abandoned.borrow_mut().pop();
            let Some(fill) = next else { return };
            self.settle(fill);
        }
    }

    fn settle(&mut self, fill: Fill) {
        let run = self.geometry.sectors(fill.run);
        let block = self.index.get_mut(fill.block);
        let kept =
            if block.linked { sectors_kept(&fill, &run, self.geometry.sector_bytes) } else { 0 };
        block.fills -= 1;
        block.sectors.settle_run(run, kept, |slot, is_kept| match is_kept {
            true => self.arena.keep(slot),
            false => self.arena.give_back(slot),
        });
        let weight_bytes = kept as u64 * u64::from(self.geometry.sector_bytes);
        match block.place {
            _ if kept == 0 => {}
            Some(place) => self.eviction.grow(place, weight_bytes),
            None => block.place = Some(self.eviction.insert(block.id, weight_bytes)),
        }
        self.drop_if_unused(fill.block);
    }

    /// Frees `slots` slots, unless fills would then have more than their part.
    fn make_room(&mut self, slots: u32) -> Result<(), NoSpace> {
        let counts = self.arena.counts();
        let all = counts.free + counts.in_flight + counts.held + counts.detached;
        if counts.in_flight + slots > all / IN_FLIGHT_DIVISOR {
            return Err(NoSpace);
        }
        if counts.free < slots {
            self.arena.take_returns();
        }
        while self.arena.counts().free < slots {
            if !self.evict() {
                self.arena.take_returns_and_want_more();
                let free = self.arena.counts().free;
                return if free < slots { Err(NoSpace) } else { Ok(()) };
            }
        }
        Ok(())
    }

    fn drop_if_unused(&mut self, number: BlockNumber) {
        let block = self.index.get(number);
        if block.fills > 0 || !block.sectors.is_empty() {
            return;
        }
        if block.linked {
            self.index.unlink(number);
        }
        self.index.vacate(number);
    }
}

/// How many of a run's sectors are filled to their end.
fn sectors_kept(fill: &Fill, run: &Range<u16>, sector_bytes: u32) -> usize {
    if fill.written_bytes == fill.run.len() {
        return run.len();
    }
    (fill.written_bytes / u64::from(sector_bytes)) as usize
}

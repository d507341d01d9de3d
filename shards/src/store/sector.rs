//! A block's sectors: which are there, in which slot, and whether still in flight.
//! A sorted list rather than a bitmap: it costs eight bytes for each sector that is there, and
//! nothing for the many that a sparsely read block never has.

use std::ops::Range;

use crate::sys::memory::SlotNumber;

/// Room in an empty table that is kept for the next block.
const SECTORS_POOLED_MAX: usize = 64;

/// A sector that is held or in flight.
#[derive(Clone, Copy)]
pub(super) struct Sector {
    /// Its number in the block.
    pub(super) index: u16,
    /// Reserved by a fill that has not ended; else held whole.
    pub(super) in_flight: bool,
    pub(super) slot: SlotNumber,
}

/// The sectors of one block, ascending.
pub(super) struct SectorTable(Vec<Sector>);

impl SectorTable {
    pub(super) fn new() -> SectorTable {
        SectorTable(Vec::new())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The sector `first` and those that follow it without a gap.
    pub(super) fn contiguous_from(&self, first: u16) -> impl Iterator<Item = Sector> {
        let expected = usize::from(first)..;
        let from = self.position(first);
        let run = self.0[from..].iter().copied().zip(expected);
        run.take_while(|(sector, index)| usize::from(sector.index) == *index)
            .map(|(sector, _)| sector)
    }

    /// The first run of `wanted` sectors that are not here.
    pub(super) fn first_gap(&self, wanted: Range<u16>) -> Option<Range<u16>> {
        let run = self.contiguous_from(wanted.start).take(wanted.len()).count();
        let start = wanted.start + run as u16;
        let next = self.0.get(self.position(start)).map_or(wanted.end, |sector| sector.index);
        (start < wanted.end).then(|| start..next.min(wanted.end))
    }

    /// Adds a run of which no sector is here, in flight, in slots that `take_slot` gives.
    pub(super) fn add_run(&mut self, run: Range<u16>, mut take_slot: impl FnMut() -> SlotNumber) {
        assert_eq!(self.first_gap(run.clone()), Some(run.clone()), "a sector is filled once");
        let at = self.position(run.start);
        let added = run.map(|index| Sector { index, in_flight: true, slot: take_slot() });
        self.0.splice(at..at, added);
    }

    /// Ends a run in flight: its first `kept` sectors are held, the rest leaves. Each slot is told
    /// whether it is kept.
    pub(super) fn settle_run(
        &mut self,
        run: Range<u16>,
        kept: usize,
        mut tell: impl FnMut(SlotNumber, bool),
    ) {
        let from = self.position(run.start);
        let sectors = &mut self.0[from..from + run.len()];
        for (position, sector) in sectors.iter_mut().enumerate() {
            sector.in_flight = false;
            tell(sector.slot, position < kept);
        }
        self.0.drain(from + kept..from + run.len());
    }

    /// Takes out all sectors that are held; those in flight stay.
    pub(super) fn take_held(&mut self, mut give_back: impl FnMut(SlotNumber)) {
        self.0.retain(|sector| {
            if !sector.in_flight {
                give_back(sector.slot);
            }
            sector.in_flight
        });
    }

    /// Makes an empty table ready for another block.
    pub(super) fn reset(&mut self) {
        assert!(self.is_empty(), "every sector's slot was given back");
        self.0.shrink_to(SECTORS_POOLED_MAX);
    }

    /// Where `index` is, or would be.
    fn position(&self, index: u16) -> usize {
        self.0.partition_point(|sector| sector.index < index)
    }
}

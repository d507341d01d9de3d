//! What a fault does, drawn from a seed: which sectors of an interrupted write land, and where
//! misdirected pages go. Pure; `drive` says when a fault strikes.

use super::event::DiskEvents;
use nilas_base::Rng;
use std::ops::Range;

/// What a disk writes as one: a write is torn between sectors only.
pub(super) const SECTOR_BYTES: usize = 512;
/// What is misdirected: whole pages.
pub(super) const PAGE_BYTES: usize = 4096;

/// What becomes of writes that were interrupted together.
#[derive(Clone, Copy)]
pub(super) enum Interruption {
    /// All are as if they had been in time.
    KeepsAll,
    /// None has reached the medium.
    LosesAll,
    /// Each is kept, lost or torn for itself.
    TakesEach,
}

impl Interruption {
    /// Of all writes at once: a crash that keeps or loses all is one that a fair draw of many writes
    /// would never show.
    pub(super) fn draw(rng: &mut Rng) -> Interruption {
        match rng.below(8) {
            0 => Interruption::KeepsAll,
            1 => Interruption::LosesAll,
            _ => Interruption::TakesEach,
        }
    }

    /// The parts of a write to `offset` that land; counted by what they come to.
    pub(super) fn landed(
        self,
        rng: &mut Rng,
        events: &mut DiskEvents,
        (offset, length): (usize, usize),
    ) -> Vec<Range<usize>> {
        let parts = self.parts(rng, offset, length);
        match parts.iter().map(Range::len).sum::<usize>() {
            _ if length == 0 => {}
            0 => events.lost_writes += 1,
            landed if landed == length => events.kept_writes += 1,
            _ => events.torn_writes += 1,
        }
        parts
    }

    fn parts(self, rng: &mut Rng, offset: usize, length: usize) -> Vec<Range<usize>> {
        let whole = std::iter::once(0..length);
        match self {
            Interruption::KeepsAll => whole.collect(),
            Interruption::LosesAll => Vec::new(),
            Interruption::TakesEach => match rng.below(3) {
                0 => whole.collect(),
                1 => Vec::new(),
                _ => sectors(offset, length).filter(|_| rng.chance(1, 2)).collect(),
            },
        }
    }
}

/// The sectors of a run of bytes at `offset`, as ranges within the run.
fn sectors(offset: usize, length: usize) -> impl Iterator<Item = Range<usize>> {
    let end = offset + length;
    (offset / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES)).map(move |sector| {
        let start = offset.max(sector * SECTOR_BYTES);
        start - offset..end.min((sector + 1) * SECTOR_BYTES) - offset
    })
}

/// A run of pages of an operation that goes elsewhere.
#[derive(Debug)]
pub(super) struct Detour {
    /// Which of the operation's bytes.
    pub(super) within: Range<usize>,
    /// Where on the disk they go to or come from.
    pub(super) to: usize,
}

impl Detour {
    /// Some of the pages of `length` bytes at `offset`, or all; none on a disk without another place.
    pub(super) fn draw(
        rng: &mut Rng,
        disk_bytes: usize,
        (offset, length): (usize, usize),
    ) -> Option<Detour> {
        let pages = offset / PAGE_BYTES..(offset + length).div_ceil(PAGE_BYTES);
        let first = draw_within(rng, pages.clone());
        let count = 1 + draw_within(rng, 0..pages.end - first);
        let places = (disk_bytes / PAGE_BYTES + 1).checked_sub(count).filter(|&all| all > 1)?;
        let other = draw_within(rng, 0..places - 1);
        let place = if other < first { other } else { other + 1 };
        let start = offset.max(first * PAGE_BYTES);
        let end = (offset + length).min((first + count) * PAGE_BYTES);
        let to = place * PAGE_BYTES + start % PAGE_BYTES;
        Some(Detour { within: start - offset..end - offset, to })
    }
}

/// One of a range that is not empty.
pub(super) fn draw_within(rng: &mut Rng, range: Range<usize>) -> usize {
    range.start + rng.below(range.len() as u64) as usize
}

/// Fewer bytes than `bytes`: a multiple of a sector, and not none. None where there is no such number.
pub(super) fn draw_fewer(rng: &mut Rng, bytes: usize) -> Option<usize> {
    let sectors_max = bytes.checked_sub(1)? / SECTOR_BYTES;
    (sectors_max > 0).then(|| SECTOR_BYTES * draw_within(rng, 1..sectors_max + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_cover_a_run_and_meet_at_their_bounds() {
        let all: Vec<_> = sectors(500, 1000).collect();
        assert_eq!(all, [0..12, 12..524, 524..1000]);
        assert_eq!(sectors(512, 512).collect::<Vec<_>>(), [Range { start: 0, end: 512 }]);
    }

    #[test]
    fn a_detour_leads_to_another_place_within_the_disk() {
        let mut rng = Rng::from_seed(1);
        let mut lengths = std::collections::BTreeSet::new();
        for _ in 0..10_000 {
            let disk_bytes = SECTOR_BYTES * draw_within(&mut rng, 16..100);
            let offset = draw_within(&mut rng, 0..disk_bytes);
            let length = 1 + draw_within(&mut rng, 0..disk_bytes - offset);
            let Some(detour) = Detour::draw(&mut rng, disk_bytes, (offset, length)) else {
                continue;
            };
            let Detour { within, to } = detour;
            assert!(!within.is_empty() && within.end <= length);
            assert!(to + within.len() <= disk_bytes);
            assert_ne!(to, offset + within.start);
            assert_eq!(to % PAGE_BYTES, (offset + within.start) % PAGE_BYTES);
            lengths.insert(within.len().div_ceil(PAGE_BYTES));
        }
        assert!(lengths.len() > 3, "one page and runs of them");
    }

    #[test]
    fn fewer_bytes_are_sectors_and_not_none() {
        let mut rng = Rng::from_seed(2);
        assert_eq!(draw_fewer(&mut rng, 0), None);
        assert_eq!(draw_fewer(&mut rng, 512), None);
        assert_eq!(draw_fewer(&mut rng, 513), Some(512));
        assert!((0..100).all(|_| matches!(draw_fewer(&mut rng, 2048), Some(512 | 1024 | 1536))));
    }
}

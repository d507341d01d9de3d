//! The bound: what a cache would miss that knew the future, sector by sector. What is read next last leaves first,
//! the new one too, so that no policy of the same memory misses fewer sectors (Belady 1966).

use std::collections::BTreeSet;

use nilas_base::HashMap;

use super::memory::{MemoryShape, Tally};
use super::trace::{Request, Trace};

/// What is read never again.
const NEVER: u64 = u64::MAX;

/// A sector of an object.
type Sector = (u64, u64);

/// What the best there could be makes of a trace.
pub fn play(trace: &Trace, shape: MemoryShape) -> Tally {
    let next = next_reads(trace, shape.sector_bytes);
    let capacity = (shape.budget_bytes / shape.sector_bytes) as usize;
    let mut held = Held::default();
    let mut tally = Tally::default();
    let mut at = 0;
    for request in &trace.requests {
        let mut missed = 0;
        let mut is_asking = false;
        for sector in sectors(request, shape.sector_bytes) {
            let is_held = held.move_to((request.object, sector), next[at]);
            if !is_held {
                missed += wanted_bytes(request, sector, shape.sector_bytes);
                tally.origin_bytes += sector_length(request, sector, shape.sector_bytes);
                // One question for neighbours.
                tally.origin_requests += u64::from(!is_asking);
                held.take_in((request.object, sector), next[at], capacity);
            }
            is_asking = !is_held;
            at += 1;
        }
        tally.requests += 1;
        tally.bytes += request.range.len();
        tally.missed_bytes += missed;
        tally.missed_requests += u64::from(missed > 0);
    }
    tally
}

/// For each sector that is read, in order, when it is read next.
fn next_reads(trace: &Trace, sector_bytes: u64) -> Vec<u64> {
    let reads: Vec<Sector> = trace
        .requests
        .iter()
        .flat_map(|it| sectors(it, sector_bytes).map(|sector| (it.object, sector)))
        .collect();
    let mut next = vec![NEVER; reads.len()];
    let mut seen: HashMap<Sector, u64> = HashMap::default();
    for (at, sector) in reads.iter().enumerate().rev() {
        if let Some(later) = seen.insert(*sector, at as u64) {
            next[at] = later;
        }
    }
    next
}

fn sectors(request: &Request, sector_bytes: u64) -> std::ops::Range<u64> {
    request.range.start / sector_bytes..request.range.end.div_ceil(sector_bytes)
}

fn wanted_bytes(request: &Request, sector: u64, sector_bytes: u64) -> u64 {
    let start = request.range.start.max(sector * sector_bytes);
    request.range.end.min((sector + 1) * sector_bytes) - start
}

fn sector_length(request: &Request, sector: u64, sector_bytes: u64) -> u64 {
    request.length.min((sector + 1) * sector_bytes) - sector * sector_bytes
}

/// Sectors by when they are read next.
#[derive(Default)]
struct Held {
    next: HashMap<Sector, u64>,
    by_next: BTreeSet<(u64, Sector)>,
}

impl Held {
    /// A sector that is held is read now, and next at `next`; false where it is not held.
    fn move_to(&mut self, sector: Sector, next: u64) -> bool {
        let Some(known) = self.next.get_mut(&sector) else { return false };
        self.by_next.remove(&(*known, sector));
        self.by_next.insert((next, sector));
        *known = next;
        true
    }

    fn take_in(&mut self, sector: Sector, next: u64, capacity: usize) {
        self.next.insert(sector, next);
        self.by_next.insert((next, sector));
        if self.next.len() > capacity
            && let Some((_, victim)) = self.by_next.pop_last()
        {
            self.next.remove(&victim);
        }
    }
}

//! Room: the oldest segment is emptied and becomes free. Records that a policy of `carry_over` thinks worth it are
//! carried over into the open segment, merged with their neighbours in the block; the others are forgotten. It goes
//! before room is needed, one segment at a time, behind whatever clients wait for.

use std::rc::Rc;

use nilas_base::{ByteRange, HashSet};

use super::reader::{DiskBytes, Reading};
use super::writer::{Offer, Offered, RECORD_DATA_BYTES_MAX};
use super::{Area, IoClass};
use crate::disk::{PAGE_BYTES, Run};
use crate::store::BlockId;

/// Segments are emptied until so many are free: one to open next, and one that is kept for carry-over.
const FREE_MIN: usize = 2;
/// What is written to carry over, at most, for each segment that is emptied: one part of it in so many. With half of it
/// the origin is asked more often, in replays: what comes anew then has to leave before it is read again.
const CARRIED_DIVISOR: u64 = 5;

impl Area {
    /// Has segments emptied, if too few are free or the index is nearly full.
    pub(super) fn reclaim_soon(self: &Rc<Self>) {
        if !self.must_reclaim() || self.is_reclaiming.replace(true) {
            return;
        }
        let area = Rc::clone(self);
        self.reactor.spawn(async move {
            while area.must_reclaim() {
                let Some(segment) = area.take_oldest() else { break };
                area.empty(segment).await;
            }
            area.is_reclaiming.set(false);
            area.changed.raise();
        });
    }

    fn must_reclaim(&self) -> bool {
        self.is_recovered.get()
            && (self.segments.borrow().free() < FREE_MIN || self.index_is_short())
    }

    /// Whether something must leave, now or soon, for whatever is kept.
    pub(super) fn is_under_pressure(&self) -> bool {
        self.segments.borrow().free() <= FREE_MIN || self.index_is_short()
    }

    /// The segment to empty next: the open one, too, where it alone fills the index.
    fn take_oldest(self: &Rc<Self>) -> Option<u32> {
        let oldest = self.segments.borrow_mut().take_oldest();
        if oldest.is_none() && self.index_is_short() {
            self.submit();
            self.seal();
            return self.segments.borrow_mut().take_oldest();
        }
        oldest
    }

    async fn empty(self: &Rc<Self>, segment: u32) {
        // What is being written to it can be found afterwards, and is to be forgotten too.
        while self.is_being_written(segment) {
            self.changed.next().await;
        }
        let blocks = self.blocks_of(segment).await;
        self.carry_over(segment, &blocks).await;
        self.forget(segment, &blocks);
        while self.segments.borrow().is_pinned(segment) && !is_reused_early() {
            self.changed.next().await;
        }
        self.segments.borrow_mut().release(segment);
        self.count(|counts| counts.reclaimed += 1);
        self.changed.raise();
    }

    /// The blocks with records in a segment: by its summary, or by the index, which takes longer. Where writes were
    /// lost, head and summary may be those of an earlier life, which know nothing of this one's records.
    async fn blocks_of(self: &Rc<Self>, segment: u32) -> HashSet<BlockId> {
        let scanned = self.scan(segment, IoClass::CarryOver).await;
        let life = self.segments.borrow().life(segment);
        match scanned.is_sealed() && scanned.header.ok() == life {
            true => scanned.entries.into_iter().map(|entry| entry.block).collect(),
            false => self.index.borrow().blocks_in(segment).collect(),
        }
    }

    async fn carry_over(self: &Rc<Self>, segment: u32, blocks: &HashSet<BlockId>) {
        let runs = blocks.iter().flat_map(|block| {
            self.runs_in(segment, *block).map(|run| (*block, run)).collect::<Vec<_>>()
        });
        let with_worth = runs.map(|(block, run)| (self.worth(block, run), block, run));
        let mut hot: Vec<(u8, BlockId, Run)> =
            with_worth.filter(|(worth, ..)| *worth > 0).collect();
        // What spares most questions to the origin for each byte that is written.
        hot.sort_unstable_by_key(|(worth, _, run)| (run.data_bytes / u32::from(*worth), run.place));
        let mut bytes_left = u64::from(self.place.segment_bytes) / CARRIED_DIVISOR;
        for (_, block, run) in hot {
            // Carried already, as the neighbour of another.
            let is_still_there =
                self.index.borrow().runs(block).iter().any(|it| it.place == run.place);
            let range = self.with_neighbours(block, run);
            // With the header's page.
            let bytes = range.len() + PAGE_BYTES as u64;
            if bytes <= bytes_left && is_still_there {
                bytes_left -= bytes;
                self.carry(block, range).await;
            }
        }
    }

    fn worth(&self, block: BlockId, run: Run) -> u8 {
        self.carry_over.borrow().worth(block, run.uses)
    }

    fn runs_in(&self, segment: u32, block: BlockId) -> impl Iterator<Item = Run> + use<> {
        let runs: Vec<Run> = self.index.borrow().runs(block).to_vec();
        runs.into_iter().filter(move |run| run.place.segment == segment)
    }

    fn forget(
        &self,
        segment: u32,
        blocks: impl IntoIterator<Item = impl std::borrow::Borrow<BlockId>>,
    ) {
        for block in blocks {
            let block = *block.borrow();
            for run in self.runs_in(segment, block) {
                self.drop_record(block, run.place);
                self.count(|counts| counts.evicted += 1);
            }
        }
    }

    /// Writes bytes of a block anew, as one record. Whatever fails on the way, they are only kept no more.
    async fn carry(self: &Rc<Self>, block: BlockId, range: ByteRange) {
        let mut pieces = Vec::new();
        let mut header = None;
        let mut at = range.start;
        while at < range.end {
            let identity =
                header.as_ref().map(|header: &Rc<crate::disk::RecordHeader>| &*header.identity);
            let wanted = ByteRange::new(at, range.end);
            let class = IoClass::CarryOver;
            let reading = Reading { block, identity, wanted, buffers: Vec::new(), class };
            let Ok((bytes, of)) = self.read_checked(reading).await else { return };
            at = bytes.range().end;
            pieces.push(bytes);
            header.get_or_insert(of);
        }
        let Some(header) = header else { return };
        let slices: Vec<&[u8]> = pieces.iter().flat_map(DiskBytes::pieces).collect();
        let first_byte = range.start as u32;
        let identity = &*header.identity;
        let offer = Offer { block, identity, first_byte, pieces: &slices, is_carry_over: true };
        loop {
            match self.append(&offer) {
                // Of those that make room this is one: only writes in flight help it.
                Offered::Busy if self.writes_are_in_flight() => self.changed.next().await,
                Offered::Busy | Offered::Refused => return,
                Offered::Taken | Offered::Held => break,
            }
        }
        self.count(|counts| counts.carried_bytes += range.len());
    }

    /// The bytes of a record and of those that touch it, as far as one record may hold them.
    fn with_neighbours(&self, block: BlockId, run: Run) -> ByteRange {
        let index = self.index.borrow();
        let mut whole = run.range();
        loop {
            let joined = index.runs(block).iter().map(Run::range).find_map(|other| {
                let touches = other.start <= whole.end && whole.start <= other.end;
                let both = ByteRange::new(whole.start.min(other.start), whole.end.max(other.end));
                let fits = both.len() <= u64::from(RECORD_DATA_BYTES_MAX);
                (touches && fits && both != whole).then_some(both)
            });
            match joined {
                Some(both) => whole = both,
                None => return whole,
            }
        }
    }
}

#[cfg(not(feature = "mutations"))]
fn is_reused_early() -> bool {
    false
}

/// The planted fault: a segment is reused while a read of it is in flight.
#[cfg(feature = "mutations")]
fn is_reused_early() -> bool {
    crate::mutation::DiskMutation::SegmentReusedEarly.is_planted()
}

//! What was there before: the index is rebuilt from the segments' summaries, several segments at a time, while the
//! shard serves. Nothing is believed by it: where a record seems to lie is looked at when it is read.

use std::cell::Cell;
use std::rc::Rc;

use super::{Area, AreaStore, IoClass};
use crate::disk::{DiskIndex, Place, Run, ScannedSegment};

/// Segments that are looked at at once: as many as one device answers at a time.
const SCANS_MAX: usize = 16;

/// What was found, so far or at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Segments that were looked at.
    pub looked_at: u32,
    /// Segments with records.
    pub segments: u32,
    /// Of those, such as had to be read through, for they were not sealed.
    pub unsealed: u32,
    /// Such as could not be read, or whose head or summary was damaged.
    pub damaged: u32,
    /// Records that can be found.
    pub records: u64,
}

/// What is left to look at, and what was found so far.
struct Recovery {
    next: Cell<u32>,
    looking: Cell<usize>,
    /// The first segment with records has told how many there may be.
    has_expected: Cell<bool>,
}

impl AreaStore {
    /// Looks at all segments; blocks can be found as it goes on, and are kept when it has ended. Once.
    pub async fn recover(&self) -> Recovered {
        let recovery = Rc::new(Recovery {
            next: Cell::new(0),
            looking: Cell::new(SCANS_MAX),
            has_expected: Cell::new(false),
        });
        for _ in 0..SCANS_MAX {
            let (area, recovery) = (Rc::clone(&self.0), Rc::clone(&recovery));
            self.0.reactor.spawn(async move {
                area.look_at_segments(&recovery).await;
                recovery.looking.set(recovery.looking.get() - 1);
                area.changed.raise();
            });
        }
        while recovery.looking.get() > 0 {
            self.0.changed.next().await;
        }
        self.0.segments.borrow_mut().all_found();
        self.0.is_recovered.set(true);
        self.0.changed.raise();
        self.0.reclaim_soon();
        self.recovered()
    }

    /// Whether the start has found all that there is.
    pub fn is_recovered(&self) -> bool {
        self.0.is_recovered.get()
    }

    /// What the start has found so far.
    pub fn recovered(&self) -> Recovered {
        self.0.recovered.get()
    }
}

impl Area {
    async fn look_at_segments(self: &Rc<Self>, recovery: &Recovery) {
        loop {
            let segment = recovery.next.get();
            if segment == self.segments.borrow().count() {
                return;
            }
            recovery.next.set(segment + 1);
            let scanned = self.scan(segment, IoClass::Fill).await;
            self.take_in(segment, &scanned, recovery);
        }
    }

    fn take_in(&self, segment: u32, scanned: &ScannedSegment, recovery: &Recovery) {
        let mut found = self.recovered.get();
        found.looked_at += 1;
        let is_damaged = match scanned.header {
            Ok(_) => scanned.summary_is_broken(),
            Err(fault) => !fault.is_nothing(),
        };
        found.damaged += u32::from(is_damaged);
        self.segments.borrow_mut().found(segment, scanned.header.ok().map(|it| it.generation));
        if scanned.header.is_ok() {
            found.segments += 1;
            found.unsealed += u32::from(!scanned.is_sealed());
        }
        let (mut index, segments) = (self.index.borrow_mut(), self.segments.borrow());
        let age = |place: Place| segments.life(place.segment).map(|it| (it.generation, place.page));
        if !scanned.entries.is_empty() && !recovery.has_expected.replace(true) {
            index.expect(
                scanned.entries.len() as u64 * u64::from(segments.count()),
                self.index_bytes_max,
            );
        }
        for entry in &scanned.entries {
            if index.memory_bytes() + DiskIndex::RECORD_BYTES_MAX > self.index_bytes_max {
                break;
            }
            let place = Place { segment, page: entry.page };
            let run = Run {
                place,
                first_byte: entry.first_byte,
                data_bytes: entry.data_bytes,
                header_pages: entry.header_pages as u16,
                uses: 0,
            };
            found.records += u64::from(index.insert_found(entry.block, run, age));
        }
        drop((index, segments));
        self.recovered.set(found);
        self.count(|counts| {
            counts.records = found.records;
            counts.damaged_segments = u64::from(found.damaged);
        });
    }
}

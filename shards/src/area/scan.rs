//! Looks at one segment: gives a scan of it the bytes that it asks for. Where it has to be read through, more than was
//! asked for is read at once, by one scan at a time, so that the memory for it has a bound.

use std::io;
use std::rc::Rc;

use super::join::join_all;
use super::{Area, IoClass};
use crate::buffer::Buffer;
use crate::disk::{PAGE_BYTES, ScanStep, ScannedSegment, SegmentScan, Summary, pages_of};

/// Bytes of a read at most; who asks for as many reads a segment through.
const PIECE_PAGES: u32 = 128;
/// Pieces that are read at once where a segment is read through: as many hide the time between a read and the next.
const PIECES_AHEAD: u32 = 4;

/// Pages of a segment that were read together.
struct Window {
    first: u32,
    bytes: Vec<u8>,
}

impl Window {
    /// Some of its pages, if it has all of them.
    fn pages(&self, first: u32, pages: u32) -> Option<&[u8]> {
        let start = first.checked_sub(self.first)? as usize * PAGE_BYTES;
        self.bytes.get(start..start + pages as usize * PAGE_BYTES)
    }
}

/// The right to read far ahead, of which an area has one.
struct ReadThrough<'a>(&'a Area);

impl<'a> ReadThrough<'a> {
    fn take(area: &'a Area) -> Option<ReadThrough<'a>> {
        (!area.is_reading_through.replace(true)).then(|| ReadThrough(area))
    }
}

impl Drop for ReadThrough<'_> {
    fn drop(&mut self) {
        self.0.is_reading_through.set(false);
    }
}

impl Area {
    /// Finds the records of a segment.
    pub(super) async fn scan(self: &Rc<Self>, segment: u32, class: IoClass) -> ScannedSegment {
        let _pin = self.pin(segment);
        let mut scan = SegmentScan::new(self.place, segment).expecting(self.summary_bytes.get());
        let mut step = scan.step(None);
        let mut right = None;
        let mut window = Window { first: 0, bytes: Vec::new() };
        loop {
            let (offset, bytes) = match step {
                ScanStep::Done(found) => {
                    self.note_summary(&found);
                    return found;
                }
                ScanStep::Read { offset, bytes } => (offset, bytes),
            };
            let first = (offset / PAGE_BYTES as u64) as u32;
            let pages = pages_of(bytes) as u32;
            if pages == PIECE_PAGES && right.is_none() {
                right = ReadThrough::take(self);
            }
            if right.is_some() && pages == PIECE_PAGES && window.pages(first, pages).is_none() {
                window = self.read_window(segment, first, class).await;
            }
            if let Some(bytes) = window.pages(first, pages) {
                step = scan.step(Some(Ok(bytes)));
                continue;
            }
            let read: io::Result<_> = self.read_pages(segment, (first, pages), class).await;
            step = scan.step(Some(match &read {
                Ok(buffer) => Ok(buffer.filled()),
                Err(_) => Err(()),
            }));
        }
    }

    /// The pages from `first` on, as far ahead as may be and as they can be read without a gap.
    async fn read_window(&self, segment: u32, first: u32, class: IoClass) -> Window {
        let end = self.place.segment_bytes / PAGE_BYTES as u32;
        let end = end.min(first + PIECES_AHEAD * PIECE_PAGES);
        let pieces = (first..end).step_by(PIECE_PAGES as usize);
        let reads =
            pieces.map(|at| self.read_pages(segment, (at, PIECE_PAGES.min(end - at)), class));
        let read: Vec<io::Result<Buffer>> = join_all(reads).await;
        let whole: Vec<&[u8]> =
            read.iter().map_while(|it| it.as_ref().ok()).map(Buffer::filled).collect();
        Window { first, bytes: whole.concat() }
    }

    fn note_summary(&self, found: &ScannedSegment) {
        if found.is_sealed() {
            let bytes = Summary::bytes_of(found.entries.len());
            self.summary_bytes.set(self.summary_bytes.get().max(bytes));
        }
    }
}

//! Reads parts of an area from front to back, in pieces, some of them ahead. What cannot be read comes as zeros, which
//! are no batch and no ledger; so there are no errors here, only less to find.

use std::collections::VecDeque;
use std::ops::Range;

use super::pages::{AreaPages, Reading};
use crate::disk::{Batch, PAGE_BYTES, Unreadable};

/// Pages of a piece at most: 512 KiB, the longest read there is.
const PIECE_PAGES_MAX: u32 = 128;
/// Pieces that are read ahead at most.
const PIECES_IN_FLIGHT_MAX: usize = 4;

/// Pages that come in order. Those behind which somebody has asked are forgotten.
pub(super) struct PageStream<'a> {
    area: &'a AreaPages,
    /// What has not been asked for yet.
    spans: VecDeque<Range<u32>>,
    in_flight: VecDeque<Reading>,
    window: Vec<u8>,
    /// The window's first page.
    window_page: u32,
    /// Whether something could not be read.
    pub(super) is_incomplete: bool,
}

impl<'a> PageStream<'a> {
    /// Of these parts, one after the other.
    pub(super) fn new(
        area: &'a AreaPages,
        spans: impl IntoIterator<Item = Range<u32>>,
    ) -> PageStream<'a> {
        let spans = spans.into_iter().filter(|span| span.start < span.end).collect();
        let in_flight = VecDeque::new();
        let window = Vec::new();
        PageStream { area, spans, in_flight, window, window_page: 0, is_incomplete: false }
    }

    /// The batch that begins at `page`, whoever wrote it.
    pub(super) async fn batch(&mut self, page: u32) -> Result<Batch<'_>, Unreadable> {
        let first = self.pages(page, 1).await.ok_or(Unreadable::Foreign)?;
        let pages = Batch::pages_told_by(first)?;
        let (device, area) = (self.area.place.device, self.area.place.number);
        let bytes = self.pages(page, pages).await.ok_or(Unreadable::Checksum)?;
        Batch::decode(bytes, device, area, page)
    }

    /// So many pages from `page` on, if they are in one of the parts.
    pub(super) async fn pages(&mut self, page: u32, count: u32) -> Option<&[u8]> {
        while page < self.window_page || page + count > self.window_end() {
            self.slide(page).await?;
        }
        let start = (page - self.window_page) as usize * PAGE_BYTES;
        Some(&self.window[start..][..count as usize * PAGE_BYTES])
    }

    fn window_end(&self) -> u32 {
        self.window_page + (self.window.len() / PAGE_BYTES) as u32
    }

    /// Takes in the next piece; of what the window has, only what is wanted from `page` on stays. None where there is
    /// no next, or it does not continue what is wanted.
    async fn slide(&mut self, page: u32) -> Option<()> {
        self.read_ahead();
        let reading = self.in_flight.pop_front()?;
        let (piece_page, piece_pages) = (reading.page, reading.pages);
        let piece = self.area.finish_read(reading).await;
        let is_begun = (self.window_page..self.window_end()).contains(&page);
        if is_begun && piece_page != self.window_end() {
            return None;
        }
        if is_begun {
            self.window.drain(..(page - self.window_page) as usize * PAGE_BYTES);
            self.window_page = page;
        } else {
            self.window.clear();
            self.window_page = piece_page;
        }
        let end = self.window.len() + piece_pages as usize * PAGE_BYTES;
        self.window.extend_from_slice(piece.filled());
        self.is_incomplete |= self.window.len() < end;
        self.window.resize(end, 0);
        Some(())
    }

    fn read_ahead(&mut self) {
        while self.in_flight.len() < PIECES_IN_FLIGHT_MAX
            && let Some(span) = self.spans.front_mut()
        {
            let pages = PIECE_PAGES_MAX.min(span.end - span.start);
            self.in_flight.push_back(self.area.start_read(span.start, pages));
            span.start += pages;
            if span.start == span.end {
                self.spans.pop_front();
            }
        }
    }
}

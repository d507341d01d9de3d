//! Finds the records of one segment: in its summary where it is sealed, from header to header where it is not. It
//! does no I/O: it asks for a part of the segment, is given the bytes or that they cannot be read, and asks for the
//! next. What it finds is where to look, not what is there: no page of data is checked here.

use super::page::{PAGE_BYTES, pages_of};
use super::record::HEADER_PAGES_MAX;
use super::{AreaPlace, RecordHeader, SegmentHeader, Summary, SummaryEntry, Unreadable};

#[cfg(test)]
mod tests;

/// Bytes of a read at most.
const PIECE_BYTES: usize = 512 << 10;
/// Bytes that are read behind a record that was longer than what had been read: the next may be as long, and only its
/// header is needed.
const HOP_BYTES: usize = 64 << 10;
/// Of a segment, this part at its end is read at once where nobody knows better: a summary of records of 36 KiB on
/// average is in it whole. Reading more of each would take longer than to ask a second time for the few.
const TAIL_DIVISOR: usize = 1024;

// A header that a piece cuts is read again from its beginning, and must fit then.
const _: () = assert!(HEADER_PAGES_MAX * PAGE_BYTES <= HOP_BYTES);

/// Why a part of a segment tells nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScanFault {
    /// The device does not give it.
    #[error("the device cannot read it")]
    Unread,
    /// It is not what should be there.
    #[error(transparent)]
    Wrong(#[from] Unreadable),
}

impl ScanFault {
    /// Whether there is just nothing of the segment's present life: a blank place, or what a former life left.
    pub fn is_nothing(self) -> bool {
        let nothings = [Unreadable::Foreign, Unreadable::Misplaced];
        matches!(self, ScanFault::Wrong(why) if nothings.contains(&why))
    }
}

/// Pages of a segment that may have held a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFault {
    /// The first, counted from the segment's beginning.
    pub page: u32,
    /// How many.
    pub pages: u32,
    /// What is wrong with them.
    pub fault: ScanFault,
}

/// What a segment holds, as far as can be seen without reading its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannedSegment {
    /// Its first page. Without it nothing of the segment is believed.
    pub header: Result<SegmentHeader, ScanFault>,
    /// Whether its summary was there; if not, it was read through. See [`ScannedSegment::summary_is_broken`].
    pub summary: Result<(), ScanFault>,
    /// Its records, in order.
    pub entries: Vec<SummaryEntry>,
    /// What began as a record and is none, or could not be read; only where it was read through.
    pub faults: Vec<PageFault>,
    /// The first page behind the last record.
    pub pages_end: u32,
}

impl ScannedSegment {
    fn without_header(fault: ScanFault) -> ScannedSegment {
        let (header, summary) = (Err(fault), Err(fault));
        ScannedSegment { header, summary, entries: Vec::new(), faults: Vec::new(), pages_end: 1 }
    }

    /// Whether it was sealed, so that its records are those of its summary.
    pub fn is_sealed(&self) -> bool {
        self.summary.is_ok()
    }

    /// Whether it was sealed, or about to be, and its summary is damaged or torn. Its records were found all the same.
    pub fn summary_is_broken(&self) -> bool {
        self.header.is_ok() && self.summary.is_err_and(|fault| !fault.is_nothing())
    }
}

/// What a scan wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScanStep {
    /// Bytes of the segment, for the next step.
    Read {
        /// Where they begin, counted from the segment's beginning: at a page.
        offset: u64,
        /// How many: whole pages, 512 KiB at most.
        bytes: usize,
    },
    /// Nothing more.
    Done(ScannedSegment),
}

/// A segment that is being read. A sealed one takes two reads, or a few more where it has thousands of records; a
/// blank one takes one.
#[derive(Debug)]
pub struct SegmentScan {
    place: AreaPlace,
    number: u32,
    stage: Stage,
    /// Bytes of the segment's end that are read at once.
    tail_bytes: usize,
    /// The first page that was asked for, and how many.
    asked: (u32, u32),
    found: ScannedSegment,
}

/// What was asked for.
#[derive(Debug)]
enum Stage {
    New,
    Header,
    Tail,
    /// The summary, which the tail did not hold whole; read so far.
    Summary {
        read: Vec<u8>,
        bytes: usize,
    },
    /// The records from this page on, one after the other.
    Records {
        page: u32,
    },
    Done,
}

impl SegmentScan {
    /// Of the segment `number` of an area.
    pub fn new(place: AreaPlace, number: u32) -> SegmentScan {
        let found = ScannedSegment::without_header(ScanFault::Unread);
        let tail_bytes = place.segment_bytes as usize / TAIL_DIVISOR;
        SegmentScan { place, number, stage: Stage::New, tail_bytes, asked: (0, 0), found }
    }

    /// The same, by one who has seen a summary of so many bytes in the segment's area: the next may be as long.
    #[must_use]
    pub fn expecting(self, summary_bytes: usize) -> SegmentScan {
        let tail_bytes = self.tail_bytes.max(summary_bytes.min(PIECE_BYTES));
        SegmentScan { tail_bytes, ..self }
    }

    /// Takes what the step before asked for: its bytes, or that they cannot be read. The first step takes nothing.
    /// Fewer bytes than were asked for count as none.
    ///
    /// # Panics
    /// Where it has been done.
    pub fn step(&mut self, read: Option<Result<&[u8], ()>>) -> ScanStep {
        let bytes = match read {
            Some(Ok(bytes)) if bytes.len() == self.asked.1 as usize * PAGE_BYTES => Ok(bytes),
            _ => Err(ScanFault::Unread),
        };
        self.stage = match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::New => self.ask(0, PAGE_BYTES, Stage::Header),
            Stage::Header => self.take_header(bytes),
            Stage::Tail => self.take_tail(bytes),
            Stage::Summary { read, bytes: length } => self.take_summary(bytes, read, length),
            Stage::Records { page } => self.take_records(bytes, page),
            Stage::Done => panic!("a scan that is done"),
        };
        if let Stage::Done = self.stage {
            let rest = ScannedSegment::without_header(ScanFault::Unread);
            return ScanStep::Done(std::mem::replace(&mut self.found, rest));
        }
        let (page, pages) = self.asked;
        ScanStep::Read {
            offset: u64::from(page) * PAGE_BYTES as u64,
            bytes: pages as usize * PAGE_BYTES,
        }
    }

    fn segment_pages(&self) -> u32 {
        self.place.segment_bytes / PAGE_BYTES as u32
    }

    /// Asks for so many bytes from a page on, or for what the segment has of them.
    fn ask(&mut self, page: u32, bytes: usize, stage: Stage) -> Stage {
        let pages = pages_of(bytes) as u32;
        self.asked = (page, pages.min(self.segment_pages() - page));
        stage
    }

    fn take_header(&mut self, page: Result<&[u8], ScanFault>) -> Stage {
        let AreaPlace { device, number: area, .. } = self.place;
        let decode = |page| Ok(SegmentHeader::decode(page, device, area, self.number)?);
        match page.and_then(decode) {
            Err(fault) => {
                self.found = ScannedSegment::without_header(fault);
                Stage::Done
            }
            Ok(header) => {
                self.found.header = Ok(header);
                let tail = pages_of(self.tail_bytes) as u32;
                let page = self.segment_pages().saturating_sub(tail);
                self.ask(page, self.tail_bytes, Stage::Tail)
            }
        }
    }

    fn take_tail(&mut self, tail: Result<&[u8], ScanFault>) -> Stage {
        match tail.and_then(|tail| Ok((tail, self.summary_bytes(tail)?))) {
            Err(fault) => self.without_summary(fault),
            Ok((tail, bytes)) if bytes <= tail.len() => self.end_with_summary(tail),
            Ok((_, bytes)) => self.ask_for_summary(Vec::with_capacity(bytes), bytes),
        }
    }

    /// How long the summary is that ends with `tail`, if it may be the present life's.
    fn summary_bytes(&self, tail: &[u8]) -> Result<usize, Unreadable> {
        let bytes = Summary::bytes_told_by(tail, self.place.segment_bytes)?;
        let present = self.found.header.ok().map(|header| header.generation);
        if Summary::life_told_by(tail) < present { Err(Unreadable::Misplaced) } else { Ok(bytes) }
    }

    fn ask_for_summary(&mut self, read: Vec<u8>, bytes: usize) -> Stage {
        let missing = bytes - read.len();
        let page = self.segment_pages() - pages_of(missing) as u32;
        self.ask(page, missing.min(PIECE_BYTES), Stage::Summary { read, bytes })
    }

    fn take_summary(
        &mut self,
        piece: Result<&[u8], ScanFault>,
        mut read: Vec<u8>,
        bytes: usize,
    ) -> Stage {
        match piece {
            Err(fault) => return self.without_summary(fault),
            Ok(piece) => read.extend_from_slice(piece),
        }
        if read.len() < bytes {
            return self.ask_for_summary(read, bytes);
        }
        self.end_with_summary(&read)
    }

    fn end_with_summary(&mut self, tail: &[u8]) -> Stage {
        let header = self.found.header;
        let summary =
            header.and_then(|header| Ok(Summary::decode(tail, self.place.segment_bytes, header)?));
        match summary {
            Err(fault) => self.without_summary(fault),
            Ok(summary) => {
                self.found.summary = Ok(());
                self.found.pages_end = summary.entries.last().map_or(1, SummaryEntry::pages_end);
                self.found.entries = summary.entries;
                Stage::Done
            }
        }
    }

    fn without_summary(&mut self, fault: ScanFault) -> Stage {
        self.found.summary = Err(fault);
        self.ask(1, PIECE_BYTES, Stage::Records { page: 1 })
    }

    /// Takes the pages from `first` on.
    fn take_records(&mut self, piece: Result<&[u8], ScanFault>, first: u32) -> Stage {
        let end = first + self.asked.1;
        let next = match piece {
            Ok(piece) => self.records_of(piece, first),
            Err(fault) => {
                self.found.faults.push(PageFault { page: first, pages: end - first, fault });
                end
            }
        };
        if next >= self.segment_pages() {
            return Stage::Done;
        }
        let bytes = if next > end { HOP_BYTES } else { PIECE_BYTES };
        self.ask(next, bytes, Stage::Records { page: next })
    }

    /// Finds the records that begin in a piece; gives the page to go on from.
    fn records_of(&mut self, piece: &[u8], first: u32) -> u32 {
        let end = first + pages_of(piece.len()) as u32;
        let mut page = first;
        while page < end {
            let rest = &piece[(page - first) as usize * PAGE_BYTES..];
            let told_bytes = RecordHeader::pages_told_by(rest).map(|pages| pages * PAGE_BYTES);
            if end < self.segment_pages() && told_bytes.is_ok_and(|told| told > rest.len()) {
                return page;
            }
            page = match self.record_at(page, rest) {
                Ok(entry) => {
                    self.found.entries.push(entry);
                    self.found.pages_end = entry.pages_end();
                    entry.pages_end()
                }
                Err(fault) => {
                    if !fault.is_nothing() {
                        self.found.faults.push(PageFault { page, pages: 1, fault });
                    }
                    page + 1
                }
            };
        }
        page
    }

    fn record_at(&self, page: u32, bytes: &[u8]) -> Result<SummaryEntry, ScanFault> {
        let header = RecordHeader::decode(bytes, self.found.header?, page)?;
        let RecordHeader { block, first_byte, data_bytes, .. } = header;
        let header_pages = header.pages() as u32;
        let entry = SummaryEntry { block, page, first_byte, data_bytes, header_pages };
        let fits = entry.pages_end() <= self.segment_pages();
        if fits { Ok(entry) } else { Err(Unreadable::Impossible.into()) }
    }
}

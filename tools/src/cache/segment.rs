//! One segment of an area: its records as a scan finds them, and each read and checked page by page. A megabyte is
//! held at a time, however long segment and record are.

use nilas_shards::disk::{
    AreaPlace, PAGE_BYTES, RecordHeader, ScanFault, ScanStep, ScannedSegment, SegmentHeader,
    SegmentScan, SummaryEntry, Unreadable, pages_of,
};

use super::device::{CacheDevice, PageBuffer};

/// Pages that are read at once.
const WINDOW_PAGES: u32 = 256;

/// Reads segments of an area, one after the other.
pub(super) struct SegmentReader<'a> {
    device: &'a CacheDevice,
    place: AreaPlace,
    number: u32,
    buffer: PageBuffer,
    /// The pages of the segment that the buffer holds: the first, and the first behind them.
    held: (u32, u32),
    /// Nothing is read from here on.
    pages_end: u32,
    /// Before this page a long read failed, so that each page is tried alone.
    careful_until: u32,
}

/// A record, read whole.
pub(super) struct CheckedRecord {
    /// Its header, if that is the one that should be there.
    pub(super) header: Result<RecordHeader, ScanFault>,
    /// Its pages of data, counted from 0, that are not what was written.
    pub(super) wrong: Vec<u32>,
    /// Those that the device cannot read.
    pub(super) unread: Vec<u32>,
}

impl CheckedRecord {
    pub(super) fn is_whole(&self) -> bool {
        self.header.is_ok() && self.wrong.is_empty() && self.unread.is_empty()
    }

    /// How many of its pages the device cannot read: without its header, none.
    pub(super) fn unread_pages(&self, entry: &SummaryEntry) -> u32 {
        match self.header {
            Err(ScanFault::Unread) => entry.header_pages,
            _ => self.unread.len() as u32,
        }
    }

    /// What is wrong with it, if anything is.
    pub(super) fn wrong_text(&self) -> Option<String> {
        if let Err(fault) = self.header {
            return Some(format!("header: {fault}"));
        }
        let parts = [(&self.wrong, "do not hold"), (&self.unread, "cannot be read")];
        let told: Vec<String> = parts
            .into_iter()
            .filter(|(pages, _)| !pages.is_empty())
            .map(|(pages, what)| format!("pages of data that {what}: {}", pages_text(pages)))
            .collect();
        (!told.is_empty()).then(|| told.join("; "))
    }
}

impl<'a> SegmentReader<'a> {
    /// Of an area.
    pub(super) fn new(device: &'a CacheDevice, place: AreaPlace) -> SegmentReader<'a> {
        let buffer = PageBuffer::new(WINDOW_PAGES as usize * PAGE_BYTES);
        let (held, pages_end) = ((0, 0), 0);
        SegmentReader { device, place, number: 0, buffer, held, pages_end, careful_until: 0 }
    }

    /// Segments of the area.
    pub(super) fn count(&self) -> u32 {
        (self.place.length / u64::from(self.place.segment_bytes)) as u32
    }

    /// Goes on to a segment, and finds its records.
    pub(super) fn scan(&mut self, number: u32) -> ScannedSegment {
        (self.number, self.held, self.careful_until) = (number, (0, 0), 0);
        let mut scan = SegmentScan::new(self.place, number);
        let mut step = scan.step(None);
        loop {
            let (offset, bytes) = match step {
                ScanStep::Read { offset, bytes } => (offset, bytes),
                ScanStep::Done(found) => {
                    self.pages_end = found.pages_end;
                    return found;
                }
            };
            let read = self.device.read(self.offset() + offset, bytes, &mut self.buffer);
            step = scan.step(Some(read.map_err(|_| ())));
        }
    }

    /// The segment's first page as it is.
    pub(super) fn first_page(&mut self) -> Result<&[u8], ScanFault> {
        self.held = (0, 0);
        self.device.read(self.offset(), PAGE_BYTES, &mut self.buffer)
    }

    /// Reads the header of a record of the segment that was scanned.
    pub(super) fn header(
        &mut self,
        life: SegmentHeader,
        entry: &SummaryEntry,
    ) -> Result<RecordHeader, ScanFault> {
        let pages = entry.header_pages.min(WINDOW_PAGES);
        let header = RecordHeader::decode(self.pages(entry.page, pages)?, life, entry.page)?;
        let told = (header.block, header.first_byte, header.data_bytes, header.pages() as u32);
        let wanted = (entry.block, entry.first_byte, entry.data_bytes, entry.header_pages);
        if told == wanted { Ok(header) } else { Err(Unreadable::Misplaced.into()) }
    }

    /// Reads a whole record, and checks each of its pages.
    pub(super) fn check(&mut self, life: SegmentHeader, entry: &SummaryEntry) -> CheckedRecord {
        let (mut wrong, mut unread) = (Vec::new(), Vec::new());
        let header = self.header(life, entry);
        if let Ok(header) = &header {
            let first = entry.page + entry.header_pages;
            for page in 0..pages_of(entry.data_bytes as usize) as u32 {
                match self.pages(first + page, 1) {
                    Err(_) => unread.push(page),
                    Ok(bytes) if !header.page_is_right(page, bytes) => wrong.push(page),
                    Ok(_) => {}
                }
            }
        }
        CheckedRecord { header, wrong, unread }
    }

    fn offset(&self) -> u64 {
        self.place.offset + u64::from(self.number) * u64::from(self.place.segment_bytes)
    }

    /// Pages of the segment, read together with those that follow.
    fn pages(&mut self, page: u32, count: u32) -> Result<&[u8], ScanFault> {
        let end = page + count;
        if page < self.held.0 || self.held.1 < end {
            self.hold(page, end)?;
        }
        let start = (page - self.held.0) as usize * PAGE_BYTES;
        let held = self.buffer.get((end - self.held.0) as usize * PAGE_BYTES);
        Ok(&held[start..])
    }

    fn hold(&mut self, page: u32, end: u32) -> Result<(), ScanFault> {
        let far_end = self.pages_end.min(page + WINDOW_PAGES).max(end);
        self.held = (0, 0);
        if page >= self.careful_until && self.read(page, far_end).is_ok() {
            return Ok(());
        }
        self.careful_until = self.careful_until.max(far_end);
        self.read(page, end)
    }

    fn read(&mut self, page: u32, end: u32) -> Result<(), ScanFault> {
        let offset = self.offset() + u64::from(page) * PAGE_BYTES as u64;
        self.device.read(offset, (end - page) as usize * PAGE_BYTES, &mut self.buffer)?;
        self.held = (page, end);
        Ok(())
    }
}

/// Numbers of pages, runs of them put together.
fn pages_text(pages: &[u32]) -> String {
    let runs = pages.chunk_by(|before, after| before + 1 == *after);
    let text = |run: &[u32]| match run {
        [first, .., last] => format!("{first}–{last}"),
        run => format!("{}", run[0]),
    };
    runs.map(text).collect::<Vec<_>>().join(", ")
}

/// What a segment is, by its first page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentState {
    /// Its records are in its summary.
    Sealed,
    /// It has no summary of its present life: the node writes to it, or was stopped while it did.
    Open,
    /// It has a summary, which is damaged or torn.
    SummaryDamaged(ScanFault),
    /// Nothing was written there.
    Blank,
    /// What another layout, or another program, left there.
    Stale,
    /// It should tell which segment it is, and does not.
    Damaged(ScanFault),
    /// Another segment of this device lies there.
    Swapped(SegmentHeader),
    /// The device cannot read its first page.
    Unread,
}

impl SegmentState {
    /// The state of the segment that was scanned.
    pub(super) fn of(reader: &mut SegmentReader<'_>, found: &ScannedSegment) -> SegmentState {
        match (found.header, found.summary) {
            (Ok(_), Ok(())) => SegmentState::Sealed,
            (Ok(_), Err(fault)) if found.summary_is_broken() => SegmentState::SummaryDamaged(fault),
            (Ok(_), Err(_)) => SegmentState::Open,
            (Err(fault), _) => {
                let device = reader.place.device;
                let Ok(page) = reader.first_page() else { return SegmentState::Unread };
                match SegmentHeader::told_by(page) {
                    Ok(header) if header.device == device => SegmentState::Swapped(header),
                    Ok(_) => SegmentState::Stale,
                    Err(Unreadable::Foreign) => of_foreign_page(page),
                    Err(_) => SegmentState::Damaged(fault),
                }
            }
        }
    }
}

impl SegmentState {
    /// In a word.
    pub(super) fn name(self) -> &'static str {
        match self {
            SegmentState::Sealed | SegmentState::SummaryDamaged(_) => "sealed",
            SegmentState::Open => "open",
            SegmentState::Blank => "blank",
            SegmentState::Stale => "stale",
            SegmentState::Damaged(_) => "damaged",
            SegmentState::Swapped(_) => "swapped",
            SegmentState::Unread => "unread",
        }
    }

    /// What is wrong with it, if anything is.
    pub(super) fn wrong_text(self) -> Option<String> {
        match self {
            SegmentState::Sealed
            | SegmentState::Open
            | SegmentState::Blank
            | SegmentState::Stale => None,
            SegmentState::SummaryDamaged(fault) => Some(format!("summary: {fault}")),
            SegmentState::Damaged(fault) => Some(format!("first page: {fault}")),
            SegmentState::Swapped(SegmentHeader { area, number, .. }) => {
                Some(format!("segment {number} of area {area} lies here"))
            }
            SegmentState::Unread => Some(format!("first page: {}", ScanFault::Unread)),
        }
    }

    /// Whether it is the device that does not read it.
    pub(super) fn is_unread(self) -> bool {
        matches!(self, SegmentState::Unread | SegmentState::SummaryDamaged(ScanFault::Unread))
    }
}

/// A page that does not begin as a segment does. A header is a few bytes and then zeros, as hardly anything else is: so
/// one whose beginning has flipped is told from what was there before the cache.
fn of_foreign_page(page: &[u8]) -> SegmentState {
    let is_blank = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    let (beginning, rest) = page.split_at(64);
    match (is_blank(beginning), is_blank(rest)) {
        (true, true) => SegmentState::Blank,
        (false, true) => SegmentState::Damaged(Unreadable::Foreign.into()),
        _ => SegmentState::Stale,
    }
}

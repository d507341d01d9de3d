//! Reads all that an area of records holds, and counts what is not as it was written. What a node need not believe is
//! no damage: what a former life of a segment left, and what was cut off in the writing.

use nilas_shards::disk::{
    Area, PageFault, ScanFault, ScannedSegment, SegmentHeader, SummaryEntry, Unreadable,
};
use nilas_shards::store::BlockId;
use serde::Serialize;

use super::device::CacheDevice;
use super::fact::{AreaFact, CopyFact, SuperblockFact, has_records, version_text};
use super::segment::{CheckedRecord, SegmentReader, SegmentState};

/// Findings that are listed; more are counted, so that memory does not grow with what a bad device has of them.
const FINDINGS_MAX: usize = 1000;

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// All is as it was written.
    Whole,
    /// Something is not.
    Damaged,
    /// The device does not read something.
    Unread,
}

/// All that was found.
#[derive(Debug, Serialize)]
pub(super) struct Verification {
    pub(super) path: String,
    pub(super) verdict: Verdict,
    pub(super) areas: Vec<AreaCount>,
    /// What is damaged or cannot be read: the first of it.
    pub(super) findings: Vec<Finding>,
    /// How many more there are.
    pub(super) findings_unlisted: u64,
}

/// An area, counted.
#[derive(Clone, Debug, Serialize)]
pub(super) struct AreaCount {
    #[serde(flatten)]
    pub(super) area: AreaFact,
    /// Segments with records.
    pub(super) used: u64,
    pub(super) records: u64,
    /// Bytes of blocks in them.
    pub(super) bytes: u64,
    pub(super) damaged_segments: u64,
    pub(super) damaged_records: u64,
    /// Pages that are not as they were written; of a record without its header all.
    pub(super) damaged_pages: u64,
    /// Segments that were not sealed and whose last records are not whole.
    pub(super) torn_tails: u64,
    /// Records in them that are not.
    pub(super) torn_records: u64,
    /// Pages that the device does not read.
    pub(super) unread_pages: u64,
}

/// Something that is damaged or cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// Nowhere: in the superblock.
    pub(super) area: Option<u16>,
    pub(super) segment: Option<u32>,
    /// Where the record begins, in pages from the segment's beginning.
    pub(super) page: Option<u32>,
    /// The block's version, in hex, where it is known.
    pub(super) block: Option<String>,
    pub(super) index: Option<u32>,
    pub(super) wrong: String,
}

/// Verifies a device; `progress` is told the bytes that are done, again and again.
pub(super) fn verify(device: &CacheDevice, progress: &mut dyn FnMut(u64)) -> Verification {
    let mut verifier = Verifier::default();
    for CopyFact { offset, wrong } in SuperblockFact::of(device).copies {
        if let Some(wrong) = wrong {
            let wrong = format!("superblock at {offset}: {wrong}; the other copy is used");
            verifier.find(Finding { wrong, ..Finding::NOWHERE });
        }
    }
    verifier.has_unread |= device.copies.contains(&Err(ScanFault::Unread));
    let mut bytes_done = 0;
    for number in device.area_numbers() {
        let (area, place) = device.area(number).expect("it is the number of one");
        if !has_records(area.kind) {
            continue;
        }
        let mut count = AreaCount::of(AreaFact::of(number, &area, place.segment_bytes));
        let mut reader = SegmentReader::new(device, place);
        for segment in 0..reader.count() {
            progress(bytes_done);
            verifier.verify_segment(&mut reader, segment, &mut count);
            bytes_done += u64::from(place.segment_bytes);
        }
        verifier.has_unread |= count.unread_pages > 0;
        verifier.areas.push(count);
    }
    progress(bytes_done);
    verifier.end(device)
}

/// Bytes that [`verify`] will have done.
pub(super) fn bytes_of(device: &CacheDevice) -> u64 {
    let is_read = |area: &&Area| has_records(area.kind);
    device.superblock.areas.iter().filter(is_read).map(|area| area.length).sum()
}

#[derive(Default)]
struct Verifier {
    areas: Vec<AreaCount>,
    findings: Vec<Finding>,
    findings_unlisted: u64,
    has_unread: bool,
}

impl AreaCount {
    fn of(area: AreaFact) -> AreaCount {
        AreaCount {
            area,
            used: 0,
            records: 0,
            bytes: 0,
            damaged_segments: 0,
            damaged_records: 0,
            damaged_pages: 0,
            torn_tails: 0,
            torn_records: 0,
            unread_pages: 0,
        }
    }
}

impl Finding {
    const NOWHERE: Finding = Finding {
        area: None,
        segment: None,
        page: None,
        block: None,
        index: None,
        wrong: String::new(),
    };
}

/// A place where no whole record is and one should be.
struct Failure {
    page: u32,
    pages: u32,
    block: Option<BlockId>,
    wrong: String,
}

impl Verifier {
    fn verify_segment(
        &mut self,
        reader: &mut SegmentReader<'_>,
        segment: u32,
        count: &mut AreaCount,
    ) {
        let found = reader.scan(segment);
        let state = SegmentState::of(reader, &found);
        let place = Place { area: count.area.area, segment };
        if let Some(wrong) = state.wrong_text() {
            count.unread_pages += u64::from(state.is_unread());
            count.damaged_segments += u64::from(!state.is_unread());
            self.find(place.finding(wrong));
        }
        if let Ok(header) = found.header {
            count.used += 1;
            self.note_unread(place, &found, count);
            let failures = self.verify_records(reader, (place, header), &found, count);
            self.note_end(place, &found, failures, count);
        }
    }

    /// Reads all records. What fails is damage where a whole record follows; what fails behind the last whole one is
    /// given back.
    fn verify_records(
        &mut self,
        reader: &mut SegmentReader<'_>,
        (place, header): (Place, SegmentHeader),
        found: &ScannedSegment,
        count: &mut AreaCount,
    ) -> Vec<Failure> {
        let mut failures = Vec::new();
        let mut free_from = 1;
        for entry in &found.entries {
            if !found.is_sealed() {
                failures.extend(hole_before(entry.page, free_from, &found.faults));
            }
            free_from = entry.pages_end();
            count.records += 1;
            count.bytes += u64::from(entry.data_bytes);
            let checked = reader.check(header, entry);
            if checked.is_whole() {
                failures.drain(..).for_each(|failure| self.damaged(place, failure, count));
                continue;
            }
            let failure = failure_of(entry, &checked);
            match checked.unread_pages(entry) {
                0 => failures.push(failure),
                unread => {
                    count.unread_pages += u64::from(unread);
                    self.find(place.finding_of(failure));
                }
            }
        }
        failures
    }

    /// Notes what the scan could not read.
    fn note_unread(&mut self, place: Place, found: &ScannedSegment, count: &mut AreaCount) {
        for fault in found.faults.iter().filter(|fault| fault.fault == ScanFault::Unread) {
            count.unread_pages += u64::from(fault.pages);
            let wrong = format!("{} pages: {}", fault.pages, fault.fault);
            self.find(Finding { page: Some(fault.page), ..place.finding(wrong) });
        }
    }

    /// Judges what fails behind the last whole record.
    fn note_end(
        &mut self,
        place: Place,
        found: &ScannedSegment,
        mut failures: Vec<Failure>,
        count: &mut AreaCount,
    ) {
        if found.is_sealed() {
            failures.into_iter().for_each(|failure| self.damaged(place, failure, count));
            return;
        }
        failures.extend(torn_behind(found.pages_end, &found.faults));
        count.torn_tails += u64::from(!failures.is_empty());
        count.torn_records += failures.len() as u64;
    }

    fn damaged(&mut self, place: Place, failure: Failure, count: &mut AreaCount) {
        count.damaged_records += 1;
        count.damaged_pages += u64::from(failure.pages);
        self.find(place.finding_of(failure));
    }

    fn find(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.findings_unlisted += 1;
        }
    }

    fn end(self, device: &CacheDevice) -> Verification {
        let Verifier { areas, findings, findings_unlisted, has_unread } = self;
        let verdict = match (has_unread, findings.is_empty()) {
            (true, _) => Verdict::Unread,
            (false, false) => Verdict::Damaged,
            (false, true) => Verdict::Whole,
        };
        let path = device.path.display().to_string();
        Verification { path, verdict, areas, findings, findings_unlisted }
    }
}

/// A segment of the device.
#[derive(Clone, Copy)]
struct Place {
    area: u16,
    segment: u32,
}

impl Place {
    fn finding(self, wrong: String) -> Finding {
        let Place { area, segment } = self;
        Finding { area: Some(area), segment: Some(segment), wrong, ..Finding::NOWHERE }
    }

    fn finding_of(self, failure: Failure) -> Finding {
        let Failure { page, block, wrong, .. } = failure;
        Finding {
            page: Some(page),
            block: block.map(version_text),
            index: block.map(|block| block.index),
            ..self.finding(wrong)
        }
    }
}

fn failure_of(entry: &SummaryEntry, checked: &CheckedRecord) -> Failure {
    let pages = match checked.header {
        Ok(_) => checked.wrong.len() as u32,
        Err(_) => entry.pages(),
    };
    let wrong = checked.wrong_text().expect("it is not whole");
    Failure { page: entry.page, pages, block: Some(entry.block), wrong }
}

/// Records follow each other: pages between two are a record that never came, or whose header is damaged.
fn hole_before(page: u32, free_from: u32, faults: &[PageFault]) -> Option<Failure> {
    let inside = faults.iter().filter(|fault| (free_from..page).contains(&fault.page));
    let fault = match inside.clone().find(|fault| fault.fault != ScanFault::Unread) {
        Some(fault) => fault.fault,
        None if free_from == page || inside.count() > 0 => return None,
        None => Unreadable::Foreign.into(),
    };
    let pages = page - free_from;
    Some(Failure { page: free_from, pages, block: None, wrong: format!("header: {fault}") })
}

/// What begins as a record behind the last one that was found.
fn torn_behind(pages_end: u32, faults: &[PageFault]) -> Option<Failure> {
    let is_torn = |fault: &&PageFault| fault.page >= pages_end && fault.fault != ScanFault::Unread;
    let PageFault { page, pages, fault } = *faults.iter().find(is_torn)?;
    Some(Failure { page, pages, block: None, wrong: format!("header: {fault}") })
}

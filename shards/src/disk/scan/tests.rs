//! Segments that a writer wrote, whole and spoilt, and what a scan finds in them.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::disk::{DeviceId, Generation, PageSeed};
use crate::store::BlockId;

const NUMBER: u32 = 5;
const LIFE: SegmentHeader = SegmentHeader {
    device: DeviceId([8; 16]),
    area: 3,
    number: NUMBER,
    generation: Generation(40),
};

/// A record to be written: bytes of its identity and of its data.
type Wanted = (usize, usize);

struct Segment {
    bytes: Vec<u8>,
    life: SegmentHeader,
    entries: Vec<SummaryEntry>,
}

impl Segment {
    fn blank(segment_bytes: u32) -> Segment {
        let bytes = vec![0; segment_bytes as usize];
        Segment { bytes, life: LIFE, entries: Vec::new() }
    }

    fn place(&self) -> AreaPlace {
        AreaPlace {
            device: LIFE.device,
            number: LIFE.area,
            offset: 1 << 20,
            length: 64 << 20,
            segment_bytes: self.bytes.len() as u32,
        }
    }

    fn put(&mut self, page: u32, bytes: &[u8]) {
        self.bytes[page as usize * PAGE_BYTES..][..bytes.len()].copy_from_slice(bytes);
    }

    fn open(&mut self, generation: Generation) {
        self.life = SegmentHeader { generation, ..LIFE };
        self.put(0, &self.life.encode());
        self.entries.clear();
    }

    /// Writes a record behind the last one, if there is room for it and for the summary.
    fn write(&mut self, (identity_bytes, data_bytes): Wanted) {
        let count = self.entries.len();
        let page = self.entries.last().map_or(1, SummaryEntry::pages_end);
        let block = BlockId { version: [count as u8; 16], index: count as u32 };
        let data = vec![count as u8 ^ 0x5a; data_bytes];
        let seed = PageSeed { block, life: self.life };
        let header = RecordHeader::new(seed, &vec![b'k'; identity_bytes], 4096, &data);
        let record = header.encode(page, &data);
        let room = self.bytes.len() - Summary::bytes_of(count + 1);
        if page as usize * PAGE_BYTES + record.len() > room {
            return;
        }
        self.put(page, &record);
        let (data_bytes, header_pages) = (data_bytes as u32, header.pages() as u32);
        let entry = SummaryEntry { block, page, first_byte: 4096, data_bytes, header_pages };
        self.entries.push(entry);
    }

    fn seal(&mut self) {
        let summary = Summary { life: self.life, entries: self.entries.clone() };
        let summary = summary.encode();
        let start = self.bytes.len() - summary.len();
        self.bytes[start..].copy_from_slice(&summary);
    }

    fn scan(&self) -> ScannedSegment {
        scan(self, |_, _| true).0
    }
}

/// Scans a segment of which only what `is_readable` can be read; gives the offsets and lengths that were asked for.
fn scan(
    segment: &Segment,
    is_readable: impl Fn(usize, usize) -> bool,
) -> (ScannedSegment, Vec<(usize, usize)>) {
    let mut scan = SegmentScan::new(segment.place(), NUMBER);
    let mut reads = Vec::new();
    let mut step = scan.step(None);
    loop {
        let (offset, bytes) = match step {
            ScanStep::Done(found) => return (found, reads),
            ScanStep::Read { offset, bytes } => (offset as usize, bytes),
        };
        assert!(bytes <= PIECE_BYTES && bytes % PAGE_BYTES == 0 && offset % PAGE_BYTES == 0);
        reads.push((offset, bytes));
        // Pages are read twice where a header lies across two pieces, but it ends.
        assert!(reads.len() <= segment.bytes.len() / PAGE_BYTES, "a scan without an end");
        let read = segment.bytes.get(offset..offset + bytes).filter(|_| is_readable(offset, bytes));
        step = scan.step(Some(read.ok_or(())));
    }
}

fn written(segment_bytes: u32, records: &[Wanted]) -> Segment {
    let mut segment = Segment::blank(segment_bytes);
    segment.open(LIFE.generation);
    for &record in records {
        segment.write(record);
    }
    segment
}

const MIB: u32 = 1 << 20;

#[test]
fn a_sealed_segment_takes_two_reads() {
    let mut segment = written(8 * MIB, &[(30, 65536); 40]);
    segment.seal();
    let (found, reads) = scan(&segment, |_, _| true);
    assert_eq!(found.entries, segment.entries);
    assert!(found.is_sealed());
    assert_eq!(reads, [(0, 4096), ((8 << 20) - 8192, 8192)]);
}

#[test]
fn a_summary_of_many_records_is_read_in_pieces() {
    let mut segment = written(256 * MIB, &[(1, 1); 15_000]);
    segment.seal();
    let (found, reads) = scan(&segment, |_, _| true);
    assert_eq!(found.entries, segment.entries);
    assert_eq!(found.entries.len(), 15_000);
    assert_eq!((found.summary, reads.len()), (Ok(()), 4));
}

#[test]
fn a_blank_segment_takes_one_read() {
    let (found, reads) = scan(&Segment::blank(MIB), |_, _| true);
    assert_eq!(found, ScannedSegment::without_header(Unreadable::Foreign.into()));
    assert_eq!(reads.len(), 1);
}

#[test]
fn a_header_that_lies_across_two_pieces_is_found() {
    // The last page of the first piece, pages 1 to 128, is the first of a header of two.
    let mut records = vec![(9, 1); 62];
    records.extend([(9, 2 * 4096), (2048, 3 << 20), (7, 5)]);
    let segment = written(8 * MIB, &records);
    let long = segment.entries[63];
    assert_eq!((long.page, long.header_pages), (128, 2));
    let (found, reads) = scan(&segment, |_, _| true);
    assert_eq!(found.entries, segment.entries);
    assert_eq!(found.pages_end, segment.entries[64].pages_end());
    assert_eq!(found.faults, []);
    assert!(reads.contains(&(128 * PAGE_BYTES, PIECE_BYTES)));
    // Behind a long record little is read at first.
    assert!(reads.contains(&(segment.entries[64].page as usize * PAGE_BYTES, HOP_BYTES)));
}

#[test]
fn what_a_former_life_left_is_nothing() {
    let mut segment = written(MIB, &[(9, 4096); 100]);
    segment.seal();
    segment.open(Generation(41));
    segment.write((9, 3 * 4096 + 1));
    let found = segment.scan();
    assert_eq!(found.entries, segment.entries);
    assert_eq!(found.summary, Err(Unreadable::Misplaced.into()));
    assert!(!found.is_sealed() && !found.summary_is_broken());
    assert_eq!(found.faults, []);
    assert_eq!(found.pages_end, 6);
}

#[test]
fn a_former_summary_that_is_half_overwritten_is_nothing_either() {
    let mut segment = written(2 * MIB, &[(9, 1); 240]);
    segment.seal();
    assert_eq!(Summary::bytes_of(segment.entries.len()), 3 * PAGE_BYTES);
    segment.open(Generation(41));
    segment.write((9, (2 << 20) - 3 * PAGE_BYTES));
    assert_eq!(segment.entries[0].pages_end(), 511);
    let found = segment.scan();
    assert_eq!(found.entries, segment.entries);
    assert_eq!(found.summary, Err(Unreadable::Misplaced.into()));
}

/// A client's bytes: whole records at every second page from `page` on, right but for the device's id.
fn forged(life: SegmentHeader, page: u32) -> Vec<u8> {
    let life = SegmentHeader { device: DeviceId([9; 16]), ..life };
    let forge = |index: u32| {
        let block = BlockId { version: [0xee; 16], index };
        let data = [index as u8; PAGE_BYTES];
        let header = RecordHeader::new(PageSeed { block, life }, b"bucket/key", 0, &data);
        header.encode(page + 2 * index, &data)
    };
    (0..100).flat_map(forge).collect()
}

#[test]
fn what_a_client_forged_is_nothing() {
    let mut segment = Segment::blank(MIB);
    segment.open(Generation(41));
    segment.write((9, 3 * 4096));
    let first = segment.entries[0].pages_end() + 1;
    segment.put(first, &forged(segment.life, first));
    let found = segment.scan();
    assert_eq!(found.entries, segment.entries);
    assert_eq!(found.faults, []);
    for page in (first..first + 200).step_by(2) {
        let bytes = &segment.bytes[page as usize * PAGE_BYTES..];
        let read = RecordHeader::decode(bytes, segment.life, page);
        assert_eq!(read, Err(Unreadable::Misplaced), "{page}");
    }
}

#[test]
fn a_summary_that_a_client_forged_hides_no_record() {
    let mut segment = written(MIB, &[(9, 4096); 20]);
    let life = SegmentHeader { device: DeviceId([9; 16]), ..segment.life };
    let bytes = Summary { life, entries: Vec::new() }.encode();
    segment.put(255, &bytes);
    let found = segment.scan();
    assert_eq!(found.entries, segment.entries);
    assert!(!found.is_sealed());
}

#[test]
fn a_broken_summary_costs_time_and_no_record() {
    let mut segment = written(MIB, &[(9, 4096); 20]);
    segment.seal();
    let length = segment.bytes.len();
    segment.bytes[length - PAGE_BYTES + 3] ^= 1;
    let found = segment.scan();
    assert_eq!(found.entries, segment.entries);
    assert_eq!(found.summary, Err(Unreadable::Checksum.into()));
    assert!(found.summary_is_broken());
}

#[test]
fn a_broken_header_costs_its_record_alone() {
    let mut segment = written(MIB, &[(9, 4096), (9, 10 * 4096), (9, 4096)]);
    let broken = segment.entries.remove(1);
    segment.bytes[broken.page as usize * PAGE_BYTES + 40] ^= 8;
    let found = segment.scan();
    assert_eq!(found.entries, segment.entries);
    let fault = Unreadable::Checksum.into();
    assert_eq!(found.faults, [PageFault { page: broken.page, pages: 1, fault }]);
}

#[test]
fn a_record_that_would_leave_the_segment_is_none() {
    let mut segment = written(MIB, &[(9, 4096)]);
    let data = [7; 3 * PAGE_BYTES];
    let block = BlockId { version: [1; 16], index: 0 };
    let header = RecordHeader::new(PageSeed { block, life: LIFE }, b"", 0, &data);
    segment.put(254, &header.encode(254, &data)[..2 * PAGE_BYTES]);
    let found = segment.scan();
    assert_eq!(found.entries, segment.entries);
    let fault = Unreadable::Impossible.into();
    assert_eq!(found.faults, [PageFault { page: 254, pages: 1, fault }]);
}

#[test]
fn what_cannot_be_read_is_passed_over() {
    let mut segment = written(4 * MIB, &[(9, 15 * 4096); 40]);
    let (found, _) = scan(&segment, |offset, _| offset == 0);
    assert_eq!((found.header.is_ok(), found.entries.len()), (true, 0));
    assert_eq!(found.summary, Err(ScanFault::Unread));
    assert_eq!(found.faults.iter().map(|fault| fault.pages).sum::<u32>(), 1023);

    let first_piece = PAGE_BYTES..PAGE_BYTES + PIECE_BYTES;
    let (found, _) = scan(&segment, |offset, _| !first_piece.contains(&offset));
    let rest: Vec<_> = segment.entries.iter().filter(|it| it.page > 128).copied().collect();
    assert_eq!(found.entries, rest);

    segment.seal();
    let (found, _) = scan(&segment, |offset, _| offset < 3 << 20);
    assert_eq!((found.entries, found.summary), (segment.entries.clone(), Err(ScanFault::Unread)));

    let (found, _) = scan(&segment, |offset, _| offset > 0);
    assert_eq!(found, ScannedSegment::without_header(ScanFault::Unread));
}

/// Records short and long, with headers of one page and of two.
fn records() -> impl Strategy<Value = Vec<Wanted>> {
    let short = (0_usize..300, 1_usize..20_000);
    let long = (1800_usize..2048, 2_200_000_usize..2_400_000);
    vec(prop_oneof![20 => short, 1 => long], 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_a_writer_wrote_is_found_sealed_or_not(former in records(), present in records()) {
        let mut segment = written(4 * MIB, &former);
        segment.seal();
        segment.open(Generation(41));
        present.iter().for_each(|&record| segment.write(record));
        let unsealed = segment.scan();
        segment.seal();
        let sealed = segment.scan();
        prop_assert_eq!(&unsealed.entries, &segment.entries);
        prop_assert_eq!(&sealed.entries, &segment.entries);
        prop_assert_eq!(unsealed.pages_end, sealed.pages_end);
        prop_assert!(sealed.is_sealed() && !unsealed.is_sealed());
        prop_assert!(!unsealed.summary_is_broken());
        prop_assert_eq!((unsealed.faults, sealed.faults), (Vec::new(), Vec::new()));
    }

    #[test]
    fn of_any_bytes_it_makes_apart_records_within_the_segment(
        records in records(),
        is_sealed: bool,
        spoilt in vec((any::<prop::sample::Index>(), vec(any::<u8>(), 1..5000)), 0..30),
        moved in vec((0_u32..256, 0_u32..256), 0..30),
        unreadable in vec(0_usize..256, 0..3),
    ) {
        let mut segment = written(MIB, &records);
        if is_sealed {
            segment.seal();
        }
        for (from, to) in moved {
            let page = segment.bytes[from as usize * PAGE_BYTES..][..PAGE_BYTES].to_vec();
            segment.put(to, &page);
        }
        for (at, noise) in spoilt {
            let at = at.index(segment.bytes.len() - noise.len());
            segment.bytes[at..at + noise.len()].copy_from_slice(&noise);
        }
        let is_readable = |offset: usize, bytes: usize| {
            let pages = offset / PAGE_BYTES..(offset + bytes) / PAGE_BYTES;
            !unreadable.iter().any(|page| pages.contains(page))
        };
        let (found, _) = scan(&segment, is_readable);
        let mut free_from = 1;
        for entry in &found.entries {
            prop_assert!(entry.page >= free_from && entry.pages_end() <= 256);
            free_from = entry.pages_end();
        }
        prop_assert_eq!(found.pages_end, free_from);
        prop_assert!(found.header.is_ok() || found.entries.is_empty());
    }
}

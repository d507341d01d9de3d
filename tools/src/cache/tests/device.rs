//! A small device in a temporary file, laid out by the formats themselves, and ways to spoil it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use nilas_shards::disk::{
    AreaKind, AreaPlace, DeviceId, Generation, PAGE_BYTES, PageSeed, RecordHeader, SegmentHeader,
    Summary, SummaryEntry, Superblock,
};
use nilas_shards::store::BlockId;
use tempfile::TempDir;

pub(super) const SEGMENT_BYTES: u32 = 1 << 20;
pub(super) const BLOCK_BYTES: u32 = 1 << 18;
/// The numbers of its areas.
pub(super) const MAPPINGS: u16 = 0;
pub(super) const METADATA: u16 = 1;
pub(super) const DATA: u16 = 2;
/// Segments of the data area.
pub(super) const DATA_SEGMENTS: u64 = 12;

/// A device in its directory.
pub(super) struct TestDevice {
    pub(super) folder: TempDir,
    pub(super) superblock: Superblock,
    pub(super) file: File,
}

/// A segment that is being written.
pub(super) struct TestSegment<'a> {
    device: &'a TestDevice,
    life: SegmentHeader,
    pub(super) entries: Vec<SummaryEntry>,
}

/// The version of the objects whose blocks are written.
pub(super) const VERSION: [u8; 16] = *b"the test version";

impl TestDevice {
    /// With an area of each kind, all blank.
    pub(super) fn new() -> TestDevice {
        let areas = [(AreaKind::Mappings, 1), (AreaKind::Metadata, 4), (AreaKind::Data, 12)];
        let wanted = areas.map(|(kind, segments)| (kind, 0, segments * u64::from(SEGMENT_BYTES)));
        let superblock =
            Superblock::lay_out(DeviceId([7; 16]), SEGMENT_BYTES, BLOCK_BYTES, &wanted);
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("nilas.cache");
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let device = TestDevice { folder, superblock, file: file.expect("a file") };
        device.file.set_len(device.superblock.device_bytes).expect("it is sparse");
        for offset in Superblock::COPIES_AT {
            device.write(offset, &device.superblock.encode());
        }
        device
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join("nilas.cache")
    }

    pub(super) fn write(&self, offset: u64, bytes: &[u8]) {
        self.file.write_all_at(bytes, offset).expect("it can be written");
    }

    pub(super) fn read(&self, offset: u64, bytes: usize) -> Vec<u8> {
        let mut read = vec![0; bytes];
        self.file.read_exact_at(&mut read, offset).expect("it can be read");
        read
    }

    /// Flips a bit.
    pub(super) fn flip(&self, offset: u64, bit: u8) {
        let byte = self.read(offset, 1)[0];
        self.write(offset, &[byte ^ 1 << bit]);
    }

    /// Exchanges two parts.
    pub(super) fn swap(&self, one: u64, other: u64, bytes: usize) {
        let parts = (self.read(one, bytes), self.read(other, bytes));
        self.write(one, &parts.1);
        self.write(other, &parts.0);
    }

    pub(super) fn place(&self, area: u16) -> AreaPlace {
        let it = self.superblock.areas[usize::from(area)];
        self.superblock.place(it.kind, it.shard).expect("it is one of its areas")
    }

    /// Where a page of a segment lies.
    pub(super) fn at(&self, area: u16, segment: u32, page: u32) -> u64 {
        let segment_at = u64::from(segment) * u64::from(SEGMENT_BYTES);
        self.place(area).offset + segment_at + u64::from(page) * PAGE_BYTES as u64
    }

    /// Begins a segment in a new life.
    pub(super) fn open(&self, area: u16, number: u32, generation: u64) -> TestSegment<'_> {
        let (device, generation) = (self.superblock.device, Generation(generation));
        let life = SegmentHeader { device, area, number, generation };
        self.write(self.at(area, number, 0), &life.encode());
        TestSegment { device: self, life, entries: Vec::new() }
    }
}

impl TestSegment<'_> {
    /// Writes a record behind the last one.
    pub(super) fn write(&mut self, index: u32, data_bytes: usize) -> SummaryEntry {
        let page = self.entries.last().map_or(1, SummaryEntry::pages_end);
        let block = BlockId { version: VERSION, index };
        let data = vec![index as u8 ^ 0x5a; data_bytes];
        let seed = PageSeed { block, life: self.life };
        let identity = format!("lake/orders/part-{index}.parquet\n\"etag\"");
        let header = RecordHeader::new(seed, identity.as_bytes(), 4096, &data);
        self.device.write(self.at(page), &header.encode(page, &data));
        let (data_bytes, header_pages) = (data_bytes as u32, header.pages() as u32);
        let entry = SummaryEntry { block, page, first_byte: 4096, data_bytes, header_pages };
        self.entries.push(entry);
        entry
    }

    /// Ten records of three pages of data, the last not full.
    pub(super) fn write_ten(&mut self) {
        for index in 0..10 {
            self.write(index, 3 * PAGE_BYTES - 100);
        }
    }

    /// Where a page lies.
    pub(super) fn at(&self, page: u32) -> u64 {
        self.device.at(self.life.area, self.life.number, page)
    }

    pub(super) fn seal(&self) {
        let summary = Summary { life: self.life, entries: self.entries.clone() };
        let bytes = summary.encode();
        self.device.write(self.at(0) + u64::from(SEGMENT_BYTES) - bytes.len() as u64, &bytes);
    }
}

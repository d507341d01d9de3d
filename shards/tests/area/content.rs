//! What is put into an area: bytes that follow from the block they belong to, some of which look like records; and what
//! a faulty program might have written there.

use nilas_base::{ByteRange, Rng};
use nilas_shards::area::RECORD_DATA_BYTES_MAX;
use nilas_shards::disk::{
    DeviceId, Generation, PAGE_BYTES, PageSeed, RecordHeader, SegmentHeader, Summary, SummaryEntry,
};
use nilas_shards::store::BlockId;

pub(crate) fn block(number: u32) -> BlockId {
    let mut version = [0; 16];
    version[..4].copy_from_slice(&(number / 4).to_le_bytes());
    BlockId { version, index: number % 4 }
}

pub(crate) fn identity(number: u32) -> Vec<u8> {
    format!("bucket/key-{}", number / 4).into_bytes()
}

pub(crate) fn content(number: u32, range: ByteRange) -> Vec<u8> {
    let page_bytes = PAGE_BYTES as u64;
    let pages = range.start / page_bytes..range.end.div_ceil(page_bytes);
    let skipped = (range.start % page_bytes) as usize;
    let whole: Vec<u8> = pages.flat_map(|page| page_content(number, page)).collect();
    whole[skipped..skipped + range.len() as usize].to_vec()
}

/// Noise; but one page in so many looks like a record's beginning, and the next like its only page of data.
fn page_content(number: u32, page: u64) -> Vec<u8> {
    const FORGED_ONE_IN: u64 = 8;
    match page % FORGED_ONE_IN {
        4 => forged(number, page)[..PAGE_BYTES].to_vec(),
        5 => forged(number, page - 1)[PAGE_BYTES..].to_vec(),
        _ => noise(number, page),
    }
}

fn noise(number: u32, page: u64) -> Vec<u8> {
    let mut rng = Rng::from_seed(u64::from(number) << 32 | page);
    (0..PAGE_BYTES / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect()
}

/// A record of another block in some life of some segment, with bytes that are not that block's, by somebody who does
/// not know the device's id.
fn forged(number: u32, page: u64) -> Vec<u8> {
    let mut rng = Rng::from_seed(!(u64::from(number) << 32 | page));
    let other = rng.below(60) as u32;
    let generation = Generation(1 + rng.below(40));
    let life = SegmentHeader { device: DeviceId([8; 16]), area: 3, number: 0, generation };
    let seed = PageSeed { block: block(other), life };
    let data = noise(number, page);
    RecordHeader::new(seed, &identity(other), 0, &data).encode(1, &data)
}

/// Records that lie behind one another, as they must, or anywhere.
pub(crate) fn whatever_summary(rng: &mut Rng, life: SegmentHeader) -> Summary {
    let (mut page, is_orderly) = (1, rng.chance(1, 2));
    let entries = (0..rng.below(40)).map(|_| {
        let data_bytes = 1 + rng.below(u64::from(RECORD_DATA_BYTES_MAX)) as u32 / 16;
        let block = block(rng.below(60) as u32);
        let first_byte = rng.below(9) as u32 * PAGE_BYTES as u32;
        let mut entry = SummaryEntry { block, page, first_byte, data_bytes, header_pages: 1 };
        page = entry.pages_end();
        if !is_orderly {
            let anything = |rng: &mut Rng| (rng.next_u64() >> rng.below(64)) as u32;
            entry.page = anything(rng);
            entry.first_byte = anything(rng);
            entry.data_bytes = anything(rng);
            entry.header_pages = anything(rng);
        }
        entry
    });
    Summary { life, entries: entries.collect() }
}

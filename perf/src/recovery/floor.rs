//! The floor: what must be read of a device to know what is on it, read by plain threads with
//! `O_DIRECT`, as many at once as the shards read, and thrown away. Nothing of the store runs here;
//! which pages they are is found out beforehand.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use nilas_base::{Clock, Monotonic};
use nilas_shards::Buffer;
use nilas_shards::disk::{AreaPlace, PAGE_BYTES, ScanStep, ScannedSegment, SegmentScan, Summary};

use super::device::CacheDevice;
use crate::error::{Doing, Result};

/// Bytes of a read at most, as for the shards.
const READ_BYTES_MAX: u64 = 512 << 10;
/// Reads of one shard at once, as for its recovery.
const READS_PER_SHARD: usize = 16;

/// The reads: where, and how many bytes.
pub struct Plain(Vec<(u64, usize)>);

impl Plain {
    /// Those of a device that is filled: each segment's first page and its summary, or all of it where
    /// it has none.
    pub fn of(device: &CacheDevice) -> Result<Plain> {
        let places = device.places()?;
        let file = device.open_direct()?;
        let mut reads = Vec::new();
        for place in places {
            for number in 0..(place.length / u64::from(place.segment_bytes)) as u32 {
                let scanned = scan(&file, place, number)?;
                needed(&mut reads, place, number, &scanned);
            }
        }
        Ok(Plain(reads))
    }

    /// Reads all; the seconds that it took.
    pub fn read(&self, device: &CacheDevice) -> Result<f64> {
        let file = device.open_direct()?;
        let readers = READS_PER_SHARD * usize::from(device.plan.shards);
        let (next, together) = (AtomicUsize::new(0), Barrier::new(readers));
        let clock = Clock::system();
        let spans: Result<Vec<(Monotonic, Monotonic)>> = std::thread::scope(|scope| {
            let reader = || {
                let mut buffer = Buffer::aligned(READ_BYTES_MAX as usize, PAGE_BYTES);
                // Memory that nobody has touched costs its first use, which is not the disk's.
                buffer.unfilled_mut().fill(1);
                together.wait();
                let began = clock.now();
                while let Some((offset, bytes)) = self.0.get(next.fetch_add(1, Ordering::Relaxed)) {
                    file.read_exact_at(&mut buffer.unfilled_mut()[..*bytes], *offset)
                        .doing("reading the device plainly")?;
                }
                Ok((began, clock.now()))
            };
            let threads: Vec<_> = (0..readers).map(|_| scope.spawn(reader)).collect();
            threads.into_iter().map(|thread| thread.join().expect("a reader ends")).collect()
        });
        let spans = spans?;
        let began = spans.iter().map(|span| span.0).min().unwrap_or(Monotonic(0));
        let ended = spans.iter().map(|span| span.1).max().unwrap_or(Monotonic(0));
        Ok(ended.since(began).as_secs_f64())
    }
}

/// Looks at a segment as a store does, one read after the other.
fn scan(file: &File, place: AreaPlace, number: u32) -> Result<ScannedSegment> {
    let mut scan = SegmentScan::new(place, number);
    let mut step = scan.step(None);
    loop {
        let (offset, bytes) = match step {
            ScanStep::Done(found) => return Ok(found),
            ScanStep::Read { offset, bytes } => (offset, bytes),
        };
        let mut buffer = Buffer::aligned(bytes, PAGE_BYTES);
        file.read_exact_at(buffer.unfilled_mut(), segment_offset(place, number) + offset)
            .doing("looking at a segment")?;
        buffer.advance(bytes);
        step = scan.step(Some(Ok(buffer.filled())));
    }
}

fn segment_offset(place: AreaPlace, number: u32) -> u64 {
    place.offset + u64::from(number) * u64::from(place.segment_bytes)
}

fn needed(reads: &mut Vec<(u64, usize)>, place: AreaPlace, number: u32, found: &ScannedSegment) {
    let start = segment_offset(place, number);
    let end = start + u64::from(place.segment_bytes);
    reads.push((start, PAGE_BYTES));
    if found.header.is_err() {
        return;
    }
    let mut at = match found.is_sealed() {
        true => end - Summary::bytes_of(found.entries.len()) as u64,
        false => start + PAGE_BYTES as u64,
    };
    while at < end {
        let bytes = READ_BYTES_MAX.min(end - at);
        reads.push((at, bytes as usize));
        at += bytes;
    }
}

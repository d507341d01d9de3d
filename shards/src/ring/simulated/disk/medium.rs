//! The bytes of a simulated disk: what reads see, what is durable, and the writes between the two,
//! which a crash may keep, lose or tear. Nothing fails here; see `drive`.

use super::event::DiskEvents;
use super::fault::Interruption;
use nilas_base::Rng;
use std::collections::VecDeque;
use std::ops::Range;

/// Bytes that the volatile cache holds; beyond them its oldest writes become durable.
const CACHE_BYTES_MAX: usize = 64 << 20;

pub(super) struct Medium {
    seen: Vec<u8>,
    durable: Vec<u8>,
    /// In the order in which reads came to see them.
    unsynced: VecDeque<Write>,
    unsynced_bytes: usize,
    write_count: u64,
}

/// Some bytes and where they are written.
pub(super) struct Write {
    pub(super) offset: usize,
    pub(super) bytes: Vec<u8>,
}

impl Write {
    fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.bytes.len()
    }
}

impl Medium {
    pub(super) fn new(bytes: usize) -> Medium {
        Medium {
            seen: vec![0; bytes],
            durable: vec![0; bytes],
            unsynced: VecDeque::new(),
            unsynced_bytes: 0,
            write_count: 0,
        }
    }

    pub(super) fn seen(&self) -> &[u8] {
        &self.seen
    }

    /// How many writes there have been: what a sync that begins now makes durable.
    pub(super) fn write_count(&self) -> u64 {
        self.write_count
    }

    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let write = Write { offset, bytes: bytes.to_vec() };
        self.seen[write.range()].copy_from_slice(bytes);
        self.write_count += 1;
        self.unsynced_bytes += bytes.len();
        self.unsynced.push_back(write);
        while self.unsynced_bytes > CACHE_BYTES_MAX {
            self.sync_oldest();
        }
    }

    /// Makes the first so many of all writes durable.
    pub(super) fn sync(&mut self, writes: u64) {
        for _ in 0..self.unsynced_of(writes) {
            self.sync_oldest();
        }
    }

    /// Forgets that the first so many of all writes are not durable, and makes some of them so. Reads
    /// see them all until a crash.
    pub(super) fn fail_sync(&mut self, writes: u64, (rng, events): (&mut Rng, &mut DiskEvents)) {
        let interruption = Interruption::draw(rng);
        let count = self.unsynced_of(writes);
        let interrupted: Vec<Write> = self.unsynced.drain(..count).collect();
        for write in interrupted {
            self.unsynced_bytes -= write.bytes.len();
            self.land(interruption, &write, (rng, events));
        }
    }

    /// The power is cut, with these writes under way.
    pub(super) fn crash(
        &mut self,
        under_way: &[Write],
        (rng, events): (&mut Rng, &mut DiskEvents),
    ) {
        let interruption = Interruption::draw(rng);
        let unsynced = std::mem::take(&mut self.unsynced);
        self.unsynced_bytes = 0;
        for write in unsynced.iter().chain(under_way) {
            self.land(interruption, write, (rng, events));
        }
        self.seen.copy_from_slice(&self.durable);
    }

    /// Changes what is there, as if it had always been so: no crash takes it back.
    pub(super) fn change(&mut self, range: Range<usize>, change: impl Fn(usize, &mut u8)) {
        let apply = |bytes: &mut [u8], at: usize| {
            let end = range.end.min(at + bytes.len());
            for offset in range.start.max(at)..end {
                change(offset - range.start, &mut bytes[offset - at]);
            }
        };
        apply(&mut self.seen, 0);
        apply(&mut self.durable, 0);
        self.unsynced.iter_mut().for_each(|write| apply(&mut write.bytes, write.offset));
    }

    fn unsynced_of(&self, writes: u64) -> usize {
        let synced = self.write_count - self.unsynced.len() as u64;
        writes.saturating_sub(synced) as usize
    }

    fn sync_oldest(&mut self) {
        let Some(write) = self.unsynced.pop_front() else { return };
        self.unsynced_bytes -= write.bytes.len();
        self.durable[write.range()].copy_from_slice(&write.bytes);
    }

    fn land(
        &mut self,
        interruption: Interruption,
        write: &Write,
        (rng, events): (&mut Rng, &mut DiskEvents),
    ) {
        let place = (write.offset, write.bytes.len());
        for part in interruption.landed(rng, events, place) {
            let to = write.offset + part.start..write.offset + part.end;
            self.durable[to].copy_from_slice(&write.bytes[part]);
        }
    }
}

//! One simulated disk: carries out operations as well as its condition lets it. How long they take is
//! drawn here too; when they end, and who waits for them, is in `disk`.

use super::condition::DiskCondition;
use super::event::DiskEvents;
use super::fault::{Detour, Interruption, draw_fewer, draw_within};
use super::medium::{Medium, Write};
use crate::buffer::Buffer;
use nilas_base::Rng;
use std::io;
use std::time::Duration;

/// The shortest operation.
const DELAY_US_MIN: u64 = 5;

pub(super) struct Drive {
    pub(super) condition: DiskCondition,
    pub(super) events: DiskEvents,
    pub(super) rng: Rng,
    pub(super) medium: Medium,
}

impl Drive {
    pub(super) fn new(bytes: usize, rng: Rng) -> Drive {
        Drive {
            condition: DiskCondition::default(),
            events: DiskEvents::default(),
            rng,
            medium: Medium::new(bytes),
        }
    }

    /// How long an operation takes whose kind mostly takes up to `usual_us_max`.
    pub(super) fn draw_delay(&mut self, usual_us_max: u64) -> Duration {
        let condition = self.condition;
        if self.strikes(condition.stall_one_in) {
            self.events.stalls += 1;
            return Duration::from_millis(1 + self.rng.below(condition.stall_ms_max.max(1)));
        }
        let is_slow = self.rng.chance(1, condition.slow_one_in);
        let longest = if is_slow { condition.slow_delay_us_max } else { usual_us_max };
        let beyond = longest.saturating_sub(DELAY_US_MIN).max(1);
        Duration::from_micros(DELAY_US_MIN + self.rng.below(beyond))
    }

    /// Reads into the buffers' room, one behind the other; no bytes at the disk's end.
    pub(super) fn read(&mut self, buffers: &mut [Buffer], offset: u64) -> io::Result<usize> {
        self.events.reads += 1;
        let mut room = 0;
        for buffer in buffers.iter_mut() {
            self.check_alignment(buffer.unfilled_mut(), offset + room as u64)?;
            room += buffer.room();
        }
        if self.strikes(self.condition.read_error_one_in) {
            self.events.read_errors += 1;
            return Err(errno(libc::EIO));
        }
        let (offset, there) = self.within(offset, room);
        let count = self.shorten(there, self.condition.short_read_one_in);
        self.events.short_reads += u64::from(count < there);
        if count > 0 {
            let mut bytes = vec![0; count];
            self.fill(&mut bytes, offset);
            let mut rest = &bytes[..];
            for buffer in buffers {
                let (here, later) = rest.split_at(rest.len().min(buffer.room()));
                buffer.extend_from_slice(here);
                rest = later;
            }
        }
        Ok(count)
    }

    /// Writes to the volatile cache; a disk does not grow, so there is no space beyond its end.
    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.events.writes += 1;
        self.check_alignment(bytes, offset)?;
        let (offset, there) = self.within(offset, bytes.len());
        let is_full = self.strikes(self.condition.no_space_one_in);
        if is_full || there == 0 && !bytes.is_empty() {
            self.events.no_space += 1;
            return Err(errno(libc::ENOSPC));
        }
        if self.strikes(self.condition.write_error_one_in) {
            self.events.write_errors += 1;
            self.write_in_part(&bytes[..there], offset);
            return Err(errno(libc::EIO));
        }
        let count = self.shorten(there, self.condition.short_write_one_in);
        self.events.short_writes += u64::from(count < there);
        self.put(&bytes[..count], offset);
        Ok(count)
    }

    /// Makes the first so many of all writes durable.
    pub(super) fn sync(&mut self, writes: u64) -> io::Result<()> {
        self.events.syncs += 1;
        if self.strikes(self.condition.sync_error_one_in) {
            self.events.sync_errors += 1;
            self.medium.fail_sync(writes, (&mut self.rng, &mut self.events));
            return Err(errno(libc::EIO));
        }
        self.medium.sync(writes);
        Ok(())
    }

    /// A write is interrupted that had not ended: nothing of it is in the cache, or some, or all.
    pub(super) fn interrupt_write(&mut self, bytes: &[u8], offset: u64) {
        let (offset, there) = self.within(offset, bytes.len());
        self.write_in_part(&bytes[..there], offset);
    }

    /// The power is cut, with these writes under way.
    pub(super) fn crash(&mut self, under_way: &[(Buffer, u64)]) {
        self.events.crashes += 1;
        let writes: Vec<Write> = under_way
            .iter()
            .map(|(buffer, offset)| {
                let (offset, there) = self.within(*offset, buffer.len());
                Write { offset, bytes: buffer.filled()[..there].to_vec() }
            })
            .collect();
        self.medium.crash(&writes, (&mut self.rng, &mut self.events));
    }

    pub(super) fn strikes(&mut self, one_in: Option<u64>) -> bool {
        one_in.is_some_and(|one_in| self.rng.chance(1, one_in))
    }

    fn fill(&mut self, into: &mut [u8], offset: usize) {
        let count = into.len();
        if self.strikes(self.condition.rot_one_in) {
            self.events.rotten_bits += 1;
            let at = offset + draw_within(&mut self.rng, 0..count);
            let mask = 1 << self.rng.below(8);
            self.medium.change(at..at + 1, |_, byte| *byte ^= mask);
        }
        let seen = self.medium.seen();
        into.copy_from_slice(&seen[offset..offset + count]);
        if let Some(Detour { within, to }) =
            self.draw_detour(self.condition.misdirected_read_one_in, (offset, count))
        {
            self.events.misdirected_reads += 1;
            let length = within.len();
            into[within].copy_from_slice(&self.medium.seen()[to..to + length]);
        }
        if self.strikes(self.condition.flip_one_in) {
            self.events.flipped_bits += 1;
            let at = draw_within(&mut self.rng, 0..count);
            into[at] ^= 1 << self.rng.below(8);
        }
    }

    fn put(&mut self, bytes: &[u8], offset: usize) {
        let one_in = self.condition.misdirected_write_one_in;
        let place = (offset, bytes.len());
        let Some(Detour { within, to }) = self.draw_detour(one_in, place) else {
            return self.medium.write(offset, bytes);
        };
        self.events.misdirected_writes += 1;
        let (start, end) = (within.start, within.end);
        self.medium.write(offset, &bytes[..start]);
        self.medium.write(to, &bytes[within]);
        self.medium.write(offset + end, &bytes[end..]);
    }

    fn write_in_part(&mut self, bytes: &[u8], offset: usize) {
        let place = (offset, bytes.len());
        let interruption = Interruption::TakesEach;
        for part in interruption.landed(&mut self.rng, &mut self.events, place) {
            self.medium.write(offset + part.start, &bytes[part]);
        }
    }

    fn draw_detour(&mut self, one_in: Option<u64>, place: (usize, usize)) -> Option<Detour> {
        let disk_bytes = self.medium.seen().len();
        let misses = self.strikes(one_in) && place.1 > 0;
        misses.then(|| Detour::draw(&mut self.rng, disk_bytes, place)).flatten()
    }

    fn shorten(&mut self, count: usize, one_in: Option<u64>) -> usize {
        let is_short = self.strikes(one_in);
        is_short.then(|| draw_fewer(&mut self.rng, count)).flatten().unwrap_or(count)
    }

    /// Where on the disk an operation lies, and how many of its bytes do.
    fn within(&self, offset: u64, length: usize) -> (usize, usize) {
        let disk_bytes = self.medium.seen().len();
        let offset = usize::try_from(offset).unwrap_or(disk_bytes).min(disk_bytes);
        (offset, length.min(disk_bytes - offset))
    }

    fn check_alignment(&mut self, memory: &[u8], offset: u64) -> io::Result<()> {
        let alignment = self.condition.alignment_bytes;
        let is_aligned = offset.is_multiple_of(alignment as u64)
            && memory.len().is_multiple_of(alignment)
            && memory.as_ptr().addr().is_multiple_of(alignment);
        if is_aligned {
            return Ok(());
        }
        self.events.misaligned += 1;
        Err(errno(libc::EINVAL))
    }
}

fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

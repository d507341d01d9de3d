//! Appends: records are gathered in a buffer and written when it is full, or after a short while. Nobody waits here:
//! what finds no buffer or no segment is not kept. A record can be found once it is written, not before; what is
//! read from the device is checked, so nothing needs to be durable.

use std::rc::Rc;
use std::time::Duration;

use nilas_base::{ByteRange, Monotonic};

use super::{Area, AreaStore, IoClass, Pin};
use crate::buffer::Buffer;
use crate::disk::{
    IDENTITY_BYTES_MAX, PAGE_BYTES, PageSeed, Place, RecordHeader, Run, SegmentHeader, Summary,
    SummaryEntry, header_pages, pages_of,
};
use crate::store::BlockId;

/// Data of a record at most: with its header it fills one operation.
pub const RECORD_DATA_BYTES_MAX: u32 = 448 << 10;
/// Bytes of one write: what devices and the kernel take as one operation.
const BUFFER_BYTES: usize = 512 << 10;
/// How long a record waits for others to be written with.
const GATHER_TIME: Duration = Duration::from_millis(50);
/// After a write that failed, nothing is kept for so long; twice as long each time.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// What became of bytes that were to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// They will be written soon.
    Taken,
    /// They are there already.
    Held,
    /// There is no buffer or segment now; there will be when [`AreaStore::room`] ends.
    Busy,
    /// They are not kept: no memory, no room at all, or the device fails.
    Refused,
}

/// What is on its way to the device.
#[derive(Default)]
pub(super) struct Writer {
    gathering: Option<Gathering>,
    pool: Vec<Buffer>,
    /// Buffers that exist, and that there may be: one that is filled, and those that are being written.
    buffers: usize,
    buffers_max: usize,
    /// The segments that buffers and summaries are being written to, one for each.
    writing: Vec<u32>,
    /// Records that were gathered, and are not in the index yet.
    unindexed: u64,
    /// Gatherings begun.
    begun: u64,
    paused_until: Option<Monotonic>,
    pause: Duration,
}

/// Records that will be written together, one behind the other.
struct Gathering {
    number: u64,
    buffer: Buffer,
    life: SegmentHeader,
    first_page: u32,
    records: Vec<Gathered>,
}

struct Gathered {
    run: Run,
    header: Rc<RecordHeader>,
}

/// A run of a block that is to be kept.
pub(super) struct Offer<'a> {
    pub(super) block: BlockId,
    pub(super) identity: &'a [u8],
    /// Where in the block it begins: at a page.
    pub(super) first_byte: u32,
    /// Its bytes, in pieces.
    pub(super) pieces: &'a [&'a [u8]],
    pub(super) is_carry_over: bool,
}

impl Offer<'_> {
    fn data_bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len()).sum()
    }

    fn header_pages(&self) -> u32 {
        header_pages(self.identity.len(), self.data_bytes()) as u32
    }

    fn pages(&self) -> u32 {
        self.header_pages() + pages_of(self.data_bytes()) as u32
    }
}

impl Writer {
    pub(super) fn new(buffer_bytes_max: u64) -> Writer {
        let buffers_max = (buffer_bytes_max / BUFFER_BYTES as u64).max(1) as usize;
        Writer { buffers_max, ..Writer::default() }
    }

    pub(super) fn buffer_bytes(&self) -> u64 {
        (self.buffers * BUFFER_BYTES) as u64
    }

    /// Records that may come to the index when what is on its way has been written.
    pub(super) fn unindexed(&self) -> u64 {
        self.unindexed
    }

    /// An empty buffer, if there is one to be had.
    fn take_buffer(&mut self) -> Option<Buffer> {
        if let Some(buffer) = self.pool.pop() {
            return Some(buffer);
        }
        if self.buffers == self.buffers_max {
            return None;
        }
        self.buffers += 1;
        Some(Buffer::aligned(BUFFER_BYTES, PAGE_BYTES))
    }

    fn has_buffer(&self) -> bool {
        !self.pool.is_empty() || self.buffers < self.buffers_max
    }

    fn note_failure(&mut self, now: Monotonic) {
        // Of those that were under way together the first has said it.
        if self.paused_until.is_some_and(|until| now < until) {
            return;
        }
        self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        self.paused_until = Some(now.after(self.pause));
    }

    fn note_success(&mut self) {
        self.pause = Duration::ZERO;
        self.paused_until = None;
    }
}

impl AreaStore {
    /// Keeps the bytes of a block from `first_byte` on, which lies at a page, if there is room for them now.
    ///
    /// # Panics
    /// Where they are none, or more than [`RECORD_DATA_BYTES_MAX`].
    pub fn offer(
        &self,
        block: BlockId,
        identity: &[u8],
        first_byte: u32,
        pieces: &[&[u8]],
    ) -> Offered {
        let offer = Offer { block, identity, first_byte, pieces, is_carry_over: false };
        let bytes = offer.data_bytes();
        assert!((1..=RECORD_DATA_BYTES_MAX as usize).contains(&bytes), "{bytes} bytes to keep");
        let start = u64::from(first_byte);
        let range = ByteRange::new(start, start + bytes as u64);
        if self.find(block, range) == Some(range) {
            return Offered::Held;
        }
        let offered = self.0.append(&offer);
        if offered == Offered::Refused {
            self.note_lost();
        }
        offered
    }

    /// Waits until what was [`Offered::Busy`] may be taken; at once where nothing is under way that makes room.
    pub async fn room(&self) {
        if self.0.is_making_room() {
            self.0.changed.next().await;
        }
    }

    /// Something that was to be kept is not: it was refused, or lost before there was room for it.
    pub fn note_lost(&self) {
        self.0.count(|counts| counts.refused += 1);
    }

    /// Writes what was gathered, and waits until nothing is on its way any more.
    pub async fn flush(&self) {
        self.0.submit();
        while !self.0.writer.borrow().writing.is_empty() {
            self.0.changed.next().await;
        }
    }

    /// Writes what was gathered and seals its segment, so that the next start need not read it through.
    pub async fn close(&self) {
        self.0.submit();
        self.0.seal();
        self.flush().await;
    }
}

impl Area {
    /// Gathers a record, if there is room for it now.
    pub(super) fn append(self: &Rc<Self>, offer: &Offer<'_>) -> Offered {
        let pages = offer.pages();
        if !self.may_append(offer) {
            return Offered::Refused;
        }
        if !self.is_recovered.get() {
            return Offered::Busy;
        }
        if !self.index_has_room() {
            self.reclaim_soon();
            return if self.is_making_room() { Offered::Busy } else { Offered::Refused };
        }
        if !self.open_room(pages, offer.is_carry_over) || !self.buffer_room(pages) {
            return if self.is_making_room() { Offered::Busy } else { Offered::Refused };
        }
        self.put(offer);
        Offered::Taken
    }

    /// Has the buffer that is being filled have room for a record of `pages` pages.
    fn buffer_room(self: &Rc<Self>, pages: u32) -> bool {
        let has_room = {
            let writer = self.writer.borrow();
            let gathering = writer.gathering.as_ref();
            gathering.is_some_and(|it| it.buffer.room() >= pages as usize * PAGE_BYTES)
        };
        if has_room {
            return true;
        }
        self.submit();
        self.gather()
    }

    /// Whether something is under way that ends with a free buffer or segment; before the device is known, what tells
    /// which segments are free.
    fn is_making_room(&self) -> bool {
        !self.is_recovered.get() || self.writes_are_in_flight() || self.is_reclaiming.get()
    }

    pub(super) fn writes_are_in_flight(&self) -> bool {
        let writer = self.writer.borrow();
        !writer.writing.is_empty() || writer.gathering.is_some()
    }

    /// Whether something is on its way to a segment.
    pub(super) fn is_being_written(&self, segment: u32) -> bool {
        self.writer.borrow().writing.contains(&segment)
    }

    pub(super) fn may_append(&self, offer: &Offer<'_>) -> bool {
        let paused_until = self.writer.borrow().paused_until;
        let is_paused = paused_until.is_some_and(|until| self.reactor.clock().now() < until);
        !is_paused && offer.identity.len() <= IDENTITY_BYTES_MAX
    }

    /// Has the open segment have room for a record of `pages` pages.
    fn open_room(self: &Rc<Self>, pages: u32, is_carry_over: bool) -> bool {
        if self.segments.borrow().has_room(pages) {
            return true;
        }
        // A new segment begins with a new buffer.
        if !self.writer.borrow().has_buffer() && self.writer.borrow().gathering.is_none() {
            return false;
        }
        self.submit();
        self.seal();
        let is_open = self.segments.borrow_mut().open_next(is_carry_over);
        self.reclaim_soon();
        is_open
    }

    /// Begins a buffer at the open segment's end.
    fn gather(self: &Rc<Self>) -> bool {
        let mut writer = self.writer.borrow_mut();
        let Some(mut buffer) = writer.take_buffer() else { return false };
        writer.begun += 1;
        let number = writer.begun;
        let segments = self.segments.borrow();
        let open = segments.open.as_ref().expect("a segment was opened");
        let life = open.life;
        let mut first_page = open.next_page;
        if first_page == 1 && open.entries.is_empty() {
            buffer.extend_from_slice(&life.encode());
            first_page = 0;
        }
        let records = Vec::new();
        writer.gathering = Some(Gathering { number, buffer, life, first_page, records });
        drop((writer, segments));
        let area = Rc::clone(self);
        self.reactor.spawn(async move {
            area.reactor.sleep(GATHER_TIME).await;
            let is_still_gathered =
                area.writer.borrow().gathering.as_ref().is_some_and(|it| it.number == number);
            if is_still_gathered {
                area.submit();
            }
        });
        true
    }

    /// Puts a record, for which there is room, behind what was gathered.
    fn put(&self, offer: &Offer<'_>) {
        let mut writer = self.writer.borrow_mut();
        let gathering = writer.gathering.as_mut().expect("there is room in it");
        let (header_pages, pages) = (offer.header_pages(), offer.pages());
        let bytes = &mut gathering.buffer.unfilled_mut()[..pages as usize * PAGE_BYTES];
        let (header_bytes, data) = bytes.split_at_mut(header_pages as usize * PAGE_BYTES);
        let mut rest = &mut *data;
        for piece in offer.pieces {
            let (now, later) = rest.split_at_mut(piece.len());
            now.copy_from_slice(piece);
            rest = later;
        }
        rest.fill(0);
        let data = &data[..offer.data_bytes()];
        let seed = PageSeed { block: offer.block, life: gathering.life };
        let header = RecordHeader::new(seed, offer.identity, offer.first_byte, data);
        let mut segments = self.segments.borrow_mut();
        let open = segments.open.as_mut().expect("the gathering's segment is open");
        let place = Place { segment: open.life.number, page: open.next_page };
        header_bytes.fill(0);
        header.encode_into(place.page, header_bytes);
        gathering.buffer.advance(pages as usize * PAGE_BYTES);

        let (first_byte, data_bytes) = (header.first_byte, header.data_bytes);
        let (block, page) = (offer.block, place.page);
        open.entries.push(SummaryEntry { block, page, first_byte, data_bytes, header_pages });
        open.next_page += pages;
        let header_pages = header_pages as u16;
        let run = Run { place, first_byte, data_bytes, header_pages, uses: 0 };
        debug_assert_eq!(run.pages(), pages, "a run knows its pages");
        gathering.records.push(Gathered { run, header: Rc::new(header) });
        writer.unindexed += 1;
    }

    /// Writes what was gathered.
    pub(super) fn submit(self: &Rc<Self>) {
        let Some(gathering) = self.writer.borrow_mut().gathering.take() else { return };
        let pin = self.begin_write(gathering.life.number);
        let area = Rc::clone(self);
        self.reactor.spawn(async move {
            let Gathering { buffer, life, first_page, records, .. } = gathering;
            let offset = area.segments.borrow().offset(life.number, first_page);
            let (is_written, mut buffer) = area.write(buffer, offset).await;
            area.writer.borrow_mut().unindexed -= records.len() as u64;
            if is_written {
                area.index_records(records, life);
            }
            buffer.clear();
            area.writer.borrow_mut().pool.push(buffer);
            area.end_write(pin, is_written);
            area.reclaim_soon();
        });
    }

    /// Seals the open segment, if there is one, and writes its summary.
    pub(super) fn seal(self: &Rc<Self>) {
        let Some(open) = self.segments.borrow_mut().seal() else { return };
        if open.entries.is_empty() {
            return;
        }
        let life = open.life;
        let summary = Summary { life, entries: open.entries };
        let bytes = summary.encode();
        let first_page = (self.place.segment_bytes as usize - bytes.len()) / PAGE_BYTES;
        let offset = self.segments.borrow().offset(life.number, first_page as u32);
        let mut buffer = Buffer::aligned(bytes.len(), PAGE_BYTES);
        buffer.extend_from_slice(&bytes);
        let pin = self.begin_write(life.number);
        let area = Rc::clone(self);
        self.reactor.spawn(async move {
            let (is_written, _) = area.write(buffer, offset).await;
            area.end_write(pin, is_written);
        });
    }

    /// Writes a whole buffer; whether the device took it.
    async fn write(&self, buffer: Buffer, offset: u64) -> (bool, Buffer) {
        let _turn = self.queue.turn(IoClass::Fill).await;
        let (written, buffer) = self.reactor.write_at(&self.file, buffer, offset).await;
        let bytes = written.inspect_err(|error| self.note_error(error)).unwrap_or(0);
        self.count(|counts| counts.written_bytes += bytes as u64);
        (bytes == buffer.len(), buffer)
    }

    fn begin_write(self: &Rc<Self>, segment: u32) -> Pin {
        self.writer.borrow_mut().writing.push(segment);
        self.pin(segment)
    }

    fn end_write(&self, pin: Pin, is_written: bool) {
        let mut writer = self.writer.borrow_mut();
        let place = writer.writing.iter().position(|segment| *segment == pin.segment);
        writer.writing.swap_remove(place.expect("it was begun"));
        if is_written {
            writer.note_success();
        } else {
            writer.note_failure(self.reactor.clock().now());
            self.count(|counts| counts.write_failures += 1);
        }
        drop(writer);
        drop(pin);
        self.changed.raise();
    }

    /// What was written can be found from now on.
    fn index_records(&self, records: Vec<Gathered>, life: SegmentHeader) {
        let mut index = self.index.borrow_mut();
        let mut headers = self.headers.borrow_mut();
        for Gathered { run, header } in records {
            debug_assert_eq!(header.life, life, "a record is of its segment's life");
            let superseded = index.insert(header.block, run);
            superseded.iter().for_each(|run| headers.forget(run.place));
            if !superseded.contains(&run) {
                headers.keep(run.place, header);
            }
            self.count(|counts| counts.records += 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_that_fail_together_are_one_failure_and_later_ones_double_the_pause() {
        let mut writer = Writer::new(3 * BUFFER_BYTES as u64);
        let mut now = Monotonic(7);
        for pause in [1, 2, 4, 8, 16, 32, 60, 60].map(Duration::from_secs) {
            for _ in 0..=3 {
                writer.note_failure(now);
            }
            assert_eq!(writer.paused_until, Some(now.after(pause)));
            now = now.after(pause);
        }
        writer.note_success();
        writer.note_failure(now);
        assert_eq!(writer.paused_until, Some(now.after(PAUSE_MIN)), "it begins anew");
    }
}

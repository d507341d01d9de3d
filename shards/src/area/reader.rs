//! Reads: just the pages that hold what is wanted, and the record's header where it is not kept; every page is held
//! against its checksum, the header against what is asked for. Whatever else comes back is a miss: the record is
//! dropped, counted, and fetched anew by whoever wants it.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use nilas_base::ByteRange;

use super::join::join_all;
use super::{Area, AreaStore, IoClass};
use crate::buffer::Buffer;
use crate::disk::{PAGE_BYTES, Place, RecordHeader, Run, SegmentHeader, Unreadable};
use crate::store::BlockId;

/// What one operation reads at most: of much more the kernel makes work for its threads.
const READ_BYTES_MAX: usize = 512 << 10;
/// How long a read waits for the device. The origin answers in less.
const READ_PATIENCE: Duration = Duration::from_secs(2);
/// How long a device that did not answer in time is left alone.
const REST: Duration = Duration::from_secs(5);

/// Bytes of a block, checked.
#[derive(Debug)]
pub struct DiskBytes {
    pages: Vec<Buffer>,
    /// Where the wanted bytes begin in the pages.
    skipped: usize,
    range: ByteRange,
}

/// The bytes are not on the device, or not any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOnDisk {
    /// No record holds the first of them.
    #[error("no record holds it")]
    Miss,
    /// A record holds it of another object, whose hash is the same; it stays.
    #[error("its record is another object's")]
    Anothers,
    /// The record was not what it should be, and has been dropped.
    #[error("its record was damaged: {0}")]
    Damaged(Unreadable),
    /// The device refused, and the record has been dropped.
    #[error("the device could not read it")]
    Failed,
    /// The device did not answer in time.
    #[error("the device did not answer in time")]
    TimedOut,
}

impl DiskBytes {
    /// Which bytes of the block they are.
    pub fn range(&self) -> ByteRange {
        self.range
    }

    /// The bytes, in order.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let mut skipped = self.skipped;
        let mut left = self.range.len() as usize;
        self.pages.iter().map(move |pages| {
            let bytes = &pages.filled()[skipped..];
            skipped = 0;
            let here = &bytes[..bytes.len().min(left)];
            left -= here.len();
            here
        })
    }

    /// The buffers that hold them, as they were given.
    pub fn into_buffers(self) -> Vec<Buffer> {
        self.pages
    }
}

/// A record and the pages of its data to read.
#[derive(Clone, Copy)]
struct Part {
    block: BlockId,
    run: Run,
    life: SegmentHeader,
    /// Of the block.
    wanted: ByteRange,
}

impl Part {
    fn first_page(&self) -> u32 {
        ((self.wanted.start - self.run.range().start) / PAGE_BYTES as u64) as u32
    }

    /// Where in the segment its first page of data lies.
    fn place(&self) -> u32 {
        self.run.place.page + u32::from(self.run.header_pages) + self.first_page()
    }

    fn pages(&self) -> u32 {
        let end = self.wanted.end - self.run.range().start;
        end.div_ceil(PAGE_BYTES as u64) as u32 - self.first_page()
    }
}

/// What is to be read, and into what.
pub(super) struct Reading<'a> {
    pub(super) block: BlockId,
    /// Whose the block must be; without it, whatever its header says.
    pub(super) identity: Option<&'a [u8]>,
    pub(super) wanted: ByteRange,
    /// One behind the other as long as the pages that hold what is wanted; none: some are made.
    pub(super) buffers: Vec<Buffer>,
    pub(super) class: IoClass,
}

impl AreaStore {
    /// Reads the part of `wanted`, from its first byte on, that one record of `block` holds; the block is that of
    /// `identity`, or it is no hit.
    ///
    /// # Errors
    /// Where there is no such record, or it could not be read; see [`NotOnDisk`].
    pub async fn read(
        &self,
        block: BlockId,
        identity: &[u8],
        wanted: ByteRange,
    ) -> Result<DiskBytes, NotOnDisk> {
        self.read_into(block, identity, wanted, Vec::new()).await
    }

    /// The same, into `buffers`: empty ones of whole pages, whose rooms together hold the pages of `wanted`, which
    /// begins at a page and which one record holds all of.
    ///
    /// # Errors
    /// As [`AreaStore::read`]; the buffers are gone then, or still with the device.
    pub async fn read_into(
        &self,
        block: BlockId,
        identity: &[u8],
        wanted: ByteRange,
        buffers: Vec<Buffer>,
    ) -> Result<DiskBytes, NotOnDisk> {
        let (identity, class) = (Some(identity), IoClass::Read);
        let reading = Reading { block, identity, wanted, buffers, class };
        let (bytes, _) = self.0.read_checked(reading).await?;
        self.0.count(|counts| counts.hits += 1);
        Ok(bytes)
    }
}

impl Area {
    /// As [`AreaStore::read`], with the record's header.
    pub(super) async fn read_checked(
        self: &Rc<Self>,
        reading: Reading<'_>,
    ) -> Result<(DiskBytes, Rc<RecordHeader>), NotOnDisk> {
        let Reading { block, wanted, class, .. } = reading;
        let found = self.index.borrow().find(block, wanted);
        let (run, held) = found.ok_or(NotOnDisk::Miss)?;
        let life = self.segments.borrow().life(run.place.segment);
        let Some(life) = life else {
            // What is in no life of its segment is in no later one either.
            self.drop_record(block, run.place);
            return Err(NotOnDisk::Miss);
        };
        if !reading.buffers.is_empty() && held != wanted {
            return Err(NotOnDisk::Miss);
        }
        let _pin = self.pin(run.place.segment);
        if class == IoClass::Read {
            self.index.borrow_mut().note_use(block, run.place);
            self.carry_over.borrow_mut().touch(block);
        }
        let part = Part { block, run, life, wanted: held };
        match self.reactor.timeout(READ_PATIENCE, self.read_part(part, reading)).await {
            Ok(Ok((pages, header))) => {
                let skipped = (held.start - run.range().start) as usize % PAGE_BYTES;
                Ok((DiskBytes { pages, skipped, range: held }, header))
            }
            // It is whole, and will be a hit for its own object.
            Ok(Err(NotOnDisk::Anothers)) => Err(NotOnDisk::Anothers),
            Ok(Err(why)) => {
                self.drop_record(block, run.place);
                self.count(|counts| match why {
                    NotOnDisk::Failed => counts.read_failures += 1,
                    _ => counts.damaged += 1,
                });
                Err(why)
            }
            Err(_) => {
                self.rests_until.set(self.reactor.clock().now().after(REST));
                self.count(|counts| counts.read_timeouts += 1);
                Err(NotOnDisk::TimedOut)
            }
        }
    }

    async fn read_part(
        &self,
        part: Part,
        reading: Reading<'_>,
    ) -> Result<(Vec<Buffer>, Rc<RecordHeader>), NotOnDisk> {
        let Reading { identity, buffers, class, .. } = reading;
        let place = part.run.place;
        let buffers = match buffers.is_empty() {
            true => vec![Buffer::aligned(part.pages() as usize * PAGE_BYTES, PAGE_BYTES)],
            false => buffers,
        };
        let kept = self.headers.borrow().find(place, part.life);
        let is_kept = kept.is_some();
        let (pages, header) = match kept {
            Some(header) => {
                let read = self.read_buffers(place.segment, part.place(), buffers, class).await;
                (read.map_err(|_| NotOnDisk::Failed)?, header)
            }
            None => {
                let read = self.read_with_header(part, buffers, class).await;
                let (head, pages) = read.map_err(|_| NotOnDisk::Failed)?;
                let header = RecordHeader::decode(head.filled(), part.life, place.page);
                (pages, Rc::new(header.map_err(NotOnDisk::Damaged)?))
            }
        };
        let bytes = pages.iter().map(Buffer::filled);
        check(&header, &part, bytes).map_err(NotOnDisk::Damaged)?;
        if identity.is_some_and(|identity| is_anothers(&header, identity)) {
            return Err(NotOnDisk::Anothers);
        }
        if !is_kept {
            self.headers.borrow_mut().keep(place, Rc::clone(&header));
        }
        Ok((pages, header))
    }

    /// Whole pages of a segment; fewer than were asked for are an error.
    pub(super) async fn read_pages(
        &self,
        segment: u32,
        (first, count): (u32, u32),
        class: IoClass,
    ) -> io::Result<Buffer> {
        let buffer = Buffer::aligned(count as usize * PAGE_BYTES, PAGE_BYTES);
        let mut read = self.read_buffers(segment, first, vec![buffer], class).await?;
        Ok(read.remove(0))
    }

    /// The header's pages and those of a part, by one operation where they lie side by side and are not too many.
    async fn read_with_header(
        &self,
        part: Part,
        mut buffers: Vec<Buffer>,
        class: IoClass,
    ) -> io::Result<(Buffer, Vec<Buffer>)> {
        let Place { segment, page } = part.run.place;
        let head = Buffer::aligned(usize::from(part.run.header_pages) * PAGE_BYTES, PAGE_BYTES);
        let pages = u32::from(part.run.header_pages) + part.pages();
        if part.first_page() == 0 && pages as usize * PAGE_BYTES <= READ_BYTES_MAX {
            buffers.insert(0, head);
            let mut pages = self.read_buffers(segment, page, buffers, class).await?;
            return Ok((pages.remove(0), pages));
        }
        let reads = [(page, vec![head]), (part.place(), buffers)];
        let reads = reads.map(|(page, buffers)| self.read_buffers(segment, page, buffers, class));
        let read: io::Result<Vec<_>> = join_all(reads.into_iter()).await.into_iter().collect();
        let mut read = read?;
        let pages = read.pop().expect("both were read");
        Ok((read.remove(0).remove(0), pages))
    }

    /// Whole pages of a segment into buffers that are full then.
    async fn read_buffers(
        &self,
        segment: u32,
        first: u32,
        buffers: Vec<Buffer>,
        class: IoClass,
    ) -> io::Result<Vec<Buffer>> {
        let offset = self.segments.borrow().offset(segment, first);
        let _turn = self.queue.turn(class).await;
        let (read, buffers) = self.reactor.read_into(&self.file, buffers, offset).await;
        let read = read.inspect_err(|error| self.note_error(error))?;
        self.count(|counts| counts.read_bytes += read as u64);
        if buffers.iter().any(|buffer| buffer.room() > 0) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(buffers)
    }
}

/// Whether the record is of another object than this one, which has the same hash.
fn is_anothers(header: &RecordHeader, identity: &[u8]) -> bool {
    #[cfg(feature = "mutations")]
    if crate::mutation::collides(header.block) {
        return true;
    }
    *header.identity != *identity
}

/// Whether the header is that of the record that the index told of, and the pages are its.
fn check<'a>(
    header: &RecordHeader,
    part: &Part,
    pages: impl Iterator<Item = &'a [u8]>,
) -> Result<(), Unreadable> {
    let Run { first_byte, data_bytes, .. } = part.run;
    let is_it = header.block == part.block
        && (header.first_byte, header.data_bytes) == (first_byte, data_bytes);
    if !is_it {
        return Err(Unreadable::Misplaced);
    }
    let pages = pages.flat_map(|bytes| bytes.chunks(PAGE_BYTES)).take(part.pages() as usize);
    match header.pages_are_right(part.first_page(), pages) {
        true => Ok(()),
        false => Err(Unreadable::Checksum),
    }
}

//! Reads: just the pages that hold what is wanted, and the record's header where it is not kept; every page is held
//! against its checksum, the header against what is asked for. Whatever else comes back is a miss: the record is
//! dropped, counted, and fetched anew by whoever wants it.

use std::io;
use std::ops::Deref;
use std::rc::Rc;
use std::time::Duration;

use nilas_base::ByteRange;

use super::{Area, AreaStore, IoClass};
use crate::buffer::Buffer;
use crate::disk::{Generation, PAGE_BYTES, RecordHeader, Run, Unreadable, pages_of};
use crate::store::BlockId;

/// How long a read waits for the device. The origin answers in less.
const READ_PATIENCE: Duration = Duration::from_secs(2);

/// Bytes of a block, checked.
#[derive(Debug)]
pub struct DiskBytes {
    pages: Buffer,
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
}

impl Deref for DiskBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.pages.filled()[self.skipped..][..self.range.len() as usize]
    }
}

/// A record and the pages of its data to read.
#[derive(Clone, Copy)]
struct Part {
    block: BlockId,
    run: Run,
    generation: Generation,
    /// Of the block.
    wanted: ByteRange,
}

impl Part {
    fn first_page(&self) -> u32 {
        ((self.wanted.start - self.run.range().start) / PAGE_BYTES as u64) as u32
    }

    fn pages(&self) -> u32 {
        let end = self.wanted.end - self.run.range().start;
        end.div_ceil(PAGE_BYTES as u64) as u32 - self.first_page()
    }
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
        let read = self.0.read_checked(block, Some(identity), wanted, IoClass::Read).await;
        let (bytes, _) = read?;
        self.0.count(|counts| counts.hits += 1);
        Ok(bytes)
    }
}

impl Area {
    /// As [`AreaStore::read`], with the record's header; without an identity, whatever the header says of it.
    pub(super) async fn read_checked(
        self: &Rc<Self>,
        block: BlockId,
        identity: Option<&[u8]>,
        wanted: ByteRange,
        class: IoClass,
    ) -> Result<(DiskBytes, Rc<RecordHeader>), NotOnDisk> {
        let found = self.index.borrow().find(block, wanted);
        let (run, held) = found.ok_or(NotOnDisk::Miss)?;
        let generation = self.segments.borrow().generation(run.place.segment);
        let Some(generation) = generation else { return Err(NotOnDisk::Miss) };
        let _pin = self.pin(run.place.segment);
        if class == IoClass::Read {
            self.index.borrow_mut().note_use(block, run.place);
        }
        let part = Part { block, run, generation, wanted: held };
        let reading = self.read_part(part, identity, class);
        match self.reactor.timeout(READ_PATIENCE, reading).await {
            Ok(Ok((pages, header))) => {
                let skipped = (held.start - run.range().start) as usize % PAGE_BYTES;
                Ok((DiskBytes { pages, skipped, range: held }, header))
            }
            Ok(Err(why)) => {
                self.drop_record(block, run.place);
                self.count(|counts| match why {
                    NotOnDisk::Failed => counts.read_failures += 1,
                    _ => counts.damaged += 1,
                });
                Err(why)
            }
            Err(_) => {
                self.count(|counts| counts.read_timeouts += 1);
                Err(NotOnDisk::TimedOut)
            }
        }
    }

    async fn read_part(
        &self,
        part: Part,
        identity: Option<&[u8]>,
        class: IoClass,
    ) -> Result<(Buffer, Rc<RecordHeader>), NotOnDisk> {
        let place = part.run.place;
        let kept = self.headers.borrow().find(place, part.generation);
        let data_page = place.page + u32::from(part.run.header_pages) + part.first_page();
        let (header, pages) = match kept {
            Some(header) => {
                (header, self.read_pages(place.segment, (data_page, part.pages()), class).await)
            }
            None => {
                let header_pages = (place.page, u32::from(part.run.header_pages));
                let header = self.read_pages(place.segment, header_pages, class).await;
                let pages = self.read_pages(place.segment, (data_page, part.pages()), class).await;
                let header = header.map_err(|_| NotOnDisk::Failed)?;
                let header = RecordHeader::decode(header.filled(), part.generation)
                    .map_err(NotOnDisk::Damaged)?;
                (Rc::new(header), pages)
            }
        };
        let pages = pages.map_err(|_| NotOnDisk::Failed)?;
        check(&header, &part, identity, pages.filled()).map_err(NotOnDisk::Damaged)?;
        self.headers.borrow_mut().keep(place, Rc::clone(&header));
        Ok((pages, header))
    }

    /// Whole pages of a segment; fewer than were asked for are an error.
    pub(super) async fn read_pages(
        &self,
        segment: u32,
        (first, count): (u32, u32),
        class: IoClass,
    ) -> io::Result<Buffer> {
        let offset = self.segments.borrow().offset(segment, first);
        let bytes = count as usize * PAGE_BYTES;
        let _turn = self.queue.turn(class).await;
        let buffer = Buffer::aligned(bytes, PAGE_BYTES);
        let (read, buffer) = self.reactor.read_at(&self.file, buffer, offset).await;
        read?;
        self.count(|counts| counts.read_bytes += buffer.len() as u64);
        if buffer.len() < bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(buffer)
    }
}

/// Whether the header is that of the record that was looked for, and the pages are its.
fn check(
    header: &RecordHeader,
    part: &Part,
    identity: Option<&[u8]>,
    pages: &[u8],
) -> Result<(), Unreadable> {
    let Run { first_byte, data_bytes, .. } = part.run;
    let is_it = header.block == part.block
        && (header.first_byte, header.data_bytes) == (first_byte, data_bytes)
        && identity.is_none_or(|identity| *header.identity == *identity);
    if !is_it {
        return Err(Unreadable::Misplaced);
    }
    debug_assert_eq!(pages_of(pages.len()), part.pages() as usize, "whole pages were read");
    let mut numbered = (part.first_page()..).zip(pages.chunks(PAGE_BYTES));
    match numbered.all(|(page, bytes)| header.page_is_right(page, bytes)) {
        true => Ok(()),
        false => Err(Unreadable::Checksum),
    }
}

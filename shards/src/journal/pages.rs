//! Reads and writes of whole pages of a journal's area, from aligned buffers, as `O_DIRECT` asks for. What they mean is
//! not known here.

use std::io;

use crate::buffer::Buffer;
use crate::disk::{AreaPlace, LogShape, PAGE_BYTES};
use crate::file::File;
use crate::reactor::{self, Reactor};

/// How often an operation is tried that ends within a page, or fails as a read: a device may do either once.
const TRIES_MAX: usize = 8;

/// An area, by its pages.
pub(super) struct AreaPages {
    pub(super) reactor: Reactor,
    pub(super) place: AreaPlace,
    pub(super) shape: LogShape,
    file: File,
}

/// A read that was started.
pub(super) struct Reading {
    /// The first page.
    pub(super) page: u32,
    /// How many.
    pub(super) pages: u32,
    reading: reactor::Reading,
}

impl AreaPages {
    pub(super) fn new(reactor: Reactor, file: File, place: AreaPlace) -> AreaPages {
        AreaPages { reactor, place, shape: LogShape::new(place.length), file }
    }

    /// Starts a read, which goes on while nobody waits for it.
    pub(super) fn start_read(&self, page: u32, pages: u32) -> Reading {
        let buffer = Buffer::aligned(pages as usize * PAGE_BYTES, PAGE_BYTES);
        let reading = self.reactor.read_into(&self.file, vec![buffer], self.offset(page));
        Reading { page, pages, reading }
    }

    /// What was read, which is less than was asked for where the rest cannot be read.
    pub(super) async fn finish_read(&self, reading: Reading) -> Buffer {
        let Reading { page, reading, .. } = reading;
        let (mut result, mut buffers) = reading.await;
        let mut buffer = buffers.pop().expect("it was given");
        let mut tries = 1;
        while buffer.room() > 0 && tries < TRIES_MAX {
            // A read may end early for no reason. What does not fill a page is read again with all before it, since
            // neither place nor memory would be aligned; so is what could not be read.
            if result.is_err() || !buffer.len().is_multiple_of(PAGE_BYTES) {
                buffer.clear();
                tries += 1;
            } else if result.is_ok_and(|count| count == 0) {
                break;
            }
            let offset = self.offset(page) + buffer.len() as u64;
            (result, buffer) = self.reactor.read_at(&self.file, buffer, offset).await;
        }
        buffer
    }

    /// Writes whole pages.
    pub(super) async fn write(&self, page: u32, bytes: &[u8]) -> io::Result<()> {
        let (mut written, mut tries) = (0, 0);
        while written < bytes.len() {
            let mut buffer = Buffer::aligned(bytes.len() - written, PAGE_BYTES);
            buffer.extend_from_slice(&bytes[written..]);
            let offset = self.offset(page) + written as u64;
            let (count, _) = self.reactor.write_at(&self.file, buffer, offset).await;
            // What does not fill a page is written again.
            let whole = count? / PAGE_BYTES * PAGE_BYTES;
            written += whole;
            tries = if whole > 0 { 0 } else { tries + 1 };
            if tries == TRIES_MAX {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    /// Sees that pages hold these bytes, as the device gives them back: a write can go to another place and be told as
    /// done, and what lies in its own place then is whole and old. A read may go wrong too, and is tried again.
    pub(super) async fn prove(&self, page: u32, bytes: &[u8]) -> io::Result<()> {
        let pages = (bytes.len() / PAGE_BYTES) as u32;
        for _ in 0..TRIES_MAX {
            let reading = self.start_read(page, pages);
            if self.finish_read(reading).await.filled() == bytes {
                return Ok(());
            }
        }
        Err(io::Error::from_raw_os_error(libc::EIO))
    }

    /// Makes what was written durable.
    pub(super) async fn sync(&self) -> io::Result<()> {
        self.reactor.sync(&self.file).await
    }

    fn offset(&self, page: u32) -> u64 {
        self.place.offset + u64::from(page) * PAGE_BYTES as u64
    }
}

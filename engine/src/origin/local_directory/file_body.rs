//! Files as bodies: read in pieces on the blocking pool, as fast as they are wanted.
//! The length is fixed when a read begins; a file that is cut meanwhile breaks the body off.

use std::fs::File;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use nilas_base::ByteRange;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;

use super::failure::{Failure, Outcome};
use crate::origin::{AnswerBody, AnswerSender, BODY_PART_BYTES_MAX, OriginError};

/// Parts that are read in one go to the blocking pool, each of which takes four switches of threads.
const PARTS_AT_ONCE: usize = 2;

/// Runs file work where it may block.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Outcome<T> + Send + 'static,
) -> Outcome<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        Err(Failure::Broken(OriginError::broken(format!("file work was given up: {error}"))))
    })
}

/// The body of these bytes of a file.
pub(super) fn stream(file: Arc<File>, range: ByteRange) -> AnswerBody {
    let (sender, body) = AnswerBody::channel();
    tokio::spawn(feed(file, range, sender));
    body
}

async fn feed(file: Arc<File>, range: ByteRange, sender: AnswerSender) {
    let mut rest = range;
    // The first part goes out as soon as it is read.
    let mut parts = 1;
    while !rest.is_empty() {
        let Ok(room) = sender.room(parts).await else { return };
        let wanted = room.parts() * BODY_PART_BYTES_MAX as u64;
        let now = ByteRange::new(rest.start, rest.end.min(rest.start + wanted));
        let file = Arc::clone(&file);
        match blocking(move || Ok(read_parts(&file, now)?)).await {
            Ok(read) => room.fill(read),
            Err(failure) => {
                drop(room);
                let cause = format!("a file could not be read: {failure:?}");
                return sender.fail(OriginError::broken(cause)).await;
            }
        }
        rest = ByteRange::new(now.end, rest.end);
        parts = PARTS_AT_ONCE;
    }
    sender.end().await;
}

fn read_parts(file: &File, range: ByteRange) -> io::Result<Vec<Bytes>> {
    let starts = (range.start..range.end).step_by(BODY_PART_BYTES_MAX);
    let part = |start| ByteRange::new(start, range.end.min(start + BODY_PART_BYTES_MAX as u64));
    starts.map(|start| read_exactly(file, part(start)).map(Bytes::from)).collect()
}

/// These bytes of a file, all of them.
pub(super) fn read_exactly(file: &File, range: ByteRange) -> io::Result<Vec<u8>> {
    let length = usize::try_from(range.len()).expect("a piece fits the address space");
    // Not zeroed first: a quarter of what a read from the page cache takes.
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let offset = range.start + bytes.len() as u64;
        match rustix::io::pread(file, spare_capacity(&mut bytes), offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // A capacity may be more than was asked for.
    bytes.truncate(length);
    Ok(bytes)
}

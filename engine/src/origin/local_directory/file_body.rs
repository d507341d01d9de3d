//! Files as bodies: read in pieces on the blocking pool, as fast as they are wanted.
//! The length is fixed when a read begins; a file that is cut meanwhile breaks the body off.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use nilas_base::ByteRange;

use super::failure::{Failure, Outcome};
use crate::origin::{AnswerBody, AnswerSender, BODY_PART_BYTES_MAX, OriginError};

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
    while !rest.is_empty() {
        let piece =
            ByteRange::new(rest.start, rest.end.min(rest.start + BODY_PART_BYTES_MAX as u64));
        let file = Arc::clone(&file);
        match blocking(move || Ok(read_exactly(&file, piece)?)).await {
            Ok(bytes) => {
                if sender.send(Bytes::from(bytes)).await.is_err() {
                    return;
                }
            }
            Err(failure) => {
                let cause = format!("a file could not be read: {failure:?}");
                return sender.fail(OriginError::broken(cause)).await;
            }
        }
        rest = ByteRange::new(piece.end, rest.end);
    }
    sender.end().await;
}

/// These bytes of a file, all of them.
pub(super) fn read_exactly(file: &File, range: ByteRange) -> io::Result<Vec<u8>> {
    let length = usize::try_from(range.len()).expect("a piece fits the address space");
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, range.start)?;
    Ok(bytes)
}

//! A form's file on its way from the client's form into the one that goes on: cut out as it passes,
//! its last bytes held back until its length is known to be allowed, so that a refused one leaves
//! the origin's object as it was.

use bytes::Bytes;
use nilas_net::form::FormFile;

use crate::both::both_unless_failed;
use crate::origin::{BodyPart, BodySender, BodyStream};
use crate::put::UploadError;

/// Cuts the file out of a form.
pub(in crate::relay) struct FilePipe {
    from: BodyStream,
    file: FormFile,
    to: BodySender,
}

impl FilePipe {
    /// The file in `from`, sent on to `to`.
    pub(super) fn new(from: BodyStream, file: FormFile, to: BodySender) -> FilePipe {
        FilePipe { from, file, to }
    }

    /// As long as this is kept, a file that is not sent whole is not known to be given up.
    pub(in crate::relay) fn keep_open(&self) -> BodySender {
        self.to.clone()
    }

    /// Cuts while the client's form is being sent, to the end of both.
    pub(in crate::relay) async fn cut(
        self,
        sending: impl Future<Output = Result<(), UploadError>>,
    ) -> Result<(), UploadError> {
        let ((), sent) = both_unless_failed(self.run(), sending).await?;
        sent
    }

    async fn run(mut self) -> Result<(), UploadError> {
        let mut held = None;
        loop {
            match self.from.next().await {
                Some(BodyPart::Data(piece)) => {
                    let mut cut = Vec::with_capacity(piece.len());
                    self.file.pass(&piece, &mut cut).map_err(refused)?;
                    if !cut.is_empty()
                        && let Some(earlier) = held.replace(Bytes::from(cut))
                    {
                        self.tell(BodyPart::Data(earlier)).await?;
                    }
                }
                Some(BodyPart::Trailer(_)) => {}
                Some(BodyPart::End) => break,
                // Whoever sends it knows why.
                None => return Ok(()),
            }
        }
        self.file.finish().map_err(refused)?;
        if let Some(last) = held {
            self.tell(BodyPart::Data(last)).await?;
        }
        self.tell(BodyPart::End).await
    }

    async fn tell(&self, part: BodyPart) -> Result<(), UploadError> {
        self.to.send(part).await.map_err(|_| UploadError::OriginStopped)
    }
}

fn refused(error: nilas_net::form::FileError) -> UploadError {
    UploadError::Check(error.into())
}

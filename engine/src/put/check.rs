//! What is checked of one body as it passes: S3's own chunks and their signatures, the digest that
//! was signed, checksums of header and trailer, Content-MD5. Says at the end whether all held.

use bytes::Bytes;
use nilas_net::S3Error;
use nilas_net::aws_chunked::{AwsChunkedDecoder, Step};
use nilas_net::checksum::BodyChecks;

use crate::request::Request;

/// The checks of one body.
pub(super) struct Check {
    chunks: Option<AwsChunkedDecoder>,
    checks: BodyChecks,
}

impl Check {
    /// What a request asks for.
    pub(super) fn new(request: &Request<'_>) -> Result<Check, S3Error> {
        let payload = request.sender.payload;
        let checks = BodyChecks::of(request.head, payload, request.classified.operation)?;
        let chunks = match payload.is_streaming() {
            true => {
                let chain = request.sender.chain.clone();
                Some(AwsChunkedDecoder::of(request.head, payload, chain)?)
            }
            false => None,
        };
        Ok(Check { chunks, checks })
    }

    /// The length without S3's chunks, where they say one.
    pub(super) fn decoded_length(&self) -> Option<u64> {
        self.chunks.as_ref().map(AwsChunkedDecoder::decoded_length)
    }

    /// Takes a piece as HTTP brought it, gives the object's bytes in it.
    pub(super) fn pass(&mut self, piece: Bytes) -> Result<Vec<Bytes>, S3Error> {
        let Some(chunks) = &mut self.chunks else {
            self.checks.update(&piece);
            return Ok(vec![piece]);
        };
        let mut decoded = Vec::new();
        let mut input = &piece[..];
        while let Step::Data(data) = chunks.step(&mut input)? {
            self.checks.update(data);
            decoded.push(piece.slice_ref(data));
        }
        Ok(decoded)
    }

    /// Says whether everything held; gives the trailer.
    pub(super) fn end(self) -> Result<Vec<(String, String)>, S3Error> {
        let Check { chunks, mut checks } = self;
        let mut trailer = Vec::new();
        if let Some(chunks) = chunks {
            chunks.finish()?;
            trailer = chunks.trailer().to_vec();
            for (name, value) in &trailer {
                checks.trailer(name, value)?;
            }
        }
        checks.finish()?;
        Ok(trailer)
    }
}

//! Bodies in S3's own chunks (`Content-Encoding: aws-chunked`): `decoder` takes them apart and verifies
//! chunk and trailer signatures, `encoder` frames them anew under another credential.
//! Checksums in the trailer are handed out, not compared; see [`crate::checksum::BodyChecks`].

mod decoder;
mod encoder;
#[cfg(test)]
mod tests;

pub use decoder::{AwsChunkedDecoder, AwsChunkedError};
pub use encoder::{AwsChunkedEncoder, ENCODER_CHUNK_BYTES, encoded_length};

pub use crate::chunked::Step;

/// Bytes of one chunk-size line, signature included.
pub const CHUNK_LINE_BYTES_MAX: usize = 512;
/// Bytes of one chunk's data: S3's largest single upload. Nothing is buffered, so none is too large for us.
pub const CHUNK_BYTES_MAX: u64 = 5 * nilas_base::GIB;
/// Bytes of all trailer lines.
pub const TRAILER_BYTES_MAX: usize = 4 * 1024;
/// Fields of one trailer.
pub const TRAILER_FIELDS_MAX: usize = 16;

const SIGNATURE_EXTENSION: &str = "chunk-signature=";
const TRAILER_SIGNATURE: &str = "x-amz-trailer-signature";

//! Compressed blocks, inflated up to a limit into one buffer that all blocks of a file share.
//! Nothing is allocated on the word of a compressed block alone.

use flate2::{Crc, Decompress, FlushDecompress, Status};
use zstd::stream::raw::Operation;

use super::BLOCK_BYTES_MAX;
use super::cursor::Flaw;

pub(super) enum Codec {
    Null,
    Deflate(Decompress),
    Snappy(snap::raw::Decoder),
    Zstandard(zstd::stream::raw::Decoder<'static>),
}

impl Codec {
    /// By the name in a file's header.
    pub(super) fn named(name: &[u8]) -> Result<Codec, Flaw> {
        match name {
            b"" | b"null" => Ok(Codec::Null),
            b"deflate" => Ok(Codec::Deflate(Decompress::new(false))),
            b"snappy" => Ok(Codec::Snappy(snap::raw::Decoder::new())),
            b"zstandard" => {
                zstd::stream::raw::Decoder::new().map(Codec::Zstandard).map_err(not_zstandard)
            }
            other => {
                let name = String::from_utf8_lossy(&other[..other.len().min(40)]);
                Err(Flaw::Unsupported(format!("the Avro codec `{name}`").into()))
            }
        }
    }

    /// The block's bytes: themselves, or in `buffer`.
    pub(super) fn inflate<'a>(
        &mut self,
        block: &'a [u8],
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], Flaw> {
        buffer.clear();
        match self {
            Codec::Null => return Ok(block),
            Codec::Deflate(inflater) => deflate(inflater, block, buffer)?,
            Codec::Snappy(decoder) => snappy(decoder, block, buffer)?,
            Codec::Zstandard(decoder) => zstandard(decoder, block, buffer)?,
        }
        Ok(buffer)
    }
}

fn too_large() -> Flaw {
    Flaw::TooLarge("bytes of one block", BLOCK_BYTES_MAX)
}

fn deflate(inflater: &mut Decompress, block: &[u8], buffer: &mut Vec<u8>) -> Result<(), Flaw> {
    inflater.reset(false);
    buffer.reserve(block.len().saturating_mul(4).clamp(4096, BLOCK_BYTES_MAX));
    loop {
        let (taken, held) = (inflater.total_in(), buffer.len());
        let status = inflater
            .decompress_vec(&block[taken as usize..], buffer, FlushDecompress::None)
            .map_err(|error| Flaw::damaged(format!("deflate: {error}")))?;
        if buffer.len() > BLOCK_BYTES_MAX {
            return Err(too_large());
        }
        if status == Status::StreamEnd {
            return Ok(());
        }
        if buffer.len() == buffer.capacity() {
            buffer.reserve(buffer.len());
        } else if inflater.total_in() == taken && buffer.len() == held {
            return Err(Flaw::damaged("deflate: a block ends early"));
        }
    }
}

/// Avro's snappy block: the compressed bytes, then the CRC-32 of what they were, big-endian.
fn snappy(
    decoder: &mut snap::raw::Decoder,
    block: &[u8],
    buffer: &mut Vec<u8>,
) -> Result<(), Flaw> {
    let damaged = |error: snap::Error| Flaw::damaged(format!("snappy: {error}"));
    let Some((block, checksum)) = block.split_last_chunk::<4>() else {
        return Err(Flaw::damaged("snappy: a block without its checksum"));
    };
    let length = snap::raw::decompress_len(block).map_err(damaged)?;
    // A copy of two bytes gives at most 64: more is claimed, not compressed.
    if length > BLOCK_BYTES_MAX || length > block.len().saturating_mul(64) {
        return Err(too_large());
    }
    buffer.resize(length, 0);
    let inflated = decoder.decompress(block, buffer).map_err(damaged)?;
    buffer.truncate(inflated);
    let mut crc = Crc::new();
    crc.update(buffer);
    if crc.sum() != u32::from_be_bytes(*checksum) {
        return Err(Flaw::damaged("snappy: a block's checksum is another"));
    }
    Ok(())
}

/// A context of some hundred KiB serves all blocks: writers close one after some KiB.
fn zstandard(
    decoder: &mut zstd::stream::raw::Decoder<'static>,
    block: &[u8],
    buffer: &mut Vec<u8>,
) -> Result<(), Flaw> {
    decoder.reinit().map_err(not_zstandard)?;
    buffer.resize(block.len().saturating_mul(4).clamp(4096, BLOCK_BYTES_MAX), 0);
    let (mut taken, mut held) = (0, 0);
    loop {
        let step =
            decoder.run_on_buffers(&block[taken..], &mut buffer[held..]).map_err(not_zstandard)?;
        taken += step.bytes_read;
        held += step.bytes_written;
        if held > BLOCK_BYTES_MAX {
            return Err(too_large());
        }
        if step.remaining == 0 && taken == block.len() {
            buffer.truncate(held);
            return Ok(());
        }
        if held == buffer.len() {
            buffer.resize((2 * held).min(BLOCK_BYTES_MAX + 1), 0);
        } else if step.bytes_read == 0 && step.bytes_written == 0 {
            return Err(Flaw::damaged("zstandard: a block ends early"));
        }
    }
}

fn not_zstandard(error: std::io::Error) -> Flaw {
    Flaw::damaged(format!("zstandard: {error}"))
}

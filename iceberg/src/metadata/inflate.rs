//! Gzip, told by its magic: some catalogs write `*.gz.metadata.json`, some `*.metadata.json.gz`, and
//! some compress without saying so.

use std::borrow::Cow;
use std::io::Read;

use flate2::read::MultiGzDecoder;

use super::METADATA_BYTES_MAX;
use crate::fault::Fault;

const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];

pub(super) fn inflate<'a>(path: &str, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, Fault> {
    let too_large = || Fault::too_large(path, "bytes of metadata", METADATA_BYTES_MAX);
    if !bytes.starts_with(GZIP_MAGIC) {
        let fits = bytes.len() as u64 <= METADATA_BYTES_MAX;
        return fits.then_some(Cow::Borrowed(bytes)).ok_or_else(too_large);
    }
    let mut inflated = Vec::new();
    MultiGzDecoder::new(bytes)
        .take(METADATA_BYTES_MAX + 1)
        .read_to_end(&mut inflated)
        .map_err(|error| Fault::damaged(path, format!("gzip: {error}")))?;
    if inflated.len() as u64 > METADATA_BYTES_MAX {
        return Err(too_large());
    }
    Ok(Cow::Owned(inflated))
}

//! What was on a block device before it was laid out is of no use: it is told so, as far as its areas go, so that it
//! need not carry it about. Only then: a cache that is full has nothing to give back. A file's place is kept.

use std::fs::File;

use super::target::Kind;
use crate::disk::{HEAD_BYTES, Superblock};
use crate::sys;

/// Discards the areas of a device whose superblock was just written under a new id, which nothing before was bound to:
/// however far it comes, nothing is believed that was there. Whether it did; what cannot be done is not needed.
pub(super) fn discard_areas(file: &File, kind: Kind, superblock: &Superblock) -> bool {
    if kind != Kind::BlockDevice {
        return false;
    }
    let bytes = superblock.device_bytes.saturating_sub(HEAD_BYTES);
    sys::file::discard(file, HEAD_BYTES, bytes).is_ok()
}

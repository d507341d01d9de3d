//! A device's place on the disk. All of a file is taken at once, so that a full disk is found at start and not by a
//! write; a block device has its place, and only must be large enough.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;

use super::DeviceProblem;
use super::error::failed;
use super::target::Kind;
use crate::sys;

/// What the kernel counts a file's place in.
const BLOCK_BYTES: u64 = 512;

/// Gives the device its place; whether it has all of it now, which a filesystem without `fallocate` does not give.
pub(super) fn take(file: &File, kind: Kind, bytes: u64) -> Result<bool, DeviceProblem> {
    check(file, kind, bytes)?;
    if kind == Kind::BlockDevice {
        return Ok(true);
    }
    let length = file.metadata().map_err(failed("looked at"))?.len();
    let is_preallocated = match sys::file::preallocate(file, bytes) {
        Ok(()) => true,
        Err(cause) if cause.kind() == io::ErrorKind::Unsupported => false,
        Err(cause) => {
            // What was taken of the disk before it was full is given back; the old content stays.
            let _ = file.set_len(length);
            return Err(failed("given its place on the disk")(cause));
        }
    };
    if length > bytes || !is_preallocated {
        file.set_len(bytes).map_err(failed("given its length"))?;
    }
    Ok(is_preallocated)
}

/// Whether there is room: beside what a file has already, or in all of a block device. Asked before anything is taken,
/// so that a disk is not filled, even for a moment, to find out that it is too small. A directory stands for a file
/// that is to be made in it.
pub(super) fn check(file: &File, kind: Kind, bytes: u64) -> Result<(), DeviceProblem> {
    if kind == Kind::BlockDevice {
        let mut device = file;
        let has_bytes = device.seek(SeekFrom::End(0)).map_err(failed("measured"))?;
        let is_enough = has_bytes >= bytes;
        let problem = DeviceProblem::TooSmall { has_bytes, wanted_bytes: bytes };
        return if is_enough { Ok(()) } else { Err(problem) };
    }
    let facts = file.metadata().map_err(failed("looked at"))?;
    let has_bytes = if facts.is_file() { facts.blocks() * BLOCK_BYTES } else { 0 };
    let missing_bytes = bytes.saturating_sub(has_bytes);
    let free_bytes =
        sys::file::filesystem(file).map_err(failed("asked for its filesystem"))?.free_bytes;
    match free_bytes {
        Some(free_bytes) if missing_bytes > free_bytes => {
            Err(DeviceProblem::NoRoom { missing_bytes, free_bytes })
        }
        _ => Ok(()),
    }
}

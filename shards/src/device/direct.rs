//! `O_DIRECT`, where it works. That a file can be opened with it says little, so the superblock is written and read
//! back with it; and some filesystems take the flag and use the page cache all the same, which only their kind tells.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::error::failed;
use super::target::Kind;
use super::{Access, DeviceProblem};
use crate::buffer::Buffer;
use crate::disk::{PAGE_BYTES, Superblock};
use crate::sys;

/// Filesystems that take `O_DIRECT` and keep the bytes in memory or may do so, by the magic of their kind.
const PRETENDERS: [(u64, &str); 3] = [
    (0x0102_1994, "tmpfs, which is memory itself"),
    (0x8584_58f6, "ramfs, which is memory itself"),
    (0x794c_7630, "overlayfs, which may copy it; give a volume or a bind mount instead"),
];

/// How a file on the filesystem of `file` is read and written, as far as the filesystem's kind tells. A block device
/// only has its name there.
pub(super) fn of_filesystem(file: &File, kind: Kind) -> Access {
    if kind == Kind::BlockDevice {
        return Access::Direct;
    }
    let magic = sys::file::filesystem(file).map_or(0, |it| it.magic);
    match PRETENDERS.iter().find(|(pretender, _)| *pretender == magic) {
        Some((_, name)) => Access::Buffered(format!("it lies on {name}")),
        None => Access::Direct,
    }
}

/// Turns `O_DIRECT` on, where the filesystem has it.
pub(super) fn turn_on(file: &File, kind: Kind) -> Access {
    let access = of_filesystem(file, kind);
    if !access.is_direct() {
        return access;
    }
    match sys::file::set_direct(file, true) {
        Ok(()) => Access::Direct,
        Err(cause) => Access::Buffered(format!("its filesystem refuses O_DIRECT ({cause})")),
    }
}

/// Writes the superblock's copies and reads them back, with `O_DIRECT` if that works; says whether it did. The file is
/// left as it was written.
pub(super) fn write_head(
    file: &File,
    kind: Kind,
    superblock: &Superblock,
) -> Result<Access, DeviceProblem> {
    let access = turn_on(file, kind);
    let cause = match write_copies(file, superblock) {
        Ok(()) => return Ok(access),
        Err(cause) => cause,
    };
    if !access.is_direct() || cause.kind() != io::ErrorKind::InvalidInput {
        return Err(failed("written")(cause));
    }
    sys::file::set_direct(file, false).map_err(failed("opened without O_DIRECT"))?;
    write_copies(file, superblock).map_err(failed("written"))?;
    Ok(Access::Buffered(format!("its filesystem fails O_DIRECT ({cause})")))
}

/// One copy after the other, each durable before the next is begun: of a superblock that is written again, one is whole
/// at any time.
fn write_copies(file: &File, superblock: &Superblock) -> io::Result<()> {
    let mut copy = Buffer::aligned(Superblock::COPY_BYTES, PAGE_BYTES);
    copy.extend_from_slice(&superblock.encode());
    let mut back = Buffer::aligned(Superblock::COPY_BYTES, PAGE_BYTES);
    for at in Superblock::COPIES_AT {
        file.write_all_at(copy.filled(), at)?;
        file.sync_data()?;
        back.clear();
        file.read_exact_at(back.unfilled_mut(), at)?;
        back.advance(Superblock::COPY_BYTES);
        if back.filled() != copy.filled() {
            return Err(io::Error::other("other bytes were read back than were written"));
        }
    }
    Ok(())
}

//! Files and the filesystems that they lie on, as far as the standard library does not ask about them, and does not
//! read them. What is done with them in the ring is in `uring`; nothing here waits for a completion.

use std::ffi::CString;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Reads from `offset` on into the slices, one behind the other; fewer bytes than that at the file's end.
pub(crate) fn read_vectored_at(
    file: &std::fs::File,
    slices: &mut [IoSliceMut<'_>],
    offset: u64,
) -> io::Result<usize> {
    let count = i32::try_from(slices.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: a slice of this kind is laid out as an `iovec` and borrows what it points at until the call returns; the
    // descriptor is open while the file is borrowed.
    let read = unsafe { libc::preadv(file.as_raw_fd(), slices.as_mut_ptr().cast(), count, offset) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

/// What a filesystem says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filesystem {
    /// The magic number of its kind.
    pub(crate) magic: u64,
    /// Bytes that an ordinary user may still fill; nothing where it tells of no size, as one in memory without a limit.
    pub(crate) free_bytes: Option<u64>,
}

/// Gives the first `bytes` of a file their place on the disk, and the file that length at least.
pub(crate) fn preallocate(file: &std::fs::File, bytes: u64) -> io::Result<()> {
    let length = libc::off_t::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
    loop {
        // SAFETY: takes no pointers; the descriptor is open while the file is borrowed.
        let result = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, length) };
        if result == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Tells a block device that what lies in a part of it is of no use any more. `Unsupported` where it does not care.
pub(crate) fn discard(device: &std::fs::File, offset: u64, bytes: u64) -> io::Result<()> {
    // The kernel's number for it, which the libc crate does not name: `_IO(0x12, 119)`.
    const BLKDISCARD: u32 = 0x1277;
    let range = [offset, bytes];
    // SAFETY: the kernel reads two numbers from an array that lives until the call returns; the descriptor is open
    // while the file is borrowed.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), BLKDISCARD as _, range.as_ptr()) };
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::EINVAL) => {
            Err(io::ErrorKind::Unsupported.into())
        }
        _ => Err(error),
    }
}

/// Lets reads and writes of an open file pass by the page cache, or not.
pub(crate) fn set_direct(file: &std::fs::File, is_direct: bool) -> io::Result<()> {
    // SAFETY: takes no pointers; the descriptor is open while the file is borrowed.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    let flags = if is_direct { flags | libc::O_DIRECT } else { flags & !libc::O_DIRECT };
    // SAFETY: as above.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The filesystem that an open file or directory lies on.
pub(crate) fn filesystem(file: &std::fs::File) -> io::Result<Filesystem> {
    let mut facts = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the kernel writes the facts into a place that lives until the call returns.
    let result = unsafe { libc::fstatfs(file.as_raw_fd(), facts.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded, so the kernel has filled it.
    let facts = unsafe { facts.assume_init() };
    let unit = if facts.f_frsize > 0 { facts.f_frsize } else { facts.f_bsize };
    Ok(Filesystem {
        magic: facts.f_type as u64,
        free_bytes: (facts.f_blocks > 0).then(|| facts.f_bavail.saturating_mul(unit as u64)),
    })
}

/// Whether files can be made in a directory, by who this process acts as; the error says why not.
pub(crate) fn takes_files(directory: &Path) -> io::Result<()> {
    let path = CString::new(directory.as_os_str().as_bytes())?;
    let wanted = libc::W_OK | libc::X_OK;
    // SAFETY: the path ends with a zero and lives until the call returns.
    let result =
        unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), wanted, libc::AT_EACCESS) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_preallocated_file_has_its_place() {
        let file = tempfile::tempfile().expect("a temporary file can be made");
        preallocate(&file, 1 << 20).expect("the filesystem of temporary files has a megabyte");
        let facts = file.metadata().expect("it can be looked at");
        assert!(facts.len() == 1 << 20 && facts.blocks() * 512 >= 1 << 20, "{facts:?}");
    }

    #[test]
    fn a_filesystem_that_tells_no_size_is_not_taken_for_full() {
        let free = |path| {
            let folder = std::fs::File::open(path).expect("Linux has it");
            filesystem(&folder).expect("it can be asked").free_bytes
        };
        assert_eq!(free("/proc"), None);
        assert!(free("/dev/shm").is_some());
    }

    #[test]
    fn a_file_is_nothing_to_discard_a_part_of() {
        let file = tempfile::tempfile().expect("a temporary file can be made");
        let refused = discard(&file, 0, 1 << 20).expect_err("it is no device");
        assert_eq!(refused.kind(), io::ErrorKind::Unsupported);
    }

    #[test]
    fn direct_access_is_turned_off_again() {
        let file = tempfile::tempfile().expect("a temporary file can be made");
        let flags = || {
            // SAFETY: takes no pointers; the descriptor is open while the file is borrowed.
            unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) }
        };
        let before = flags();
        if set_direct(&file, true).is_ok() {
            assert_eq!(flags(), before | libc::O_DIRECT);
        }
        set_direct(&file, false).expect("every file may be read through the page cache");
        assert_eq!(flags(), before);
    }

    #[test]
    fn a_directory_that_takes_no_files_is_told() {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        takes_files(folder.path()).expect("it is this test's own");
        takes_files(Path::new("/proc/sys")).expect_err("it takes no files");
        takes_files(&folder.path().join("missing")).expect_err("it is missing");
    }
}

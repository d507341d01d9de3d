//! The limits of this process that a ring and its connections run into.

use std::io;

/// A limit: what holds now, and what this process may raise it to. `u64::MAX` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) soft: u64,
    pub(crate) hard: u64,
}

/// Open files.
pub(crate) fn open_files() -> io::Result<Limit> {
    read(libc::RLIMIT_NOFILE)
}

/// Locked memory, in bytes.
pub(crate) fn locked_memory() -> io::Result<Limit> {
    read(libc::RLIMIT_MEMLOCK)
}

/// Raises the limit of open files as far as this process may.
pub(crate) fn raise_open_files() -> io::Result<Limit> {
    let Limit { hard, .. } = open_files()?;
    write(libc::RLIMIT_NOFILE, Limit { soft: hard, hard })?;
    open_files()
}

/// Lowers the limit of locked memory, for good.
pub(crate) fn lower_locked_memory(bytes: u64) -> io::Result<()> {
    write(libc::RLIMIT_MEMLOCK, Limit { soft: bytes, hard: bytes })
}

fn read(what: libc::__rlimit_resource_t) -> io::Result<Limit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one limit into one that lives until the call returns.
    let result = unsafe { libc::getrlimit(what, &raw mut limit) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Limit { soft: limit.rlim_cur, hard: limit.rlim_max })
}

fn write(what: libc::__rlimit_resource_t, limit: Limit) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: limit.soft, rlim_max: limit.hard };
    // SAFETY: the kernel reads one limit that lives until the call returns.
    let result = unsafe { libc::setrlimit(what, &raw const limit) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

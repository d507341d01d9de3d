//! Less than this machine allows: what containers and careful administrators take away, taken away
//! by a test, so that the fallbacks are tried where everything is allowed.

use crate::sys;
use std::io;

/// How io_uring is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// As by a container's seccomp profile.
    NotPermitted,
    /// As by a kernel or a sandbox that does not know it.
    NotImplemented,
}

/// Denies io_uring to the calling thread, and to the threads and processes that it starts from now
/// on, for good.
pub fn deny_io_uring(denial: Denial) -> io::Result<()> {
    sys::confinement::deny_io_uring(match denial {
        Denial::NotPermitted => libc::EPERM,
        Denial::NotImplemented => libc::ENOSYS,
    })
}

/// Lowers the limit of locked memory of the whole process, for good.
pub fn lower_locked_memory(bytes: u64) -> io::Result<()> {
    sys::limit::lower_locked_memory(bytes)
}

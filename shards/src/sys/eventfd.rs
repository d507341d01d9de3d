//! An eventfd: the one descriptor through which another thread ends a shard's sleep.
//! It only counts; what there is to do stands in the queues.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A counter in the kernel that a ring can wait for.
#[derive(Debug)]
pub(crate) struct EventFd(File);

impl EventFd {
    /// A counter at zero. Reading it blocks unless `nonblocking`.
    pub(crate) fn new(nonblocking: bool) -> io::Result<EventFd> {
        let flags = libc::EFD_CLOEXEC | if nonblocking { libc::EFD_NONBLOCK } else { 0 };
        // SAFETY: eventfd takes no pointers.
        let descriptor = unsafe { libc::eventfd(0, flags) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and nothing else owns it.
        Ok(EventFd(File::from(unsafe { OwnedFd::from_raw_fd(descriptor) })))
    }

    /// Adds one. The count cannot overflow: it is read back to zero at every wake.
    pub(crate) fn signal(&self) {
        let written = (&self.0).write_all(&1_u64.to_ne_bytes());
        debug_assert!(written.is_ok(), "an eventfd takes a one: {written:?}");
    }

    /// Sets a nonblocking counter back to zero and returns what it was.
    pub(crate) fn take(&self) -> u64 {
        let mut count = [0_u8; 8];
        // An error means that it stood at zero already.
        match (&self.0).read_exact(&mut count) {
            Ok(()) => u64::from_ne_bytes(count),
            Err(_) => 0,
        }
    }

    /// The number by which a ring watches it.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

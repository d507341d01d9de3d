//! epoll: which descriptors have become readable or writable since they were last asked about.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Descriptors told at once; more are told the next time.
const EVENTS_MAX: usize = 256;

/// A set of watched descriptors. One that is closed leaves it by itself.
pub(crate) struct Poller {
    descriptor: OwnedFd,
    events: Vec<libc::epoll_event>,
}

/// What has happened on one descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Readiness {
    pub(crate) descriptor: RawFd,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The other side has ended, or the socket has failed.
    pub(crate) hung_up: bool,
}

impl Poller {
    /// An empty set.
    pub(crate) fn new() -> io::Result<Poller> {
        // SAFETY: epoll_create1 takes no pointers.
        let descriptor = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just made, and owned by nobody else.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok(Poller { descriptor, events: Vec::with_capacity(EVENTS_MAX) })
    }

    /// Tells each change on a socket once, in both directions.
    pub(crate) fn watch_changes(&self, descriptor: RawFd) -> io::Result<()> {
        let both = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        self.watch(descriptor, both as u32)
    }

    /// Tells that a descriptor is readable as long as it is.
    pub(crate) fn watch_readable(&self, descriptor: RawFd) -> io::Result<()> {
        self.watch(descriptor, libc::EPOLLIN as u32)
    }

    fn watch(&self, descriptor: RawFd, events: u32) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: descriptor as u64 };
        let set = self.descriptor.as_raw_fd();
        // SAFETY: the event is read before the call returns.
        let result =
            unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, descriptor, &raw mut event) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Waits at most `longest` (`None`: for ever) and calls `take` for each change.
    pub(crate) fn wait(
        &mut self,
        longest: Option<Duration>,
        mut take: impl FnMut(Readiness),
    ) -> io::Result<()> {
        // Rounded up, lest a sleep that ends early is followed by many short ones.
        let ms = longest.map_or(-1, |longest| {
            i32::try_from(longest.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
        });
        let set = self.descriptor.as_raw_fd();
        let (pointer, count) = (self.events.as_mut_ptr(), EVENTS_MAX as i32);
        // SAFETY: the vector has room for as many events as are asked for.
        let told = unsafe { libc::epoll_wait(set, pointer, count, ms) };
        let Ok(told) = usize::try_from(told) else {
            let error = io::Error::last_os_error();
            let interrupted = error.kind() == io::ErrorKind::Interrupted;
            return if interrupted { Ok(()) } else { Err(error) };
        };
        // SAFETY: the kernel has written this many events.
        unsafe { self.events.set_len(told) };
        for event in self.events.drain(..) {
            let has = |bits: i32| event.events & bits as u32 != 0;
            let hung_up = has(libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR);
            take(Readiness {
                descriptor: event.u64 as RawFd,
                readable: has(libc::EPOLLIN) || hung_up,
                writable: has(libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR),
                hung_up,
            });
        }
        Ok(())
    }
}

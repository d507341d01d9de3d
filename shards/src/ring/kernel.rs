//! The kernel's io_uring as a ring body: one `io_uring_enter` a turn submits, runs the kernel's own
//! deferred work and collects. What the kernel holds in between is in `sys::uring`.

use super::{Completion, Operation, Ring, RingBody, RingOptions, RingWait, Token};
use crate::doorbell::Doorbell;
use crate::endpoint::Endpoint;
use crate::sys::socket;
use crate::sys::uring::{Stage, Uring};
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;

pub(crate) struct KernelRing(Uring);

impl KernelRing {
    pub(crate) fn new(options: RingOptions) -> io::Result<KernelRing> {
        KernelRing::try_new(options).map_err(|(_, error)| error)
    }

    /// The same, telling where it failed.
    pub(crate) fn try_new(options: RingOptions) -> Result<KernelRing, (Stage, io::Error)> {
        Uring::new(options).map(KernelRing)
    }
}

impl Ring for KernelRing {
    fn body(&self) -> RingBody {
        RingBody::IoUring
    }

    fn doorbell(&self) -> Doorbell {
        self.0.doorbell()
    }

    fn listen(&mut self, address: SocketAddr) -> io::Result<Endpoint> {
        // Blocking sockets: the ring itself waits where a call would block.
        Ok(Endpoint::listener(socket::listening(address, false)?))
    }

    fn listen_unix(&mut self, listener: UnixListener) -> io::Result<Endpoint> {
        listener.set_nonblocking(false)?;
        Ok(Endpoint::unix_listener(listener))
    }

    fn start(&mut self, token: Token, operation: Operation) {
        self.0.start(token, operation);
    }

    fn cancel(&mut self, token: Token) {
        self.0.cancel(token);
    }

    fn turn(&mut self, wait: RingWait, completions: &mut Vec<Completion>) -> io::Result<()> {
        self.0.enter(wait)?;
        self.0.reap(completions);
        Ok(())
    }

    fn has_completions(&mut self) -> bool {
        self.0.has_completions()
    }

    fn free_head_buffers(&self) -> usize {
        self.0.free_head_buffers()
    }

    fn head_buffers_are_scarce(&self) -> bool {
        self.0.head_buffers_are_scarce()
    }
}

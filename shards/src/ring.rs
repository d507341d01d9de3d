//! The ring: takes operations, gives completions. Three bodies: the kernel's io_uring, epoll where
//! that is denied, and the simulator's. None falls back to another by itself; see `probe` for the
//! choice, and `reactor` for who waits for a completion.

pub(crate) mod epoll;
pub(crate) mod kernel;
pub mod simulated;

use crate::buffer::Buffer;
use crate::doorbell::Doorbell;
use crate::endpoint::{Endpoint, EndpointKey, Transport};
use crate::file::File;
use crate::parts::Parts;
use crate::received::Received;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::time::Duration;

/// Which body a ring has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingBody {
    /// The kernel's io_uring.
    IoUring,
    /// epoll, with a few threads for the disks.
    Epoll,
    /// One of a simulated world.
    Simulated,
}

impl RingBody {
    /// Its name in settings, logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            RingBody::IoUring => "io_uring",
            RingBody::Epoll => "epoll",
            RingBody::Simulated => "simulated",
        }
    }
}

impl fmt::Display for RingBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Sizes of one ring.
#[derive(Clone, Copy, Debug)]
pub struct RingOptions {
    /// Submissions the kernel takes at once; a power of two.
    pub entries: u32,
    /// Buffers for received heads; a power of two.
    pub head_buffers: u16,
    /// Bytes of each of them.
    pub head_buffer_bytes: usize,
}

impl Default for RingOptions {
    /// 2 MiB of head buffers: an idle connection holds none, and one that has sent a head holds
    /// one for as long as the head is parsed.
    fn default() -> RingOptions {
        RingOptions { entries: 1024, head_buffers: 256, head_buffer_bytes: 8 << 10 }
    }
}

/// Makes a ring with this body, on the thread that will use it. An error is this body's: no other is
/// tried. Simulated rings are made by their world.
pub fn open_ring(body: RingBody, options: RingOptions) -> io::Result<Box<dyn Ring>> {
    match body {
        RingBody::IoUring => Ok(Box::new(kernel::KernelRing::new(options)?)),
        RingBody::Epoll => Ok(Box::new(epoll::EpollRing::new(options)?)),
        RingBody::Simulated => {
            Err(io::Error::new(io::ErrorKind::Unsupported, "a simulated ring is made by its world"))
        }
    }
}

/// Names an operation between its start and its last completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// A small number, used again after the last completion.
    pub index: u32,
    /// How often the index was used before.
    pub generation: u32,
}

/// What a ring can do. It owns the buffers until the completion gives them back.
#[derive(Debug)]
pub enum Operation {
    /// Accept connections until cancelled, or only the next one: one completion each.
    Accept {
        /// A listener.
        listener: EndpointKey,
        /// What its connections are.
        transport: Transport,
    },
    /// Connect to an address.
    Connect {
        /// Where.
        address: SocketAddr,
    },
    /// Receive into the ring's own buffers until cancelled, out of buffers, or at the end.
    ReceiveHeads {
        /// A stream.
        socket: EndpointKey,
    },
    /// Receive once into the buffer's room.
    Receive {
        /// A stream.
        socket: EndpointKey,
        /// With room.
        buffer: Buffer,
    },
    /// Send all parts.
    Send {
        /// A stream.
        socket: EndpointKey,
        /// Not empty.
        parts: Parts,
    },
    /// Read into the buffers' room, one behind the other.
    ReadAt {
        /// An open file.
        file: File,
        /// With room, each of them.
        buffers: Vec<Buffer>,
        /// Where in the file.
        offset_bytes: u64,
    },
    /// Write what is filled.
    WriteAt {
        /// An open file.
        file: File,
        /// With something filled.
        buffer: Buffer,
        /// Where in the file.
        offset_bytes: u64,
    },
    /// Make what was written durable (fdatasync).
    Sync {
        /// An open file.
        file: File,
    },
}

/// How an operation, or one round of a repeating one, has ended. Buffers come back either way; a
/// received or read count is already added to the buffer's filled bytes.
#[derive(Debug)]
pub enum Outcome {
    /// Of [`Operation::Accept`].
    Accepted(io::Result<Endpoint>),
    /// Of [`Operation::Connect`].
    Connected(io::Result<Endpoint>),
    /// Of [`Operation::ReceiveHeads`]; no bytes at the peer's end, `ENOBUFS` when out of buffers.
    Head(io::Result<Received>),
    /// Of [`Operation::Receive`].
    Received(io::Result<usize>, Buffer),
    /// Of [`Operation::Send`]; the count is that of all parts.
    Sent(io::Result<usize>, Parts),
    /// Of [`Operation::ReadAt`].
    Read(io::Result<usize>, Vec<Buffer>),
    /// Of [`Operation::WriteAt`].
    Written(io::Result<usize>, Buffer),
    /// Of [`Operation::Sync`].
    Synced(io::Result<()>),
}

/// An outcome and whose it is.
#[derive(Debug)]
pub struct Completion {
    /// The operation.
    pub token: Token,
    /// How it went.
    pub outcome: Outcome,
    /// Whether more completions of the same operation follow.
    pub more: bool,
}

/// How long a turn of the ring may last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingWait {
    /// Takes what is there.
    No,
    /// Sleeps until something completes, the doorbell rings, or this long.
    UpTo(Option<Duration>),
}

/// One body. All calls come from the thread that made it.
pub trait Ring {
    /// Which body it is.
    fn body(&self) -> RingBody;
    /// What ends its sleep from another thread.
    fn doorbell(&self) -> Doorbell;
    /// Opens a listener; port 0 lets the system choose.
    fn listen(&mut self, address: SocketAddr) -> io::Result<Endpoint>;
    /// Makes an endpoint of a Unix socket that listens already, and that other rings of this body share.
    fn listen_unix(&mut self, listener: UnixListener) -> io::Result<Endpoint>;
    /// Takes an operation; it may begin at once or at the next turn.
    fn start(&mut self, token: Token, operation: Operation);
    /// Asks that the operation ends soon; its last completion still comes.
    fn cancel(&mut self, token: Token);
    /// Submits what was started, and appends what has completed.
    fn turn(&mut self, wait: RingWait, completions: &mut Vec<Completion>) -> io::Result<()>;
    /// Whether a turn would find a completion; asks the kernel nothing.
    fn has_completions(&mut self) -> bool;
    /// Buffers for heads that nobody holds.
    fn free_head_buffers(&self) -> usize;
    /// Whether so few are left that received bytes are better copied out of them.
    fn head_buffers_are_scarce(&self) -> bool;
}

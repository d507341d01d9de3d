//! What the machine says: whether a ring can be made and used, and the limits around it.

use super::RingChoice;
use crate::endpoint::EndpointKey;
use crate::pin::usable_cores;
use crate::ring::kernel::KernelRing;
use crate::ring::{Operation, Outcome, Ring, RingOptions, RingWait, Token};
use crate::sys::limit::{self, Limit};
use crate::sys::uring::Stage;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A byte that is there is received at once; this is for a machine that is very busy.
const RECEIVE_WAIT: Duration = Duration::from_secs(5);

/// What was found.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Not asked when epoll is wanted.
    pub(super) io_uring: Result<(), Denial>,
    /// `kernel.io_uring_disabled`, where the kernel has it.
    pub(super) io_uring_disabled: Option<u32>,
    pub(super) kernel: String,
    pub(super) locked_memory: Option<Limit>,
    /// After it was raised.
    pub(super) open_files: Option<Limit>,
    pub(super) cores: Option<usize>,
}

/// At which step io_uring was refused, and the kernel's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Denial {
    pub(super) step: Step,
    pub(super) errno: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Make(Stage),
    /// A repeating receive into the ring's own buffers.
    Receive,
}

pub(super) fn gather(choice: RingChoice) -> Facts {
    let read = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    // Raised first: the limit may be what refuses the ring.
    let open_files = limit::raise_open_files().or_else(|_| limit::open_files()).ok();
    Facts {
        io_uring: if choice == RingChoice::Epoll { Ok(()) } else { try_io_uring() },
        io_uring_disabled: read("/proc/sys/kernel/io_uring_disabled")
            .and_then(|text| text.parse().ok()),
        kernel: read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned()),
        locked_memory: limit::locked_memory().ok(),
        open_files,
        cores: usable_cores().ok().map(|cores| cores.len()),
    }
}

/// Makes a ring as a shard does, and receives one byte as its sockets do: an older kernel makes a ring
/// and then refuses what a shard needs of it.
fn try_io_uring() -> Result<(), Denial> {
    let make = |(stage, error): (Stage, io::Error)| denial(Step::Make(stage), &error);
    let mut ring = KernelRing::try_new(RingOptions::default()).map_err(make)?;
    receive_a_byte(&mut ring).map_err(|error| denial(Step::Receive, &error))
}

fn receive_a_byte(ring: &mut KernelRing) -> io::Result<()> {
    let (mut near, far) = UnixStream::pair()?;
    near.write_all(b"?")?;
    let socket = EndpointKey(far.as_raw_fd());
    let token = Token { index: 0, generation: 0 };
    ring.start(token, Operation::ReceiveHeads { socket });
    let mut completions = Vec::new();
    ring.turn(RingWait::UpTo(Some(RECEIVE_WAIT)), &mut completions)?;
    match completions.pop().map(|completion| completion.outcome) {
        Some(Outcome::Head(Ok(received))) if &received[..] == b"?" => Ok(()),
        Some(Outcome::Head(Err(error))) => Err(error),
        _ => Err(io::Error::from_raw_os_error(libc::ETIME)),
    }
}

fn denial(step: Step, error: &io::Error) -> Denial {
    Denial { step, errno: error.raw_os_error().unwrap_or(libc::EIO) }
}

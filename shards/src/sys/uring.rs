//! The kernel's io_uring with the operations it holds. An operation's memory moves in here when it is
//! submitted and out with its last completion; in between nothing else can reach it, and dropping the
//! ring waits for the kernel to let go. The translation of operations is in `uring/submission`.

mod submission;
mod work_hint;

use super::eventfd::EventFd;
use super::message::Rooms;
use super::provided::BufferPool;
use super::socket::{self, SocketAddress};
use crate::buffer::{Buffer, advance_all};
use crate::doorbell::Doorbell;
use crate::endpoint::{Endpoint, EndpointKey, Transport};
use crate::file::File;
use crate::parts::Parts;
use crate::received::Received;
use crate::ring::{Completion, Operation, Outcome, RingOptions, RingWait, Token};
use io_uring::types::{CancelBuilder, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};
use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;
use std::rc::Rc;
use std::time::Duration;
use work_hint::WorkHint;

/// The group of buffers that heads are received into.
const HEADS_GROUP: u16 = 0;
/// Completions have four times the room of submissions: repeating operations give many.
const COMPLETIONS_A_SUBMISSION: u32 = 4;
/// User data of what belongs to no operation; no token has this index.
const WAKE: u64 = u64::MAX;
const CANCEL: u64 = u64::MAX - 1;
/// Turns that a dropped ring waits for the kernel, 20 ms each; then it leaks the memory.
const DROP_TURNS_MAX: usize = 500;
const DROP_TURN: Duration = Duration::from_millis(20);

/// Where the making of a ring has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// `io_uring_setup`.
    Setup,
    /// Registering the buffers for heads.
    Buffers,
    /// The doorbell's descriptor.
    Doorbell,
}

/// One ring.
pub(crate) struct Uring {
    ring: IoUring,
    /// By the tokens' index.
    in_flight: Vec<Option<InFlight>>,
    in_flight_count: usize,
    /// Entries that the submission queue had no room for.
    backlog: VecDeque<squeue::Entry>,
    heads: Rc<BufferPool>,
    doorbell: Doorbell,
    /// Where the kernel writes the doorbell's count.
    wake_count: Box<u64>,
    wake_is_armed: bool,
    /// Operations that have failed before they reached the kernel.
    failed: Vec<Completion>,
    /// What the kernel's word is worth that work waits for this thread.
    work_hint: WorkHint,
}

struct InFlight {
    generation: u32,
    cancelled: bool,
    held: Held,
}

/// What the kernel reads or writes, or what an outcome is made of.
enum Held {
    Accept(Transport),
    Heads,
    Connect {
        socket: TcpStream,
        #[expect(dead_code, reason = "the kernel reads it")]
        address: Box<SocketAddress>,
    },
    Receive(Buffer),
    Send {
        socket: EndpointKey,
        parts: Parts,
        sent_bytes: usize,
    },
    Read(
        #[expect(dead_code, reason = "held for its descriptor")] File,
        Vec<Buffer>,
        #[expect(dead_code, reason = "the kernel reads it")] Rooms,
    ),
    Write(#[expect(dead_code, reason = "held for its descriptor")] File, Buffer),
    Sync(#[expect(dead_code, reason = "held for its descriptor")] File),
}

impl Uring {
    /// A ring for the calling thread.
    pub(crate) fn new(options: RingOptions) -> Result<Uring, (Stage, io::Error)> {
        let ring = set_up(options.entries).map_err(|error| (Stage::Setup, error))?;
        let heads = BufferPool::for_kernel(options.head_buffers, options.head_buffer_bytes);
        let address = heads.ring_address().expect("made for the kernel");
        // SAFETY: the pool's memory lives until the ring is closed (see `drop`), and its ring of
        // entries is page-aligned and of the given power of two.
        unsafe {
            let submitter = ring.submitter();
            submitter.register_buf_ring_with_flags(address, heads.count(), HEADS_GROUP, 0)
        }
        .map_err(|error| (Stage::Buffers, error))?;
        // Blocking, since io_uring answers a read of an empty nonblocking one at once.
        let doorbell = Doorbell::with_event(false).map_err(|error| (Stage::Doorbell, error))?;
        Ok(Uring {
            ring,
            in_flight: Vec::new(),
            in_flight_count: 0,
            backlog: VecDeque::new(),
            heads,
            doorbell,
            wake_count: Box::new(0),
            wake_is_armed: false,
            failed: Vec::new(),
            work_hint: WorkHint::default(),
        })
    }

    /// What wakes it.
    pub(crate) fn doorbell(&self) -> Doorbell {
        self.doorbell.clone()
    }

    /// Buffers for heads that nobody holds.
    pub(crate) fn free_head_buffers(&self) -> usize {
        self.heads.free_count()
    }

    /// Whether so few are left that received bytes are better copied out of them.
    pub(crate) fn head_buffers_are_scarce(&self) -> bool {
        self.heads.is_scarce()
    }

    /// Takes an operation; the kernel sees it at the next `enter`.
    pub(crate) fn start(&mut self, token: Token, operation: Operation) {
        match submission::begin(operation) {
            Ok(held) => self.submit(token, held),
            Err(outcome) => self.failed.push(Completion { token, outcome, more: false }),
        }
    }

    fn submit(&mut self, token: Token, held: submission::Begun) {
        let submission::Begun { held, entry } = held;
        let index = token.index as usize;
        if self.in_flight.len() <= index {
            self.in_flight.resize_with(index + 1, || None);
        }
        let generation = token.generation;
        let before = self.in_flight[index].replace(InFlight { generation, cancelled: false, held });
        assert!(before.is_none(), "a token is in flight once");
        self.in_flight_count += 1;
        self.push(entry.user_data(user_data(token)));
    }

    /// Asks for an operation's end.
    pub(crate) fn cancel(&mut self, token: Token) {
        if let Some(Some(in_flight)) = self.in_flight.get_mut(token.index as usize)
            && in_flight.generation == token.generation
            && !in_flight.cancelled
        {
            in_flight.cancelled = true;
            self.push(opcode::AsyncCancel::new(user_data(token)).build().user_data(CANCEL));
        }
    }

    /// Whether `reap` or an `enter` without waiting would find something.
    pub(crate) fn has_completions(&mut self) -> bool {
        let (_, mut submissions, completions) = self.ring.split();
        submissions.sync();
        !self.failed.is_empty()
            || !completions.is_empty()
            || self.work_hint.is_news(submissions.taskrun())
            || submissions.cq_overflow()
    }

    /// Gives the kernel what was started, and waits for a completion if asked to.
    pub(crate) fn enter(&mut self, wait: RingWait) -> io::Result<()> {
        self.arm_wake();
        while let Some(entry) = self.backlog.pop_front() {
            if !self.try_push(&entry) {
                self.backlog.push_front(entry);
                break;
            }
        }
        let wait =
            if self.failed.is_empty() && self.backlog.is_empty() { wait } else { RingWait::No };
        let (submitter, submissions, completions) = self.ring.split();
        let queued = submissions.len();
        let work_waits = submissions.taskrun() || submissions.cq_overflow();
        drop(submissions);
        let wait = if completions.is_empty() { wait } else { RingWait::No };
        drop(completions);
        let entered = match wait {
            RingWait::No if queued == 0 && !work_waits => {
                self.work_hint.entered(false, false);
                return Ok(());
            }
            // SAFETY: no argument is passed, and what the queued entries point at is held here.
            RingWait::No => unsafe {
                let flags = EnterFlags::GETEVENTS.bits();
                submitter.enter::<libc::sigset_t>(queued as u32, 0, flags, None)
            },
            RingWait::UpTo(None) => submitter.submit_and_wait(1),
            RingWait::UpTo(Some(longest)) => {
                let time = Timespec::from(longest);
                submitter.submit_with_args(1, &SubmitArgs::new().timespec(&time))
            }
        };
        let (_, mut submissions, completions) = self.ring.split();
        submissions.sync();
        self.work_hint.entered(submissions.taskrun(), !completions.is_empty());
        match entered {
            Ok(_) => Ok(()),
            Err(error) if is_passing(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Appends what has completed.
    pub(crate) fn reap(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.failed);
        let Uring { ring, in_flight, in_flight_count, backlog, heads, .. } = self;
        let mut woken = false;
        for entry in ring.completion() {
            match entry.user_data() {
                WAKE => woken = true,
                CANCEL => {}
                data => {
                    let token = token(data);
                    let slot = &mut in_flight[token.index as usize];
                    let Some(known) = slot else { unreachable!("it completes while in flight") };
                    assert_eq!(known.generation, token.generation, "a token completes once");
                    if let Some(again) = rest_of_send(known, entry.result()) {
                        backlog.push_back(again.user_data(data));
                        continue;
                    }
                    let more = cqueue::more(entry.flags());
                    let outcome = if more || known.repeats() {
                        repeated(known, &entry, heads)
                    } else {
                        let held = slot.take().expect("just seen").held;
                        finished(held, result_of(entry.result()))
                    };
                    if !more {
                        *slot = None;
                        *in_flight_count -= 1;
                    }
                    completions.push(Completion { token, outcome, more });
                }
            }
        }
        self.wake_is_armed &= !woken;
    }

    fn arm_wake(&mut self) {
        if !self.wake_is_armed {
            self.wake_is_armed = true;
            let event = self.doorbell.event().map(EventFd::descriptor);
            let descriptor = io_uring::types::Fd(event.expect("made with one"));
            let into = (&raw mut *self.wake_count).cast();
            let length = size_of::<u64>() as u32;
            self.push(opcode::Read::new(descriptor, into, length).build().user_data(WAKE));
        }
    }

    fn push(&mut self, entry: squeue::Entry) {
        // In order: a cancellation must not overtake what it cancels.
        if !self.backlog.is_empty() || !self.try_push(&entry) {
            self.backlog.push_back(entry);
        }
    }

    fn try_push(&mut self, entry: &squeue::Entry) -> bool {
        // A full queue is handed over at once; the kernel copies the entries.
        self.push_now(entry) || (self.ring.submit().is_ok() && self.push_now(entry))
    }

    fn push_now(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: what the entry points at is held in `in_flight`, or is this ring's doorbell and
        // its count: all stay in place until the completion has been seen.
        unsafe { self.ring.submission().push(entry) }.is_ok()
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        if self.in_flight_count > 0 || self.wake_is_armed {
            let all = CancelBuilder::any();
            self.push(opcode::AsyncCancel2::new(all).build().user_data(CANCEL));
        }
        let mut completions = Vec::new();
        for _ in 0..DROP_TURNS_MAX {
            if self.in_flight_count == 0 && !self.wake_is_armed {
                return;
            }
            // `enter` would arm the doorbell again once it has been cancelled.
            let armed = std::mem::replace(&mut self.wake_is_armed, true);
            let entered = self.enter(RingWait::UpTo(Some(DROP_TURN)));
            self.wake_is_armed = armed;
            self.reap(&mut completions);
            completions.clear();
            if entered.is_err() {
                break;
            }
        }
        // The kernel still holds memory. It is never freed, rather than too early.
        std::mem::forget(std::mem::take(&mut self.in_flight));
        std::mem::forget(Rc::clone(&self.heads));
        std::mem::forget(std::mem::take(&mut self.wake_count));
        std::mem::forget(self.doorbell.clone());
    }
}

impl InFlight {
    fn repeats(&self) -> bool {
        matches!(self.held, Held::Accept(_) | Held::Heads)
    }
}

fn set_up(entries: u32) -> io::Result<IoUring> {
    let completions = entries * COMPLETIONS_A_SUBMISSION;
    let mut newest = IoUring::builder();
    newest.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_submit_all();
    let mut older = IoUring::builder();
    older.setup_coop_taskrun().setup_taskrun_flag().setup_submit_all();
    let mut oldest = IoUring::builder();
    let mut refused = io::Error::from_raw_os_error(libc::EINVAL);
    for builder in [&mut newest, &mut older, &mut oldest] {
        match builder.setup_cqsize(completions).setup_clamp().build(entries) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => refused = error,
            result => return result,
        }
    }
    Err(refused)
}

/// Errors of `io_uring_enter` after which the next turn goes on: interrupted, timed out, or short of
/// room until completions have been taken.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::ETIME | libc::EAGAIN | libc::EBUSY))
}

fn user_data(token: Token) -> u64 {
    u64::from(token.generation) << 32 | u64::from(token.index)
}

fn token(data: u64) -> Token {
    Token { index: data as u32, generation: (data >> 32) as u32 }
}

fn result_of(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

/// What is to be sent again when the kernel has sent a part only: older kernels do, `MSG_WAITALL` or
/// not, and all do before an error, which then shows.
fn rest_of_send(known: &mut InFlight, result: i32) -> Option<squeue::Entry> {
    let Held::Send { socket, parts, sent_bytes } = &mut known.held else { return None };
    *sent_bytes += usize::try_from(result).unwrap_or(0);
    (result > 0 && *sent_bytes < parts.len() && !known.cancelled)
        .then(|| submission::send(*socket, parts, *sent_bytes))
}

/// One round of a repeating operation.
fn repeated(known: &InFlight, entry: &cqueue::Entry, heads: &Rc<BufferPool>) -> Outcome {
    let result = result_of(entry.result());
    match known.held {
        Held::Accept(transport) => Outcome::Accepted(
            result.map(|_| Endpoint::accepted(socket::adopt(entry.result()), transport)),
        ),
        Held::Heads => {
            let number = cqueue::buffer_select(entry.flags());
            let filled = *result.as_ref().unwrap_or(&0);
            let buffer = number.map(|number| heads.hold(number, filled));
            Outcome::Head(result.map(|count| match buffer {
                Some(buffer) if count > 0 => Received::new(buffer),
                _ => Received::end(),
            }))
        }
        _ => unreachable!("nothing else repeats"),
    }
}

/// The end of an operation that completes once.
fn finished(held: Held, result: io::Result<usize>) -> Outcome {
    let filled = |mut buffer: Buffer, result: &io::Result<usize>| {
        buffer.advance(*result.as_ref().unwrap_or(&0));
        buffer
    };
    match held {
        Held::Accept(_) | Held::Heads => unreachable!("these repeat"),
        Held::Connect { socket, .. } => {
            Outcome::Connected(result.map(|_| Endpoint::stream(socket)))
        }
        Held::Receive(buffer) => {
            let buffer = filled(buffer, &result);
            Outcome::Received(result, buffer)
        }
        Held::Send { parts, sent_bytes, .. } => {
            let whole = match result {
                Ok(_) if sent_bytes == parts.len() => Ok(sent_bytes),
                Ok(_) => Err(io::Error::from_raw_os_error(libc::ECANCELED)),
                Err(error) => Err(error),
            };
            Outcome::Sent(whole, parts)
        }
        Held::Read(_, mut buffers, _) => {
            advance_all(&mut buffers, *result.as_ref().unwrap_or(&0));
            Outcome::Read(result, buffers)
        }
        Held::Write(_, buffer) => Outcome::Written(result, buffer),
        Held::Sync(_) => Outcome::Synced(result.map(|_| ())),
    }
}

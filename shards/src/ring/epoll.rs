//! epoll as a ring body, for machines that deny io_uring: operations are tried, and those that would
//! block are tried again when their socket has changed. Disks are left to a few threads, in `disk`;
//! the trying is in `attempt`.

mod attempt;
mod disk;

use super::{Completion, Operation, Outcome, Ring, RingBody, RingOptions, RingWait, Token};
use crate::doorbell::Doorbell;
use crate::endpoint::{Endpoint, EndpointKey};
use crate::sys::epoll::{Poller, Readiness};
use crate::sys::eventfd::EventFd;
use crate::sys::provided::BufferPool;
use crate::sys::socket;
use attempt::{Attempt, Attempted};
use disk::DiskPool;
use nilas_base::HashMap;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::rc::Rc;
use std::time::Duration;

pub(crate) struct EpollRing {
    poller: Poller,
    doorbell: Doorbell,
    heads: Rc<BufferPool>,
    disk: DiskPool,
    /// By descriptor. An entry outlives its socket, until another one has the number.
    sockets: HashMap<i32, Watched>,
    /// By the tokens' index.
    in_flight: Vec<Option<InFlight>>,
    /// Operations that may get on, each at most once.
    runnable: VecDeque<Token>,
    finished: Vec<Completion>,
    /// Kept for its memory.
    changed: Vec<Readiness>,
}

/// What is known of a socket, and the operations that wait for it.
#[derive(Default)]
struct Watched {
    readable: bool,
    writable: bool,
    hung_up: bool,
    reading: Option<Token>,
    writing: Option<Token>,
}

struct InFlight {
    generation: u32,
    queued: bool,
    stage: Stage,
}

enum Stage {
    Socket(Attempt),
    /// With the disk's threads, which give it back.
    Disk,
}

impl EpollRing {
    pub(crate) fn new(options: RingOptions) -> io::Result<EpollRing> {
        let poller = Poller::new()?;
        let doorbell = Doorbell::with_event(true)?;
        poller.watch_readable(event_of(&doorbell).descriptor())?;
        Ok(EpollRing {
            poller,
            disk: DiskPool::new(doorbell.clone()),
            doorbell,
            heads: BufferPool::listed(options.head_buffers, options.head_buffer_bytes),
            sockets: HashMap::default(),
            in_flight: Vec::new(),
            runnable: VecDeque::new(),
            finished: Vec::new(),
            changed: Vec::new(),
        })
    }

    fn watch(&mut self, descriptor: i32) -> io::Result<()> {
        self.poller.watch_changes(descriptor)?;
        // Not known to be blocked: the first attempt finds out.
        let fresh = Watched { readable: true, writable: true, ..Watched::default() };
        self.sockets.insert(descriptor, fresh);
        Ok(())
    }

    fn insert(&mut self, token: Token, stage: Stage) {
        let index = token.index as usize;
        if self.in_flight.len() <= index {
            self.in_flight.resize_with(index + 1, || None);
        }
        let in_flight = InFlight { generation: token.generation, queued: false, stage };
        assert!(self.in_flight[index].replace(in_flight).is_none(), "a token is in flight once");
    }

    fn start_on_socket(&mut self, token: Token, attempt: Attempt) {
        let (key, writes) = attempt.waits_for();
        self.insert(token, Stage::Socket(attempt));
        let watched = self.watched(key);
        let (place, ready) = if writes {
            (&mut watched.writing, watched.writable)
        } else {
            (&mut watched.reading, watched.readable)
        };
        assert!(place.replace(token).is_none(), "one operation at a time in each direction");
        if ready {
            self.queue(token);
        }
    }

    /// A connection under way is watched from its first step on: before that, epoll would tell that
    /// it is hung up.
    fn start_connect(&mut self, token: Token, address: SocketAddr) {
        let begun = socket::unconnected(address, true).and_then(|stream| {
            socket::begin_connect(&stream, address)?;
            self.watch(stream.as_raw_fd())?;
            Ok(stream)
        });
        match begun {
            Ok(stream) => {
                self.watched(EndpointKey(stream.as_raw_fd())).writable = false;
                self.start_on_socket(token, Attempt::Connect { stream });
            }
            Err(error) => {
                let outcome = Outcome::Connected(Err(error));
                self.finished.push(Completion { token, outcome, more: false });
            }
        }
    }

    fn queue(&mut self, token: Token) {
        if let Some(Some(known)) = self.in_flight.get_mut(token.index as usize)
            && known.generation == token.generation
            && !std::mem::replace(&mut known.queued, true)
        {
            self.runnable.push_back(token);
        }
    }

    fn watched(&mut self, key: EndpointKey) -> &mut Watched {
        self.sockets.get_mut(&key.0).expect("watched since it was made")
    }

    /// Tries each operation that may get on, once.
    fn attempt_all(&mut self, completions: &mut Vec<Completion>) {
        for _ in 0..self.runnable.len() {
            let Some(token) = self.runnable.pop_front() else { return };
            // Cancelled meanwhile, perhaps, and its index used again.
            let Some(known) = self.in_flight[token.index as usize]
                .take_if(|known| known.generation == token.generation)
            else {
                continue;
            };
            let Stage::Socket(attempt) = known.stage else {
                unreachable!("the disk's threads try by themselves")
            };
            self.attempt(token, attempt, completions);
        }
    }

    fn attempt(&mut self, token: Token, attempt: Attempt, completions: &mut Vec<Completion>) {
        let (key, writes) = attempt.waits_for();
        let hung_up = self.watched(key).hung_up;
        let first = completions.len();
        let attempted = attempt.run(&self.heads, hung_up, |outcome, more| {
            completions.push(Completion { token, outcome, more });
        });
        for completion in &mut completions[first..] {
            if let Outcome::Accepted(result) = &mut completion.outcome
                && let Ok(endpoint) = result
                && let Err(error) = self.watch(endpoint.key().0)
            {
                *result = Err(error);
            }
        }
        let watched = self.watched(key);
        match attempted {
            Attempted::Ended if writes => watched.writing = None,
            Attempted::Ended => watched.reading = None,
            Attempted::Blocked(attempt) => {
                let ready = if writes { &mut watched.writable } else { &mut watched.readable };
                *ready = false;
                self.insert(token, Stage::Socket(attempt));
            }
            Attempted::MoreWaits(attempt) => {
                self.insert(token, Stage::Socket(attempt));
                self.queue(token);
            }
        }
    }

    /// Asks epoll what has changed.
    fn poll(&mut self, longest: Option<Duration>) -> io::Result<()> {
        let bell = event_of(&self.doorbell).descriptor();
        let mut changed = std::mem::take(&mut self.changed);
        let waited = self.poller.wait(longest, |readiness| changed.push(readiness));
        for readiness in changed.drain(..) {
            if readiness.descriptor == bell {
                event_of(&self.doorbell).take();
            } else {
                self.note(readiness);
            }
        }
        self.changed = changed;
        waited
    }

    fn note(&mut self, readiness: Readiness) {
        let Some(watched) = self.sockets.get_mut(&readiness.descriptor) else { return };
        watched.readable |= readiness.readable;
        watched.writable |= readiness.writable;
        watched.hung_up |= readiness.hung_up;
        let reading = watched.reading.filter(|_| readiness.readable);
        let writing = watched.writing.filter(|_| readiness.writable);
        for token in [reading, writing].into_iter().flatten() {
            self.queue(token);
        }
    }

    fn take_disk(&mut self, completions: &mut Vec<Completion>) {
        while let Some((token, outcome)) = self.disk.take_done() {
            self.in_flight[token.index as usize] = None;
            completions.push(Completion { token, outcome, more: false });
        }
    }
}

impl Ring for EpollRing {
    fn body(&self) -> RingBody {
        RingBody::Epoll
    }

    fn doorbell(&self) -> Doorbell {
        self.doorbell.clone()
    }

    fn listen(&mut self, address: SocketAddr) -> io::Result<Endpoint> {
        let listener = socket::listening(address, true)?;
        self.watch(listener.as_raw_fd())?;
        Ok(Endpoint::listener(listener))
    }

    fn listen_unix(&mut self, listener: UnixListener) -> io::Result<Endpoint> {
        listener.set_nonblocking(true)?;
        // Every ring that watches it wakes for a connection, and whoever is first takes it.
        self.watch(listener.as_raw_fd())?;
        Ok(Endpoint::unix_listener(listener))
    }

    fn start(&mut self, token: Token, operation: Operation) {
        match operation {
            Operation::Accept { listener, transport } => {
                self.start_on_socket(token, Attempt::Accept { listener, transport });
            }
            Operation::Connect { address } => self.start_connect(token, address),
            Operation::ReceiveHeads { socket } => {
                self.start_on_socket(token, Attempt::Heads { socket });
            }
            Operation::Receive { socket, buffer } => {
                self.start_on_socket(token, Attempt::Receive { socket, buffer });
            }
            Operation::Send { socket, parts } => {
                self.start_on_socket(token, Attempt::Send { socket, parts, sent_bytes: 0 });
            }
            operation @ (Operation::ReadAt { .. }
            | Operation::WriteAt { .. }
            | Operation::Sync { .. }) => {
                self.insert(token, Stage::Disk);
                self.disk.start(token, operation);
            }
        }
    }

    fn cancel(&mut self, token: Token) {
        let Some(slot) = self.in_flight.get_mut(token.index as usize) else { return };
        let cancelled = slot.take_if(|known| {
            known.generation == token.generation && matches!(known.stage, Stage::Socket(_))
        });
        // What the disk's threads have ends by itself, soon.
        let Some(InFlight { stage: Stage::Socket(attempt), .. }) = cancelled else { return };
        let (key, writes) = attempt.waits_for();
        let watched = self.watched(key);
        if writes {
            watched.writing = None;
        } else {
            watched.reading = None;
        }
        let error = io::Error::from_raw_os_error(libc::ECANCELED);
        let outcome = attempt.fail(error);
        self.finished.push(Completion { token, outcome, more: false });
    }

    fn turn(&mut self, wait: RingWait, completions: &mut Vec<Completion>) -> io::Result<()> {
        self.attempt_all(completions);
        self.take_disk(completions);
        completions.append(&mut self.finished);
        let longest = match wait {
            RingWait::UpTo(longest) if completions.is_empty() && self.runnable.is_empty() => {
                longest
            }
            RingWait::UpTo(_) | RingWait::No => Some(Duration::ZERO),
        };
        self.poll(longest)?;
        self.attempt_all(completions);
        self.take_disk(completions);
        Ok(())
    }

    fn has_completions(&mut self) -> bool {
        // An error shows again in the next turn.
        let _ = self.poll(Some(Duration::ZERO));
        !self.runnable.is_empty() || !self.finished.is_empty() || self.disk.has_done()
    }

    fn free_head_buffers(&self) -> usize {
        self.heads.free_count()
    }

    fn head_buffers_are_scarce(&self) -> bool {
        self.heads.is_scarce()
    }
}

fn event_of(doorbell: &Doorbell) -> &EventFd {
    doorbell.event().expect("made with one")
}

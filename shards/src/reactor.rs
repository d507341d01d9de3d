//! The reactor of one shard: runs its tasks, submits their operations, reaps completions, fires
//! timers. Everything here belongs to one thread; other threads reach it by wakers and mailboxes.
//! What a turn of the kernel costs is in `ring`; how a shard sleeps is in `turn`.

pub(crate) mod sleep;
pub(crate) mod turn;

use crate::buffer::Buffer;
use crate::doorbell::Doorbell;
use crate::executor::Executor;
use crate::file::File;
use crate::listener::Listener;
use crate::operation::{Keeper, Operations};
use crate::parts::{HeadBuffer, Parts, Pools};
use crate::ring::{Completion, Operation, Outcome, Ring, RingBody, Token};
use crate::socket::{Socket, SocketCore};
use crate::timer::Timers;
use nilas_base::{Clock, Monotonic};
use sleep::{Sleep, Timeout};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

/// A handle on one shard's reactor; clones are the same one.
#[derive(Clone)]
pub struct Reactor(Rc<Core>);

pub(crate) struct Core {
    // Dropped first: it waits for what the kernel still holds.
    ring: RefCell<Box<dyn Ring>>,
    // Dropped after it: these keep descriptors open until their operations have completed.
    operations: RefCell<Operations>,
    body: RingBody,
    doorbell: Doorbell,
    clock: Clock,
    executor: Executor,
    timers: RefCell<Timers>,
    pools: Rc<Pools>,
    hooks: RefCell<Vec<Hook>>,
    completions: Cell<Vec<Completion>>,
    starved: RefCell<VecDeque<Weak<SocketCore>>>,
    spin: Cell<turn::Spin>,
    closing: Rc<Cell<bool>>,
}

/// Looks for work that other threads have left; true when there was some.
type Hook = Rc<dyn Fn() -> bool>;

impl Reactor {
    /// A reactor on `ring`, on the calling thread for good.
    pub fn new(ring: Box<dyn Ring>, clock: Clock) -> Reactor {
        let doorbell = ring.doorbell();
        Reactor(Rc::new(Core {
            body: ring.body(),
            ring: RefCell::new(ring),
            operations: RefCell::default(),
            executor: Executor::new(doorbell.clone()),
            doorbell,
            clock,
            timers: RefCell::default(),
            pools: Rc::default(),
            hooks: RefCell::default(),
            completions: Cell::default(),
            starved: RefCell::default(),
            spin: Cell::default(),
            closing: Rc::default(),
        }))
    }

    /// Which body runs: the one it was made with, always.
    pub fn ring_body(&self) -> RingBody {
        self.0.body
    }

    /// The body's name: `io_uring`, `epoll` or `simulated`.
    pub fn ring_name(&self) -> &'static str {
        self.0.body.name()
    }

    /// The clock that its timers go by.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Wakes it from any thread.
    pub fn doorbell(&self) -> Doorbell {
        self.0.doorbell.clone()
    }

    /// Starts a task of this shard. It is dropped unfinished by [`Reactor::close`].
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        self.0.executor.spawn(future);
    }

    /// Tasks that have not ended.
    pub fn task_count(&self) -> usize {
        self.0.executor.task_count()
    }

    /// Operations that the ring has, or whose outcome nobody has fetched yet.
    pub fn operation_count(&self) -> usize {
        self.0.operations.borrow().len()
    }

    /// Timers that wait.
    pub fn timer_count(&self) -> usize {
        self.0.timers.borrow().len()
    }

    /// Has `hook` look for work at every turn, and once more before the shard sleeps. Who leaves
    /// work for it rings the doorbell afterwards. Hooks stay until the reactor is closed.
    pub fn add_hook(&self, hook: impl Fn() -> bool + 'static) {
        self.0.hooks.borrow_mut().push(Rc::new(hook));
    }

    /// An empty send, from the pool.
    pub fn parts(&self) -> Parts {
        self.0.pools.parts()
    }

    /// An empty head, from the pool.
    pub fn head_buffer(&self) -> HeadBuffer {
        self.0.pools.head_buffer()
    }

    /// Listens on an address that other shards may listen on too; port 0 lets the system choose.
    pub fn listen(&self, address: SocketAddr) -> io::Result<Listener> {
        let endpoint = self.0.ring.borrow_mut().listen(address)?;
        Ok(Listener::new(self, endpoint))
    }

    /// Accepts from a Unix socket that listens already, and that other reactors of this body share.
    /// `Unsupported` on the simulated body.
    pub fn listen_unix(&self, listener: UnixListener) -> io::Result<Listener> {
        let endpoint = self.0.ring.borrow_mut().listen_unix(listener)?;
        Ok(Listener::new(self, endpoint))
    }

    /// Opens a connection.
    pub async fn connect(&self, address: SocketAddr) -> io::Result<Socket> {
        match self.operate(Operation::Connect { address }, Keeper::None).await {
            Outcome::Connected(endpoint) => Ok(Socket::new(self, endpoint?)),
            other => unreachable!("a connect gives a connection: {other:?}"),
        }
    }

    /// Reads into the buffer's room from `offset_bytes`; fewer bytes than that at the file's end.
    /// `InvalidInput` for a file that is not of this body.
    pub async fn read_at(
        &self,
        file: &File,
        buffer: Buffer,
        offset_bytes: u64,
    ) -> (io::Result<usize>, Buffer) {
        let (read, mut buffers) = self.read_into(file, vec![buffer], offset_bytes).await;
        (read, buffers.pop().expect("it was given"))
    }

    /// The same into the room of several buffers, one behind the other, by one operation. It begins at once, and
    /// goes on while nobody waits for it.
    pub fn read_into(&self, file: &File, buffers: Vec<Buffer>, offset_bytes: u64) -> Reading {
        let file = file.clone();
        let operation = Operation::ReadAt { file: file.clone(), buffers, offset_bytes };
        Reading(self.operate(operation, Keeper::File(file)))
    }

    /// Writes what is filled at `offset_bytes`; may write fewer bytes. `InvalidInput` for a file that
    /// is not of this body.
    pub async fn write_at(
        &self,
        file: &File,
        buffer: Buffer,
        offset_bytes: u64,
    ) -> (io::Result<usize>, Buffer) {
        let file = file.clone();
        let operation = Operation::WriteAt { file: file.clone(), buffer, offset_bytes };
        match self.operate(operation, Keeper::File(file)).await {
            Outcome::Written(result, buffer) => (result, buffer),
            other => unreachable!("a write gives its buffer back: {other:?}"),
        }
    }

    /// Makes durable what was written to the file before. `InvalidInput` for a file that is not of this
    /// body. After an error it is not known what is durable, and no later sync mends that.
    pub async fn sync(&self, file: &File) -> io::Result<()> {
        let file = file.clone();
        match self.operate(Operation::Sync { file: file.clone() }, Keeper::File(file)).await {
            Outcome::Synced(result) => result,
            other => unreachable!("a sync gives a result: {other:?}"),
        }
    }

    /// Ends when the clock has gone on by `duration`.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(self.0.clock.now().after(duration))
    }

    /// Ends when the clock shows `deadline`.
    pub fn sleep_until(&self, deadline: Monotonic) -> Sleep {
        Sleep::until(self.clone(), deadline)
    }

    /// What `future` gives within `duration`, from now on; it is dropped with the time-out.
    pub fn timeout<F: Future>(&self, duration: Duration, future: F) -> Timeout<F> {
        Timeout { future, sleep: self.sleep(duration) }
    }

    pub(crate) fn start_repeating(&self, operation: Operation, keeper: Keeper) -> Token {
        let token = self.0.operations.borrow_mut().insert_repeating(keeper);
        self.0.ring.borrow_mut().start(token, operation);
        token
    }

    pub(crate) fn cancel(&self, token: Token) {
        self.0.ring.borrow_mut().cancel(token);
    }

    /// Starts an operation and waits for it. The future may be dropped at any time.
    pub(crate) fn operate(&self, operation: Operation, keeper: Keeper) -> Operating {
        let token = self.0.operations.borrow_mut().insert(keeper);
        self.0.ring.borrow_mut().start(token, operation);
        Operating { reactor: self.clone(), token: Some(token) }
    }

    /// Whether both are handles on the same one.
    pub(crate) fn is(&self, other: &Reactor) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Set once the reactor closes.
    pub(crate) fn closing_flag(&self) -> Rc<Cell<bool>> {
        Rc::clone(&self.0.closing)
    }
}

/// Waits for a read.
pub struct Reading(Operating);

impl Future for Reading {
    type Output = (io::Result<usize>, Vec<Buffer>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|outcome| match outcome {
            Outcome::Read(result, buffers) => (result, buffers),
            other => unreachable!("a read gives its buffers back: {other:?}"),
        })
    }
}

/// Waits for one operation.
pub(crate) struct Operating {
    reactor: Reactor,
    token: Option<Token>,
}

impl Future for Operating {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let token = self.token.expect("not polled after its end");
        let polled = self.reactor.0.operations.borrow_mut().poll(token, context.waker());
        if polled.is_ready() {
            self.token = None;
        }
        polled
    }
}

impl Drop for Operating {
    fn drop(&mut self) {
        let Some(token) = self.token else { return };
        let outcome = self.reactor.0.operations.borrow_mut().abandon(token);
        if outcome.is_none() {
            self.reactor.cancel(token);
        }
    }
}

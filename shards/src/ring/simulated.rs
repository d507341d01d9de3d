//! The simulated body: rings of one world on one thread, whose network, disks and clock come from a
//! seed. The same seed gives the same events in the same order. The world drives its reactors: it
//! turns them until all are idle, then moves the clock to the next event.

mod body;
mod condition;
mod disk;
mod network;
mod stream;
mod trace;

pub(crate) use body::SimulatedEndpoint;
pub use condition::NetworkCondition;
pub(crate) use disk::DiskId;
pub use disk::{DiskCondition, DiskEvents};
pub use trace::TraceEvent;

use crate::doorbell::Doorbell;
use crate::reactor::Reactor;
use crate::reactor::turn::Wait;
use body::SimulatedRing;
use disk::Disks;
use network::Network;
use nilas_base::{Clock, Monotonic, Rng, UnixMillis};
use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Rounds of all reactors at one moment of the simulated time. A world that needs more has tasks
/// that wake each other for ever.
const ROUNDS_MAX: usize = 5_000;
/// 2025-01-01 00:00 UTC, where simulated time begins.
const START: UnixMillis = UnixMillis(1_735_689_600_000);

/// A network, disks, a clock and the reactors in it.
pub struct SimulatedWorld {
    network: Rc<RefCell<Network>>,
    disks: Rc<RefCell<Disks>>,
    clock: Clock,
    reactors: RefCell<Vec<Member>>,
    /// Of the order in which reactors turn.
    rng: RefCell<Rng>,
}

/// A reactor, and the number of its ring.
#[derive(Clone)]
struct Member {
    ring: usize,
    reactor: Reactor,
}

impl SimulatedWorld {
    /// The world of `seed`, without reactors.
    pub fn new(seed: u64) -> SimulatedWorld {
        let clock = Clock::simulated(START);
        let mut rng = Rng::from_seed(seed);
        let network = Network::new(Rng::from_seed(rng.next_u64()), clock.clone());
        SimulatedWorld {
            network: Rc::new(RefCell::new(network)),
            disks: Rc::new(RefCell::new(Disks::new(seed, clock.clone()))),
            clock,
            reactors: RefCell::default(),
            rng: RefCell::new(rng),
        }
    }

    /// The time in this world.
    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// A new shard in this world.
    pub fn reactor(&self) -> Reactor {
        let ring = SimulatedRing::new(&self.network, &self.disks);
        let number = ring.number();
        let reactor = Reactor::new(Box::new(ring), self.clock());
        self.reactors.borrow_mut().push(Member { ring: number, reactor: reactor.clone() });
        reactor
    }

    /// Ends a shard as `kill -9` does, at this moment: its tasks are dropped, its sockets are closed, its
    /// writes in flight land in part. For a power cut see [`SimulatedWorld::crash_disk`], afterwards.
    /// Clones of the reactor are no longer turned.
    pub fn remove_reactor(&self, reactor: &Reactor) {
        let mut reactors = self.reactors.borrow_mut();
        let place = reactors.iter().position(|member| member.reactor.is(reactor));
        let member = reactors.remove(place.expect("a reactor of this world, removed once"));
        // Not borrowed while it closes: what its tasks drop may ask the world.
        drop(reactors);
        member.reactor.close();
        self.network.borrow_mut().remove_ring(member.ring);
    }

    /// How well its network carries from now on.
    pub fn set_network(&self, condition: NetworkCondition) {
        self.network.borrow_mut().condition = condition;
    }

    /// Lets `duration` pass in one leap, as for a machine that was suspended: nothing happens within
    /// it, and all that was due is due at its end.
    pub fn leap(&self, duration: Duration) {
        self.settle();
        self.advance_to(self.clock.now().after(duration));
    }

    /// Turns all reactors until they are idle, then moves the clock to the next event. False when
    /// there is none: nothing will ever happen again by itself.
    pub fn step(&self) -> bool {
        self.settle();
        self.next_event().is_some_and(|next| {
            self.advance_to(next);
            true
        })
    }

    /// Lets `duration` pass.
    pub fn run_for(&self, duration: Duration) {
        let end = self.clock.now().after(duration);
        self.settle();
        while let Some(next) = self.next_event().filter(|&next| next <= end) {
            self.advance_to(next);
            self.settle();
        }
        self.advance_to(end);
        self.settle();
    }

    /// Lets time pass until `future` has ended, and gives what it gave. Panics when nothing would
    /// ever happen again.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut future = pin!(future);
        loop {
            if woken.0.swap(false, Ordering::Relaxed) {
                let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
                if let Poll::Ready(output) = polled {
                    return output;
                }
            } else if !self.turn_all() {
                let next = self.next_event();
                self.advance_to(next.expect("something happens while a future waits"));
            }
        }
    }

    /// Adds an event of the caller's own to the trace.
    pub fn note(&self, what: &'static str, number: u64) {
        self.network.borrow_mut().trace.note(what, number, 0);
    }

    /// A hash of all events so far: the same for the same seed and the same tasks.
    pub fn trace_hash(&self) -> u64 {
        self.network.borrow().trace.hash()
    }

    /// Keeps the events from now on, for [`SimulatedWorld::trace`].
    pub fn keep_trace(&self) {
        self.network.borrow_mut().trace.keep();
    }

    /// The events kept so far.
    pub fn trace(&self) -> Vec<TraceEvent> {
        self.network.borrow().trace.events().to_vec()
    }

    fn settle(&self) {
        for _ in 0..ROUNDS_MAX {
            if !self.turn_all() {
                return;
            }
        }
        panic!("tasks wake each other for ever at {:?}", self.clock.now());
    }

    /// Turns each reactor once, in an order of the seed's; whether any had something to do.
    fn turn_all(&self) -> bool {
        let mut reactors = self.reactors.borrow().clone();
        let mut busy = false;
        while !reactors.is_empty() {
            let next = self.rng.borrow_mut().below(reactors.len() as u64) as usize;
            busy |= !reactors.swap_remove(next).reactor.turn(Wait::No).is_idle();
        }
        busy
    }

    fn next_event(&self) -> Option<Monotonic> {
        let reactors = self.reactors.borrow();
        let timers = reactors.iter().filter_map(|member| member.reactor.next_deadline()).min();
        let network = self.network.borrow().next_event();
        let disks = self.disks.borrow().next_event();
        timers.into_iter().chain(network).chain(disks).min()
    }

    fn advance_to(&self, time: Monotonic) {
        self.clock.advance_to(time.max(self.clock.now()));
        let mut network = self.network.borrow_mut();
        network.carry_out_due();
        self.disks.borrow_mut().carry_out_due(&mut network);
    }
}

impl Drop for SimulatedWorld {
    fn drop(&mut self) {
        let reactors = self.reactors.take();
        reactors.iter().for_each(|member| member.reactor.close());
    }
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Simulated shards never sleep: their world turns them all.
fn silent_doorbell() -> Doorbell {
    Doorbell::unattached()
}

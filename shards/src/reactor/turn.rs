//! How a shard's time passes: turns of tasks, timers and completions, a short spin when there is
//! nothing to do, and sleep in the ring. A wake that comes between the last look and the sleep rings
//! the doorbell, so none is lost.

use super::Reactor;
use crate::inbox::Reaction;
use crate::operation::Delivery;
use crate::received::Received;
use crate::ring::{Completion, Outcome, RingBody, RingWait};
use nilas_base::Monotonic;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Tasks of one turn; the rest run after the kernel was asked once more.
const TASKS_A_TURN_MAX: usize = 256;
/// How long a shard looks for work before it sleeps, when looking has paid lately. A wake from sleep
/// costs 27–41 µs and a system call; one from a spin 0.3 µs.
const SPIN_MAX: Duration = Duration::from_micros(20);
/// The same, when it has not paid the last time.
const SPIN_MIN: Duration = Duration::from_micros(10);
/// Spins in a row that found nothing, after which the shard sleeps at once until a sleep was short.
const SPINS_IN_VAIN_MAX: u32 = 8;
/// Looks between two readings of the clock.
const LOOKS_A_READING: u32 = 16;
/// Turns of the ring that a closing reactor waits for cancelled operations, 20 ms each.
const CLOSE_TURNS_MAX: usize = 500;
const CLOSE_TURN: Duration = Duration::from_millis(20);

/// Whether a turn may sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Takes what is there.
    No,
    /// Sleeps until something happens, if there is nothing to do.
    UntilEvent,
}

/// What a turn has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Task runs.
    pub tasks: usize,
    /// Timers that have fired.
    pub timers: usize,
    /// Completions that the ring gave.
    pub completions: usize,
    /// Hooks that found work.
    pub hooks: usize,
}

impl Turn {
    /// Whether nothing was done.
    pub fn is_idle(&self) -> bool {
        *self == Turn::default()
    }
}

/// What the last spins have found.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spin {
    in_vain: u32,
}

impl Reactor {
    /// One turn: hooks, ready tasks, timers; then the ring submits and gives completions. What
    /// those wake runs in the next turn.
    pub fn turn(&self, wait: Wait) -> Turn {
        self.turn_unless(wait, &|| false)
    }

    /// Turns until `stop` is set. Who sets it rings the doorbell afterwards.
    /// Not for simulated shards, which their world turns.
    pub fn run(&self, stop: &AtomicBool) {
        self.assert_real();
        let stopped = || stop.load(Ordering::Acquire);
        while !stopped() {
            if self.turn(Wait::No).is_idle() && !self.spin() {
                let asleep = self.0.clock.now();
                self.turn_unless(Wait::UntilEvent, &stopped);
                self.learn_from_sleep(asleep);
            }
        }
    }

    /// Turns until `future` has ended, and gives what it gave. Not for simulated shards: see
    /// `SimulatedWorld::block_on`.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.assert_real();
        let woken = Arc::new(Woken { flag: AtomicBool::new(true), doorbell: self.doorbell() });
        let waker = Waker::from(Arc::clone(&woken));
        let mut future = pin!(future);
        loop {
            if woken.flag.swap(false, Ordering::AcqRel)
                && let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker))
            {
                return output;
            }
            self.turn_unless(Wait::UntilEvent, &|| woken.flag.load(Ordering::Acquire));
        }
    }

    /// Drops all tasks, cancels what is in flight and waits for it. Call it when the shard ends:
    /// tasks hold handles on the reactor, and would keep it, and themselves, for ever.
    pub fn close(&self) {
        self.0.closing.set(true);
        self.0.executor.close();
        let hooks = std::mem::take(&mut *self.0.hooks.borrow_mut());
        drop(hooks);
        let tokens: Vec<_> = self.0.operations.borrow().in_flight().collect();
        tokens.into_iter().for_each(|token| self.cancel(token));
        for _ in 0..CLOSE_TURNS_MAX {
            if self.0.operations.borrow().in_flight().next().is_none() {
                return;
            }
            self.turn_ring(RingWait::UpTo(Some(CLOSE_TURN)));
        }
    }

    fn assert_real(&self) {
        assert!(
            self.ring_body() != RingBody::Simulated,
            "a simulated shard is turned by its world"
        );
    }

    fn turn_unless(&self, wait: Wait, interrupted: &dyn Fn() -> bool) -> Turn {
        let mut turn = Turn {
            hooks: self.run_hooks(),
            tasks: self.0.executor.run(TASKS_A_TURN_MAX),
            timers: self.fire_timers(),
            completions: 0,
        };
        self.feed_starved();
        let ring_wait = if wait == Wait::No || self.0.executor.has_ready() {
            RingWait::No
        } else {
            self.fall_asleep(interrupted)
        };
        turn.completions = self.turn_ring(ring_wait);
        self.0.doorbell.wake_up();
        turn
    }

    /// Raises the sleeping flag, looks once more, and says how long to sleep.
    fn fall_asleep(&self, interrupted: &dyn Fn() -> bool) -> RingWait {
        self.0.doorbell.fall_asleep();
        if interrupted() || self.run_hooks() > 0 || self.0.executor.has_ready() {
            return RingWait::No;
        }
        let deadline = self.0.timers.borrow().next_deadline();
        RingWait::UpTo(deadline.map(|deadline| deadline.since(self.0.clock.now())))
    }

    fn turn_ring(&self, wait: RingWait) -> usize {
        let mut completions = self.0.completions.take();
        let turned = self.0.ring.borrow_mut().turn(wait, &mut completions);
        turned.expect("the kernel takes turns on a ring that it has made");
        let count = completions.len();
        completions.drain(..).for_each(|completion| self.dispatch(completion));
        self.0.completions.set(completions);
        count
    }

    fn dispatch(&self, completion: Completion) {
        let more = completion.more;
        let delivery = self.0.operations.borrow_mut().complete(completion);
        let (reaction, waker) = match delivery {
            Delivery::Wake(waker) => (Reaction::None, waker),
            Delivery::Drop(outcome, keeper) => {
                drop(outcome);
                drop(keeper);
                (Reaction::None, None)
            }
            Delivery::Socket(core, Outcome::Head(result)) => {
                let scarce = self.0.ring.borrow().head_buffers_are_scarce();
                let result = if scarce { result.map(Received::detach) } else { result };
                let (reaction, waker) = core.heads.deliver(result, more);
                if reaction == Reaction::Starved {
                    self.0.starved.borrow_mut().push_back(Rc::downgrade(&core));
                }
                (reaction, waker)
            }
            Delivery::Listener(core, Outcome::Accepted(result)) => {
                core.connections.deliver(result, more)
            }
            Delivery::Socket(_, other) | Delivery::Listener(_, other) => {
                unreachable!("not an outcome of a repeating operation: {other:?}")
            }
        };
        if let Reaction::Cancel(token) = reaction {
            self.cancel(token);
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// As many starved sockets as there are free buffers receive again.
    fn feed_starved(&self) {
        if self.0.starved.borrow().is_empty() {
            return;
        }
        for _ in 0..self.0.ring.borrow().free_head_buffers() {
            let Some(core) = self.0.starved.borrow_mut().pop_front() else { return };
            if let Some(waker) = core.upgrade().and_then(|core| core.heads.feed()) {
                waker.wake();
            }
        }
    }

    fn run_hooks(&self) -> usize {
        let mut found = 0;
        let mut index = 0;
        loop {
            // Not borrowed while it runs: a hook may add hooks.
            let Some(hook) = self.0.hooks.borrow().get(index).cloned() else { return found };
            found += usize::from(hook());
            index += 1;
        }
    }

    fn fire_timers(&self) -> usize {
        if self.0.timers.borrow().next_deadline().is_none() {
            return 0;
        }
        let now = self.0.clock.now();
        let mut count = 0;
        loop {
            let Some(waker) = self.0.timers.borrow_mut().fire(now) else { return count };
            waker.wake();
            count += 1;
        }
    }

    /// Looks for work for a while; true when there is some.
    fn spin(&self) -> bool {
        let Spin { in_vain } = self.0.spin.get();
        if in_vain >= SPINS_IN_VAIN_MAX {
            return false;
        }
        let longest = if in_vain == 0 { SPIN_MAX } else { SPIN_MIN };
        let begin = self.0.clock.now();
        let end = begin.after(longest);
        let deadline = self.0.timers.borrow().next_deadline().unwrap_or(end);
        let found = loop {
            if (0..LOOKS_A_READING).any(|_| self.look()) {
                break true;
            }
            let now = self.0.clock.now();
            if now >= deadline {
                break true;
            }
            if now >= end {
                break false;
            }
        };
        self.0.spin.set(Spin { in_vain: if found { 0 } else { in_vain + 1 } });
        found
    }

    fn look(&self) -> bool {
        std::hint::spin_loop();
        self.0.executor.has_ready()
            || self.0.ring.borrow_mut().has_completions()
            || self.run_hooks() > 0
    }

    /// A sleep that was shorter than a spin would have been spun through for less.
    fn learn_from_sleep(&self, asleep: Monotonic) {
        if self.0.clock.now().since(asleep) < SPIN_MAX {
            self.0.spin.set(Spin::default());
        }
    }

    /// When the earliest timer fires.
    pub(crate) fn next_deadline(&self) -> Option<Monotonic> {
        self.0.timers.borrow().next_deadline()
    }
}

struct Woken {
    flag: AtomicBool,
    doorbell: crate::doorbell::Doorbell,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.flag.store(true, Ordering::Release);
        self.doorbell.ring();
    }
}

//! The doorbell: wakes a shard that sleeps in its ring, from any thread.
//! It carries no message: who rings has put the message in a queue before, and the shard looks into
//! all its queues between raising its sleeping flag and going to sleep, so that no wake is lost.

use crate::sys::eventfd::EventFd;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Wakes one shard; clones wake the same one.
#[derive(Clone, Debug)]
pub struct Doorbell(Arc<Bell>);

#[derive(Debug)]
struct Bell {
    sleeping: AtomicBool,
    event: Option<EventFd>,
}

impl Doorbell {
    /// A bell on no shard: it only remembers that it was rung, for tests and simulated shards.
    pub fn unattached() -> Doorbell {
        Doorbell(Arc::new(Bell { sleeping: AtomicBool::new(true), event: None }))
    }

    /// A bell that signals an eventfd; `nonblocking` as the ring's way of reading it needs.
    pub(crate) fn with_event(nonblocking: bool) -> io::Result<Doorbell> {
        let event = Some(EventFd::new(nonblocking)?);
        Ok(Doorbell(Arc::new(Bell { sleeping: AtomicBool::new(false), event })))
    }

    /// Wakes the shard if it sleeps; a fence and a load if it does not.
    pub fn ring(&self) {
        // Orders the caller's push before the load, as `fall_asleep` orders its store before the
        // shard's last look into the queues: one of the two sees the other.
        fence(Ordering::SeqCst);
        if self.0.sleeping.load(Ordering::Relaxed)
            && self.0.sleeping.swap(false, Ordering::AcqRel)
            && let Some(event) = &self.0.event
        {
            event.signal();
        }
    }

    /// Whether it was rung since the last call (or the start); for unattached bells.
    pub fn take_rung(&self) -> bool {
        !self.0.sleeping.swap(true, Ordering::AcqRel)
    }

    /// From here on `ring` signals. The caller looks into its queues once more before it sleeps.
    pub(crate) fn fall_asleep(&self) {
        self.0.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// From here on `ring` is cheap again.
    pub(crate) fn wake_up(&self) {
        self.0.sleeping.store(false, Ordering::Relaxed);
    }

    /// What the ring waits for, if the bell is on one.
    pub(crate) fn event(&self) -> Option<&EventFd> {
        self.0.event.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unattached_bell_remembers_one_ring() {
        let bell = Doorbell::unattached();
        assert!(!bell.take_rung());
        bell.clone().ring();
        bell.ring();
        assert!(bell.take_rung());
        assert!(!bell.take_rung());
    }

    #[test]
    fn a_bell_signals_only_a_sleeper() {
        let bell = Doorbell::with_event(true).expect("an eventfd can be made");
        bell.ring();
        assert!(!bell.take_rung_count());
        bell.fall_asleep();
        bell.ring();
        assert!(bell.take_rung_count());
    }

    impl Doorbell {
        fn take_rung_count(&self) -> bool {
            self.event().expect("made with one").take() > 0
        }
    }
}

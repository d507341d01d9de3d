//! Waiting for what another task of the shard changes. Who changes it raises the signal; who waits looks again. It
//! carries nothing and counts nothing, so a waiter may be dropped at any time.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Those who wait for a change.
#[derive(Default)]
pub(crate) struct Signal {
    waiting: RefCell<Vec<Waker>>,
}

impl Signal {
    /// Has all who wait look again, those first who have waited longest.
    pub(crate) fn raise(&self) {
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Waits until there is something to give.
    pub(crate) async fn until<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        poll_fn(|context| match look() {
            Some(found) => Poll::Ready(found),
            None => {
                self.add(context.waker());
                Poll::Pending
            }
        })
        .await
    }

    /// Waits until it is raised.
    pub(crate) async fn next(&self) {
        let mut has_waited = false;
        self.until(|| std::mem::replace(&mut has_waited, true).then_some(())).await;
    }

    fn add(&self, waker: &Waker) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|known| known.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::pin::pin;
    use std::task::Context;

    #[test]
    fn a_waiter_ends_when_it_finds_what_it_waits_for() {
        let (signal, found) = (Signal::default(), Cell::new(None));
        let mut waits = pin!(signal.until(|| found.get()));
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Pending);
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Pending);
        assert_eq!(signal.waiting.borrow().len(), 1, "who looks twice waits once");
        found.set(Some(7));
        signal.raise();
        assert_eq!(signal.waiting.borrow().len(), 0);
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Ready(7));
    }

    #[test]
    fn the_next_signal_is_one_that_comes_afterwards() {
        let signal = Signal::default();
        signal.raise();
        let mut waits = pin!(signal.next());
        let mut context = Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(&mut context).is_pending());
        signal.raise();
        assert!(waits.as_mut().poll(&mut context).is_ready());
    }
}

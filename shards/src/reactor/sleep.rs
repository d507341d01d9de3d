//! Futures of time: a pause, and a limit on another future. Both go by the reactor's clock.

use super::Reactor;
use crate::timer::TimerKey;
use nilas_base::Monotonic;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the time is up")]
pub struct Elapsed;

/// A pause by the reactor's clock.
pub struct Sleep {
    reactor: Reactor,
    deadline: Monotonic,
    timer: Option<TimerKey>,
}

impl Sleep {
    pub(super) fn until(reactor: Reactor, deadline: Monotonic) -> Sleep {
        Sleep { reactor, deadline, timer: None }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let reactor = self.reactor.clone();
        let mut timers = reactor.0.timers.borrow_mut();
        match self.timer {
            Some(timer) if timers.set_waker(timer, context.waker()) => return Poll::Pending,
            Some(_) => self.timer = None,
            None if reactor.0.clock.now() < self.deadline => {
                self.timer = Some(timers.insert(self.deadline, context.waker().clone()));
                return Poll::Pending;
            }
            None => {}
        }
        // A fired timer stays fired, however often it is asked.
        self.deadline = Monotonic(0);
        Poll::Ready(())
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            self.reactor.0.timers.borrow_mut().remove(timer);
        }
    }
}

pin_project_lite::pin_project! {
    /// A future that may take so long and no longer. A type of its own, since an `async fn` keeps its
    /// arguments twice, and time-outs stand around the largest futures there are.
    pub struct Timeout<F> {
        #[pin]
        pub(super) future: F,
        pub(super) sleep: Sleep,
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.future.poll(context) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(this.sleep).poll(context).map(|()| Err(Elapsed))
    }
}

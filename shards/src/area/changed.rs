//! A change that tasks of one shard wait for: whoever waits looks again after every one.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Tells all who wait.
#[derive(Default)]
pub(super) struct Changed {
    count: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
}

impl Changed {
    /// Something has changed.
    pub(super) fn tell(&self) {
        self.count.set(self.count.get() + 1);
        self.waiting.take().into_iter().for_each(Waker::wake);
    }

    /// Ends with the first change after it was called.
    pub(super) async fn next(&self) {
        let seen = self.count.get();
        poll_fn(|context| {
            if self.count.get() != seen {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

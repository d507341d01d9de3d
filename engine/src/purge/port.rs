//! The door through which the control side has something purged: a bounded queue to the first
//! shard, each order with the place of its acknowledgement. Orders are carried out one after
//! another, so that every shard hears of them in one order.

use std::rc::Rc;

use tokio::sync::{mpsc, oneshot};

use super::Purge;
use crate::shard::Shard;

/// Purges that wait; one more is refused.
pub const PURGES_WAITING_MAX: usize = 64;

/// What to purge, and where to say that it is done.
pub type Order = (Purge, oneshot::Sender<Result<(), PurgeError>>);

/// Has things purged; clones reach the same node.
#[derive(Clone, Debug)]
pub struct PurgePort {
    orders: mpsc::Sender<Order>,
}

/// The shards' side of a [`PurgePort`].
#[derive(Debug)]
pub struct PurgeQueue {
    orders: mpsc::Receiver<Order>,
}

/// Why nothing is known to be purged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PurgeError {
    /// Too many wait.
    #[error(
        "{PURGES_WAITING_MAX} purges wait already; try again, and purge by prefix or bucket instead of key by key"
    )]
    Busy,
    /// The shards have ended.
    #[error("the node is stopping; purge again when it has started if it keeps mappings on a disk")]
    Stopping,
    /// The shards have forgotten, and one cannot have that on its disk.
    #[error(
        "purged, but a disk cannot be written that would tell of it: what was purged may be known again \
         when the node is started anew. Start it without that disk, or with an empty one"
    )]
    Passing,
}

impl PurgePort {
    /// A port and the queue behind it.
    pub fn pair() -> (PurgePort, PurgeQueue) {
        let (sender, orders) = mpsc::channel(PURGES_WAITING_MAX);
        (PurgePort { orders: sender }, PurgeQueue { orders })
    }

    /// Purges, and waits until every shard has. Works on any executor.
    pub async fn purge(&self, what: Purge) -> Result<(), PurgeError> {
        let (acknowledge, acknowledged) = oneshot::channel();
        self.orders.try_send((what, acknowledge)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => PurgeError::Busy,
            mpsc::error::TrySendError::Closed(_) => PurgeError::Stopping,
        })?;
        acknowledged.await.unwrap_or(Err(PurgeError::Stopping))
    }
}

impl PurgeQueue {
    /// The next order, and where it is acknowledged; `None` when nobody can give any more.
    pub async fn next(&mut self) -> Option<Order> {
        self.orders.recv().await
    }
}

/// Carries the orders out until nobody can give any more.
pub async fn serve(shard: Rc<Shard>, mut queue: PurgeQueue) {
    while let Some((what, acknowledge)) = queue.next().await {
        let purged = super::purge(&shard, &what).await;
        // Who has stopped waiting has been served all the same.
        let _ = acknowledge.send(purged.map_err(|_| PurgeError::Passing));
    }
}

#[cfg(test)]
mod tests {
    use super::super::PurgeScope;
    use super::*;

    #[tokio::test]
    async fn a_full_queue_refuses_and_a_shut_one_says_why() {
        let (port, queue) = PurgePort::pair();
        let what = || Purge { bucket: "lake".to_owned(), scope: PurgeScope::Bucket };
        let waiting: Vec<_> = (0..PURGES_WAITING_MAX)
            .map(|_| {
                let port = port.clone();
                tokio::spawn(async move { port.purge(what()).await })
            })
            .collect();
        while port.orders.capacity() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(port.purge(what()).await, Err(PurgeError::Busy));
        drop(queue);
        for purge in waiting {
            assert_eq!(purge.await.expect("no panic"), Err(PurgeError::Stopping));
        }
        assert_eq!(port.purge(what()).await, Err(PurgeError::Stopping));
    }
}

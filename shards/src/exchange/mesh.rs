//! The queues of all pairs of shards, and the marks that tell a shard which of them to look into.
//! This is what the threads share; nothing here waits or locks.

use super::{CALLS_IN_FLIGHT_MAX, Exchange};
use crate::doorbell::Doorbell;
use crate::reactor::Reactor;
use crossbeam_queue::ArrayQueue;
use crossbeam_utils::CachePadded;
use nilas_base::ShardId;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};

const MARKS_A_WORD: usize = u64::BITS as usize;

/// All mailboxes.
pub(super) struct Mesh<C> {
    /// `from * shards + to`.
    pairs: Vec<Pair<C>>,
    shards: Vec<CachePadded<Shard>>,
}

struct Pair<C> {
    questions: ArrayQueue<Parcel<C>>,
    answers: ArrayQueue<Parcel<C>>,
}

/// A box on its way, and the place of its reply.
pub(super) struct Parcel<C> {
    pub(super) slot: u32,
    pub(super) content: Box<C>,
}

struct Shard {
    /// A bit for each shard that has sent something since the last look.
    marks: Vec<AtomicU64>,
    doorbell: OnceLock<Doorbell>,
}

/// A shard's place in the mesh, on its way to the shard's thread.
pub struct ExchangeSeat<C: Send + 'static> {
    mesh: Arc<Mesh<C>>,
    me: ShardId,
}

impl<C: Send + 'static> ExchangeSeat<C> {
    /// Whose seat it is.
    pub fn me(&self) -> ShardId {
        self.me
    }

    /// Takes the seat on this thread's reactor.
    pub fn sit(self, reactor: &Reactor) -> Exchange<C> {
        Exchange::sit(self.mesh, self.me, reactor)
    }
}

pub(super) fn seats<C: Send + 'static>(shards: usize) -> Vec<ExchangeSeat<C>> {
    let count = u16::try_from(shards).expect("shards are numbered with 16 bits");
    let pair = |number| {
        // No queue to oneself: a place is kept so that pairs are found by multiplication.
        let places = if number / shards == number % shards { 1 } else { CALLS_IN_FLIGHT_MAX };
        Pair { questions: ArrayQueue::new(places), answers: ArrayQueue::new(places) }
    };
    let shard = |_| {
        let marks = (0..shards.div_ceil(MARKS_A_WORD)).map(|_| AtomicU64::new(0)).collect();
        CachePadded::new(Shard { marks, doorbell: OnceLock::new() })
    };
    let pairs = (0..shards * shards).map(pair).collect();
    let mesh = Arc::new(Mesh { pairs, shards: (0..shards).map(shard).collect() });
    (0..count).map(|me| ExchangeSeat { mesh: Arc::clone(&mesh), me: ShardId(me) }).collect()
}

impl<C> Mesh<C> {
    pub(super) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// What was sent to `me` before it sat down waits in the queues, and is looked for now.
    pub(super) fn seated(&self, me: ShardId, doorbell: Doorbell) {
        let taken = self.shards[me.index()].doorbell.set(doorbell);
        assert!(taken.is_ok(), "a seat is taken once");
        fence(Ordering::SeqCst);
        self.mark_all(me);
    }

    pub(super) fn send_question(&self, from: ShardId, to: ShardId, parcel: Parcel<C>) {
        let sent = self.pair(from, to).questions.push(parcel);
        assert!(sent.is_ok(), "a question has a place once its reply has one");
        self.mark(from, to);
    }

    /// `from` answers a question that `to` has asked.
    pub(super) fn send_answer(&self, from: ShardId, to: ShardId, parcel: Parcel<C>) {
        let sent = self.pair(to, from).answers.push(parcel);
        assert!(sent.is_ok(), "a reply has a place of its own");
        self.mark(from, to);
    }

    pub(super) fn take_question(&self, from: ShardId, to: ShardId) -> Option<Parcel<C>> {
        self.pair(from, to).questions.pop()
    }

    /// An answer from `from` to a question of `to`.
    pub(super) fn take_answer(&self, from: ShardId, to: ShardId) -> Option<Parcel<C>> {
        self.pair(to, from).answers.pop()
    }

    /// Calls `look` for each shard that has sent something to `me`, and clears its mark before.
    pub(super) fn for_each_marked(&self, me: ShardId, mut look: impl FnMut(ShardId)) {
        for (word, marks) in self.shards[me.index()].marks.iter().enumerate() {
            if marks.load(Ordering::Relaxed) == 0 {
                continue;
            }
            // Acquire pairs with the sender's release: what was sent before the mark is seen.
            let mut marked = marks.swap(0, Ordering::AcqRel);
            while marked != 0 {
                let bit = marked.trailing_zeros() as usize;
                look(ShardId((word * MARKS_A_WORD + bit) as u16));
                marked &= marked - 1;
            }
        }
    }

    /// Has `me` look into all its queues.
    pub(super) fn mark_all(&self, me: ShardId) {
        for from in 0..self.shards() {
            if from != me.index() {
                let marks = &self.shards[me.index()].marks[from / MARKS_A_WORD];
                marks.fetch_or(1 << (from % MARKS_A_WORD), Ordering::AcqRel);
            }
        }
    }

    /// Marked after the push and before the bell, so that neither is seen without the other.
    fn mark(&self, from: ShardId, to: ShardId) {
        let shard = &self.shards[to.index()];
        let bit = 1 << (from.index() % MARKS_A_WORD);
        shard.marks[from.index() / MARKS_A_WORD].fetch_or(bit, Ordering::AcqRel);
        // None yet: the fence orders the mark before the second look, so that either the seat's
        // first look sees the mark or this one the bell.
        let doorbell = shard.doorbell.get().or_else(|| {
            fence(Ordering::SeqCst);
            shard.doorbell.get()
        });
        if let Some(doorbell) = doorbell {
            doorbell.ring();
        }
    }

    fn pair(&self, from: ShardId, to: ShardId) -> &Pair<C> {
        &self.pairs[from.index() * self.shards() + to.index()]
    }
}

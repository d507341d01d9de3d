//! Mailboxes between shards: a question travels in a box and comes back in it with its answer.
//! A call reserves the place of its reply before it is sent, so a reply never waits and never fails,
//! and full mailboxes cannot lock each other up. How many calls may be in flight is in `slots`.

mod mesh;
mod slots;

pub use mesh::ExchangeSeat;

use crate::reactor::Reactor;
use mesh::{Mesh, Parcel};
use nilas_base::ShardId;
use slots::Slots;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;

/// Calls in flight from one shard to another; more wait in the order of their arrival. Both queues
/// of a pair have this many places.
pub const CALLS_IN_FLIGHT_MAX: usize = 512;

/// One shard's end of the mailboxes; clones are the same one.
pub struct Exchange<C: Send + 'static>(Rc<Desk<C>>);

struct Desk<C: Send + 'static> {
    me: ShardId,
    mesh: Arc<Mesh<C>>,
    /// Not the reactor itself, which keeps this desk by its hook.
    closing: Rc<Cell<bool>>,
    /// Calls of this shard, by the shard called.
    calls: Vec<RefCell<Slots<C>>>,
    handler: RefCell<Option<Handler<C>>>,
}

type Handler<C> = Rc<dyn Fn(Delivered<C>)>;

/// The reactor's hold on a desk: it answers until the reactor is closed, whoever else has let go.
struct Seated<C: Send + 'static>(Rc<Desk<C>>);

impl<C: Send + 'static> Drop for Seated<C> {
    fn drop(&mut self) {
        // A handler may keep what keeps this desk. Dropped after the borrow has ended.
        let handler = self.0.handler.take();
        drop(handler);
    }
}

impl<C: Send + 'static> Exchange<C> {
    /// The seats of `shards` shards, to be sent to their threads.
    pub fn mesh(shards: usize) -> Vec<ExchangeSeat<C>> {
        mesh::seats(shards)
    }

    fn sit(mesh: Arc<Mesh<C>>, me: ShardId, reactor: &Reactor) -> Exchange<C> {
        let calls = (0..mesh.shards()).map(|_| RefCell::default()).collect();
        let handler = RefCell::default();
        mesh.seated(me, reactor.doorbell());
        let closing = reactor.closing_flag();
        let desk = Rc::new(Desk { me, mesh, closing, calls, handler });
        let seated = Seated(Rc::clone(&desk));
        reactor.add_hook(move || seated.0.collect());
        Exchange(desk)
    }

    /// This shard.
    pub fn me(&self) -> ShardId {
        self.0.me
    }

    /// How many shards there are.
    pub fn shards(&self) -> usize {
        self.0.mesh.shards()
    }

    /// Answers the calls of all shards from now on, this one's included. It is called on this
    /// shard's thread, at a turn's start or from within `call`, and may answer later.
    pub fn serve(&self, handler: impl Fn(Delivered<C>) + 'static) {
        *self.0.handler.borrow_mut() = Some(Rc::new(handler));
        // What has come before there was a handler waits in the queues.
        self.0.mesh.mark_all(self.0.me);
    }

    /// Sends `question` to a shard and gives it back with its answer. Waits for a place first, in
    /// turn. When the future is dropped the box is dropped as it returns.
    pub async fn call(&self, to: ShardId, question: Box<C>) -> Box<C> {
        let calls = &self.0.calls[to.index()];
        let slot = slots::reserve(calls).await;
        self.0.send(to, slot.call(), question);
        slot.answer().await
    }
}

impl<C: Send + 'static> Desk<C> {
    fn send(self: &Rc<Self>, to: ShardId, slot: u32, question: Box<C>) {
        if to == self.me {
            self.deliver(self.me, Parcel { slot, content: question });
        } else {
            self.mesh.send_question(self.me, to, Parcel { slot, content: question });
        }
    }

    fn deliver(self: &Rc<Self>, from: ShardId, parcel: Parcel<C>) {
        // Cloned, since the handler may call, and so come back here, or be replaced.
        let handler = self.handler.borrow().clone();
        let handler = handler.expect("a shard serves before it calls itself");
        let Parcel { slot, content } = parcel;
        handler(Delivered { desk: Rc::clone(self), from, slot, content: Some(content) });
    }

    /// Takes what other shards have sent: answers to its callers, questions to its handler.
    fn collect(self: &Rc<Self>) -> bool {
        let mut found = false;
        self.mesh.for_each_marked(self.me, |from| {
            while let Some(Parcel { slot, content }) = self.mesh.take_answer(from, self.me) {
                slots::fill(&self.calls[from.index()], slot, content);
                found = true;
            }
            while self.handler.borrow().is_some()
                && let Some(question) = self.mesh.take_question(from, self.me)
            {
                self.deliver(from, question);
                found = true;
            }
        });
        found
    }
}

impl<C: Send + 'static> Clone for Exchange<C> {
    fn clone(&self) -> Exchange<C> {
        Exchange(Rc::clone(&self.0))
    }
}

impl<C: Send + 'static> fmt::Debug for Exchange<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exchange({} of {})", self.me().0, self.shards())
    }
}

/// A question on the shard that answers it: read it, write the answer into it, and reply.
pub struct Delivered<C: Send + 'static> {
    desk: Rc<Desk<C>>,
    from: ShardId,
    slot: u32,
    content: Option<Box<C>>,
}

impl<C: Send + 'static> Delivered<C> {
    /// Who asks.
    pub fn from(&self) -> ShardId {
        self.from
    }

    /// Sends the box back. Never waits and never fails: its place was reserved.
    pub fn reply(mut self) {
        self.send_back();
    }

    fn send_back(&mut self) {
        let Some(content) = self.content.take() else { return };
        let Delivered { desk, from, slot, .. } = self;
        if *from == desk.me {
            slots::fill(&desk.calls[from.index()], *slot, content);
        } else {
            desk.mesh.send_answer(desk.me, *from, Parcel { slot: *slot, content });
        }
    }
}

impl<C: Send + 'static> Deref for Delivered<C> {
    type Target = C;

    fn deref(&self) -> &C {
        self.content.as_ref().expect("present until replied")
    }
}

impl<C: Send + 'static> DerefMut for Delivered<C> {
    fn deref_mut(&mut self) -> &mut C {
        self.content.as_mut().expect("present until replied")
    }
}

impl<C: Send + 'static> Drop for Delivered<C> {
    fn drop(&mut self) {
        // A closing shard drops its handlers' tasks; its callers are closing too.
        if self.content.is_some() && !self.desk.closing.get() {
            debug_assert!(std::thread::panicking(), "every question is answered");
            self.send_back();
        }
    }
}

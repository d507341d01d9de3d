//! The places of replies: of one shard, for the calls to one other. A call that finds none free waits
//! behind those that came before it, and a place that becomes free is handed to the first of them.

use super::CALLS_IN_FLIGHT_MAX;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Places in use, free ones, and who waits for one.
pub(super) struct Slots<C> {
    slots: Vec<Slot<C>>,
    free: Vec<u32>,
    waiting: VecDeque<Waiting>,
    tickets: u64,
}

enum Slot<C> {
    Free,
    /// Has an owner, and no box is on its way to it.
    Reserved,
    Called(Option<Waker>),
    Answered(Box<C>),
    /// Nobody waits for the box that will come back.
    Abandoned,
}

struct Waiting {
    ticket: u64,
    waker: Waker,
    granted: Option<u32>,
}

impl<C> Default for Slots<C> {
    fn default() -> Slots<C> {
        Slots { slots: Vec::new(), free: Vec::new(), waiting: VecDeque::new(), tickets: 0 }
    }
}

/// A place that one call has; given back when dropped, or when the box on its way has come.
pub(super) struct Reserved<'a, C> {
    slots: &'a RefCell<Slots<C>>,
    number: u32,
}

/// Waits for a place, in turn.
pub(super) async fn reserve<C>(slots: &RefCell<Slots<C>>) -> Reserved<'_, C> {
    if let Some(number) = slots.borrow_mut().take_free() {
        return Reserved { slots, number };
    }
    let mut place = InLine { slots, ticket: None };
    poll_fn(|context| {
        let mut line = slots.borrow_mut();
        let Some(ticket) = place.ticket else {
            place.ticket = Some(line.join(context.waker()));
            return Poll::Pending;
        };
        let index = line.find(ticket);
        match line.waiting[index].granted {
            Some(number) => {
                line.waiting.remove(index);
                place.ticket = None;
                Poll::Ready(Reserved { slots, number })
            }
            None => {
                line.waiting[index].waker.clone_from(context.waker());
                Poll::Pending
            }
        }
    })
    .await
}

/// The answer to the call at `number` has come.
pub(super) fn fill<C>(slots: &RefCell<Slots<C>>, number: u32, content: Box<C>) {
    let mut table = slots.borrow_mut();
    let slot = &mut table.slots[number as usize];
    match std::mem::replace(slot, Slot::Free) {
        Slot::Called(waker) => {
            *slot = Slot::Answered(content);
            drop(table);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
        Slot::Abandoned => {
            let next = table.give_back(number);
            drop(table);
            drop(content);
            if let Some(waker) = next {
                waker.wake();
            }
        }
        Slot::Free | Slot::Reserved | Slot::Answered(_) => unreachable!("a call is answered once"),
    }
}

impl<C> Reserved<'_, C> {
    /// A box is about to be sent whose reply comes here.
    pub(super) fn call(&self) -> u32 {
        self.slots.borrow_mut().slots[self.number as usize] = Slot::Called(None);
        self.number
    }

    /// Waits for the box to come back.
    pub(super) async fn answer(self) -> Box<C> {
        poll_fn(|context| {
            let mut table = self.slots.borrow_mut();
            let slot = &mut table.slots[self.number as usize];
            match slot {
                Slot::Called(Some(known)) => known.clone_from(context.waker()),
                Slot::Called(none) => *none = Some(context.waker().clone()),
                Slot::Answered(_) => {
                    let Slot::Answered(content) = std::mem::replace(slot, Slot::Reserved) else {
                        unreachable!("just seen");
                    };
                    return Poll::Ready(content);
                }
                Slot::Free | Slot::Reserved | Slot::Abandoned => {
                    unreachable!("called, and not dropped")
                }
            }
            Poll::Pending
        })
        .await
    }
}

impl<C> Drop for Reserved<'_, C> {
    fn drop(&mut self) {
        let mut table = self.slots.borrow_mut();
        let slot = &mut table.slots[self.number as usize];
        if matches!(slot, Slot::Called(_)) {
            *slot = Slot::Abandoned;
            return;
        }
        let unread = std::mem::replace(slot, Slot::Reserved);
        let next = table.give_back(self.number);
        drop(table);
        drop(unread);
        if let Some(waker) = next {
            waker.wake();
        }
    }
}

/// A place in the line; left when dropped.
struct InLine<'a, C> {
    slots: &'a RefCell<Slots<C>>,
    ticket: Option<u64>,
}

impl<C> Drop for InLine<'_, C> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut line = self.slots.borrow_mut();
        let index = line.find(ticket);
        let granted = line.waiting.remove(index).and_then(|waiting| waiting.granted);
        let next = granted.and_then(|number| line.give_back(number));
        drop(line);
        if let Some(waker) = next {
            waker.wake();
        }
    }
}

impl<C> Slots<C> {
    fn take_free(&mut self) -> Option<u32> {
        // Those in line come first.
        if self.waiting.back().is_some_and(|last| last.granted.is_none()) {
            return None;
        }
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.slots.len() < CALLS_IN_FLIGHT_MAX => {
                self.slots.push(Slot::Free);
                (self.slots.len() - 1) as u32
            }
            None => return None,
        };
        self.slots[number as usize] = Slot::Reserved;
        Some(number)
    }

    fn join(&mut self, waker: &Waker) -> u64 {
        let ticket = self.tickets;
        self.tickets += 1;
        self.waiting.push_back(Waiting { ticket, waker: waker.clone(), granted: None });
        ticket
    }

    fn find(&self, ticket: u64) -> usize {
        self.waiting
            .binary_search_by_key(&ticket, |waiting| waiting.ticket)
            .expect("in line until its place was taken")
    }

    /// Hands the place to the first in line, who is to be woken, or frees it.
    fn give_back(&mut self, number: u32) -> Option<Waker> {
        let first = self.waiting.partition_point(|waiting| waiting.granted.is_some());
        match self.waiting.get_mut(first) {
            Some(first) => {
                first.granted = Some(number);
                self.slots[number as usize] = Slot::Reserved;
                Some(first.waker.clone())
            }
            None => {
                self.slots[number as usize] = Slot::Free;
                self.free.push(number);
                None
            }
        }
    }
}

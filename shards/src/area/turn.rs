//! Turns at a shard's device. A class of work begins only while fewer operations are in flight than it may add to,
//! and nothing of a higher class waits; but each class may always have one in flight, so that none starves.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Who asks, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoClass {
    /// What a client waits for until it is durable.
    DurableAppend,
    /// What a client reads.
    Read,
    /// What was fetched from the origin and is to be kept.
    Fill,
    /// What reclaim moves.
    CarryOver,
    /// What nobody has asked for yet.
    Prefetch,
}

const CLASSES: usize = 5;
/// Operations in flight at which a class begins no more. The deepest queue that one NVMe queue gains from is about 64;
/// background work leaves most of it to readers.
const IN_FLIGHT_MAX: [usize; CLASSES] = [64, 64, 16, 8, 4];

/// The queue of one shard's device; clones are the same one.
#[derive(Clone, Default)]
pub struct IoQueue(Rc<State>);

#[derive(Default)]
struct State {
    in_flight: Cell<[usize; CLASSES]>,
    waiting: RefCell<[VecDeque<Rc<Waiter>>; CLASSES]>,
}

#[derive(Default)]
struct Waiter {
    has_turn: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// The right to one operation, until it is dropped.
pub struct IoTurn {
    queue: IoQueue,
    class: IoClass,
}

impl IoQueue {
    /// Waits for a turn.
    pub async fn turn(&self, class: IoClass) -> IoTurn {
        let place = class as usize;
        if self.may_begin(place) && self.0.waiting.borrow()[..=place].iter().all(VecDeque::is_empty)
        {
            return self.begin(class);
        }
        let waiter = Rc::new(Waiter::default());
        self.0.waiting.borrow_mut()[place].push_back(Rc::clone(&waiter));
        let mut leaving = Leaving { queue: self, class, waiter: Some(Rc::clone(&waiter)) };
        poll_fn(|context| {
            if waiter.has_turn.get() {
                return Poll::Ready(());
            }
            *waiter.waker.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
        leaving.waiter = None;
        IoTurn { queue: self.clone(), class }
    }

    /// Operations in flight, of all classes.
    pub fn in_flight(&self) -> usize {
        self.0.in_flight.get().iter().sum()
    }

    fn may_begin(&self, place: usize) -> bool {
        let in_flight = self.0.in_flight.get();
        in_flight[place] == 0 || self.in_flight() < IN_FLIGHT_MAX[place]
    }

    fn begin(&self, class: IoClass) -> IoTurn {
        self.count(class as usize, 1);
        IoTurn { queue: self.clone(), class }
    }

    fn count(&self, place: usize, more: isize) {
        let mut in_flight = self.0.in_flight.get();
        in_flight[place] = in_flight[place].checked_add_signed(more).expect("each turn ends once");
        self.0.in_flight.set(in_flight);
    }

    /// Gives turns to those who may begin now, the most urgent first.
    fn pass_on(&self) {
        for place in 0..CLASSES {
            while self.may_begin(place) {
                let Some(waiter) = self.0.waiting.borrow_mut()[place].pop_front() else { break };
                self.count(place, 1);
                waiter.has_turn.set(true);
                waiter.waker.take().into_iter().for_each(Waker::wake);
            }
        }
    }
}

impl Drop for IoTurn {
    fn drop(&mut self) {
        self.queue.count(self.class as usize, -1);
        self.queue.pass_on();
    }
}

/// Who gives up waiting leaves the line, or passes on the turn that it was given in the meantime.
struct Leaving<'a> {
    queue: &'a IoQueue,
    class: IoClass,
    waiter: Option<Rc<Waiter>>,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        if waiter.has_turn.get() {
            drop(IoTurn { queue: self.queue.clone(), class: self.class });
        } else {
            let mut waiting = self.queue.0.waiting.borrow_mut();
            waiting[self.class as usize].retain(|other| !Rc::ptr_eq(other, &waiter));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    fn now(queue: &IoQueue, class: IoClass) -> Option<IoTurn> {
        let mut turn = pin!(queue.turn(class));
        match turn.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => Some(turn),
            Poll::Pending => None,
        }
    }

    #[test]
    fn background_work_leaves_room_to_readers() {
        let queue = IoQueue::default();
        let fills: Vec<IoTurn> = (0..16).map_while(|_| now(&queue, IoClass::Fill)).collect();
        assert_eq!(fills.len(), 16);
        assert!(now(&queue, IoClass::Fill).is_none());
        let reads: Vec<IoTurn> = (0..64).map_while(|_| now(&queue, IoClass::Read)).collect();
        assert_eq!(reads.len(), 48);
        drop(fills);
        assert!(now(&queue, IoClass::Read).is_some());
        assert_eq!(queue.in_flight(), 48);
    }

    #[test]
    fn each_class_has_one_in_flight_whatever_the_others_do() {
        let queue = IoQueue::default();
        let _reads: Vec<IoTurn> = (0..64).map_while(|_| now(&queue, IoClass::Read)).collect();
        for class in [IoClass::DurableAppend, IoClass::Fill, IoClass::CarryOver, IoClass::Prefetch]
        {
            let first = now(&queue, class);
            assert!(first.is_some(), "{class:?}");
            assert!(now(&queue, class).is_none(), "{class:?}");
        }
    }

    #[test]
    fn turns_go_to_the_most_urgent_first_and_in_order() {
        let queue = IoQueue::default();
        let mut reads: Vec<IoTurn> = (0..64).map_while(|_| now(&queue, IoClass::Read)).collect();
        let carried = now(&queue, IoClass::CarryOver);
        let mut context = Context::from_waker(Waker::noop());
        let (mut low, mut first, mut second) = (
            pin!(queue.turn(IoClass::CarryOver)),
            pin!(queue.turn(IoClass::Read)),
            pin!(queue.turn(IoClass::Read)),
        );
        assert!(low.as_mut().poll(&mut context).is_pending());
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending());
        reads.truncate(62);
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert!(first.as_mut().poll(&mut context).is_ready());
        drop(carried);
        assert!(low.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn who_gives_up_leaves_no_trace() {
        let queue = IoQueue::default();
        let reads: Vec<IoTurn> = (0..64).map_while(|_| now(&queue, IoClass::Read)).collect();
        {
            let mut waiting = pin!(queue.turn(IoClass::Read));
            let mut context = Context::from_waker(Waker::noop());
            assert!(waiting.as_mut().poll(&mut context).is_pending());
            assert!(now(&queue, IoClass::Read).is_none());
            drop(reads);
            assert_eq!(queue.in_flight(), 1);
        }
        assert_eq!(queue.in_flight(), 0);
    }
}

//! Operations in flight: who waits for each, and what must stay open until it has completed.
//! The buffers are with the ring; a dropped waiter leaves its operation abandoned, never its memory.

use crate::file::File;
use crate::listener::ListenerCore;
use crate::ring::{Completion, Outcome, Token};
use crate::socket::SocketCore;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// All operations that have not ended.
#[derive(Default)]
pub(crate) struct Operations {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

struct Slot {
    generation: u32,
    keeper: Keeper,
    state: State,
}

enum State {
    Free,
    Waiting(Option<Waker>),
    Done(Outcome),
    Abandoned,
    /// Repeats; its outcomes go to its keeper.
    Repeating,
}

/// What an operation keeps open, and where a repeating one delivers.
#[derive(Clone)]
pub(crate) enum Keeper {
    None,
    Socket(Rc<SocketCore>),
    Listener(Rc<ListenerCore>),
    File(#[expect(dead_code, reason = "held for its descriptor")] File),
}

/// What is left to do about a completion once the table is no longer borrowed.
pub(crate) enum Delivery {
    Wake(Option<Waker>),
    /// An outcome to drop, and what it kept open after it.
    Drop(Outcome, Keeper),
    Socket(Rc<SocketCore>, Outcome),
    Listener(Rc<ListenerCore>, Outcome),
}

impl Operations {
    /// A token for an operation that somebody will wait for.
    pub(crate) fn insert(&mut self, keeper: Keeper) -> Token {
        self.insert_state(keeper, State::Waiting(None))
    }

    /// A token for one that repeats.
    pub(crate) fn insert_repeating(&mut self, keeper: Keeper) -> Token {
        self.insert_state(keeper, State::Repeating)
    }

    fn insert_state(&mut self, keeper: Keeper, state: State) -> Token {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, keeper: Keeper::None, state: State::Free });
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.keeper = keeper;
        slot.state = state;
        Token { index, generation: slot.generation }
    }

    /// Takes the outcome, or remembers whom to wake.
    pub(crate) fn poll(&mut self, token: Token, waker: &Waker) -> Poll<Outcome> {
        let slot = self.slot(token);
        match &mut slot.state {
            State::Waiting(Some(known)) => known.clone_from(waker),
            State::Waiting(none) => *none = Some(waker.clone()),
            State::Done(_) => return Poll::Ready(self.take_outcome(token)),
            State::Free | State::Abandoned | State::Repeating => {
                unreachable!("only a waiting operation is polled")
            }
        }
        Poll::Pending
    }

    fn take_outcome(&mut self, token: Token) -> Outcome {
        match self.release(token) {
            (State::Done(outcome), _) => outcome,
            _ => unreachable!("the caller has seen the outcome"),
        }
    }

    /// Nobody waits any more. Returns what has come meanwhile, if it has.
    pub(crate) fn abandon(&mut self, token: Token) -> Option<Outcome> {
        match self.slot(token).state {
            State::Done(_) => Some(self.take_outcome(token)),
            _ => {
                self.slot(token).state = State::Abandoned;
                None
            }
        }
    }

    /// Notes a completion and says what to do about it.
    pub(crate) fn complete(&mut self, completion: Completion) -> Delivery {
        let Completion { token, outcome, more } = completion;
        let slot = self.slot(token);
        match &mut slot.state {
            State::Waiting(waker) => {
                let waker = waker.take();
                slot.state = State::Done(outcome);
                Delivery::Wake(waker)
            }
            State::Repeating => {
                let keeper = if more { slot.keeper.clone() } else { self.release(token).1 };
                match keeper {
                    Keeper::Socket(core) => Delivery::Socket(core, outcome),
                    Keeper::Listener(core) => Delivery::Listener(core, outcome),
                    Keeper::None | Keeper::File(_) => unreachable!("these never repeat"),
                }
            }
            State::Abandoned => Delivery::Drop(outcome, self.release(token).1),
            State::Done(_) | State::Free => unreachable!("an operation completes once"),
        }
    }

    /// Operations whose completion has not come or was not fetched.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Tokens of operations that the ring still has.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = Token> + '_ {
        self.slots.iter().enumerate().filter_map(|(index, slot)| match slot.state {
            State::Free | State::Done(_) => None,
            _ => Some(Token { index: index as u32, generation: slot.generation }),
        })
    }

    fn slot(&mut self, token: Token) -> &mut Slot {
        let slot = &mut self.slots[token.index as usize];
        assert_eq!(slot.generation, token.generation, "a token is used until it is released");
        slot
    }

    fn release(&mut self, token: Token) -> (State, Keeper) {
        let slot = self.slot(token);
        slot.generation = slot.generation.wrapping_add(1);
        let state = std::mem::replace(&mut slot.state, State::Free);
        let keeper = std::mem::replace(&mut slot.keeper, Keeper::None);
        self.free.push(token.index);
        (state, keeper)
    }
}

//! What a repeating operation has delivered and nobody has read yet: heads of one socket, or
//! connections of one listener. A full inbox ends the operation; an empty one begins it again.

use crate::ring::Token;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::task::Waker;

/// Results of one repeating operation, in order.
pub(crate) struct Inbox<T> {
    state: RefCell<State<T>>,
    arrived_max: usize,
}

struct State<T> {
    arrived: VecDeque<io::Result<T>>,
    waker: Option<Waker>,
    stream: Stream,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Idle,
    Running(Token),
    Ending,
    /// Ended for want of buffers; begins again when told that there are some.
    Starved,
}

/// What the reader does next.
pub(crate) enum Next<T> {
    Item(io::Result<T>),
    Begin,
    Wait,
}

/// What the reactor does after a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reaction {
    None,
    Cancel(Token),
    Starved,
}

impl<T> Inbox<T> {
    /// An inbox that holds `arrived_max` results, and those that arrive while the operation ends.
    pub(crate) fn new(arrived_max: usize) -> Inbox<T> {
        let state = State { arrived: VecDeque::new(), waker: None, stream: Stream::Idle };
        Inbox { state: RefCell::new(state), arrived_max }
    }

    /// The next result, or what to do to get one.
    pub(crate) fn next(&self, waker: &Waker) -> Next<T> {
        let mut state = self.state.borrow_mut();
        if let Some(item) = state.arrived.pop_front() {
            return Next::Item(item);
        }
        state.set_waker(waker);
        if state.stream == Stream::Idle { Next::Begin } else { Next::Wait }
    }

    /// The operation has been started.
    pub(crate) fn began(&self, token: Token) {
        self.state.borrow_mut().stream = Stream::Running(token);
    }

    /// Asks for the operation's end: returns the token to cancel, if it is not ending already.
    pub(crate) fn end(&self) -> Option<Token> {
        let mut state = self.state.borrow_mut();
        match state.stream {
            Stream::Running(token) => {
                state.stream = Stream::Ending;
                Some(token)
            }
            Stream::Starved => {
                state.stream = Stream::Idle;
                None
            }
            Stream::Idle | Stream::Ending => None,
        }
    }

    /// Whether the operation has ended; `waker` is woken when it has not.
    pub(crate) fn has_ended(&self, waker: &Waker) -> bool {
        let mut state = self.state.borrow_mut();
        state.set_waker(waker);
        !matches!(state.stream, Stream::Running(_) | Stream::Ending)
    }

    /// Whether the operation is neither running nor about to.
    pub(crate) fn is_idle(&self) -> bool {
        self.state.borrow().stream == Stream::Idle
    }

    /// Takes the results that wait, leaving out errors and the end: the next receive meets them again.
    pub(crate) fn take_arrived(&self) -> Vec<T> {
        let arrived = std::mem::take(&mut self.state.borrow_mut().arrived);
        arrived.into_iter().filter_map(Result::ok).collect()
    }

    /// Takes one delivery of the operation; `more` as in its completion.
    pub(crate) fn deliver(&self, result: io::Result<T>, more: bool) -> (Reaction, Option<Waker>) {
        let mut state = self.state.borrow_mut();
        let ending = state.stream == Stream::Ending;
        let mut reaction = Reaction::None;
        if !more {
            state.stream = Stream::Idle;
        }
        match result {
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) && !more => {
                if !ending {
                    state.stream = Stream::Starved;
                    reaction = Reaction::Starved;
                }
            }
            Err(error) if ending && error.raw_os_error() == Some(libc::ECANCELED) => {}
            result => state.arrived.push_back(result),
        }
        if let Stream::Running(token) = state.stream
            && state.arrived.len() >= self.arrived_max
        {
            state.stream = Stream::Ending;
            reaction = Reaction::Cancel(token);
        }
        (reaction, state.waker.take())
    }

    /// There are buffers again.
    pub(crate) fn feed(&self) -> Option<Waker> {
        let mut state = self.state.borrow_mut();
        if state.stream == Stream::Starved {
            state.stream = Stream::Idle;
        }
        state.waker.take()
    }
}

impl<T> State<T> {
    fn set_waker(&mut self, waker: &Waker) {
        match &mut self.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: Token = Token { index: 3, generation: 0 };

    fn error(number: i32) -> io::Result<u8> {
        Err(io::Error::from_raw_os_error(number))
    }

    #[test]
    fn a_full_inbox_ends_the_operation_and_an_empty_one_begins_it() {
        let inbox = Inbox::new(2);
        assert!(matches!(inbox.next(Waker::noop()), Next::Begin));
        inbox.began(TOKEN);
        assert_eq!(inbox.deliver(Ok(1), true).0, Reaction::None);
        assert_eq!(inbox.deliver(Ok(2), true).0, Reaction::Cancel(TOKEN));
        assert_eq!(inbox.deliver(Ok(3), true).0, Reaction::None, "asked once");
        assert_eq!(inbox.deliver(error(libc::ECANCELED), false).0, Reaction::None);
        for expected in 1..=3 {
            assert!(matches!(inbox.next(Waker::noop()), Next::Item(Ok(n)) if n == expected));
        }
        assert!(matches!(inbox.next(Waker::noop()), Next::Begin));
    }

    #[test]
    fn a_starved_operation_begins_again_only_when_fed() {
        let inbox = Inbox::<u8>::new(2);
        inbox.began(TOKEN);
        assert_eq!(inbox.deliver(error(libc::ENOBUFS), false).0, Reaction::Starved);
        assert!(matches!(inbox.next(Waker::noop()), Next::Wait));
        assert!(inbox.feed().is_some());
        assert!(matches!(inbox.next(Waker::noop()), Next::Begin));
    }

    #[test]
    fn an_operation_that_is_ending_is_not_cancelled_twice() {
        let inbox = Inbox::<u8>::new(2);
        inbox.began(TOKEN);
        assert_eq!(inbox.end(), Some(TOKEN));
        assert_eq!(inbox.end(), None);
        assert!(!inbox.has_ended(Waker::noop()));
        inbox.deliver(Ok(1), false);
        assert!(inbox.has_ended(Waker::noop()));
        assert_eq!(inbox.take_arrived(), [1]);
    }
}

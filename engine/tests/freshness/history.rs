//! What one object was, is and will be, told by the one who changes it; and the judgement of an
//! answer: it must be of a state that the object was in between the asking and the answer.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::client::Answer;

/// A state of the object: its bytes, or that there is none.
pub type State = Option<Vec<u8>>;

/// Every state, in order.
#[derive(Default)]
pub struct History {
    states: Mutex<Vec<State>>,
    /// States whose change was begun.
    begun: AtomicUsize,
    /// States whose change was answered.
    done: AtomicUsize,
}

/// What was so when a read began.
#[derive(Clone, Copy)]
pub struct Asked {
    oldest: usize,
}

impl History {
    /// An object that is not there.
    pub fn new() -> History {
        let history = History::default();
        history.begin(None);
        history.finish();
        history
    }

    /// A change begins.
    pub fn begin(&self, state: State) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.push(state);
        self.begun.store(states.len(), Ordering::SeqCst);
    }

    /// The change that was begun last was answered: nobody may see an older state who asks from now on.
    pub fn finish(&self) {
        self.done.store(self.begun.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// A read begins.
    pub fn asks(&self) -> Asked {
        Asked { oldest: self.done.load(Ordering::SeqCst) - 1 }
    }

    /// Judges an answer to a whole read or to one of this range; panics where it is of no state that
    /// it may be of.
    pub fn judge(&self, asked: Asked, answer: &Answer, range: Option<(usize, usize)>) {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let possible = &states[asked.oldest..];
        let is_possible = possible.iter().any(|state| fits(state.as_deref(), answer, range));
        assert!(
            is_possible,
            "{} with {} bytes for {range:?} is none of the {} states from {} on; of an older one: {}",
            answer.status,
            answer.body.len(),
            possible.len(),
            asked.oldest,
            states[..asked.oldest].iter().any(|state| fits(state.as_deref(), answer, range)),
        );
    }
}

fn fits(state: Option<&[u8]>, answer: &Answer, range: Option<(usize, usize)>) -> bool {
    match (state, range, answer.status) {
        (None, _, 404) => true,
        (Some(bytes), None, 200) => bytes == answer.body,
        (Some(bytes), Some((start, end)), 206) => {
            let end = end.min(bytes.len());
            let told = format!("bytes {start}-{}/{}", end.wrapping_sub(1), bytes.len());
            start < end
                && bytes[start..end] == answer.body
                && answer.header("content-range") == Some(&told)
        }
        (Some(bytes), Some((start, _)), 416) => start >= bytes.len(),
        _ => false,
    }
}

//! What all shards know of the origin together: whether it does its work, how often it may be asked
//! again, how slow its slowest answers are. Looked at once for a request to the origin, never for one
//! that the cache answers, which is why a lock will do.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nilas_base::{Monotonic, Rng};

use super::breaker::{Breaker, Change, Pass, Verdict};
use super::budget::RepetitionBudget;
use super::percentile::SlowestPercentile;

/// The origin's health as one node sees it; clones see the same.
#[derive(Clone, Debug)]
pub struct OriginHealth(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    breaker: Breaker,
    budget: RepetitionBudget,
    first_byte: SlowestPercentile,
    /// The origin has asked for fewer requests until then.
    slowed_until: Monotonic,
}

impl Default for OriginHealth {
    fn default() -> OriginHealth {
        OriginHealth(Arc::new(Mutex::new(State {
            breaker: Breaker::new(),
            budget: RepetitionBudget::new(),
            first_byte: SlowestPercentile::default(),
            slowed_until: Monotonic(0),
        })))
    }
}

impl OriginHealth {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of it is whole before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a request through, or says how long the origin is left alone.
    pub(super) fn admit(&self, now: Monotonic) -> Result<Pass, Duration> {
        self.state().breaker.admit(now)
    }

    /// A request that was let through has ended.
    pub(super) fn settle(
        &self,
        pass: Pass,
        verdict: Verdict,
        now: Monotonic,
        rng: &mut Rng,
    ) -> Option<Change> {
        self.state().breaker.settle(pass, verdict, now, rng)
    }

    /// A read is asked for the first time.
    pub(super) fn deposit(&self) {
        self.state().budget.deposit();
    }

    /// Whether a read may be asked again.
    pub(super) fn may_repeat(&self) -> bool {
        let mut state = self.state();
        state.breaker.is_closed() && state.budget.withdraw()
    }

    /// The time to a first byte.
    pub(super) fn note_first_byte(&self, waited: Duration) {
        let waited_ns = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        self.state().first_byte.note(waited_ns);
    }

    /// A first byte that did not come in this time. Says something only where that is long.
    pub(super) fn note_first_byte_given_up(&self, waited: Duration) {
        let waited_ns = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        let mut state = self.state();
        if state.first_byte.estimate_ns().is_some_and(|estimate_ns| waited_ns > estimate_ns) {
            state.first_byte.note(waited_ns);
        }
    }

    /// How long the slowest percentile of first bytes takes; `None` while that is not known, or a
    /// second question would not help.
    pub(super) fn slow_first_byte(&self, now: Monotonic) -> Option<Duration> {
        let state = self.state();
        if !state.breaker.is_closed() || now < state.slowed_until {
            return None;
        }
        state.first_byte.estimate_ns().map(Duration::from_nanos)
    }

    /// The origin asks for fewer requests until then.
    pub(super) fn slow_down(&self, until: Monotonic) {
        let mut state = self.state();
        state.slowed_until = state.slowed_until.max(until);
    }

    /// Whether the origin takes requests that nobody waits for yet.
    pub fn is_at_ease(&self, now: Monotonic) -> bool {
        let state = self.state();
        state.breaker.is_closed() && now >= state.slowed_until
    }
}

//! The circuit breaker: once an origin has failed for a while and nothing else, it is left alone for a
//! moment and then asked by one request at a time, until one succeeds. A state machine without a
//! clock of its own.

use std::time::Duration;

use nilas_base::{Monotonic, Rng};

/// Failures without a success between them that open it ...
const FAILURES_MIN: u32 = 8;
/// ... if the first of them is so long ago: what broke all connections at once is no outage.
const FAILING_TIME_MIN: Duration = Duration::from_millis(500);
/// A time-out has waited long already, and counts for so many.
const TIMEOUT_WEIGHT: u32 = 4;
/// Of the last outcomes, weighted by their age, so many in a hundred failed: it opens too.
const ERROR_PERCENT_MAX: u64 = 80;
/// Outcomes over which the error rate is taken.
const ERROR_RATE_OUTCOMES: u64 = 64;
/// Units of the error rate that are one.
const ERROR_RATE_ONE: u64 = 1 << 20;
/// How long it stays open the first time; doubled each time a probe fails.
const OPEN_TIME_MIN: Duration = Duration::from_secs(1);
/// The longest.
const OPEN_TIME_MAX: Duration = Duration::from_secs(8);

/// What a request came to, as far as the breaker cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The origin does its work, errors of the asker's making included.
    Well,
    /// It does not.
    Ill,
    /// It is silent.
    Silent,
    /// This says nothing about it.
    Neutral,
}

/// What an outcome changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Opened,
    Closed,
}

/// A request that was let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    /// The breaker's openings and closings when it was given: older passes change nothing.
    turn: u64,
}

#[derive(Debug)]
enum State {
    Closed(Record),
    Open { until: Monotonic, open_time: Duration, is_probed: bool },
}

/// What the origin has done while the breaker is closed.
#[derive(Debug)]
struct Record {
    failures: u32,
    failing_since: Monotonic,
    outcomes: u64,
    error_rate: u64,
    /// Since when that is too high.
    erring_since: Option<Monotonic>,
}

/// A circuit breaker.
#[derive(Debug)]
pub(super) struct Breaker {
    state: State,
    turn: u64,
}

impl Record {
    const EMPTY: Record = Record {
        failures: 0,
        failing_since: Monotonic(0),
        outcomes: 0,
        error_rate: 0,
        erring_since: None,
    };

    /// Notes an outcome; says whether it is one too many.
    fn note(&mut self, verdict: Verdict, now: Monotonic) -> bool {
        let weight = match verdict {
            Verdict::Neutral => return false,
            Verdict::Well => 0,
            Verdict::Ill => 1,
            Verdict::Silent => TIMEOUT_WEIGHT,
        };
        self.outcomes += 1;
        self.error_rate -= self.error_rate / ERROR_RATE_OUTCOMES;
        self.error_rate += u64::from(weight.min(1)) * ERROR_RATE_ONE / ERROR_RATE_OUTCOMES;
        let errs_often = self.outcomes > ERROR_RATE_OUTCOMES
            && self.error_rate > ERROR_RATE_ONE * ERROR_PERCENT_MAX / 100;
        let erring_since = *self.erring_since.get_or_insert(now);
        self.erring_since = errs_often.then_some(erring_since);
        if weight == 0 {
            self.failures = 0;
            return false;
        }
        if self.failures == 0 {
            self.failing_since = now;
        }
        self.failures = self.failures.saturating_add(weight);
        let has_lasted = |since: Monotonic| now.since(since) >= FAILING_TIME_MIN;
        (self.failures >= FAILURES_MIN && (weight > 1 || has_lasted(self.failing_since)))
            || (errs_often && has_lasted(erring_since))
    }
}

impl Breaker {
    /// A closed one.
    pub(super) fn new() -> Breaker {
        Breaker { state: State::Closed(Record::EMPTY), turn: 0 }
    }

    /// Lets a request through, or says when to come back.
    pub(super) fn admit(&mut self, now: Monotonic) -> Result<Pass, Duration> {
        let turn = self.turn;
        match &mut self.state {
            State::Closed(_) => Ok(Pass { turn }),
            State::Open { until, is_probed, .. } if *until <= now && !*is_probed => {
                *is_probed = true;
                Ok(Pass { turn })
            }
            State::Open { until, .. } => Err(until.since(now)),
        }
    }

    /// Whether requests pass freely.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed(_))
    }

    /// A request that was let through has ended; every pass comes back here.
    pub(super) fn settle(
        &mut self,
        pass: Pass,
        verdict: Verdict,
        now: Monotonic,
        rng: &mut Rng,
    ) -> Option<Change> {
        if pass.turn != self.turn {
            return None;
        }
        match &mut self.state {
            State::Closed(record) => {
                let is_too_many = record.note(verdict, now);
                is_too_many.then(|| {
                    self.turn += 1;
                    self.state = opened(now, OPEN_TIME_MIN, rng);
                    Change::Opened
                })
            }
            State::Open { open_time, is_probed, .. } => match verdict {
                Verdict::Well => {
                    self.turn += 1;
                    self.state = State::Closed(Record::EMPTY);
                    Some(Change::Closed)
                }
                // The next request is the probe.
                Verdict::Neutral => {
                    *is_probed = false;
                    None
                }
                Verdict::Ill | Verdict::Silent => {
                    self.state = opened(now, (*open_time * 2).min(OPEN_TIME_MAX), rng);
                    None
                }
            },
        }
    }
}

/// Open for three quarters of `open_time` to all of it, so that many nodes do not probe at once.
fn opened(now: Monotonic, open_time: Duration, rng: &mut Rng) -> State {
    let quarter = open_time.as_nanos() as u64 / 4;
    let wait = Duration::from_nanos(3 * quarter + rng.below(quarter + 1));
    State::Open { until: now.after(wait), open_time, is_probed: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        breaker: Breaker,
        rng: Rng,
        now: Monotonic,
    }

    impl World {
        fn new() -> World {
            World { breaker: Breaker::new(), rng: Rng::from_seed(3), now: Monotonic(1) }
        }

        fn wait(&mut self, duration: Duration) {
            self.now = self.now.after(duration);
        }

        fn request(&mut self, verdict: Verdict) -> Option<Change> {
            let pass = self.breaker.admit(self.now).expect("it is let through");
            self.breaker.settle(pass, verdict, self.now, &mut self.rng)
        }

        fn open(&mut self) {
            for _ in 1..FAILURES_MIN {
                assert_eq!(self.request(Verdict::Ill), None);
            }
            self.wait(FAILING_TIME_MIN);
            assert_eq!(self.request(Verdict::Ill), Some(Change::Opened));
        }
    }

    #[test]
    fn failures_in_a_row_open_it_once_they_last() {
        let mut world = World::new();
        for _ in 0..50 {
            assert_eq!(world.request(Verdict::Ill), None, "a burst is no outage");
        }
        assert_eq!(world.request(Verdict::Well), None);
        world.open();
        assert!(world.breaker.admit(world.now).is_err());
    }

    #[test]
    fn two_time_outs_open_it() {
        let mut world = World::new();
        assert_eq!(world.request(Verdict::Silent), None);
        assert_eq!(world.request(Verdict::Silent), Some(Change::Opened));
    }

    #[test]
    fn it_lets_one_probe_through_at_a_time_and_closes_on_its_success() {
        let mut world = World::new();
        world.open();
        world.wait(OPEN_TIME_MIN);
        let probe = world.breaker.admit(world.now).expect("a probe");
        assert!(world.breaker.admit(world.now).is_err(), "one is enough");
        let change = world.breaker.settle(probe, Verdict::Neutral, world.now, &mut world.rng);
        assert_eq!(change, None);
        assert_eq!(world.request(Verdict::Ill), None);
        assert!(world.breaker.admit(world.now.after(OPEN_TIME_MIN)).is_err(), "twice as long now");
        world.wait(2 * OPEN_TIME_MIN);
        assert_eq!(world.request(Verdict::Well), Some(Change::Closed));
        assert!(world.breaker.is_closed());
    }

    #[test]
    fn a_success_between_failures_keeps_it_closed_unless_nearly_all_fail() {
        let mut world = World::new();
        for number in 0..1000 {
            world.wait(Duration::from_millis(100));
            let verdict = if number % 4 == 0 { Verdict::Well } else { Verdict::Ill };
            assert_eq!(world.request(verdict), None, "three of four fail");
        }
        let opened = (0..1000).any(|number| {
            world.wait(Duration::from_millis(100));
            let verdict = if number % 6 == 0 { Verdict::Well } else { Verdict::Ill };
            world.request(verdict) == Some(Change::Opened)
        });
        assert!(opened, "five of six fail");
    }

    #[test]
    fn what_was_let_through_before_it_opened_says_nothing_after() {
        let mut world = World::new();
        let old = world.breaker.admit(world.now).expect("it is closed");
        world.open();
        let change = world.breaker.settle(old, Verdict::Well, world.now, &mut world.rng);
        assert_eq!(change, None);
        assert!(!world.breaker.is_closed());
    }
}

//! How much one credential may ask for: requests and bytes a second, and requests at once, counted
//! over all shards. Rates are kept by one number each, the time at which all that was taken would
//! have been due (the generic cell rate algorithm, ITU-T I.371); a second's worth may come at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use nilas_base::Monotonic;

/// What may come at once: a second's worth.
const BURST_NS: u64 = 1_000_000_000;

/// A limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached;

/// What is allowed; nothing is limited where there is no number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitNumbers {
    /// Requests begun in a second.
    pub requests_per_second_max: Option<u64>,
    /// Bytes sent and received in a second.
    pub bytes_per_second_max: Option<u64>,
    /// Requests under way.
    pub requests_in_flight_max: Option<usize>,
}

/// One credential's limits, and what of them is used.
#[derive(Debug, Default)]
pub struct Limits {
    numbers: LimitNumbers,
    requests_due_ns: AtomicU64,
    bytes_due_ns: AtomicU64,
    in_flight: AtomicUsize,
}

/// A request among those of its credential; it pays for its bytes and leaves when dropped.
#[derive(Debug)]
pub struct Account(Arc<Limits>);

impl Limits {
    /// Limits of which nothing is used yet.
    pub fn new(numbers: LimitNumbers) -> Limits {
        Limits { numbers, ..Limits::default() }
    }

    /// What is allowed.
    pub fn numbers(&self) -> LimitNumbers {
        self.numbers
    }

    /// Lets a request in, unless one of the limits is reached; without limits nothing is counted, so
    /// that shards do not meet in a counter. Bytes are paid for when they have passed, so a large one
    /// may overdraw, and the next wait for it.
    pub fn enter(self: &Arc<Self>, now: Monotonic) -> Result<Option<Account>, Reached> {
        if self.numbers == LimitNumbers::default() {
            return Ok(None);
        }
        let is_overdrawn = self.numbers.bytes_per_second_max.is_some()
            && self.bytes_due_ns.load(Ordering::Relaxed) > now.0.saturating_add(BURST_NS);
        if is_overdrawn {
            return Err(Reached);
        }
        let most = self.numbers.requests_in_flight_max.unwrap_or(usize::MAX);
        if self.in_flight.fetch_add(1, Ordering::Relaxed) >= most {
            self.in_flight.fetch_sub(1, Ordering::Relaxed);
            return Err(Reached);
        }
        // From here on it leaves by being dropped.
        let account = Account(Arc::clone(self));
        let is_in_time = self
            .numbers
            .requests_per_second_max
            .is_none_or(|rate| take(&self.requests_due_ns, 1, rate, now, true));
        if is_in_time { Ok(Some(account)) } else { Err(Reached) }
    }
}

impl Account {
    /// Pays for bytes that have passed.
    pub fn pay(&self, bytes: u64, now: Monotonic) {
        if let Some(rate) = self.0.numbers.bytes_per_second_max {
            take(&self.0.bytes_due_ns, bytes, rate, now, false);
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Takes so many units at `rate` a second; where it `is_bound`, only within the burst.
fn take(due_ns: &AtomicU64, units: u64, rate: u64, now: Monotonic, is_bound: bool) -> bool {
    let cost_ns = u64::try_from(u128::from(units) * 1_000_000_000 / u128::from(rate.max(1)))
        .unwrap_or(u64::MAX);
    let latest = now.0.saturating_add(BURST_NS);
    let taken = due_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |due| {
        let due = due.max(now.0).saturating_add(cost_ns);
        (!is_bound || due <= latest).then_some(due)
    });
    taken.is_ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn limits(numbers: LimitNumbers) -> Arc<Limits> {
        Arc::new(Limits::new(numbers))
    }

    #[test]
    fn no_more_are_under_way_than_may_be() {
        let numbers = LimitNumbers { requests_in_flight_max: Some(2), ..LimitNumbers::default() };
        let limits = limits(numbers);
        let now = Monotonic(0);
        let first = limits.enter(now).expect("the first");
        let _second = limits.enter(now).expect("the second");
        assert!(limits.enter(now).is_err());
        drop(first);
        assert!(limits.enter(now).is_ok());
    }

    #[test]
    fn what_was_overdrawn_is_waited_for() {
        let numbers = LimitNumbers { bytes_per_second_max: Some(1000), ..LimitNumbers::default() };
        let limits = limits(numbers);
        let account =
            limits.enter(Monotonic(0)).expect("nothing was taken").expect("it is counted");
        account.pay(5000, Monotonic(0));
        assert!(limits.enter(Monotonic(4 * SECOND - 1)).is_err());
        assert!(limits.enter(Monotonic(4 * SECOND)).is_ok());
    }

    proptest! {
        #[test]
        fn a_rate_is_kept_over_any_time(
            rate in 1..200_u64,
            gaps_ms in proptest::collection::vec(0..40_u64, 1..400),
        ) {
            let numbers =
                LimitNumbers { requests_per_second_max: Some(rate), ..LimitNumbers::default() };
            let limits = limits(numbers);
            let (mut now_ns, mut entered) = (SECOND, 0);
            for gap_ms in gaps_ms {
                now_ns += gap_ms * 1_000_000;
                entered += u64::from(limits.enter(Monotonic(now_ns)).is_ok());
            }
            let seconds = (now_ns - SECOND) as f64 / SECOND as f64 + 1.0;
            prop_assert!(entered as f64 <= rate as f64 * seconds + 1.0);
            prop_assert!(entered >= 1);
        }
    }
}

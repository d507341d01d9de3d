//! Latencies of one cell, kept exactly enough (three digits) to say median and tail.
//! Never kept one by one: a burst's memory must not grow with its requests.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Longer answers are counted as this long.
const LATENCY_NS_MAX: u64 = 60_000_000_000;
const DIGITS: u8 = 3;

/// A histogram of latencies.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Latencies {
    /// No latency yet.
    pub fn new() -> Latencies {
        let histogram = Histogram::new_with_bounds(1, LATENCY_NS_MAX, DIGITS);
        Latencies(histogram.expect("the bounds are constants in order"))
    }

    /// Counts one.
    pub fn record(&mut self, latency: Duration) {
        let latency_ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.0.saturating_record(latency_ns.max(1));
    }

    /// Counts all of `other`'s.
    pub fn add(&mut self, other: &Latencies) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency that `share` (0 to 1) of the requests did not exceed, µs.
    pub fn quantile_us(&self, share: f64) -> f64 {
        self.0.value_at_quantile(share) as f64 / 1000.0
    }
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_all_that_were_counted() {
        let (mut fast, mut slow) = (Latencies::new(), Latencies::new());
        for _ in 0..98 {
            fast.record(Duration::from_micros(100));
        }
        slow.record(Duration::from_micros(900));
        slow.record(Duration::from_micros(900));
        fast.add(&slow);
        assert_eq!(fast.count(), 100);
        assert!((fast.quantile_us(0.5) - 100.0).abs() < 0.2);
        assert!((fast.quantile_us(0.99) - 900.0).abs() < 1.0);
    }

    #[test]
    fn an_absurd_latency_is_kept_at_the_limit() {
        let mut latencies = Latencies::new();
        latencies.record(Duration::from_secs(1000));
        assert!(latencies.quantile_us(1.0) >= 59_000_000.0);
    }
}

//! Latencies in log-linear buckets: whole microseconds up to 8, then eight equal steps in each
//! power of two, up to 2^27 µs (134 s); what is longer falls into the last bucket. A quantile read
//! from it is off by at most one part in eight upwards, and never less than the true value.
//! Each power of two is also a bucket's border, so the coarse view (`octaves`) is exact.

use super::cell::Cell;

/// log2 of the steps in one power of two.
const STEP_BITS: u32 = 3;
/// Steps in one power of two.
const STEPS: usize = 1 << STEP_BITS;
/// log2 of the longest latency told apart, in microseconds.
const LONGEST_BITS: u32 = 27;
/// Buckets in all: `STEPS` linear ones, then `STEPS` a power of two.
const BUCKETS: usize = STEPS * (1 + (LONGEST_BITS - STEP_BITS) as usize);

/// Latencies of one kind, written by one thread.
pub struct Histogram {
    buckets: [Cell; BUCKETS],
    sum_ns: Cell,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { buckets: std::array::from_fn(|_| Cell::default()), sum_ns: Cell::default() }
    }
}

impl Histogram {
    /// Counts one latency.
    #[inline]
    pub(super) fn record(&self, latency_ns: u64) {
        self.buckets[bucket_of(latency_ns)].add(1);
        self.sum_ns.add(latency_ns);
    }

    /// Adds what is counted here to `snapshot`.
    pub fn add_to(&self, snapshot: &mut HistogramSnapshot) {
        for (total, bucket) in snapshot.buckets.iter_mut().zip(&self.buckets) {
            *total += bucket.get();
        }
        snapshot.sum_ns = snapshot.sum_ns.wrapping_add(self.sum_ns.get());
    }
}

/// The bucket that holds `latency_ns`. Borders are inclusive above, as Prometheus's `le` is.
#[inline]
fn bucket_of(latency_ns: u64) -> usize {
    let micros = latency_ns.saturating_sub(1) / 1000;
    if micros < STEPS as u64 {
        return micros as usize;
    }
    let octave = 63 - micros.leading_zeros();
    let step = (micros >> (octave - STEP_BITS)) as usize - STEPS;
    (STEPS * (octave - STEP_BITS + 1) as usize + step).min(BUCKETS - 1)
}

/// The longest latency that bucket `index` holds, in microseconds.
fn upper_border_us(index: usize) -> u64 {
    if index < STEPS {
        return index as u64 + 1;
    }
    let octave = index / STEPS - 1;
    ((STEPS + index % STEPS + 1) as u64) << octave
}

/// A histogram's sums at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramSnapshot {
    buckets: Vec<u64>,
    /// All latencies together, nanoseconds.
    pub sum_ns: u64,
}

impl Default for HistogramSnapshot {
    fn default() -> HistogramSnapshot {
        HistogramSnapshot { buckets: vec![0; BUCKETS], sum_ns: 0 }
    }
}

impl HistogramSnapshot {
    /// How many latencies were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The latency, in microseconds, that `per_mille` of a thousand do not exceed; the border of
    /// its bucket. Zero when nothing was counted.
    pub fn quantile_us(&self, per_mille: u64) -> u64 {
        let rank = (self.count() * per_mille.min(1000)).div_ceil(1000).max(1);
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper_border_us(index);
            }
        }
        0
    }

    /// Cumulative counts at 1, 2, 4 … 2^26 µs: `(border in µs, latencies not above it)`. What is
    /// longer is in `count` only.
    pub fn octaves(&self) -> Vec<(u64, u64)> {
        let mut seen = 0;
        let mut octaves = Vec::new();
        for (index, count) in self.buckets[..BUCKETS - STEPS].iter().enumerate() {
            seen += count;
            let border_us = upper_border_us(index);
            if border_us.is_power_of_two() {
                octaves.push((border_us, seen));
            }
        }
        octaves
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counted(latencies_ns: &[u64]) -> HistogramSnapshot {
        let histogram = Histogram::default();
        latencies_ns.iter().for_each(|&latency| histogram.record(latency));
        let mut snapshot = HistogramSnapshot::default();
        histogram.add_to(&mut snapshot);
        snapshot
    }

    fn latency() -> impl Strategy<Value = u64> {
        (0u32..37).prop_flat_map(|bits| 0..(1u64 << bits))
    }

    #[test]
    fn borders_rise_without_a_gap() {
        for index in 0..BUCKETS {
            let border_ns = upper_border_us(index) * 1000;
            assert_eq!(bucket_of(border_ns), index, "a border belongs to its bucket");
            assert_eq!(bucket_of(border_ns + 1), (index + 1).min(BUCKETS - 1));
        }
    }

    #[test]
    fn the_longest_latency_is_counted_in_the_last_bucket() {
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert_eq!(counted(&[u64::MAX]).count(), 1);
    }

    #[test]
    fn an_empty_histogram_has_quantile_zero() {
        assert_eq!(HistogramSnapshot::default().quantile_us(990), 0);
    }

    proptest! {
        #[test]
        fn a_quantile_is_at_most_an_eighth_too_long(
            mut latencies in prop::collection::vec(latency(), 1..200),
            per_mille in 1u64..=1000,
        ) {
            let told_us = counted(&latencies).quantile_us(per_mille);
            latencies.sort_unstable();
            let rank = (latencies.len() as u64 * per_mille).div_ceil(1000) as usize;
            let exact_us = latencies[rank - 1].div_ceil(1000);
            prop_assert!(told_us >= exact_us, "{told_us} < {exact_us}");
            prop_assert!(told_us <= exact_us + exact_us / 8 + 1, "{told_us} ≫ {exact_us}");
        }

        #[test]
        fn octaves_count_exactly(latencies in prop::collection::vec(latency(), 0..200)) {
            let snapshot = counted(&latencies);
            for (border_us, count) in snapshot.octaves() {
                let exact = latencies.iter().filter(|&&ns| ns <= border_us * 1000).count();
                prop_assert_eq!(count, exact as u64);
            }
            prop_assert_eq!(snapshot.count(), latencies.len() as u64);
            prop_assert_eq!(snapshot.sum_ns, latencies.iter().sum::<u64>());
        }
    }
}

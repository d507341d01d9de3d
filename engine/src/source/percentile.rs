//! A running estimate of a high percentile, in one number: each sample above it moves it up by a
//! large step, each below it down by a small one, in the ratio at which it stands still where it
//! belongs (frugal streaming; Ma, Muthukrishnan, Sandler 2013).

/// Of a hundred samples, so many lie below.
const PERCENT: u64 = 95;
/// A step is this part of the estimate.
const STEP_DIVISOR: u64 = 256;
/// Samples before there is an estimate.
const SAMPLES_MIN: u64 = 32;

/// An estimate of the 95th percentile of some times.
#[derive(Debug, Default)]
pub(super) struct SlowestPercentile {
    samples: u64,
    estimate_ns: u64,
}

impl SlowestPercentile {
    /// Another sample.
    pub(super) fn note(&mut self, sample_ns: u64) {
        self.samples += 1;
        if self.samples <= SAMPLES_MIN {
            // The largest of the first few is above the percentile, and comes down.
            self.estimate_ns = self.estimate_ns.max(sample_ns);
            return;
        }
        let step = (self.estimate_ns / STEP_DIVISOR).max(1);
        if sample_ns > self.estimate_ns {
            self.estimate_ns += step * PERCENT / 10;
        } else {
            self.estimate_ns = self.estimate_ns.saturating_sub(step * (100 - PERCENT) / 10);
        }
    }

    /// The estimate, once there is one.
    pub(super) fn estimate_ns(&self) -> Option<u64> {
        (self.samples >= SAMPLES_MIN).then_some(self.estimate_ns)
    }
}

#[cfg(test)]
mod tests {
    use nilas_base::Rng;

    use super::*;

    fn settled(samples: impl Fn(&mut Rng) -> u64) -> u64 {
        let mut rng = Rng::from_seed(7);
        let mut percentile = SlowestPercentile::default();
        for _ in 0..20_000 {
            percentile.note(samples(&mut rng));
        }
        percentile.estimate_ns().expect("there were samples")
    }

    #[test]
    fn it_settles_near_the_95th_percentile() {
        let even = settled(|rng| rng.below(1_000_000));
        assert!((900_000..990_000).contains(&even), "{even}");
        let two_hills = settled(|rng| {
            let far = rng.chance(2, 100);
            if far { 500_000_000 } else { 30_000_000 + rng.below(1_000_000) }
        });
        assert!((30_000_000..40_000_000).contains(&two_hills), "{two_hills}");
    }

    #[test]
    fn a_few_samples_are_no_estimate() {
        let mut percentile = SlowestPercentile::default();
        (1..SAMPLES_MIN).for_each(|sample| percentile.note(sample));
        assert_eq!(percentile.estimate_ns(), None);
    }
}

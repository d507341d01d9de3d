//! The one clock. Real nodes read the system's; simulated ones move theirs by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Nanoseconds since the clock was made; never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic(pub u64);

impl Monotonic {
    /// This time and `later` after it.
    pub fn after(self, later: Duration) -> Monotonic {
        Monotonic(self.0.saturating_add(u64::try_from(later.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long after `earlier`; zero when it was not.
    pub fn since(self, earlier: Monotonic) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Wall time, milliseconds since 1970-01-01 UTC. May jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(pub u64);

/// Tells monotonic and wall time; clones tell the same time.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System { start: std::time::Instant },
    Simulated(Arc<Simulated>),
}

#[derive(Debug)]
struct Simulated {
    monotonic_ns: AtomicU64,
    unix_ms_at_zero: AtomicU64,
}

impl Clock {
    /// The machine's clock.
    #[expect(clippy::disallowed_methods, reason = "the one place that may ask the system")]
    pub fn system() -> Clock {
        Clock(Source::System { start: std::time::Instant::now() })
    }

    /// A clock that stands still at `start` until it is moved.
    pub fn simulated(start: UnixMillis) -> Clock {
        Clock(Source::Simulated(Arc::new(Simulated {
            monotonic_ns: AtomicU64::new(0),
            unix_ms_at_zero: AtomicU64::new(start.0),
        })))
    }

    /// Monotonic time.
    pub fn now(&self) -> Monotonic {
        match &self.0 {
            Source::System { start } => Monotonic(nanos(start.elapsed())),
            Source::Simulated(clock) => Monotonic(clock.monotonic_ns.load(Ordering::Relaxed)),
        }
    }

    /// Wall time.
    #[expect(clippy::disallowed_methods, reason = "the one place that may ask the system")]
    pub fn wall(&self) -> UnixMillis {
        match &self.0 {
            Source::System { .. } => UnixMillis(
                std::time::SystemTime::now()
                    .duration_since(std::time::UNIX_EPOCH)
                    .map_or(0, |since| since.as_millis() as u64),
            ),
            Source::Simulated(clock) => UnixMillis(
                clock.unix_ms_at_zero.load(Ordering::Relaxed)
                    + clock.monotonic_ns.load(Ordering::Relaxed) / 1_000_000,
            ),
        }
    }

    /// Moves a simulated clock to `to`, which is not in its past. Panics on the system's clock.
    pub fn advance_to(&self, to: Monotonic) {
        let Source::Simulated(clock) = &self.0 else { panic!("only a simulated clock is moved") };
        assert!(clock.monotonic_ns.load(Ordering::Relaxed) <= to.0, "time never goes back");
        clock.monotonic_ns.store(to.0, Ordering::Relaxed);
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

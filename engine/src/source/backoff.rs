//! How long to wait before a read is asked again: doubling, drawn from a range so that those who
//! failed together do not return together, and no sooner than the origin itself asked for.

use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;
use nilas_base::Rng;

/// The wait before the second try is drawn from below this.
const BACKOFF_MIN: Duration = Duration::from_millis(50);
/// The same where the origin asked for less.
const BACKOFF_SLOW_DOWN_MIN: Duration = Duration::from_millis(200);
/// The longest.
const BACKOFF_MAX: Duration = Duration::from_secs(2);
/// The longest `Retry-After` that is waited for while a client waits; after a longer one the client
/// is told.
pub(super) const RETRY_AFTER_WAIT_MAX: Duration = Duration::from_secs(2);
/// The longest that is believed at all.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// A wait doubled so many times, up to a bound, which is no shorter than the wait itself.
pub fn doubled(wait: Duration, times: u32, wait_max: Duration) -> Duration {
    wait.saturating_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX)).min(wait_max.max(wait))
}

/// The wait after `tries` tries that failed, from half of the doubled least to all of it.
pub(super) fn backoff(rng: &mut Rng, tries: u32, is_slow_down: bool) -> Duration {
    let least = if is_slow_down { BACKOFF_SLOW_DOWN_MIN } else { BACKOFF_MIN };
    let whole = doubled(least, tries.saturating_sub(1), BACKOFF_MAX);
    let half = whole.as_nanos() as u64 / 2;
    Duration::from_nanos(half + rng.below(half + 1))
}

/// The wait that an answer asks for, in seconds as every S3 says it.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_never_fall_below_half() {
        let mut rng = Rng::from_seed(1);
        for tries in 1..40 {
            let whole = BACKOFF_MIN.saturating_mul(1 << (tries - 1).min(16)).min(BACKOFF_MAX);
            for _ in 0..100 {
                let wait = backoff(&mut rng, tries, false);
                assert!((whole / 2..=whole).contains(&wait), "{tries}: {wait:?}");
            }
        }
        assert!(backoff(&mut rng, 1, true) >= BACKOFF_SLOW_DOWN_MIN / 2);
    }

    #[test]
    fn a_wait_is_read_from_seconds_alone() {
        for (said, expected) in [
            ("3", Some(Duration::from_secs(3))),
            (" 0 ", Some(Duration::ZERO)),
            ("999999", Some(RETRY_AFTER_MAX)),
            ("-1", None),
            ("soon", None),
            ("Wed, 21 Oct 2015 07:28:00 GMT", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, said.parse().expect("a value"));
            assert_eq!(retry_after(&headers), expected, "{said}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}

//! Reads of objects for the tables' sake, through the cache as a client's: bounded in number and in the
//! bytes that the origin is asked for a second. What may be better in a moment is tried again.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use nilas_base::{ByteRange, Clock, Monotonic};
use nilas_net::range::{RangeForm, SingleRange};
use tokio::sync::Semaphore;

use super::places::Places;
use crate::inner::{InnerBytes, InnerRead, InnerReadError, InnerReadPort};

/// How often a read is tried that finds no place.
const TRIES_MAX: u32 = 5;
/// How long the first wait is; each doubles.
const WAIT: Duration = Duration::from_millis(100);

/// Why an object was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadTrouble {
    /// It does not lie where this node reads.
    Elsewhere,
    /// It is not to be had: what the origin says.
    Refused(String),
    /// It may be, later.
    Later(String),
}

impl ReadTrouble {
    /// For people.
    pub fn cause(&self) -> &str {
        match self {
            ReadTrouble::Elsewhere => "it does not lie in a bucket that this node serves",
            ReadTrouble::Refused(cause) | ReadTrouble::Later(cause) => cause,
        }
    }
}

/// Which bytes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All.
    Whole,
    /// These.
    Range(ByteRange),
    /// As many from its end; its size is not known.
    Last(u64),
}

impl Extent {
    /// The range, where it is known.
    pub fn range(self) -> Option<ByteRange> {
        match self {
            Extent::Range(range) => Some(range),
            Extent::Whole | Extent::Last(_) => None,
        }
    }

    fn form(self) -> RangeForm {
        RangeForm::Single(match self {
            Extent::Whole => return RangeForm::Absent,
            Extent::Range(range) => {
                SingleRange::FromTo { first: range.start, last: range.end.saturating_sub(1) }
            }
            Extent::Last(length) => SingleRange::Last { length },
        })
    }
}

/// What is to be read of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which bytes.
    pub extent: Extent,
    /// From where on the object is planning metadata, whatever its name.
    pub tail_start: Option<u64>,
    /// Whether they are wanted, or only to be at hand.
    pub gives_bytes: bool,
}

impl Piece {
    /// All of an object, which is planning metadata.
    pub const METADATA: Piece =
        Piece { extent: Extent::Whole, tail_start: Some(0), gives_bytes: true };
}

/// Reads objects.
pub struct Reader {
    port: InnerReadPort,
    places: Places,
    turns: Semaphore,
    pace: Pace,
}

impl Reader {
    /// One that reads so many at a time, and so many bytes of the origin a second.
    pub fn new(
        port: InnerReadPort,
        places: Places,
        (requests_max, bytes_per_second): (usize, u64),
        clock: Clock,
    ) -> Reader {
        let turns = Semaphore::new(requests_max);
        Reader { port, places, turns, pace: Pace::new(bytes_per_second, clock) }
    }

    /// Where objects lie.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Reads a piece of an object, by its location.
    pub async fn read(&self, location: &str, piece: Piece) -> Result<InnerBytes, ReadTrouble> {
        let (bucket, key) = self.places.object(location).ok_or(ReadTrouble::Elsewhere)?;
        let _turn = self.turns.acquire().await.expect("it is never closed");
        let mut trouble = String::new();
        for tried in 0..TRIES_MAX {
            if tried > 0 {
                tokio::time::sleep(WAIT * (1 << tried)).await;
            }
            self.pace.wait().await;
            match self.port.read(inner_read(bucket, key, piece)).await {
                Ok(read) => {
                    self.pace.spend(read.origin_bytes());
                    return Ok(read);
                }
                // There is no place for it now; the origin has its own retries.
                Err(error @ InnerReadError::Busy) => trouble = error.to_string(),
                Err(error) if is_passing(&error) => {
                    return Err(ReadTrouble::Later(error.to_string()));
                }
                Err(error) => return Err(ReadTrouble::Refused(error.to_string())),
            }
        }
        Err(ReadTrouble::Later(trouble))
    }
}

fn inner_read(bucket: &str, key: &str, piece: Piece) -> InnerRead {
    let range = piece.extent.form();
    let Piece { tail_start, gives_bytes, .. } = piece;
    InnerRead { bucket: bucket.to_owned(), key: key.to_owned(), range, tail_start, gives_bytes }
}

/// Whether the same read may succeed later: when the origin is well again, or the node is allowed to.
fn is_passing(error: &InnerReadError) -> bool {
    match error {
        InnerReadError::Busy | InnerReadError::Unavailable(_) | InnerReadError::Stopping => true,
        InnerReadError::Status(status) => *status >= 500 || [401, 403, 429].contains(status),
        InnerReadError::Unproven | InnerReadError::TooLarge(_) => false,
    }
}

/// Bytes a second: who has spent more than was due makes the next wait.
struct Pace {
    bytes_per_second: u64,
    clock: Clock,
    free_at: Mutex<Monotonic>,
}

impl Pace {
    fn new(bytes_per_second: u64, clock: Clock) -> Pace {
        let free_at = Mutex::new(clock.now());
        Pace { bytes_per_second: bytes_per_second.max(1), clock, free_at }
    }

    async fn wait(&self) {
        let free_at = *self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = free_at.since(self.clock.now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    fn spend(&self, bytes: u64) {
        let time = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        *free_at = (*free_at).max(self.clock.now()).after(time);
    }
}

#[cfg(test)]
mod tests {
    use nilas_base::UnixMillis;

    use super::*;

    #[test]
    fn bytes_that_were_spent_are_waited_for() {
        let clock = Clock::simulated(UnixMillis(0));
        let pace = Pace::new(1000, clock.clone());
        let free_at = || *pace.free_at.lock().expect("nobody panicked");
        pace.spend(5000);
        pace.spend(2000);
        assert_eq!(free_at(), Monotonic(7_000_000_000));
        clock.advance_to(Monotonic(60_000_000_000));
        pace.spend(1000);
        assert_eq!(free_at(), Monotonic(61_000_000_000), "time that has passed is not saved up");
    }

    #[test]
    fn what_may_pass_is_told_from_what_lasts() {
        assert!(is_passing(&InnerReadError::Busy));
        for status in [401, 403, 429, 500, 503] {
            assert!(is_passing(&InnerReadError::Status(status)), "{status}");
        }
        assert!(!is_passing(&InnerReadError::Status(404)));
        assert!(!is_passing(&InnerReadError::Unproven));
    }
}

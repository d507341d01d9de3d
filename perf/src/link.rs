//! The way to an origin of this yard: a delay before each answer's first byte and, where it has one,
//! a rate of each connection. The links that suites measure over are here too, so that their figures
//! are of the same ways.

use std::time::Duration;

use nilas_base::{Clock, Monotonic};

use crate::error::{Error, Result};

/// What one connection to S3 brings, bytes a second, as its owners publish it of reads.
const STORE_CONNECTION_RATE: u64 = 90_000_000;
const LATENCY_MS: u64 = 30;

/// The links that are measured.
const MEASURED: [Link; 3] = [
    Link { latency_ms: 0, connection_rate: None },
    Link { latency_ms: LATENCY_MS, connection_rate: None },
    Link { latency_ms: LATENCY_MS, connection_rate: Some(STORE_CONNECTION_RATE) },
];

/// The way to the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
pub struct Link {
    /// Before the first byte of each answer.
    #[arg(long)]
    pub latency_ms: u64,
    /// Bytes a second on one connection; none: no limit.
    #[arg(long)]
    pub connection_rate: Option<u64>,
}

impl Link {
    /// Nothing between client and origin.
    pub const NONE: Link = Link { latency_ms: 0, connection_rate: None };

    /// Those that suites measure over, by their place in a command's `--links`.
    ///
    /// # Errors
    /// Where there is none of a number.
    pub fn measured(numbers: &[usize]) -> Result<Vec<Link>> {
        let link = |number: &usize| MEASURED.get(*number).copied();
        let links: Option<Vec<Link>> = numbers.iter().map(link).collect();
        links.ok_or_else(|| Error::Failed("no such link".to_owned()))
    }

    /// The names of those that suites measure over: without latency, with it, and with a rate as well.
    pub fn measured_names() -> [String; 3] {
        MEASURED.map(|link| link.name())
    }

    /// Its name in tables and records.
    pub fn name(&self) -> String {
        match self.connection_rate {
            None => format!("{} ms", self.latency_ms),
            Some(rate) => format!("{} ms and {} MB/s", self.latency_ms, rate / 1_000_000),
        }
    }

    /// When an answer that is asked for now may begin.
    pub fn first_byte_at(&self, clock: &Clock) -> Monotonic {
        clock.now().after(Duration::from_millis(self.latency_ms))
    }

    /// Waits until a connection that `began` then may have carried so many bytes.
    pub fn pace(&self, clock: &Clock, began: Monotonic, bytes: u64) {
        if let Some(rate) = self.connection_rate {
            let due_ns = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
            pause_until(clock, began.after(Duration::from_nanos(due_ns as u64)));
        }
    }
}

/// Waits until then.
pub fn pause_until(clock: &Clock, until: Monotonic) {
    loop {
        let rest = until.since(clock.now());
        if rest.is_zero() {
            return;
        }
        std::thread::park_timeout(rest);
    }
}

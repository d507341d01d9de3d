//! What has happened in a simulated world: a running hash, and the events themselves if wanted.

use nilas_base::{Clock, Monotonic};

const HASH_OFFSET: u64 = 0xCBF2_9CE4_8422_2325;
/// An odd constant of good dispersion (the 64-bit golden ratio).
const HASH_FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// When.
    pub at: Monotonic,
    /// What.
    pub what: &'static str,
    /// Whose: a socket's or a ring's number, mostly.
    pub whose: u64,
    /// How much: a length, a hash of bytes, an error's number.
    pub how_much: u64,
}

pub(super) struct Trace {
    clock: Clock,
    hash: u64,
    events: Option<Vec<TraceEvent>>,
}

impl Trace {
    pub(super) fn new(clock: Clock) -> Trace {
        Trace { clock, hash: HASH_OFFSET, events: None }
    }

    pub(super) fn note(&mut self, what: &'static str, whose: u64, how_much: u64) {
        let at = self.clock.now();
        let what_hash = hash_bytes(what.as_bytes());
        for word in [at.0, what_hash, whose, how_much] {
            self.hash = mix(self.hash, word);
        }
        if let Some(events) = &mut self.events {
            events.push(TraceEvent { at, what, whose, how_much });
        }
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) fn keep(&mut self) {
        self.events.get_or_insert_default();
    }

    pub(super) fn events(&self) -> &[TraceEvent] {
        self.events.as_deref().unwrap_or(&[])
    }
}

/// A hash of bytes, for traces only.
pub(super) fn hash_bytes(bytes: &[u8]) -> u64 {
    let hash = bytes.chunks(8).fold(HASH_OFFSET, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(hash, u64::from_le_bytes(word))
    });
    mix(hash, bytes.len() as u64)
}

fn mix(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word) * u128::from(HASH_FACTOR);
    (product as u64) ^ ((product >> 64) as u64).rotate_left(31)
}

//! How an origin may misbehave in one answer.

use std::time::Duration;

/// One answer's behaviour.
#[derive(Clone, Debug, Default)]
pub struct Behaviour {
    /// Waited before the head.
    pub delay: Duration,
    /// An error instead of an answer, and what it says about coming back.
    pub error: Option<(u16, Option<&'static str>)>,
    /// Whether the connection is closed after an error.
    pub closes: bool,
    /// Whether the connection is reset instead of an answer.
    pub resets_at_once: bool,
    /// How the body ends, where it does not end well, and after how many bytes.
    pub ending: Option<(u64, Ending)>,
    /// What is wrong with the head.
    pub lie: Option<Lie>,
}

/// How a body ends badly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The connection is closed.
    Cut,
    /// It is reset.
    Reset,
    /// Nothing more comes, and nothing ends.
    Stall,
}

/// What a head says that is not so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// One byte more than comes.
    LengthTooLong,
    /// One byte fewer than comes.
    LengthTooShort,
    /// A range that begins one byte later.
    RangeShifted,
    /// An object one byte longer.
    TotalTooLong,
    /// No range at all, with a 206.
    NoRange,
    /// No ETag.
    NoEtag,
    /// The whole object with a 200, whatever the range.
    Whole,
}

impl Behaviour {
    /// As an S3 should.
    pub fn well() -> Behaviour {
        Behaviour::default()
    }

    /// A late head.
    pub fn late(delay: Duration) -> Behaviour {
        Behaviour { delay, ..Behaviour::default() }
    }

    /// An error.
    pub fn error(status: u16) -> Behaviour {
        Behaviour { error: Some((status, None)), ..Behaviour::default() }
    }

    /// An error that says when to come back.
    pub fn error_for(status: u16, retry_after: &'static str) -> Behaviour {
        Behaviour { error: Some((status, Some(retry_after))), ..Behaviour::default() }
    }

    /// What some say to a request on a connection that was idle for too long.
    pub fn stale(status: u16) -> Behaviour {
        Behaviour { closes: true, ..Behaviour::error(status) }
    }

    /// A reset before any answer.
    pub fn reset() -> Behaviour {
        Behaviour { resets_at_once: true, ..Behaviour::default() }
    }

    /// A body that ends badly.
    pub fn ends(after_bytes: u64, ending: Ending) -> Behaviour {
        Behaviour { ending: Some((after_bytes, ending)), ..Behaviour::default() }
    }

    /// A head that lies.
    pub fn lies(lie: Lie) -> Behaviour {
        Behaviour { lie: Some(lie), ..Behaviour::default() }
    }
}

//! Rules: which requests are met by which fault. Told as a JSON list of objects, one a rule, whose
//! fields name the fault (`fault` and what belongs to it), the requests (`method`, `path`, `prefix`,
//! `query`, `has_range`) and how many of them (`skip`, `times`, `chance_percent`, `seed`).
//! `rule/read` understands them; `script` keeps them.

mod field;
mod read;

use std::time::Duration;

use super::pattern::{Draw, Pattern};

/// Why a rule is none: one sentence that names the rule, the field and what it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRule(pub(super) String);

impl std::fmt::Display for BadRule {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for BadRule {}

/// One rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub(super) pattern: Pattern,
    pub(super) draw: Draw,
    pub(super) fault: Fault,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fault {
    /// `delay`: `ms` pass before the request is told on, or, with `before: "answer"`, between the
    /// origin's answer and its head.
    Delay { time: Duration, before: Before },
    /// `stall`: nothing more comes after `after_bytes` of the body, or not even the head; for `ms`,
    /// or for ever.
    Stall { at: Spot, time: Option<Duration> },
    /// `cut`: the connection is closed after `after_bytes` of the body, or before the head.
    Cut { at: Spot },
    /// `reset`: the same, by a reset.
    Reset { at: Spot },
    /// `rate`: the body comes at `bytes_per_second`.
    Rate { bytes_per_second: u64 },
    /// `wrong_length`: the head announces `by` bytes more than come, or fewer if negative; then the
    /// connection is closed.
    WrongLength { by: i64 },
    /// `surplus`: `bytes` bytes that nobody announced follow the body; the connection stays.
    Surplus { bytes: u64 },
    /// `wrong_range`: the head's Content-Range is shifted `by` bytes, and the object's length in it
    /// is `total_by` bytes more than it is.
    WrongRange { by: i64, total_by: i64 },
    /// `status`: an error instead of the origin's answer, perhaps with a `Retry-After`.
    Status { status: u16, code: String, retry_after_s: Option<u64>, asks: Asks },
    /// `refuse`: nobody listens, and connections that stand are closed.
    Refuse,
}

/// What a delay comes before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// Before the origin hears of it.
    Request,
    /// After the origin has done it.
    Answer,
}

/// Where in an answer something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// Before its head.
    Head(Asks),
    /// After so many bytes of its body.
    Body(u64),
}

/// Whether the origin hears of a request whose answer does not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asks {
    /// It does what was asked before the client sees the fault.
    First,
    /// It is asked so much later than the client sees the fault.
    Later(Duration),
    /// It hears nothing.
    Never,
}

impl Rule {
    /// Understands a list of rules, or says what is wrong with the first bad one.
    pub fn list(json: &[u8]) -> Result<Vec<Rule>, BadRule> {
        read::list(json)
    }
}

impl Fault {
    /// Its name, as in the rules and in the ledger.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Fault::Delay { .. } => "delay",
            Fault::Stall { .. } => "stall",
            Fault::Cut { .. } => "cut",
            Fault::Reset { .. } => "reset",
            Fault::Rate { .. } => "rate",
            Fault::WrongLength { .. } => "wrong_length",
            Fault::Surplus { .. } => "surplus",
            Fault::WrongRange { .. } => "wrong_range",
            Fault::Status { .. } => "status",
            Fault::Refuse => "refuse",
        }
    }
}

//! The probe: asks, before anything is constructed, what this machine allows, and says what is
//! missing, what follows from it and what to change. It decides which ring body runs. What it asks is
//! in `facts`, what it concludes in `judgement`.

mod facts;
mod judgement;

use crate::ring::RingBody;
use std::fmt;

/// Which ring body is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RingChoice {
    /// io_uring, and epoll where that is denied.
    #[default]
    Auto,
    /// io_uring, or no start.
    IoUring,
    /// epoll.
    Epoll,
}

impl std::str::FromStr for RingChoice {
    type Err = UnknownRing;

    fn from_str(name: &str) -> Result<RingChoice, UnknownRing> {
        match name {
            "auto" => Ok(RingChoice::Auto),
            "io_uring" => Ok(RingChoice::IoUring),
            "epoll" => Ok(RingChoice::Epoll),
            other => Err(UnknownRing(other.to_owned())),
        }
    }
}

impl fmt::Display for RingChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RingChoice::Auto => "auto",
            RingChoice::IoUring => "io_uring",
            RingChoice::Epoll => "epoll",
        })
    }
}

/// Not a ring body's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no ring: choose auto, io_uring or epoll")]
pub struct UnknownRing(pub String);

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The node runs, and gives less than it could.
    Warning,
    /// What was demanded cannot be had: the node does not start.
    Fatal,
}

/// Something the machine does not allow: one sentence each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What is missing, and where that was seen.
    pub cause: String,
    /// What follows from it.
    pub consequence: String,
    /// What to change.
    pub cure: String,
    /// Whether the node can start.
    pub severity: Severity,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.cause, self.consequence, self.cure)
    }
}

/// What the machine allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeReport {
    /// The body that will run.
    pub ring: RingBody,
    /// What is missing.
    pub findings: Vec<Finding>,
}

/// The node cannot start as it was asked to; the finding says why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProbeError(pub Finding);

/// Asks the machine. Raises this process's limit of open files as far as it may on the way.
pub fn probe(choice: RingChoice, wanted_shards: usize) -> Result<ProbeReport, ProbeError> {
    judgement::judge(choice, wanted_shards, &facts::gather(choice))
}

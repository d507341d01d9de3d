//! The probe: asks, before anything is constructed, what this machine allows, and says what is
//! missing, what follows from it and what to change. It decides which ring body runs.

use crate::ring::RingBody;
use std::fmt;

/// Which ring body is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingChoice {
    /// io_uring, and epoll where that is denied.
    Auto,
    /// io_uring, or no start.
    IoUring,
    /// epoll.
    Epoll,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The node runs, and gives less than it could.
    Warning,
    /// What was demanded cannot be had: the node does not start.
    Fatal,
}

/// Something the machine does not allow, in one sentence each.
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

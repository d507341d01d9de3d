//! Why an origin gave no answer. An answer with an error status is an answer, not one of these.
//! Variants say what the caller can do; the text names the origin, the cause and the cure.

use std::borrow::Cow;
use std::time::Duration;

/// No answer, or half of one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// No connection was made; nothing was asked. Another try may help.
    #[error("origin {origin} cannot be reached: {cause}; check the endpoint and the network")]
    Unreachable {
        /// Who.
        origin: String,
        /// Why.
        cause: String,
    },
    /// The origin was silent for too long.
    #[error("origin {origin} was silent for {waited:?} while {step}")]
    TimedOut {
        /// Who.
        origin: String,
        /// What was waited for.
        step: &'static str,
        /// For how long.
        waited: Duration,
    },
    /// The exchange broke half-way: a reset, a short body, an answer that makes no sense.
    #[error("the exchange with the origin broke: {cause}")]
    Broken {
        /// Why.
        cause: Cow<'static, str>,
    },
    /// The client's body broke off or failed a check: the upload was aborted.
    #[error("the request's body did not arrive whole; nothing was written")]
    BodyAborted,
    /// Too many requests wait already. Later is better.
    #[error("too many requests wait for the origin; slow down")]
    Busy,
    /// It has failed for a while and is left alone; nothing was asked.
    #[error("the origin fails and is left alone; try again in {retry_after_s} s")]
    Resting {
        /// When to come back.
        retry_after_s: u64,
    },
    /// There are no credentials to sign with.
    #[error("no credentials for origin {origin}: {cause}")]
    Credentials {
        /// Who.
        origin: String,
        /// What was tried and what to do.
        cause: String,
    },
    /// The port was shut.
    #[error("the origin port is closed: the node is stopping")]
    Closed,
}

impl OriginError {
    /// Whether the origin is the one who gave no answer.
    pub fn is_the_origins(&self) -> bool {
        match self {
            OriginError::Unreachable { .. }
            | OriginError::TimedOut { .. }
            | OriginError::Broken { .. }
            | OriginError::Resting { .. }
            | OriginError::Credentials { .. } => true,
            OriginError::BodyAborted | OriginError::Busy | OriginError::Closed => false,
        }
    }

    /// A [`OriginError::Broken`] for this cause.
    pub fn broken(cause: impl Into<Cow<'static, str>>) -> OriginError {
        OriginError::Broken { cause: cause.into() }
    }
}

//! What can go wrong while measuring, sorted by what the person at the terminal does next.
//! Nothing here is retried: a disturbed measurement is made again as a whole.

use std::io;

/// An outcome of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a measurement could not be made, or was made and failed its check.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused something.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// A server could not be started or went away.
    #[error("server {server}: {cause}")]
    Server {
        /// The server's name.
        server: String,
        /// What is wrong and what to do about it.
        cause: String,
    },
    /// A server's answer was not the one asked for: no figure of this run may be kept.
    #[error("wrong answer: {0}")]
    Answer(String),
    /// A record could not be read back.
    #[error("record, line {line}: {cause}")]
    Record {
        /// The line, counted from one.
        line: usize,
        /// What is wrong with it.
        cause: String,
    },
    /// The measurement stands, and is worse than it may be.
    #[error("{0}")]
    Failed(String),
}

/// Names what was being done when the system refused.
pub(crate) trait Doing<T> {
    /// Wraps an error of the system with `doing`.
    fn doing(self, doing: impl Into<String>) -> Result<T>;
}

impl<T, E: Into<io::Error>> Doing<T> for std::result::Result<T, E> {
    fn doing(self, doing: impl Into<String>) -> Result<T> {
        self.map_err(|source| Error::System { doing: doing.into(), source: source.into() })
    }
}

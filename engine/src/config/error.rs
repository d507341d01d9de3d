//! What is wrong with a configuration. Each error names the place (file and line, variable or
//! flag), what was found and what is expected, and never a secret.

use std::fmt;
use std::path::PathBuf;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A value that its key cannot take.
    #[error("{place}: found {found}, expected {expected}")]
    Value {
        /// Where it stands.
        place: String,
        /// What stands there; of a secret only its kind.
        found: String,
        /// What could stand there.
        expected: String,
    },
    /// A name that no key has.
    #[error("{place}: there is no {what} {name}; {hint}")]
    Unknown {
        /// Where it stands.
        place: String,
        /// Key, variable or flag.
        what: &'static str,
        /// The name.
        name: String,
        /// The nearest known name, or where all are listed.
        hint: String,
    },
    /// The file cannot be read.
    #[error("{}: {cause}; give another file with --config or NILAS_CONFIG", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: String,
    },
    /// The file is not TOML.
    #[error("{place}: this is not TOML: {cause}")]
    Syntax {
        /// File, line and column.
        place: String,
        /// What the parser says, without the text it says it of.
        cause: String,
    },
    /// Values that are right alone but not together.
    #[error("{problem}; {cure}")]
    Conflict {
        /// What does not fit, and where it was set.
        problem: String,
        /// What to change.
        cure: String,
    },
}

/// Everything that was found to be wrong; at least one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                formatter.write_str("\n")?;
            }
            write!(formatter, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

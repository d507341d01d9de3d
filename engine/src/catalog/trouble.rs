//! Why a catalog was asked in vain, and whether that says something of the table or of the catalog. No
//! secret is in it.

use std::time::Duration;

use nilas_iceberg::catalog::CatalogError;

/// Why there is no answer, or none of use.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// No connection.
    #[error("it cannot be reached: {cause}")]
    Unreachable {
        /// Why.
        cause: String,
    },
    /// No answer in time.
    #[error("no whole answer within {waited:?}")]
    Slow {
        /// How long was waited.
        waited: Duration,
    },
    /// An answer that broke off.
    #[error("its answer broke off: {cause}")]
    Broken {
        /// How.
        cause: String,
    },
    /// More of an answer than is taken.
    #[error("its answer is longer than {bytes_max} bytes (catalog.answer_bytes_max)")]
    TooLong {
        /// How much is taken.
        bytes_max: usize,
    },
    /// Nothing to prove with who asks.
    #[error("there is nothing to prove with who asks: {cause}")]
    Proof {
        /// Why.
        cause: String,
    },
    /// An answer, but not the one that was wanted.
    #[error(transparent)]
    Answered(#[from] CatalogError),
}

impl Trouble {
    /// Whether every other question would meet it too.
    pub(super) fn is_of_catalog(&self) -> bool {
        match self {
            Trouble::Unreachable { .. } | Trouble::Proof { .. } => true,
            Trouble::Answered(error) => {
                matches!(error, CatalogError::Unauthorised { .. } | CatalogError::Busy { .. })
            }
            Trouble::Slow { .. } | Trouble::Broken { .. } | Trouble::TooLong { .. } => false,
        }
    }

    /// Whether it may pass by itself.
    pub(super) fn may_pass(&self) -> bool {
        !matches!(
            self,
            Trouble::Answered(CatalogError::Refused { .. } | CatalogError::Missing { .. })
        )
    }

    /// Whether what was asked for is not there.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Trouble::Answered(CatalogError::Missing { .. }))
    }

    /// For how long the catalog asks to be left alone.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Trouble::Answered(CatalogError::Busy { retry_after, .. }) => *retry_after,
            _ => None,
        }
    }
}

//! What can be wrong with a Parquet footer, named for what the caller does: leave the file without a
//! map of its ranges and say why. A request for the file is served all the same.

/// Why a file has no footer that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FooterError {
    /// The file does not end as Parquet does.
    #[error(
        "the file does not end as Parquet does; check that its manifest names its true format and size"
    )]
    NotParquet,
    /// The footer is encrypted (`PARE`): whose columns its ranges are is not for us to know.
    #[error("the footer is encrypted (PARE); the file is cached, its columns are not told apart")]
    Encrypted,
    /// It passes a bound; both are in the unit that is named.
    #[error("the footer has {found} {what}, and {most} is the most that is read")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much there is, as far as it was counted.
        found: u64,
        /// The bound.
        most: u64,
    },
    /// It contradicts itself, the format or the file's size.
    #[error("the footer is damaged: {0}")]
    Damaged(&'static str),
    /// `schema.name-mapping.default` cannot be read.
    #[error("the table's name mapping cannot be read: {0}")]
    NameMapping(String),
}

pub(super) type Result<T> = std::result::Result<T, FooterError>;

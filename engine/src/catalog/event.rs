//! What the watchers tell: plain facts, in the order in which they were seen. Whoever acts on them is
//! elsewhere.

use bytes::Bytes;
use nilas_iceberg::catalog::{StorageCredentials, TableName};

use std::sync::Arc;

/// Something that was seen of a catalog.
#[derive(Clone, Debug)]
pub enum CatalogEvent {
    /// A table for the first time, or with other metadata than before.
    TableSeen(Box<TableSeen>),
    /// New credentials for a table whose metadata is the same.
    CredentialsRenewed {
        /// The catalog's name.
        catalog: Arc<str>,
        /// The table.
        table: TableName,
        /// All that are lent for it now.
        credentials: StorageCredentials,
    },
    /// A table that was seen, and is not there any more.
    TableGone {
        /// The catalog's name.
        catalog: Arc<str>,
        /// The table.
        table: TableName,
    },
    /// A question in vain: what is known stays what it was.
    CatalogTrouble {
        /// The catalog's name.
        catalog: Arc<str>,
        /// The table, where it was one's.
        table: Option<TableName>,
        /// What went wrong, for people.
        cause: String,
    },
}

/// What a catalog says of a table.
#[derive(Clone, Debug)]
pub struct TableSeen {
    /// The catalog's name.
    pub catalog: Arc<str>,
    /// The table.
    pub table: TableName,
    /// The answer's ETag.
    pub etag: Option<String>,
    /// Where its metadata lies, as it was written.
    pub metadata_location: Option<String>,
    /// The metadata's JSON, byte for byte.
    pub metadata: Bytes,
    /// What its files may be read with.
    pub credentials: StorageCredentials,
}

//! What the operator says of tables.

use crate::config::Glob;

/// How tables are read and warmed.
#[derive(Clone, Debug)]
pub struct TablesSettings {
    /// Whether planning metadata is fetched before anybody asks for it.
    pub warms: bool,
    /// Whether Parquet's page indexes belong to it.
    pub page_indexes: bool,
    /// Reads that may be under way for all of this together.
    pub requests_max: usize,
    /// Bytes of the origin a second, for all of this together.
    pub bytes_per_second: u64,
    /// Memory for what manifests say.
    pub memory_bytes: u64,
    /// Memory for parsed footers.
    pub footer_bytes: u64,
    /// Bytes of planning metadata that the node can keep.
    pub metadata_bytes: u64,
    /// Bytes of data that it can keep.
    pub data_bytes: u64,
    /// What else is to be at hand.
    pub rules: Vec<WarmRule>,
}

/// Data that is fetched before anybody asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmRule {
    /// Which tables, as `catalog.namespace.table`.
    pub tables: Vec<Glob>,
    /// Which partitions, as Iceberg writes them into paths; none: all.
    pub partitions: Vec<Glob>,
    /// Which columns, by name; none: all.
    pub columns: Vec<String>,
    /// Whether it is fetched again when it has left the cache.
    pub pins: bool,
}

//! Metrics: what the node counts, and how it is told. Each shard counts in cells of its own with
//! plain loads and stores; sums are made when somebody asks, on the asker's thread.
//! Nothing here allocates, locks or logs on a shard. See `metrics/shard` for what is counted,
//! `metrics/histogram` for the buckets, `metrics/family` for the Prometheus page.

mod catalog;
mod cell;
mod device;
mod disk;
mod exposition;
mod family;
mod histogram;
mod label;
mod shard;
mod stats;
mod tables;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use device::DeviceCells;
pub use exposition::CONTENT_TYPE;
pub use family::{NodeFacts, prometheus_text};
pub use histogram::{Histogram, HistogramSnapshot};
pub use label::{
    DiskCount, Failure, FillEnd, JournalCount, Operation, OriginEvent, PurgeKind, Resource,
    StatusClass, Tier, WriteAllocation,
};
pub use shard::{ShardCells, ShardCounters};
pub use stats::stats_json;
pub use tables::tables_text;

/// The reading side of every shard's counters. Clones read the same cells.
#[derive(Clone)]
pub struct Metrics {
    shards: Arc<[Arc<ShardCells>]>,
    device: Arc<DeviceCells>,
}

impl Metrics {
    /// Counters for `shard_count` shards: the reading side, and one writing side a shard in order.
    pub fn new(shard_count: usize) -> (Metrics, Vec<ShardCounters>) {
        let cells: Vec<Arc<ShardCells>> = (0..shard_count).map(|_| Arc::default()).collect();
        let writers = cells.iter().cloned().map(ShardCounters::writing).collect();
        (Metrics { shards: cells.into(), device: Arc::default() }, writers)
    }

    /// What is known of the cache device as a whole.
    pub fn cache_device(&self) -> &DeviceCells {
        &self.device
    }

    /// Each shard's cells, by shard number.
    pub fn shards(&self) -> &[Arc<ShardCells>] {
        &self.shards
    }
}

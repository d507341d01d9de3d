//! What one shard counts. `ShardCounters` is the only writer and stays with its shard: it can be
//! moved to the shard's thread but not shared or cloned. `ShardCells` is what readers see.

use std::marker::PhantomData;
use std::sync::Arc;

use super::cell::Cell;
use super::histogram::Histogram;
use super::label::{
    DiskCount, Failure, FillEnd, JournalCount, Operation, OriginEvent, PurgeKind, Resource,
    StatusClass, Tier, WriteAllocation,
};

/// One shard's numbers, for reading. Aligned so that no two shards share a cache line.
#[derive(Default)]
#[repr(align(128))]
pub struct ShardCells {
    /// Lookups answered, by tier.
    pub hits: [Cell; Tier::COUNT],
    /// Lookups not answered, by tier.
    pub misses: [Cell; Tier::COUNT],
    /// Body bytes sent to clients, by where they came from.
    pub sent_bytes: [Cell; Tier::COUNT],
    /// Body bytes received from clients.
    pub received_bytes: Cell,
    /// Fills begun.
    pub fills_begun: Cell,
    /// Fills ended, by how.
    pub fills_ended: [Cell; FillEnd::COUNT],
    /// Bytes that fills brought into the cache.
    pub filled_bytes: Cell,
    /// Uploads that were to populate the cache, by what became of that.
    pub write_allocations: [Cell; WriteAllocation::COUNT],
    /// Mappings installed.
    pub mappings_installed: Cell,
    /// Mappings dropped by writes, deletes and purges.
    pub mappings_invalidated: Cell,
    /// Purges, by how much they named; counted on one shard each.
    pub purges: [Cell; PurgeKind::COUNT],
    /// Blocks or mappings evicted, by tier.
    pub evictions: [Cell; Tier::COUNT],
    /// Connections accepted.
    pub connections_opened: Cell,
    /// Connections closed.
    pub connections_closed: Cell,
    /// Requests answered, by operation and status class.
    pub requests: [[Cell; StatusClass::COUNT]; Operation::COUNT],
    /// Latencies, by operation and tier: from the head's last byte to the answer's last byte.
    pub latencies: [[Histogram; Tier::COUNT]; Operation::COUNT],
    /// Failures, by kind.
    pub failures: [Cell; Failure::COUNT],
    /// What happened at the origin, by kind.
    pub origin_events: [Cell; OriginEvent::COUNT],
    /// What is counted of the cache device.
    pub disk: [Cell; DiskCount::COUNT],
    /// The number of the last error that the kernel gave of the cache device; zero where it gave none.
    pub disk_error: Cell,
    /// What is counted of the journal of mappings.
    pub journal: [Cell; JournalCount::COUNT],
    /// Whether all that the cache device held at the start has been found.
    pub disk_recovered: Cell,
    /// Leases handed to sends.
    pub leases: Cell,
    /// Calls made to shards, this one included.
    pub exchange_calls: Cell,
    /// In use, by resource.
    pub used: [Cell; Resource::COUNT],
    /// The ceiling, by resource; zero where the shard does not set one.
    pub ceilings: [Cell; Resource::COUNT],
}

/// The writing side of one shard's numbers. `Send` but neither `Sync` nor `Clone`, so that there
/// is one writer; share it inside the shard by reference or `Rc`.
pub struct ShardCounters {
    cells: Arc<ShardCells>,
    one_thread: PhantomData<std::cell::Cell<()>>,
}

impl ShardCounters {
    pub(super) fn writing(cells: Arc<ShardCells>) -> ShardCounters {
        ShardCounters { cells, one_thread: PhantomData }
    }

    /// The same numbers, for reading.
    pub fn cells(&self) -> &Arc<ShardCells> {
        &self.cells
    }

    /// A lookup that `tier` answered with `bytes` of body, which are sent to the client.
    #[inline]
    pub fn hit(&self, tier: Tier, bytes: u64) {
        self.cells.hits[tier.index()].add(1);
        self.cells.sent_bytes[tier.index()].add(bytes);
    }

    /// A lookup that `tier` could not answer.
    #[inline]
    pub fn miss(&self, tier: Tier) {
        self.cells.misses[tier.index()].add(1);
    }

    /// Body bytes sent to a client that did not come from a lookup: relayed, passed on while a
    /// fill runs, or the node's own error documents.
    #[inline]
    pub fn sent(&self, tier: Tier, bytes: u64) {
        self.cells.sent_bytes[tier.index()].add(bytes);
    }

    /// Body bytes received from a client.
    #[inline]
    pub fn received(&self, bytes: u64) {
        self.cells.received_bytes.add(bytes);
    }

    /// A request was answered: by what, with which status, how long it took from the last byte of
    /// its head to the last byte of its answer.
    #[inline]
    pub fn request(&self, operation: Operation, status: u16, tier: Tier, latency_ns: u64) {
        self.cells.requests[operation.index()][StatusClass::of(status).index()].add(1);
        self.cells.latencies[operation.index()][tier.index()].record(latency_ns);
    }

    /// Something failed; called where the failure is dealt with.
    #[inline]
    pub fn failure(&self, failure: Failure) {
        self.cells.failures[failure.index()].add(1);
    }

    /// Something beside the usual happened between the node and its origin.
    #[inline]
    pub fn origin_event(&self, event: OriginEvent) {
        self.cells.origin_events[event.index()].add(1);
    }

    /// A fill was begun.
    #[inline]
    pub fn fill_begun(&self) {
        self.cells.fills_begun.add(1);
    }

    /// A fill ended, having brought `bytes` into the cache.
    #[inline]
    pub fn fill_ended(&self, end: FillEnd, bytes: u64) {
        self.cells.fills_ended[end.index()].add(1);
        self.cells.filled_bytes.add(bytes);
    }

    /// What became of an upload that was to populate the cache.
    #[inline]
    pub fn write_allocation(&self, how: WriteAllocation) {
        self.cells.write_allocations[how.index()].add(1);
    }

    /// A mapping was installed.
    #[inline]
    pub fn mapping_installed(&self) {
        self.cells.mappings_installed.add(1);
    }

    /// `count` mappings were dropped by a write, delete or purge.
    #[inline]
    pub fn mappings_invalidated(&self, count: u64) {
        self.cells.mappings_invalidated.add(count);
    }

    /// Something was purged on all shards.
    #[inline]
    pub fn purged(&self, kind: PurgeKind) {
        self.cells.purges[kind.index()].add(1);
    }

    /// `count` blocks (or mappings, for [`Tier::Mapping`]) were evicted to make room.
    #[inline]
    pub fn evicted(&self, tier: Tier, count: u64) {
        self.cells.evictions[tier.index()].add(count);
    }

    /// A client connected.
    #[inline]
    pub fn connection_opened(&self) {
        self.cells.connections_opened.add(1);
    }

    /// A client's connection was closed, by either side.
    #[inline]
    pub fn connection_closed(&self) {
        self.cells.connections_closed.add(1);
    }

    /// How often something has happened at the cache device so far.
    #[inline]
    pub fn disk_so_far(&self, what: DiskCount, count: u64) {
        self.cells.disk[what.index()].set(count);
    }

    /// The number of the last error that the kernel gave of the cache device, or zero.
    #[inline]
    pub fn disk_error(&self, number: u64) {
        self.cells.disk_error.set(number);
    }

    /// How often something has happened to the journal of mappings so far.
    #[inline]
    pub fn journal_so_far(&self, what: JournalCount, count: u64) {
        self.cells.journal[what.index()].set(count);
    }

    /// All that the cache device held has been found.
    #[inline]
    pub fn disk_is_recovered(&self) {
        self.cells.disk_recovered.set(1);
    }

    /// `count` leases were handed to a send.
    #[inline]
    pub fn leased(&self, count: u64) {
        self.cells.leases.add(count);
    }

    /// A call to a shard, this one included.
    #[inline]
    pub fn exchange_call(&self) {
        self.cells.exchange_calls.add(1);
    }

    /// How much of `resource` is in use now.
    #[inline]
    pub fn in_use(&self, resource: Resource, amount: u64) {
        self.cells.used[resource.index()].set(amount);
    }

    /// The most of `resource` that this shard may use; set once at the start.
    #[inline]
    pub fn ceiling(&self, resource: Resource, amount: u64) {
        self.cells.ceilings[resource.index()].set(amount);
    }
}

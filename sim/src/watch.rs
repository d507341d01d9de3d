//! A look at a shard from outside, and what must hold at every moment: ceilings. At the end nothing
//! may be left: no task, no lease, no fill, nobody who waits.

use nilas_shards::store::Usage;

use crate::node::with_tables;
use crate::weather::{SmallBudget, SmallGeometry};

/// Looks at one shard.
pub type Watch = Box<dyn Fn(When) -> Sight>;

/// When a look is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// While the node works; nothing is touched.
    Running,
    /// At the end: returned leases are counted as returned first.
    AtEnd,
}

/// What one look shows.
#[derive(Clone, Copy, Debug)]
pub struct Sight {
    /// The data store.
    pub data: Usage,
    /// The metadata store.
    pub metadata: Usage,
    /// Memory of the mappings.
    pub mapping_bytes: u64,
    /// Calls to other shards that have not come back.
    pub calls: usize,
    /// Questions to the origin that others may join.
    pub flights: usize,
    /// Blocks that somebody waits for.
    pub waiting: usize,
    /// Open connections.
    pub connections: usize,
    /// Tasks that have not ended.
    pub tasks: usize,
}

impl Sight {
    /// What is above its ceiling.
    pub fn over_budget(&self, budget: &SmallBudget, sectors: &SmallGeometry) -> Option<String> {
        let stores = [
            ("data", self.data, budget.data_bytes, sectors.data_sector_bytes),
            ("metadata", self.metadata, budget.metadata_bytes, sectors.metadata_sector_bytes),
        ];
        for (name, usage, arena_bytes, sector_bytes) in stores {
            let used = usage.held_bytes + usage.in_flight_bytes + usage.detached_bytes;
            let is_within = used <= arena_bytes
                && used + usage.free_bytes == usage.budget_bytes
                && usage.leased_bytes <= usage.leased_bytes_max
                && arena_bytes + usage.index_bytes <= with_tables(arena_bytes, sector_bytes);
            if !is_within {
                return Some(format!("the {name} store is not within {arena_bytes}: {usage:?}"));
            }
        }
        let held = self.mapping_bytes;
        (held > budget.mapping_bytes)
            .then(|| format!("mappings hold {held} of {} bytes", budget.mapping_bytes))
    }

    /// What is left although nobody asks for anything; `tasks` ran before the first request.
    pub fn left_over(&self, tasks: usize) -> Option<String> {
        let leased = self.data.leased_bytes + self.metadata.leased_bytes;
        let filling = self.data.in_flight_bytes + self.metadata.in_flight_bytes;
        let left = [
            ("leased bytes", leased as usize),
            ("bytes in flight", filling as usize),
            ("calls", self.calls),
            ("questions", self.flights),
            ("blocks waited for", self.waiting),
            ("connections", self.connections),
            ("tasks", self.tasks.saturating_sub(tasks)),
        ];
        left.iter().find(|(_, count)| *count > 0).map(|(what, count)| format!("{count} {what}"))
    }
}

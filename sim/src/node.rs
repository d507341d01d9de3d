//! The node of a run: the shards that ship, assembled on the reactors of a simulated world, with a cache device
//! that outlives them (`device`) or without.

use std::net::SocketAddr;

use nilas_base::ShardId;
use nilas_engine::config::{ClientCredential, Config, Inputs, Order, WriteAllocate, load};
use nilas_engine::metrics::Metrics;
use nilas_engine::node::assembly::{Plan, ShardParts, StoreBudget};
use nilas_engine::origin::{ORIGIN_QUEUE_MAX, OriginPort, OriginQueue};
use nilas_engine::purge::{self, PurgePort};
use nilas_shards::area::AreaPolicies;
use nilas_shards::eviction::EvictionKind;
use nilas_shards::store::{INDEX_BYTES_FIXED, INDEX_BYTES_PER_SECTOR_MAX};
use nilas_shards::{Exchange, Reactor, SimulatedWorld};

use crate::device::Device;
use crate::watch::{Sight, Watch, When};
use crate::weather::{SmallBudget, SmallDevice, SmallGeometry, Weather};

/// The key that clients sign with, and its secret.
pub const KEYS: (&str, &str) = ("AKSIMULATED", "simulated-secret");
/// Where the node listens.
pub const ADDRESS: &str = "127.0.0.1:9000";
/// What the node calls the origin.
pub const ORIGIN_ID: [u8; 16] = [7; 16];

/// A node, and what watches it from outside.
pub struct SimulatedNode {
    /// Each shard's reactor.
    pub reactors: Vec<Reactor>,
    /// A look at each shard.
    pub watches: Vec<Watch>,
    /// What its shards count.
    pub metrics: Metrics,
    /// Where what is to be forgotten is told.
    pub purges: PurgePort,
}

/// What of a node differs from run to run.
#[derive(Clone, Copy, Debug)]
pub struct NodeShape {
    /// Shards.
    pub shards: u16,
    /// Blocks and sectors.
    pub geometry: SmallGeometry,
    /// Memory of each shard.
    pub budget: SmallBudget,
    /// How long a mutable key is believed.
    pub mutable_ttl: std::time::Duration,
    /// How long a key is asked for anew after a write of unknown outcome.
    pub hold: std::time::Duration,
    /// Which uploads populate its cache.
    pub write_allocate: WriteAllocate,
    /// Who leaves its memory when it is full.
    pub eviction: EvictionKind,
    /// What decides over what its cache device keeps.
    pub policies: AreaPolicies,
    /// The areas of each shard on its cache device, if it has one.
    pub device: Option<SmallDevice>,
    /// For what it draws at random.
    pub seed: u64,
}

impl NodeShape {
    /// Of a run.
    pub fn of(weather: &Weather, seed: u64) -> NodeShape {
        NodeShape {
            shards: weather.shards,
            geometry: weather.geometry,
            budget: weather.budget,
            mutable_ttl: weather.mutable_ttl,
            hold: weather.hold,
            write_allocate: weather.write_allocate,
            eviction: weather.eviction,
            policies: weather.policies,
            device: weather.device.map(|device| device.size),
            seed,
        }
    }
}

impl SimulatedNode {
    /// Ends it as `kill -9` does: nothing that it did goes on.
    pub fn kill(&mut self, world: &SimulatedWorld) {
        self.reactors.drain(..).for_each(|reactor| world.remove_reactor(&reactor));
        self.watches.clear();
    }
}

/// Assembles a node in a world, on a device or on none, and gives the queue of what it asks of its origin.
pub fn assemble(
    world: &SimulatedWorld,
    shape: &NodeShape,
    device: Option<&Device>,
) -> (SimulatedNode, OriginQueue) {
    let (port, queue) = OriginPort::pair(ORIGIN_QUEUE_MAX);
    let sectors = shape.geometry;
    let plan = Plan::new(&config(shape), ORIGIN_ID, world.clock(), port)
        .with_sectors(sectors.data_sector_bytes, sectors.metadata_sector_bytes)
        .with_policies(shape.policies)
        .with_seed(shape.seed);
    let (metrics, counters) = Metrics::new(usize::from(shape.shards));
    let seats = Exchange::mesh(usize::from(shape.shards));
    let (purges, orders) = PurgePort::pair();
    let mut orders = Some(orders);
    let mut node = SimulatedNode { reactors: Vec::new(), watches: Vec::new(), metrics, purges };
    for (number, (seat, counters)) in seats.into_iter().zip(counters).enumerate() {
        let reactor = world.reactor();
        let listener = reactor.listen(address()).expect("a simulated address is free");
        let id = ShardId(number as u16);
        let disk = device.map(|device| device.of_shard(id));
        let parts = ShardParts { id, seat, counters, disk, reactor: reactor.clone() };
        let shard = plan.assemble(parts, listener).expect("the geometry is one");
        if let Some(orders) = orders.take() {
            reactor.spawn(purge::serve(std::rc::Rc::clone(&shard), orders));
        }
        let looking = reactor.clone();
        node.watches.push(Box::new(move |when| {
            let mut stores = shard.stores.borrow_mut();
            if when == When::AtEnd {
                stores.data.reclaim();
                stores.metadata.reclaim();
                drop(stores);
                shard.report_use();
                stores = shard.stores.borrow_mut();
            }
            let mappings = shard.mappings.borrow();
            Sight {
                data: stores.data.usage(),
                metadata: stores.metadata.usage(),
                mapping_bytes: mappings.held_bytes(),
                calls: shard.calls_in_flight.get(),
                flights: shard.flights.borrow().len(),
                waiting: shard.waiting.borrow().len(),
                connections: shard.connections.get(),
                tasks: looking.task_count(),
            }
        }));
        node.reactors.push(reactor);
    }
    (node, queue)
}

/// Where the node listens.
pub fn address() -> SocketAddr {
    ADDRESS.parse().expect("an address")
}

/// The budget of which so many bytes are left for an arena of such sectors, beside its tables.
pub fn with_tables(arena_bytes: u64, sector_bytes: u64) -> u64 {
    INDEX_BYTES_FIXED + arena_bytes / sector_bytes * (sector_bytes + INDEX_BYTES_PER_SECTOR_MAX)
}

/// The budget of which so many bytes are left for a store, beside its tables and those of its area on the device.
fn with_area(store_bytes: u64, area_bytes: Option<u64>, sector_bytes: u64) -> u64 {
    let mut budget_bytes = store_bytes;
    loop {
        let left = StoreBudget::new(budget_bytes, area_bytes, sector_bytes).store_bytes;
        if left == store_bytes {
            return budget_bytes;
        }
        // Tables take a part of what is added, so that this never leads too far.
        budget_bytes += store_bytes - left;
    }
}

fn config(shape: &NodeShape) -> Config {
    let inputs = Inputs { arguments: Vec::new(), variables: Vec::new(), cores: 1 };
    let order = load(&inputs).unwrap_or_else(|errors| panic!("the defaults are valid: {errors}"));
    let Order::Run { mut config, .. } = order else { unreachable!("no flag asks for less") };
    config.credentials = vec![ClientCredential::new(KEYS.0, KEYS.1)];
    let shards = u64::from(shape.shards);
    config.server.shard_count = shape.shards;
    // Smaller than a file or a flag may say: small worlds meet their limits sooner.
    config.cache.block_bytes = shape.geometry.block_bytes;
    let SmallGeometry { data_sector_bytes, metadata_sector_bytes, .. } = shape.geometry;
    let area_bytes = |segments: fn(&SmallDevice) -> u64| {
        shape.device.map(|device| segments(&device) * u64::from(device.segment_bytes))
    };
    let budget = |arena_bytes, area_bytes, sector_bytes| {
        shards * with_area(with_tables(arena_bytes, sector_bytes), area_bytes, sector_bytes)
    };
    let (data, metadata) = (shape.budget.data_bytes, shape.budget.metadata_bytes);
    config.cache.data_bytes =
        budget(data, area_bytes(|device| device.data_segments), data_sector_bytes);
    config.cache.metadata_bytes =
        budget(metadata, area_bytes(|device| device.metadata_segments), metadata_sector_bytes);
    config.cache.mapping_bytes = shape.budget.mapping_bytes * shards;
    config.cache.mutable_ttl = shape.mutable_ttl;
    config.cache.ambiguous_write_hold = shape.hold;
    config.cache.write_allocate = shape.write_allocate;
    config.cache.eviction = shape.eviction;
    // A second question beside the first would look like a flight that nobody shares.
    config.origin.hedge = false;
    *config
}

//! The node of a run: the shards that ship, assembled on the reactors of a simulated world.

use std::net::SocketAddr;

use nilas_base::ShardId;
use nilas_engine::config::{ClientCredential, Config, Inputs, Order, WriteAllocate, load};
use nilas_engine::metrics::Metrics;
use nilas_engine::node::assembly::{Plan, ShardParts};
use nilas_engine::origin::{ORIGIN_QUEUE_MAX, OriginPort, OriginQueue};
use nilas_engine::purge::{self, PurgePort};
use nilas_shards::store::{INDEX_BYTES_FIXED, INDEX_BYTES_PER_SECTOR_MAX};
use nilas_shards::{Exchange, Reactor, SimulatedWorld};

use crate::watch::{Sight, Watch, When};
use crate::weather::{SmallBudget, SmallGeometry, Weather};

/// The key that clients sign with, and its secret.
pub const KEYS: (&str, &str) = ("AKSIMULATED", "simulated-secret");
/// Where the node listens.
pub const ADDRESS: &str = "127.0.0.1:9000";
/// What the node calls the origin.
const ORIGIN_ID: [u8; 16] = [7; 16];

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
            seed,
        }
    }
}

/// Assembles a node in a world, and gives the queue of what it asks of its origin.
pub fn assemble(world: &SimulatedWorld, shape: &NodeShape) -> (SimulatedNode, OriginQueue) {
    let (port, queue) = OriginPort::pair(ORIGIN_QUEUE_MAX);
    let sectors = shape.geometry;
    let plan = Plan::new(&config(shape), ORIGIN_ID, world.clock(), port)
        .with_sectors(sectors.data_sector_bytes, sectors.metadata_sector_bytes)
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
        let parts = ShardParts { id, seat, counters, disk: None, reactor: reactor.clone() };
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
    config.cache.data_bytes = shards * with_tables(shape.budget.data_bytes, data_sector_bytes);
    config.cache.metadata_bytes =
        shards * with_tables(shape.budget.metadata_bytes, metadata_sector_bytes);
    config.cache.mapping_bytes = shape.budget.mapping_bytes * shards;
    config.cache.mutable_ttl = shape.mutable_ttl;
    config.cache.ambiguous_write_hold = shape.hold;
    config.cache.write_allocate = shape.write_allocate;
    // A question asked twice on purpose would hide one asked twice by mistake.
    config.origin.hedge = false;
    // A second question beside the first would look like a flight that nobody shares.
    config.origin.hedge = false;
    *config
}

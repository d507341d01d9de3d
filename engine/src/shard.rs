//! One shard of the node: its reactor, its stores, its mappings, and the doors to the other shards
//! and the origin. Everything here is changed by this shard's thread alone; the stories
//! (`connection`, `get`, `open`, `fill`, …) are written as functions over it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use nilas_base::{HashMap, ShardId};
use nilas_net::sigv4::Verifier;
use nilas_shards::store::{BlockId, Store};
use nilas_shards::{Delivered, Exchange, Reactor};

use crate::call::Call;
use crate::client::Links;
use crate::epoch::WriteEpochs;
use crate::freshness::FreshnessJudge;
use crate::identity::{Geometry, ObjectName};
use crate::mapping::{MappingTable, StoreClass};
use crate::metrics::{Resource, ShardCounters, Tier};
use crate::open::Flight;
use crate::origin::OriginPort;
use crate::settings::NodeSettings;

/// A shard.
pub struct Shard {
    /// Which one.
    pub id: ShardId,
    /// Runs its tasks.
    pub reactor: Reactor,
    /// The other shards.
    pub exchange: Exchange<Call>,
    /// Where bytes come from.
    pub origin: OriginPort,
    /// How the node is set up; the same on every shard.
    pub settings: Arc<NodeSettings>,
    /// How objects are cut and spread; the same on every shard.
    pub geometry: Geometry,
    /// What is counted.
    pub counters: ShardCounters,
    /// The mappings of the objects at home here.
    pub mappings: RefCell<MappingTable>,
    /// Questions to the origin about them, and who waits for the answers.
    pub flights: RefCell<HashMap<Arc<ObjectName>, Flight>>,
    /// The write epochs of the keys at home here.
    pub epochs: RefCell<WriteEpochs>,
    /// What is immutable.
    pub judge: RefCell<FreshnessJudge>,
    /// Lets one listing run at a time.
    pub listing_turn: tokio::sync::Mutex<()>,
    /// The blocks owned here.
    pub stores: RefCell<Stores>,
    /// Reads that wait for bytes of a block.
    pub waiting: RefCell<HashMap<BlockId, Vec<Delivered<Call>>>>,
    /// Checks signatures.
    pub verifier: RefCell<Verifier>,
    /// Calls whose boxes are used again.
    #[expect(clippy::vec_box, reason = "the boxes travel to other shards and back")]
    pub call_pool: RefCell<Vec<Box<Call>>>,
    /// Calls that have not come back.
    pub calls_in_flight: Cell<usize>,
    /// Whether reads wait for memory, and a task watches for it.
    pub watches_memory: Cell<bool>,
    /// Requests begun, for request ids.
    pub requests_begun: Cell<u64>,
    /// Connections open.
    pub connections: Cell<usize>,
    /// The connections themselves.
    pub links: RefCell<Links>,
    /// Set when the node drains: connections end after the answer under way.
    pub draining: Cell<bool>,
}

/// The stores of one shard.
pub struct Stores {
    /// What engines plan with.
    pub metadata: Store,
    /// Everything else.
    pub data: Store,
}

impl Stores {
    /// The store of a class.
    pub fn of(&mut self, class: StoreClass) -> &mut Store {
        match class {
            StoreClass::Metadata => &mut self.metadata,
            StoreClass::Data => &mut self.data,
        }
    }
}

impl StoreClass {
    /// The tier that a store's hits are counted under.
    pub fn tier(self) -> Tier {
        match self {
            StoreClass::Metadata => Tier::Metadata,
            StoreClass::Data => Tier::Data,
        }
    }
}

/// A call that has not come back.
struct CallInFlight<'a>(&'a Shard);

impl CallInFlight<'_> {
    fn new(shard: &Shard) -> CallInFlight<'_> {
        shard.calls_in_flight.set(shard.calls_in_flight.get() + 1);
        CallInFlight(shard)
    }
}

impl Drop for CallInFlight<'_> {
    fn drop(&mut self) {
        self.0.calls_in_flight.set(self.0.calls_in_flight.get() - 1);
    }
}

/// Boxes of calls that are kept for the next ones.
const POOLED_CALLS_MAX: usize = 256;

impl Shard {
    /// Tells the counters what is in use now.
    pub fn report_use(&self) {
        let mappings = self.mappings.borrow();
        self.counters.in_use(Resource::MappingBytes, mappings.held_bytes());
        self.counters.in_use(Resource::Mappings, mappings.len() as u64);
        self.counters.in_use(Resource::ExchangeCalls, self.calls_in_flight.get() as u64);
        let stores = self.stores.borrow();
        let (data, metadata) = (stores.data.usage(), stores.metadata.usage());
        self.counters.in_use(Resource::DataBytes, data.held_bytes + data.detached_bytes);
        self.counters
            .in_use(Resource::MetadataBytes, metadata.held_bytes + metadata.detached_bytes);
        self.counters.in_use(Resource::LeasedBytes, data.leased_bytes + metadata.leased_bytes);
        self.counters.in_use(Resource::FillBytes, data.in_flight_bytes + metadata.in_flight_bytes);
    }

    /// Runs a task of this shard's own.
    pub fn spawn(self: &Rc<Self>, task: impl Future<Output = ()> + 'static) {
        self.reactor.spawn(task);
    }

    /// Sends a call to a shard and waits until it comes back, answered.
    pub async fn call(&self, to: ShardId, call: Box<Call>) -> Box<Call> {
        self.counters.exchange_call();
        let _counted = CallInFlight::new(self);
        self.exchange.call(to, call).await
    }

    /// Sends a call to every shard, this one included, and waits until all have answered.
    pub async fn call_all(&self, make: impl Fn() -> Call) {
        for shard in 0..self.geometry.shards {
            self.call(ShardId(shard), Box::new(make())).await;
        }
    }

    /// Keeps an answered call's box for the next one.
    pub fn recycle(&self, call: Box<Call>) {
        let mut pool = self.call_pool.borrow_mut();
        if pool.len() < POOLED_CALLS_MAX {
            pool.push(call);
        }
    }

    /// A request id that no other request of this node has: its shard and its number, in hex.
    pub fn next_request_id(&self) -> u64 {
        let number = self.requests_begun.get() + 1;
        self.requests_begun.set(number);
        (u64::from(self.id.0) << 48) ^ number
    }
}

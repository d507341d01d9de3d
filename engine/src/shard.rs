//! One shard of the node: its reactor, its stores, its mappings, and the doors to the other shards
//! and the origin. Everything here is changed by this shard's thread alone; the stories
//! (`connection`, `get`, `open`, `fill`, …) are written as functions over it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use nilas_base::{HashMap, ShardId};
use nilas_net::sigv4::Verifier;
use nilas_shards::store::{BlockId, ReadKind, Store, Usage};
use nilas_shards::{CALLS_IN_FLIGHT_MAX, Delivered, Exchange, Reactor};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::access::AccessView;
use crate::audit::AuditLog;
use crate::buffers::Buffers;
use crate::call::Call;
use crate::client::Links;
use crate::disk::{self, DiskTier};
use crate::epoch::{Moment, WriteEpochs};
use crate::fill::line::Lines;
use crate::freshness::FreshnessJudge;
use crate::hold::WriteHolds;
use crate::identity::{Geometry, HomeHash, NameRef, ObjectName};
use crate::mapping::{MappingTable, PartTable, StoreClass};
use crate::metrics::{Resource, ShardCounters, Tier};
use crate::open::{Flight, SequentialReads};
use crate::persist::{self, Persist};
use crate::purge::PurgeLog;
use crate::settings::NodeSettings;
use crate::source::{OriginSource, Sources};
use crate::trace::Tracer;
use crate::written::WrittenTable;

/// A shard.
pub struct Shard {
    /// Which one.
    pub id: ShardId,
    /// Runs its tasks.
    pub reactor: Reactor,
    /// The other shards.
    pub exchange: Exchange<Call>,
    /// Where a miss is answered from.
    pub sources: Sources,
    /// The last of them, which also answers what is no miss.
    pub origin: Rc<OriginSource>,
    /// How the node is set up; the same on every shard.
    pub settings: Arc<NodeSettings>,
    /// How objects are cut and spread; the same on every shard.
    pub geometry: Geometry,
    /// What is counted.
    pub counters: Rc<ShardCounters>,
    /// The mappings of the objects at home here.
    pub mappings: RefCell<MappingTable>,
    /// Questions to the origin about them, and who waits for the answers.
    pub flights: RefCell<HashMap<Arc<ObjectName>, Rc<Flight>>>,
    /// What writes to them have brought, while the origin is asked about it.
    pub written: RefCell<WrittenTable>,
    /// Who reads the objects at home here from front to back.
    pub sequential_reads: RefCell<SequentialReads>,
    /// What the origin has told this shard of parts of objects.
    pub parts: RefCell<PartTable>,
    /// The write epochs of the keys at home here.
    pub epochs: RefCell<WriteEpochs>,
    /// The writes of unknown outcome to them.
    pub holds: RefCell<WriteHolds>,
    /// What of all this outlives the shard, where it has a disk.
    pub persist: Option<Persist>,
    /// What was purged.
    pub purges: RefCell<PurgeLog>,
    /// What is immutable.
    pub judge: RefCell<FreshnessJudge>,
    /// Lets one listing run at a time.
    pub listing_turn: tokio::sync::Mutex<()>,
    /// The blocks owned here.
    pub stores: RefCell<Stores>,
    /// Its part of the cache device, if there is one.
    pub disk: Option<DiskTier>,
    /// Reads that wait for bytes of a block.
    pub waiting: RefCell<HashMap<BlockId, Vec<Delivered<Call>>>>,
    /// Who may ask.
    pub access: Rc<AccessView>,
    /// Where refused and administrative requests are recorded.
    pub audit: AuditLog,
    /// Where what is read is noted, for whoever records it.
    pub tracer: Tracer,
    /// Checks signatures.
    pub verifier: RefCell<Verifier>,
    /// Calls whose boxes are used again.
    #[expect(clippy::vec_box, reason = "the boxes travel to other shards and back")]
    pub call_pool: RefCell<Vec<Box<Call>>>,
    /// Calls that have not come back.
    pub calls_in_flight: Cell<usize>,
    /// Reads that wait for memory.
    pub lines: RefCell<Lines>,
    /// Memory for bytes that are in no store.
    pub buffers: Buffers,
    /// Places of large reads, by the shard they are asked of.
    pub large_reads: Vec<Semaphore>,
    /// Whether a task looks for stalled sends that others wait for.
    pub seeks_relief: Cell<bool>,
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

/// Of a store's budget.
fn used_bytes(usage: &Usage) -> u64 {
    usage.held_bytes + usage.in_flight_bytes + usage.detached_bytes + usage.index_bytes
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

/// Reads of large answers that one shard asks of another at a time: half of the calls, so that
/// readers who wait in line for memory leave places to everybody else.
pub const LARGE_READS_MAX: usize = CALLS_IN_FLIGHT_MAX / 2;

impl Shard {
    /// Waits, in turn, for a place among the reads that are asked of a shard; small ones need none.
    pub async fn place_of_read(
        &self,
        owner: ShardId,
        kind: ReadKind,
    ) -> Option<SemaphorePermit<'_>> {
        match kind {
            ReadKind::Small => None,
            ReadKind::Large => self.large_reads[usize::from(owner.0)].acquire().await.ok(),
        }
    }

    /// Tells the counters what is in use now.
    pub fn report_use(&self) {
        let mappings = self.mappings.borrow();
        self.counters.in_use(Resource::MappingBytes, mappings.held_bytes());
        self.counters.in_use(Resource::Mappings, mappings.len() as u64);
        self.counters.in_use(Resource::ExchangeCalls, self.calls_in_flight.get() as u64);
        let waiting: usize = self.waiting.borrow().values().map(Vec::len).sum();
        let in_line = self.lines.borrow().waiting();
        self.counters.in_use(Resource::WaitingReads, (waiting + in_line) as u64);
        self.counters.in_use(Resource::Flights, self.flights.borrow().len() as u64);
        self.counters.in_use(Resource::BufferBytes, self.buffers.reserved_bytes());
        let mut stores = self.stores.borrow_mut();
        stores.data.take_returns();
        stores.metadata.take_returns();
        let (data, metadata) = (stores.data.usage(), stores.metadata.usage());
        self.counters.in_use(Resource::DataBytes, used_bytes(&data));
        self.counters.in_use(Resource::MetadataBytes, used_bytes(&metadata));
        if self.id.0 == 0 {
            self.counters.in_use(Resource::OriginBytes, self.origin.reserved_bytes());
        }
        self.counters.in_use(Resource::IndexBytes, data.index_bytes + metadata.index_bytes);
        self.counters.in_use(Resource::LeasedBytes, data.leased_bytes + metadata.leased_bytes);
        self.counters.in_use(Resource::FillBytes, data.in_flight_bytes + metadata.in_flight_bytes);
        disk::report(self);
        persist::report(self);
    }

    /// The present moment of a key: an answer to a question that was asked in another one is late.
    pub fn moment(&self, name: NameRef<'_>, hash: HomeHash) -> Moment {
        let era = self.purges.borrow().era(name, hash);
        self.epochs.borrow().moment(hash, name.bucket, era, self.is_held(name, hash))
    }

    /// Whether the outcome of a write to a key is unknown, so that nobody may be told of the object
    /// but what the origin says after they asked.
    pub fn is_held(&self, name: NameRef<'_>, hash: HomeHash) -> bool {
        let holds = self.holds.borrow();
        !holds.is_empty() && holds.is_held(hash, name.bucket, self.reactor.clock().now())
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
        self.call_all_then(make, |_| ()).await;
    }

    /// The same, with a look at each answer.
    pub async fn call_all_then(&self, make: impl Fn() -> Call, mut look: impl FnMut(&Call)) {
        for shard in 0..self.geometry.shards {
            look(&*self.call(ShardId(shard), Box::new(make())).await);
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

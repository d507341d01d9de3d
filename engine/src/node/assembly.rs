//! A shard from its parts. The same for real threads and for many shards on one simulated thread:
//! what differs is the ring under the reactor and who serves the origin port.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use nilas_base::{Clock, Rng, ShardId};
use nilas_net::target::Addressing;
use nilas_shards::area::AreaPolicies;
use nilas_shards::eviction::EvictionKind;
use nilas_shards::journal::JournalConfig;
use nilas_shards::store::{INDEX_BYTES_FIXED, INDEX_BYTES_PER_SECTOR_MAX, Store, StoreConfig};
use nilas_shards::{CALLS_IN_FLIGHT_MAX, ExchangeSeat, Listener, Reactor};
use tokio::sync::Semaphore;

use crate::access::{AccessDoor, CredentialSource};
use crate::audit::AuditLog;
use crate::buffers::Buffers;
use crate::call::{self, Call};
use crate::config::Config;
use crate::connection;
use crate::disk::{self, DiskBudget, DiskTier};
use crate::fill;
use crate::freshness::{FreshnessJudge, FreshnessRules};
use crate::identity::{Digest16, Geometry};
use crate::mapping::MappingTable;
use crate::metrics::{Resource, ShardCounters};
use crate::open::SequentialReads;
use crate::origin::OriginPort;
use crate::persist::{self, Persist};
use crate::settings::{ClientLimits, NodeSettings};
use crate::shard::{LARGE_READS_MAX, Shard, Stores};
use crate::source::{OriginHealth, OriginPatience, OriginSource, Sources};
use crate::trace::Tracer;
use crate::written::WRITTEN_MAX;

pub use crate::disk::{ShardDisk, StoreBudget};

/// A sector of the data store: what a miss fetches at least.
pub const DATA_SECTOR_BYTES: u64 = 64 << 10;
/// A sector of the metadata store, whose files are small.
pub const METADATA_SECTOR_BYTES: u64 = 4 << 10;

/// What all shards of a node are made from.
#[derive(Clone)]
pub struct Plan {
    settings: Arc<NodeSettings>,
    access: AccessDoor,
    audit: AuditLog,
    tracer: Tracer,
    geometry: Geometry,
    budgets: Budgets,
    eviction: EvictionKind,
    /// Of the cache device, where there is one.
    policies: AreaPolicies,
    clock: Clock,
    origin: OriginPort,
    health: OriginHealth,
    patience: OriginPatience,
    seed: u64,
}

/// The part of the memory for bytes on their way that clients' bodies have. What is relayed to them
/// is counted a second time in the origin's part, of which it can thus take no more than half: the
/// rest is for what goes into the cache.
pub(super) fn clients_share(buffer_bytes: u64) -> u64 {
    buffer_bytes / 3
}

/// One shard's share of the memory.
#[derive(Clone, Copy, Debug)]
struct Budgets {
    data_bytes: u64,
    metadata_bytes: u64,
    mapping_bytes: u64,
    buffer_bytes: u64,
}

/// What one shard is made from.
pub struct ShardParts {
    /// Which.
    pub id: ShardId,
    /// Its place in the mesh.
    pub seat: ExchangeSeat<Call>,
    /// Where it counts.
    pub counters: ShardCounters,
    /// Its areas of the node's cache device, if there is one.
    pub disk: Option<ShardDisk>,
    /// What runs it.
    pub reactor: Reactor,
}

impl Plan {
    /// For a configuration, an origin and the port that leads to it.
    pub fn new(config: &Config, origin_id: Digest16, clock: Clock, origin: OriginPort) -> Plan {
        let shards = config.server.shard_count;
        let share = |bytes: u64| bytes / u64::from(shards);
        Plan {
            settings: Arc::new(settings(config)),
            access: AccessDoor::new(CredentialSource::new(config).roster()),
            audit: AuditLog::default(),
            tracer: Tracer::default(),
            geometry: Geometry { origin_id, block_bytes: config.cache.block_bytes, shards },
            budgets: Budgets {
                data_bytes: share(config.cache.data_bytes),
                metadata_bytes: share(config.cache.metadata_bytes),
                mapping_bytes: share(config.cache.mapping_bytes),
                buffer_bytes: share(clients_share(config.limits.buffer_bytes)),
            },
            eviction: config.cache.eviction,
            policies: config.disk.as_ref().map(|disk| disk.policies).unwrap_or_default(),
            clock,
            origin,
            health: OriginHealth::default(),
            patience: OriginPatience {
                first_byte: config.origin.first_byte_timeout,
                body_idle: config.origin.body_idle_timeout,
                hedges: config.origin.hedge,
            },
            seed: 0,
        }
    }

    /// The same plan with another seed for what is drawn at random.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Plan {
        Plan { seed, ..self }
    }

    /// The same plan with these policies of the cache device.
    #[must_use]
    pub fn with_policies(self, policies: AreaPolicies) -> Plan {
        Plan { policies, ..self }
    }

    /// The same plan with a place for the records of refused and administrative requests.
    #[must_use]
    pub fn with_audit(self, audit: AuditLog) -> Plan {
        Plan { audit, ..self }
    }

    /// Where its shards note what is read.
    pub fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    /// The same plan with other sectors, which are powers of two: small ones make small worlds.
    #[must_use]
    pub fn with_sectors(mut self, data_bytes: u64, metadata_bytes: u64) -> Plan {
        let settings = Arc::make_mut(&mut self.settings);
        settings.data_sector_bytes = data_bytes;
        settings.metadata_sector_bytes = metadata_bytes;
        self
    }

    /// Where its credentials are replaced.
    pub fn access(&self) -> &AccessDoor {
        &self.access
    }

    /// The clock of every shard.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Makes a shard, which answers its calls from now on and accepts connections from `listener`.
    pub fn assemble(&self, parts: ShardParts, listener: Listener) -> io::Result<Rc<Shard>> {
        let ShardParts { id, seat, counters, disk, reactor } = parts;
        let Budgets { mapping_bytes, buffer_bytes, .. } = self.budgets;
        let (stores, tables) = self.stores(&reactor, disk.as_ref())?;
        let counters = Rc::new(counters);
        let origin = Rc::new(OriginSource::new(
            self.origin.clone(),
            (reactor.clone(), self.geometry),
            Rc::clone(&counters),
            (self.health.clone(), self.patience),
            Rng::from_seed(self.seed ^ u64::from(id.0).rotate_left(32)),
        ));
        self.announce_ceilings(id, &counters, &stores);
        let disk = disk.map(|disk| DiskTier::new(&reactor, &disk, tables, self.policies));
        disk.iter().for_each(|disk| disk.announce_ceilings(&counters));
        let persist = disk.as_ref().map(|_| Persist::new(&reactor, mapping_bytes));
        let shard = Rc::new(Shard {
            id,
            exchange: seat.sit(&reactor),
            sources: Sources::of_origin(Rc::clone(&origin)),
            origin,
            sequential_reads: RefCell::new(SequentialReads::default()),
            parts: RefCell::default(),
            settings: Arc::clone(&self.settings),
            geometry: self.geometry,
            counters,
            mappings: RefCell::new(MappingTable::new(persist::mapping_bytes(
                persist.as_ref(),
                mapping_bytes,
            ))),
            flights: RefCell::default(),
            written: RefCell::default(),
            epochs: RefCell::default(),
            holds: RefCell::default(),
            purges: RefCell::new(persist::purges(persist.as_ref())),
            persist,
            judge: RefCell::new(FreshnessJudge::new(self.settings.freshness.clone())),
            listing_turn: tokio::sync::Mutex::new(()),
            stores: RefCell::new(stores),
            disk,
            waiting: RefCell::default(),
            access: self.access.view(),
            audit: self.audit.clone(),
            tracer: self.tracer.clone(),
            verifier: RefCell::default(),
            call_pool: RefCell::default(),
            calls_in_flight: Cell::new(0),
            lines: RefCell::default(),
            buffers: Buffers::new(buffer_bytes),
            large_reads: (0..self.geometry.shards)
                .map(|_| Semaphore::new(LARGE_READS_MAX))
                .collect(),
            seeks_relief: Cell::new(false),
            requests_begun: Cell::new(0),
            connections: Cell::new(0),
            links: RefCell::default(),
            draining: Cell::new(false),
            reactor,
        });
        begin_work(&shard, listener);
        Ok(shard)
    }

    fn announce_ceilings(&self, id: ShardId, counters: &ShardCounters, stores: &Stores) {
        let (data, metadata) = (stores.data.usage(), stores.metadata.usage());
        let arena_bytes = data.budget_bytes + metadata.budget_bytes;
        let calls = CALLS_IN_FLIGHT_MAX as u64 * u64::from(self.geometry.shards);
        let origin_bytes = if id.0 == 0 { self.origin.reserved_bytes().1 } else { 0 };
        let Budgets { data_bytes, metadata_bytes, mapping_bytes, buffer_bytes } = self.budgets;
        for (resource, ceiling) in [
            (Resource::DataBytes, data_bytes),
            (Resource::MetadataBytes, metadata_bytes),
            (Resource::MappingBytes, mapping_bytes),
            (Resource::IndexBytes, data_bytes + metadata_bytes - arena_bytes),
            (Resource::FillBytes, arena_bytes / 2),
            (Resource::LeasedBytes, data.leased_bytes_max + metadata.leased_bytes_max),
            (Resource::BufferBytes, buffer_bytes),
            (Resource::OriginBytes, origin_bytes),
            (Resource::ExchangeCalls, calls),
            // Each is a call of some shard to this one.
            (Resource::WaitingReads, calls),
            (Resource::Flights, calls + WRITTEN_MAX as u64),
        ] {
            counters.ceiling(resource, ceiling);
        }
    }

    /// The stores of a shard, and the memory for the tables of its areas on the cache device.
    fn stores(
        &self,
        reactor: &Reactor,
        disk: Option<&ShardDisk>,
    ) -> io::Result<(Stores, (DiskBudget, DiskBudget))> {
        let Budgets { data_bytes, metadata_bytes, .. } = self.budgets;
        let NodeSettings { data_sector_bytes, metadata_sector_bytes, .. } = *self.settings;
        let data = StoreBudget::new(data_bytes, disk.map(|it| it.data.length), data_sector_bytes);
        let metadata_area_bytes = disk.map(|it| it.metadata.length);
        let metadata = StoreBudget::new(metadata_bytes, metadata_area_bytes, metadata_sector_bytes);
        let stores = Stores {
            data: self.store(reactor, data.store_bytes, data_sector_bytes)?,
            metadata: self.store(reactor, metadata.store_bytes, metadata_sector_bytes)?,
        };
        Ok((stores, (data.disk, metadata.disk)))
    }

    /// A store whose arena and tables together are within the budget.
    fn store(&self, reactor: &Reactor, budget_bytes: u64, sector_bytes: u64) -> io::Result<Store> {
        let tables_bytes = budget_bytes.saturating_sub(INDEX_BYTES_FIXED);
        let sectors = tables_bytes / (sector_bytes + INDEX_BYTES_PER_SECTOR_MAX);
        let config = StoreConfig {
            budget_bytes: sectors * sector_bytes,
            sector_bytes,
            block_bytes: self.geometry.block_bytes,
            leases_bytes_max: None,
            doorbell: reactor.doorbell(),
        };
        Store::new(config, self.eviction.build())
    }
}

/// What a shard does from its beginning on.
fn begin_work(shard: &Rc<Shard>, listener: Listener) {
    let answering = Rc::downgrade(shard);
    shard.exchange.serve(move |delivered| {
        if let Some(shard) = answering.upgrade() {
            call::serve(&shard, delivered);
        }
    });
    let serving = Rc::downgrade(shard);
    shard
        .reactor
        .add_hook(move || serving.upgrade().is_some_and(|shard| fill::line::serve_lines(&shard)));
    if let Some(disk) = &shard.disk {
        let (reactor, owner) = (shard.reactor.clone(), persist::owner(&shard.geometry));
        let (file, place) = disk.journal();
        let config = JournalConfig { reactor, file, place, owner };
        shard.spawn(persist::recover(Rc::clone(shard), config));
    }
    shard.spawn(connection::accept(Rc::clone(shard), listener));
    shard.spawn(disk::recover(Rc::clone(shard)));
    shard.spawn(report(Rc::downgrade(shard)));
}

/// Tells now and then what is in use; a shard without work wakes for nothing else.
async fn report(shard: Weak<Shard>) {
    while let Some(shard) = shard.upgrade() {
        shard.report_use();
        let pause = shard.reactor.sleep(USE_REPORT_INTERVAL);
        drop(shard);
        pause.await;
    }
}

/// How old a gauge may be.
const USE_REPORT_INTERVAL: Duration = Duration::from_secs(1);

fn settings(config: &Config) -> NodeSettings {
    NodeSettings {
        addressing: Addressing::new(config.server.domains.iter().cloned()),
        origin_authority: config.origin.settings.authority(),
        proxy: config.server.proxy.clone(),
        bucket_globs: config.buckets_allow.clone(),
        freshness: FreshnessRules {
            mutable_ttl: config.cache.mutable_ttl,
            stale_if_error: config.cache.stale_if_error,
            immutable_globs: config.cache.immutable_globs.clone(),
            watches_catalogs: !config.catalogs.is_empty(),
        },
        authorisation_ttl: config.cache.authorisation_ttl,
        ambiguous_write_hold: config.cache.ambiguous_write_hold,
        write_allocate: config.cache.write_allocate,
        data_sector_bytes: DATA_SECTOR_BYTES,
        metadata_sector_bytes: METADATA_SECTOR_BYTES,
        client: ClientLimits {
            connections_max: config.limits.connections_per_shard_max,
            header_timeout: config.limits.header_timeout,
            body_idle_timeout: config.limits.body_idle_timeout,
            send_idle_timeout: config.limits.send_idle_timeout,
            send_stall_max: config.limits.send_stall_max,
            keep_alive_idle: config.limits.keep_alive_idle,
        },
    }
}

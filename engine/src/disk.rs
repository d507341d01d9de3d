//! The cache device as one shard uses it: an area for data, one for metadata. A block's missing bytes are read from
//! here if they are here, else asked of the origin and kept here as well. Whatever goes wrong with the device is a
//! miss. How the memory for its tables is found is `budget`; the areas themselves are `nilas_shards::area`.

mod budget;
mod place;
mod watch;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use nilas_base::ByteRange;
use nilas_shards::admission::AdmissionKind;
use nilas_shards::area::{
    AreaConfig, AreaPolicies, AreaStore, IoQueue, NotOnDisk, Offered, RECORD_DATA_BYTES_MAX,
    Recovered,
};
use nilas_shards::disk::{AreaPlace, PAGE_BYTES};
use nilas_shards::store::FillPermit;
use nilas_shards::{File, Reactor};
use tokio::sync::Semaphore;

pub use budget::{DiskBudget, StoreBudget};
pub use place::ShardDisk;
pub use watch::{DevicePlace, watch};

use crate::call::BlockWant;
use crate::fill;
use crate::mapping::StoreClass;
use crate::metrics::{DiskCount, Resource, ShardCounters};
use crate::persist::Persist;
use crate::shard::Shard;

/// Bytes that are read from the device at once for one fill.
const READ_BYTES_MAX: u64 = 512 << 10;
/// The same in sectors, each of which is a buffer of the operation.
const READ_SECTORS_MAX: u64 = 16;
/// Runs that wait for room on the device. What they are is in the store meanwhile, or lost.
const BACKLOG_MAX: usize = 1024;
/// Fills of a shard that read from the device at a time.
const READERS_MAX: usize = 64;

/// How often a shard that stops looks whether all that waited has been written.
const CLOSE_LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Where a run of missing bytes is to come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillSource {
    /// The device, as far as it has them when they are read; then the origin.
    Disk,
    /// The origin.
    Origin,
}

/// One shard's part of the cache device.
pub struct DiskTier {
    place: ShardDisk,
    data: AreaStore,
    metadata: AreaStore,
    readers: Semaphore,
    /// Runs that wait for room, in order.
    backlog: RefCell<VecDeque<(BlockWant, ByteRange)>>,
    table_bytes_max: u64,
}

impl DiskTier {
    /// Nothing is known of what lies there before [`recover`]. The budgets are for the tables of data and of metadata;
    /// metadata is admitted always, whatever the policies say.
    pub fn new(
        reactor: &Reactor,
        place: &ShardDisk,
        (data, metadata): (DiskBudget, DiskBudget),
        policies: AreaPolicies,
    ) -> DiskTier {
        let (queue, file) = (IoQueue::default(), &place.file);
        let of_metadata = AreaPolicies { admission: AdmissionKind::Always, ..policies };
        let area = |place: AreaPlace, budget: DiskBudget, policies: AreaPolicies| {
            AreaStore::new(AreaConfig {
                reactor: reactor.clone(),
                file: file.clone(),
                place,
                queue: queue.clone(),
                index_bytes_max: budget.index_bytes,
                header_bytes_max: budget.header_bytes,
                buffer_bytes_max: budget.buffer_bytes,
                policies,
            })
        };
        DiskTier {
            data: area(place.data, data, policies),
            metadata: area(place.metadata, metadata, of_metadata),
            place: place.clone(),
            readers: Semaphore::new(READERS_MAX),
            backlog: RefCell::default(),
            table_bytes_max: data.total_bytes() + metadata.total_bytes(),
        }
    }

    /// Tells the counters how much there may be.
    pub fn announce_ceilings(&self, counters: &ShardCounters) {
        self.place.announce_ceilings(counters);
        counters.ceiling(Resource::DiskTableBytes, self.table_bytes_max);
    }

    /// Where the journal of the shard's mappings is.
    pub fn journal(&self) -> (File, AreaPlace) {
        self.place.journal()
    }

    fn of(&self, class: StoreClass) -> &AreaStore {
        match class {
            StoreClass::Metadata => &self.metadata,
            StoreClass::Data => &self.data,
        }
    }
}

/// Finds what was there before; the shard serves meanwhile.
pub async fn recover(shard: Rc<Shard>) {
    let Some(disk) = &shard.disk else { return };
    let clock = shard.reactor.clock();
    let began = clock.now();
    for (area, name) in [(&disk.metadata, "metadata"), (&disk.data, "data")] {
        let found = area.recover().await;
        tracing::info!(
            shard = shard.id.0,
            area = name,
            segments = found.segments,
            unsealed = found.unsealed,
            damaged = found.damaged,
            records = found.records,
            "what the cache device held has been found"
        );
    }
    if let Some(persist) = &shard.persist {
        persist.known().await;
    }
    let micros = clock.now().since(began).as_micros();
    shard
        .counters
        .disk_so_far(DiskCount::RecoveryMicros, u64::try_from(micros).unwrap_or(u64::MAX));
    report(&shard);
    shard.counters.disk_is_recovered();
}

/// Writes what is on its way, so that the next start finds it fast.
pub async fn close(shard: &Shard) {
    let Some(disk) = &shard.disk else { return };
    let is_known = || disk.metadata.is_recovered() && disk.data.is_recovered();
    // What waits for a device that is not known yet is not waited for.
    while !disk.backlog.borrow().is_empty() && is_known() {
        shard.reactor.sleep(CLOSE_LOOK_INTERVAL).await;
    }
    disk.metadata.close().await;
    disk.data.close().await;
}

/// Whether what is wanted of a block begins on the device.
pub fn has_first_byte(shard: &Shard, want: &BlockWant) -> bool {
    let Some(disk) = &shard.disk else { return false };
    disk.of(want.class).find(want.id(), want.range).is_some()
}

/// The beginning of a missing run that comes from one source, whole sectors of it.
pub fn first_part(shard: &Shard, want: &BlockWant, run: ByteRange) -> (ByteRange, FillSource) {
    let Some(disk) = &shard.disk else { return (run, FillSource::Origin) };
    let area = disk.of(want.class);
    let sector_bytes = shard.settings.sector_bytes(want.class);
    let held = area.find(want.id(), run).map_or(run.start, |held| held.end);
    let held = if held == run.end { held } else { held / sector_bytes * sector_bytes };
    if held > run.start {
        return (ByteRange::new(run.start, held), FillSource::Disk);
    }
    let gap = area.gap(want.id(), run).max(1);
    let end = (run.start + gap).next_multiple_of(sector_bytes).min(run.end);
    (ByteRange::new(run.start, end), FillSource::Origin)
}

/// Brings what the device has of a fill, from its first byte on, into the store's own memory. Where that ends because
/// what is found there is another object's, it will be found there again: the origin is to bring the rest.
pub async fn read_into(shard: &Rc<Shard>, want: &BlockWant, permit: &mut FillPermit) -> FillSource {
    let Some(disk) = &shard.disk else { return FillSource::Disk };
    let Ok(_place) = disk.readers.acquire().await else { return FillSource::Disk };
    let identity = want.mapping.full_identity(&shard.geometry);
    let area = disk.of(want.class);
    while let Some(held) = area.find(want.id(), next_read(shard, want, permit)) {
        let rooms = shard.stores.borrow_mut().of(want.class).lend(permit, held.len());
        let is_lent = !rooms.is_empty();
        match area.read_into(want.id(), &identity, held, rooms).await {
            Ok(bytes) if is_lent => {
                let rooms = bytes.into_buffers();
                fill::accept(shard, want, permit, (rooms, held.len()));
            }
            Ok(bytes) => bytes.pieces().for_each(|piece| fill::append(shard, want, permit, piece)),
            // Its memory came back with the answer.
            Err(NotOnDisk::Anothers) => return FillSource::Origin,
            Err(error) => {
                tracing::debug!(%error, "the cache device did not give what it held");
                break;
            }
        }
        if permit.remaining().is_empty() {
            break;
        }
    }
    FillSource::Disk
}

/// What of a fill is read next: whole sectors, but for its end.
fn next_read(shard: &Shard, want: &BlockWant, permit: &FillPermit) -> ByteRange {
    let rest = permit.remaining();
    let sectors = READ_SECTORS_MAX * shard.settings.sector_bytes(want.class);
    let most = READ_BYTES_MAX.min(sectors);
    ByteRange::new(rest.start, rest.end.min(rest.start + most))
}

/// Keeps a run of a block that the origin has brought, if it is worth it, as far as its store still holds it when there
/// is room.
pub fn keep(shard: &Rc<Shard>, want: &BlockWant, run: ByteRange) {
    let Some(disk) = &shard.disk else { return };
    if run.is_empty() || !disk.of(want.class).admits(want.id(), run) {
        return;
    }
    let mut backlog = disk.backlog.borrow_mut();
    let rest = match backlog.is_empty() {
        true => keep_now(shard, disk, want, run),
        false => run,
    };
    if rest.is_empty() {
        return;
    }
    if backlog.len() == BACKLOG_MAX {
        disk.of(want.class).note_lost();
        return;
    }
    backlog.push_back((want.clone(), rest));
    if backlog.len() == 1 {
        shard.spawn(keep_backlog(Rc::clone(shard)));
    }
}

/// Keeps what has waited, in order, as there is room.
async fn keep_backlog(shard: Rc<Shard>) {
    let Some(disk) = &shard.disk else { return };
    loop {
        let next = disk.backlog.borrow().front().cloned();
        let Some((want, run)) = next else { return };
        let rest = keep_now(&shard, disk, &want, run);
        if rest.is_empty() {
            disk.backlog.borrow_mut().pop_front();
        } else {
            disk.backlog.borrow_mut().front_mut().expect("only this takes it").1 = rest;
            disk.of(want.class).room().await;
        }
    }
}

/// Keeps what there is room for now; gives the rest. What the store holds no more is lost.
fn keep_now(shard: &Shard, disk: &DiskTier, want: &BlockWant, run: ByteRange) -> ByteRange {
    let area = disk.of(want.class);
    let identity = want.mapping.full_identity(&shard.geometry);
    let mut stores = shard.stores.borrow_mut();
    let store = stores.of(want.class);
    let longest = u64::from(RECORD_DATA_BYTES_MAX);
    let nothing = ByteRange::new(run.end, run.end);
    // A record begins at a page, wherever the device's own bytes have ended.
    let mut at = run.start.next_multiple_of(PAGE_BYTES as u64);
    while at < run.end {
        // Cut at the same places always, so that a record is made needless by the next one of its piece.
        let end = (at + 1).next_multiple_of(longest).min(run.end);
        let pieces = store.pieces(want.id(), ByteRange::new(at, end));
        if pieces.is_empty() {
            area.note_lost();
            return nothing;
        }
        match area.offer(want.id(), &identity, at as u32, &pieces) {
            Offered::Taken | Offered::Held => at = end,
            Offered::Busy => return ByteRange::new(at, run.end),
            Offered::Refused => return nothing,
        }
    }
    nothing
}

/// Tells the counters what has happened so far, and what is in use.
pub fn report(shard: &Shard) {
    let Some(disk) = &shard.disk else { return };
    let (data, metadata) = (disk.data.usage(), disk.metadata.usage());
    let tables = [data, metadata].map(|it| it.index_bytes + it.header_bytes + it.buffer_bytes);
    let counters = &shard.counters;
    counters.in_use(Resource::DiskDataBytes, data.used_bytes);
    counters.in_use(Resource::DiskMetadataBytes, metadata.used_bytes);
    counters.in_use(Resource::DiskTableBytes, tables.iter().sum());
    counters.in_use(Resource::DiskBlocks, data.blocks + metadata.blocks);
    let journal = shard.persist.as_ref().map(Persist::usage).unwrap_or_default();
    let last_error = data.last_error.or(metadata.last_error).or(journal.error);
    counters.disk_error(last_error.unwrap_or(0).unsigned_abs().into());
    let found = [disk.data.recovered(), disk.metadata.recovered()];
    let sum = |what: fn(&Recovered) -> u64| found.iter().map(what).sum();
    let (data, metadata) = (data.counts, metadata.counts);
    for (what, count) in [
        (DiskCount::Hits, data.hits + metadata.hits),
        (DiskCount::ReadBytes, data.read_bytes + metadata.read_bytes),
        (DiskCount::WrittenBytes, data.written_bytes + metadata.written_bytes),
        (DiskCount::Refused, data.refused + metadata.refused),
        (DiskCount::Unadmitted, data.unadmitted + metadata.unadmitted),
        (DiskCount::AdmittedBytes, data.admitted_bytes + metadata.admitted_bytes),
        (DiskCount::Evictions, data.evicted + metadata.evicted),
        (DiskCount::Reclaimed, data.reclaimed + metadata.reclaimed),
        (DiskCount::CarriedBytes, data.carried_bytes + metadata.carried_bytes),
        (DiskCount::Damaged, data.damaged + metadata.damaged),
        (DiskCount::DamagedSegments, data.damaged_segments + metadata.damaged_segments),
        (DiskCount::ReadFailures, data.read_failures + metadata.read_failures),
        (DiskCount::ReadTimeouts, data.read_timeouts + metadata.read_timeouts),
        (DiskCount::WriteFailures, data.write_failures + metadata.write_failures),
        (DiskCount::JournalTimeouts, shard.persist.as_ref().map_or(0, Persist::timeouts)),
        (DiskCount::JournalFailures, u64::from(journal.has_failed && !journal.is_full)),
        (DiskCount::JournalsFull, u64::from(journal.has_failed && journal.is_full)),
        (DiskCount::RecoverySegments, sum(|it| it.looked_at.into())),
        (DiskCount::RecoveryUnsealed, sum(|it| it.unsealed.into())),
        (DiskCount::RecoveryDamaged, sum(|it| it.damaged.into())),
        (DiskCount::RecoveryRecords, sum(|it| it.records)),
    ] {
        counters.disk_so_far(what, count);
    }
}

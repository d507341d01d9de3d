//! A cache device as a node of the same budgets would lay it out, and its shards: each a thread with
//! a ring, a store of data and one of metadata. They are begun together, on a device that is open.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;

use nilas_base::{Clock, MIB, Monotonic};
use nilas_shards::area::{AreaConfig, AreaPolicies, AreaStore, IoQueue};
use nilas_shards::device::{DevicePlan, OpenDevice, open_device};
use nilas_shards::disk::{AreaKind, AreaPlace};
use nilas_shards::{Reactor, RingBody, RingOptions, open_ring};
use rustix::fs::{Advice, OFlags, fadvise};
use tempfile::TempDir;

use super::{Filling, RecoveryOptions};
use crate::error::{Doing, Error, Result};
use crate::processor::ProcessorTime;

/// The geometry that a node has by default.
const BLOCK_BYTES: u64 = 2 * MIB;
/// The area that is not filled is this part of the one that is.
const OTHER_DIVISOR: u64 = 10;
/// Mappings as well.
const MAPPING_DIVISOR: u64 = 40;
/// What each of those areas is given at least: what two shards need.
const OTHER_BYTES_MIN: u64 = 64 * MIB;
/// Memory for the index, more than is needed.
const INDEX_BYTES: u64 = 1 << 30;
/// Memory for headers of records.
const HEADER_BYTES: u64 = MIB;
/// Buffers for what is written, bytes.
const BUFFER_BYTES: u64 = 2 * MIB;

/// A device, for as long as it is measured.
pub struct CacheDevice {
    folder: TempDir,
    pub(super) plan: DevicePlan,
    pub(super) filling: Filling,
    body: RingBody,
}

/// What one recovery has found, and how long it took from its beginning on all shards to its end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    pub seconds: f64,
    /// Processor time of all shards' threads.
    pub cpu_seconds: f64,
    /// Bytes of segments with records.
    pub bytes: u64,
    pub segments: u32,
    pub unsealed: u32,
    pub records: u64,
}

/// One shard's stores.
pub(super) struct Stores {
    pub(super) reactor: Reactor,
    pub(super) data: AreaStore,
    pub(super) metadata: AreaStore,
    pub(super) segment_bytes: u32,
}

impl Stores {
    pub(super) fn of(&self, filling: Filling) -> &AreaStore {
        if filling.is_of_metadata() { &self.metadata } else { &self.data }
    }
}

impl CacheDevice {
    /// Lays one out in a new folder.
    pub fn lay(
        options: &RecoveryOptions,
        filling: Filling,
        area_bytes: u64,
    ) -> Result<CacheDevice> {
        let body = match options.ring.as_str() {
            "io_uring" => RingBody::IoUring,
            "epoll" => RingBody::Epoll,
            other => return Err(Error::Failed(format!("there is no ring `{other}`"))),
        };
        let mut builder = tempfile::Builder::new();
        let builder = builder.prefix("nilas-perf-");
        let folder = match &options.folder {
            Some(folder) => builder.tempdir_in(folder),
            None => builder.tempdir(),
        };
        let folder = folder.doing("making the device's folder")?;
        let part = |divisor: u64| (area_bytes / divisor).max(OTHER_BYTES_MIN).next_multiple_of(MIB);
        let other_bytes = part(OTHER_DIVISOR);
        let (data_bytes, metadata_bytes) = match filling.is_of_metadata() {
            true => (other_bytes * 2, area_bytes),
            // The head, a segment, is not filled.
            false => (area_bytes, other_bytes),
        };
        let plan = DevicePlan {
            path: folder.path().to_owned(),
            shards: options.shards,
            data_bytes,
            metadata_bytes,
            mapping_bytes: part(MAPPING_DIVISOR),
            block_bytes: BLOCK_BYTES,
        };
        Ok(CacheDevice { folder, plan, filling, body })
    }

    /// The folder, which is a node's `disk.path`.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The file in it.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join(nilas_shards::device::FILE_NAME)
    }

    /// Opens it as a node does.
    pub(super) fn open(&self) -> Result<OpenDevice> {
        let device = open_device(&self.plan).map_err(|error| Error::Failed(error.to_string()))?;
        if device.access.is_direct() {
            return Ok(device);
        }
        Err(Error::Failed("the folder's filesystem has no O_DIRECT: name another".to_owned()))
    }

    /// Where the filled areas lie.
    pub(super) fn places(&self) -> Result<Vec<AreaPlace>> {
        let device = self.open()?;
        let kind = if self.filling.is_of_metadata() { AreaKind::Metadata } else { AreaKind::Data };
        Ok((0..self.plan.shards).filter_map(|shard| device.superblock.place(kind, shard)).collect())
    }

    /// Has the page cache forget it. The disk's own cache is out of reach.
    pub fn forget_cached(&self) -> Result<()> {
        let file = File::open(self.path()).doing("opening the device")?;
        file.sync_all().doing("syncing the device")?;
        fadvise(&file, 0, None, Advice::DontNeed).doing("dropping the device's pages")
    }

    /// The file, past the page cache.
    pub(super) fn open_direct(&self) -> Result<File> {
        let mut options = File::options();
        options.read(true).custom_flags(OFlags::DIRECT.bits().cast_signed());
        options.open(self.path()).doing("opening the device with O_DIRECT")
    }

    /// Has each shard's stores do something on a thread of its own, all at once; gives what they say.
    pub(super) fn on_shards<T: Send>(
        &self,
        act: impl Fn(&Stores, u16, &Barrier) -> T + Sync,
    ) -> Result<Vec<T>> {
        let device = self.open()?;
        let together = Barrier::new(usize::from(self.plan.shards));
        let outcomes: Result<Vec<T>> = std::thread::scope(|scope| {
            let shard = |number| {
                let (device, together, act) = (&device, &together, &act);
                scope.spawn(move || {
                    let stores = self.stores(device, number)?;
                    let outcome = act(&stores, number, together);
                    let Stores { reactor, data, metadata, .. } = stores;
                    drop((data, metadata));
                    reactor.close();
                    Ok(outcome)
                })
            };
            let threads: Vec<_> = (0..self.plan.shards).map(shard).collect();
            threads.into_iter().map(|thread| thread.join().expect("a shard ends")).collect()
        });
        outcomes
    }

    fn stores(&self, device: &OpenDevice, number: u16) -> Result<Stores> {
        let ring = open_ring(self.body, RingOptions::default()).doing("opening the ring")?;
        let reactor = Reactor::new(ring, Clock::system());
        let queue = IoQueue::default();
        let area = |kind| {
            AreaStore::new(AreaConfig {
                reactor: reactor.clone(),
                file: device.file.clone(),
                place: device.superblock.place(kind, number).expect("each shard has each kind"),
                queue: queue.clone(),
                index_bytes_max: INDEX_BYTES,
                header_bytes_max: HEADER_BYTES,
                buffer_bytes_max: BUFFER_BYTES,
                policies: AreaPolicies::default(),
            })
        };
        let (data, metadata) = (area(AreaKind::Data), area(AreaKind::Metadata));
        Ok(Stores { reactor, data, metadata, segment_bytes: device.superblock.segment_bytes })
    }

    /// Finds on all shards what is there, as a node does at its start.
    pub fn recover(&self) -> Result<Found> {
        let clock = Clock::system();
        let shards = self.on_shards(|stores, _, together| {
            together.wait();
            let (began, cpu_before) = (clock.now(), ProcessorTime::of_this_thread());
            let found = stores.reactor.block_on(async {
                let metadata = stores.metadata.recover().await;
                let data = stores.data.recover().await;
                [metadata, data]
            });
            let used = [stores.metadata.usage(), stores.data.usage()].map(|it| it.used_bytes);
            let ended = clock.now();
            let cpu_ns = ProcessorTime::of_this_thread()?.saturating_sub(cpu_before?);
            Ok((began, ended, found, (used.iter().sum::<u64>(), cpu_ns)))
        })?;
        let shards = shards.into_iter().collect::<Result<Vec<_>>>()?;
        let began = shards.iter().map(|shard| shard.0).min().unwrap_or(Monotonic(0));
        let ended = shards.iter().map(|shard| shard.1).max().unwrap_or(Monotonic(0));
        let mut sum = Found { seconds: ended.since(began).as_secs_f64(), ..Found::default() };
        for (_, _, found, (bytes, cpu_ns)) in shards {
            sum.cpu_seconds += cpu_ns as f64 / 1e9;
            sum.bytes += bytes;
            sum.segments += found.iter().map(|it| it.segments).sum::<u32>();
            sum.unsealed += found.iter().map(|it| it.unsealed).sum::<u32>();
            sum.records += found.iter().map(|it| it.records).sum::<u64>();
        }
        Ok(sum)
    }
}

//! The cache device of a run's node: a simulated disk that outlives the node, laid out for its shards. Its areas are
//! far shorter than real ones, so that they are full, and reclaimed, within a run. What goes wrong with it is drawn
//! in `weather`; what came of it is counted here.

use nilas_base::ShardId;
use nilas_engine::metrics::{DiskCount, Metrics};
use nilas_engine::node::assembly::ShardDisk;
use nilas_shards::disk::{AreaKind, AreaPlace, DeviceId, SEGMENT_BYTES_MIN, Superblock};
use nilas_shards::{File, SimulatedWorld};

use crate::weather::SmallDevice;

/// What the device is called.
const DEVICE_ID: DeviceId = DeviceId([9; 16]);

/// A disk, and where each shard's areas lie on it.
pub struct Device {
    /// The disk.
    pub file: File,
    superblock: Superblock,
    size: SmallDevice,
}

impl Device {
    /// A blank disk for a node of so many shards with blocks of so many bytes.
    pub fn lay_out(
        world: &SimulatedWorld,
        (shards, block_bytes): (u16, u64),
        size: SmallDevice,
    ) -> Device {
        let least = u64::from(SEGMENT_BYTES_MIN);
        let long = |segments: u64| {
            (segments * u64::from(size.segment_bytes)).next_multiple_of(least).max(least)
        };
        let lengths = [
            (AreaKind::Mappings, least),
            (AreaKind::Metadata, long(size.metadata_segments)),
            (AreaKind::Data, long(size.data_segments)),
        ];
        let areas_of = |shard| lengths.map(|(kind, length)| (kind, shard, length));
        let areas: Vec<_> = (0..shards).flat_map(areas_of).collect();
        let superblock =
            Superblock::lay_out(DEVICE_ID, SEGMENT_BYTES_MIN, block_bytes as u32, &areas);
        Device { file: world.create_file(superblock.device_bytes), superblock, size }
    }

    /// One shard's part.
    pub fn of_shard(&self, shard: ShardId) -> ShardDisk {
        ShardDisk {
            file: self.file.clone(),
            data: self.place(AreaKind::Data, shard, self.size.data_segments),
            metadata: self.place(AreaKind::Metadata, shard, self.size.metadata_segments),
            mappings: self.whole_place(AreaKind::Mappings, shard),
        }
    }

    /// The beginning of an area, in shorter segments than the superblock may name.
    fn place(&self, kind: AreaKind, shard: ShardId, segments: u64) -> AreaPlace {
        let whole = self.whole_place(kind, shard);
        let segment_bytes = self.size.segment_bytes;
        let length = segments * u64::from(segment_bytes);
        assert!(length <= whole.length, "{segments} segments fit in an area");
        AreaPlace { length, segment_bytes, ..whole }
    }

    fn whole_place(&self, kind: AreaKind, shard: ShardId) -> AreaPlace {
        self.superblock.place(kind, shard.0).expect("it was laid out for each shard")
    }
}

/// What a run's devices, or a season's, did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Devices that there were.
    pub devices: u64,
    /// Nodes that ended, and were followed by another on the same device.
    pub restarts: u64,
    /// Of those, such whose device lost its power too.
    pub power_cuts: u64,
    /// Reads that a device answered.
    pub hits: u64,
    /// Of those, such of a node that was not the first on its device.
    pub hits_after_restart: u64,
    /// Records that were not what they should be.
    pub damaged: u64,
    /// Operations that failed, or took too long.
    pub failures: u64,
    /// Segments that were emptied.
    pub reclaimed: u64,
}

impl DeviceCounts {
    /// Counts what a node did.
    pub fn add_node(&mut self, metrics: &Metrics) {
        let count = |what: DiskCount| metrics.total(|shard| shard.disk[what.index()].get());
        let hits = count(DiskCount::Hits);
        self.hits += hits;
        self.hits_after_restart += if self.restarts > 0 { hits } else { 0 };
        self.damaged += count(DiskCount::Damaged);
        let failures = [DiskCount::ReadFailures, DiskCount::ReadTimeouts, DiskCount::WriteFailures];
        self.failures += failures.map(count).iter().sum::<u64>();
        self.reclaimed += count(DiskCount::Reclaimed);
    }

    /// Counts what another run did.
    pub fn add(&mut self, other: &DeviceCounts) {
        let DeviceCounts { devices, restarts, power_cuts, .. } = *other;
        self.devices += devices;
        self.restarts += restarts;
        self.power_cuts += power_cuts;
        self.hits += other.hits;
        self.hits_after_restart += other.hits_after_restart;
        self.damaged += other.damaged;
        self.failures += other.failures;
        self.reclaimed += other.reclaimed;
    }
}

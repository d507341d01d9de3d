//! Where a shard's areas lie on the node's cache device.

use nilas_base::ShardId;
use nilas_shards::File;
use nilas_shards::device::OpenDevice;
use nilas_shards::disk::{AreaKind, AreaPlace};

use crate::metrics::{Resource, ShardCounters};

/// One shard's areas of the node's cache device.
#[derive(Clone, Debug)]
pub struct ShardDisk {
    /// The device, which all shards share.
    pub file: File,
    /// Where blocks of the data store go.
    pub data: AreaPlace,
    /// Where blocks of the metadata store go.
    pub metadata: AreaPlace,
    /// Where mappings, tombstones and purges go.
    pub mappings: AreaPlace,
}

impl ShardDisk {
    /// Those that a device was laid out with for a shard.
    pub fn of(device: &OpenDevice, shard: ShardId) -> ShardDisk {
        let place = |kind| {
            let place = device.superblock.place(kind, shard.0);
            place.expect("a device is laid out with areas of each kind for each shard")
        };
        ShardDisk {
            file: device.file.clone(),
            data: place(AreaKind::Data),
            metadata: place(AreaKind::Metadata),
            mappings: place(AreaKind::Mappings),
        }
    }

    /// Where the journal of its mappings is.
    pub fn journal(&self) -> (File, AreaPlace) {
        (self.file.clone(), self.mappings)
    }

    /// Tells the counters how long they are.
    pub fn announce_ceilings(&self, counters: &ShardCounters) {
        counters.ceiling(Resource::DiskDataBytes, self.data.length);
        counters.ceiling(Resource::DiskMetadataBytes, self.metadata.length);
        counters.ceiling(Resource::DiskMappingBytes, self.mappings.length);
    }
}

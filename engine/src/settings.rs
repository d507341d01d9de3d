//! What the stories need to know of the configuration, the same on every shard.

use std::time::Duration;

use nilas_net::target::Addressing;

use crate::config::{Glob, ProxyTrust};
use crate::freshness::FreshnessRules;
use crate::mapping::StoreClass;
use crate::put::WriteAllocate;

/// A node's settings.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// Under which hosts buckets are named.
    pub addressing: Addressing,
    /// The host and port by which the origin names itself.
    pub origin_authority: Option<String>,
    /// Which buckets may be asked for: patterns on their names.
    pub bucket_globs: Vec<Glob>,
    /// Whether TCP connections begin with a PROXY header, and whose are believed.
    pub proxy: Option<ProxyTrust>,
    /// How long mappings are believed.
    pub freshness: FreshnessRules,
    /// How long an identity is believed to be allowed what never changes.
    pub authorisation_ttl: Duration,
    /// How long a key is not believed after a write of unknown outcome.
    pub ambiguous_write_hold: Duration,
    /// Which uploads populate the cache.
    pub write_allocate: WriteAllocate,
    /// Sectors of the data store, in bytes.
    pub data_sector_bytes: u64,
    /// Sectors of the metadata store, in bytes.
    pub metadata_sector_bytes: u64,
    /// What a client may do to us.
    pub client: ClientLimits,
}

/// Limits on a client's connection.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimits {
    /// Connections of one shard.
    pub connections_max: usize,
    /// For a head to arrive, once its first byte has.
    pub header_timeout: Duration,
    /// Between two pieces of a body.
    pub body_idle_timeout: Duration,
    /// For a client to take some of a send.
    pub send_idle_timeout: Duration,
    /// The same, while others wait for what the send keeps.
    pub send_stall_max: Duration,
    /// Between two requests.
    pub keep_alive_idle: Duration,
}

impl NodeSettings {
    /// The sectors of a class's store, in bytes.
    pub fn sector_bytes(&self, class: StoreClass) -> u64 {
        match class {
            StoreClass::Metadata => self.metadata_sector_bytes,
            StoreClass::Data => self.data_sector_bytes,
        }
    }

    /// Whether every bucket may be asked for.
    pub fn allows_every_bucket(&self) -> bool {
        self.bucket_globs.iter().any(|glob| glob.to_string() == "*")
    }

    /// Whether a bucket may be asked for.
    pub fn allows_bucket(&self, bucket: &str) -> bool {
        self.bucket_globs.iter().any(|glob| glob.matches(bucket))
    }
}

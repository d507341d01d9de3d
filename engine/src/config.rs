//! Configuration: one TOML file, each key overridable by environment and flag, all from one table.
//! [`load`] reads every layer and gives typed values, or everything that is wrong at once.
//! Nothing here opens a port or a directory; see `startup` for what the machine must have.

mod build;
mod catalog;
mod credential;
mod credential_file;
mod effective;
mod environment;
mod error;
mod file;
mod flag;
mod glob;
mod help;
mod item;
mod key;
mod kind;
mod network;
mod secret;
mod setting;
mod suggest;
mod table;
mod unit;
mod validate;
mod warm;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use credential_file::{exposure, read_credentials_file};
pub use error::{ConfigError, ConfigErrors};
pub use flag::Task;
pub use glob::Glob;
pub use help::{help_text, reference_markdown};
pub use key::{Key, KeyIndex, sections};
pub use kind::{Kind, Value};
pub use network::Network;
pub use secret::{HIDDEN, Secret};
pub use setting::{Setting, SettingId, Settings, Source};
pub use table::KEYS;
pub use unit::{duration_text, size_text};

pub use nilas_shards::RingChoice;
use nilas_shards::area::AreaPolicies;
use nilas_shards::device::DevicePlan;
use nilas_shards::eviction::EvictionKind;

pub use crate::access::{LimitNumbers, Mode, Scope, Unproven};
use crate::catalog::CatalogSettings;
use crate::origin::{OriginSettings, SigningKey};
pub use crate::put::WriteAllocate;
use crate::tables::TablesSettings;

/// What configuration is made from.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// The command line without the program's name.
    pub arguments: Vec<String>,
    /// The environment.
    pub variables: Vec<(String, String)>,
    /// Cores that this process may run on.
    pub cores: usize,
}

/// What [`load`] found to do.
#[derive(Clone, Debug)]
pub enum Order {
    /// Serve, or check whether it would serve.
    Run {
        /// The typed values.
        config: Box<Config>,
        /// Whether only to check.
        check_only: bool,
    },
    /// Print the flags.
    Help,
    /// Print every key.
    Reference,
    /// Print the version.
    Version,
}

/// The node's configuration, checked as a whole.
#[derive(Clone, Debug)]
pub struct Config {
    /// Addresses and threads.
    pub server: ServerConfig,
    /// Where the objects are.
    pub origin: OriginConfig,
    /// Which buckets are served: a bucket that one of these fits.
    pub buckets_allow: Vec<Glob>,
    /// Who may ask. Empty on loopback where none are configured: then one is to be generated.
    pub credentials: Vec<ClientCredential>,
    /// How many of them, the last ones, stand in the credentials file.
    pub credentials_of_file: usize,
    /// The catalogs that are watched.
    pub catalogs: Vec<CatalogSettings>,
    /// What is done for their tables.
    pub tables: TablesSettings,
    /// What is done with requests that prove nothing.
    pub auth: AuthConfig,
    /// What is kept, and for how long.
    pub cache: CacheConfig,
    /// The cache device, if there is one.
    pub disk: Option<DiskConfig>,
    /// What one client may take.
    pub limits: LimitsConfig,
    /// What is logged.
    pub log: LogConfig,
    /// Every value and its source, for people.
    pub settings: Settings,
}

/// `[server]`.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The S3 endpoint's address; port 0 takes any free one.
    pub listen: SocketAddr,
    /// A Unix socket that it is served on, too.
    pub unix_socket: Option<UnixSocketConfig>,
    /// Whether connections to `listen` begin with a PROXY header, and whose are believed.
    pub proxy: Option<ProxyTrust>,
    /// The admin port's address; port 0 takes any free one.
    pub admin: SocketAddr,
    /// What the admin port asks for.
    pub admin_token: Option<Secret>,
    /// Serving threads, `auto` already worked out.
    pub shard_count: u16,
    /// How the kernel is asked.
    pub ring: RingChoice,
    /// Whether shards are pinned to cores.
    pub pin: bool,
    /// Domains of virtual-host requests, in lower case.
    pub domains: Vec<String>,
    /// How long a stopping node waits for requests in flight.
    pub drain_timeout: Duration,
}

/// A Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixSocketConfig {
    /// Where its file is made.
    pub path: PathBuf,
    /// The file's mode.
    pub mode: u32,
}

/// Whose PROXY headers are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyTrust {
    /// Those from here; from anywhere where there is none.
    pub networks: Vec<Network>,
}

/// `[origin]`.
#[derive(Clone, Debug)]
pub struct OriginConfig {
    /// Which origin, and how it is reached.
    pub settings: OriginSettings,
    /// Whether a local directory may be created: only when nobody named one.
    pub create_directory: bool,
    /// Requests in flight at the origin.
    pub in_flight_requests_max: usize,
    /// How long a read may wait for its answer's head.
    pub first_byte_timeout: Duration,
    /// How long an answer's body may stand still.
    pub body_idle_timeout: Duration,
    /// Whether the slowest reads are asked a second time.
    pub hedge: bool,
}

/// A key that clients may sign with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCredential {
    /// Its public half.
    pub access_key: String,
    /// Its secret half.
    pub secret_key: Secret,
    /// What its requests are signed with for the origin, instead of the node's own key.
    pub origin_key: Option<Arc<SigningKey>>,
    /// What it may do.
    pub scope: Scope,
    /// How much of it.
    pub limits: LimitNumbers,
}

impl ClientCredential {
    /// One that may do everything, as the node itself.
    pub fn new(access_key: impl Into<String>, secret_key: impl Into<String>) -> ClientCredential {
        ClientCredential {
            access_key: access_key.into(),
            secret_key: Secret::new(secret_key),
            origin_key: None,
            scope: Scope::default(),
            limits: LimitNumbers::default(),
        }
    }
}

/// `[auth]`.
#[derive(Clone, Debug)]
pub struct AuthConfig {
    /// Where more credentials stand; followed while the node runs.
    pub credentials_file: Option<PathBuf>,
    /// Requests without a signature.
    pub anonymous: Unproven,
    /// Requests with a signature of version 2.
    pub sigv2: Unproven,
}

/// `[cache]`. Budgets are for the whole node; each shard gets an equal share.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// The data store's memory.
    pub data_bytes: u64,
    /// The metadata store's memory.
    pub metadata_bytes: u64,
    /// The mappings' memory.
    pub mapping_bytes: u64,
    /// A block's length, a power of two.
    pub block_bytes: u64,
    /// Who leaves the data store and the metadata store.
    pub eviction: EvictionKind,
    /// How long a mutable object is served unasked.
    pub mutable_ttl: Duration,
    /// How long an identity is believed to be allowed an immutable object.
    pub authorisation_ttl: Duration,
    /// How long a key is not believed after a write of unknown outcome.
    pub ambiguous_write_hold: Duration,
    /// How long after that it is still served while the origin gives no answer.
    pub stale_if_error: Duration,
    /// Which uploads populate the cache as they pass.
    pub write_allocate: WriteAllocate,
    /// Patterns of `bucket/key` for objects that never change.
    pub immutable_globs: Vec<Glob>,
}

/// `[disk]`. Budgets are for the whole node, as those of `[cache]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskConfig {
    /// A directory or a block device.
    pub path: PathBuf,
    /// Of the data stores.
    pub data_bytes: u64,
    /// Of the metadata stores.
    pub metadata_bytes: u64,
    /// Of the mappings.
    pub mapping_bytes: u64,
    /// What of the data is written under pressure, and what stays of both.
    pub policies: AreaPolicies,
}

/// `[limits]`.
#[derive(Clone, Debug)]
pub struct LimitsConfig {
    /// Connections on each shard.
    pub connections_per_shard_max: usize,
    /// How long a head may take from its first byte.
    pub header_timeout: Duration,
    /// How long a request's body may stand still.
    pub body_idle_timeout: Duration,
    /// How long a client may take none of an answer.
    pub send_idle_timeout: Duration,
    /// The same, while others wait for the memory that it keeps.
    pub send_stall_max: Duration,
    /// Memory for bodies on their way that are in no store, over all shards.
    pub buffer_bytes: u64,
    /// How long a connection may wait for its next request.
    pub keep_alive_idle: Duration,
}

/// `[log]`.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// The least severe lines that are written.
    pub level: tracing::level_filters::LevelFilter,
    /// How a line looks.
    pub format: LogFormat,
    /// Where refused and administrative requests are recorded.
    pub audit_file: Option<PathBuf>,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

/// Reads flags, file and environment, and makes a configuration of them.
pub fn load(inputs: &Inputs) -> Result<Order, ConfigErrors> {
    let mut errors = Vec::new();
    let line = flag::parse(&inputs.arguments, &mut errors);
    match line.task {
        Task::Help => return Ok(Order::Help),
        Task::Reference => return Ok(Order::Reference),
        Task::Version => return Ok(Order::Version),
        Task::Serve | Task::Check => {}
    }
    let settings = layers(inputs, line.settings, line.file, &mut errors);
    if !errors.is_empty() {
        return Err(ConfigErrors(errors));
    }
    let config = build::config(settings, inputs)?;
    Ok(Order::Run { config: Box::new(config), check_only: line.task == Task::Check })
}

fn layers(
    inputs: &Inputs,
    flags: Settings,
    file_flag: Option<PathBuf>,
    errors: &mut Vec<ConfigError>,
) -> Settings {
    let named = inputs.variables.iter().find(|(name, _)| name == environment::FILE_VARIABLE);
    let path = file_flag.or_else(|| named.map(|(_, value)| PathBuf::from(value)));
    let file = path.map(|path| file::read(&path, errors)).unwrap_or_default();
    let exempt: Vec<String> =
        [&file, &flags].into_iter().flat_map(credential::secret_variables).collect();
    let mut settings = Settings::defaults();
    settings.overlay(file);
    settings.overlay(environment::parse(&inputs.variables, &exempt, errors));
    settings.overlay(flags);
    settings.fill_items();
    settings
}

impl Config {
    /// What is wanted of the cache device, if there is one.
    pub fn device_plan(&self) -> Option<DevicePlan> {
        let disk = self.disk.as_ref()?;
        Some(DevicePlan {
            path: disk.path.clone(),
            shards: self.server.shard_count,
            data_bytes: disk.data_bytes,
            metadata_bytes: disk.metadata_bytes,
            mapping_bytes: disk.mapping_bytes,
            block_bytes: self.cache.block_bytes,
        })
    }

    /// The configuration as TOML, each value with its source, secrets hidden.
    pub fn effective_text(&self) -> String {
        effective::text(&self.settings)
    }

    /// The configuration as `{"section.key": {"value", "source"}}`, secrets hidden.
    pub fn effective_json(&self) -> serde_json::Value {
        effective::json(&self.settings)
    }
}

//! What must hold between keys: budgets against blocks and shards, addresses against each other,
//! an origin's keys against its kind, and who may ask from beyond loopback.

use std::net::SocketAddr;

use nilas_shards::device::{SHARDS_MAX, area_budget_min};
use nilas_shards::disk::AreaKind;

use super::error::ConfigError;
use super::key::{CREDENTIALS, KeyIndex};
use super::kind::Value;
use super::setting::Settings;
use super::unit::size_text;
use super::{CacheConfig, DiskConfig};

/// Blocks that a shard's share of a store must hold: half of it may be filling while the other
/// half is read.
const BLOCKS_PER_SHARD_MIN: u64 = 4;
/// What a store's budget must have beside them with a cache device, a shard: its buffers, and the least that its index
/// is of use with.
const DISK_TABLE_BYTES_MIN: u64 = 8 << 20;
/// Shards of `auto`, whatever the machine.
const SHARDS_AUTO_MAX: u64 = 256;
/// From this many cores on, `auto` leaves one to the control threads.
const CORES_WITH_SPARE_MIN: u64 = 4;

/// Keys that only an S3 origin reads.
const S3_KEYS: &[&str] = &[
    "endpoint",
    "region",
    "addressing",
    "credentials",
    "access_key",
    "secret_key",
    "session_token",
    "profile",
    "ca_bundle",
    "write_timeout",
];
/// Keys that only a local directory reads.
const LOCAL_KEYS: &[&str] = &["path", "first_byte_latency"];

/// Checks everything.
pub(super) fn all(
    settings: &Settings,
    stores: Stores<'_>,
    without_credentials: bool,
    errors: &mut Vec<ConfigError>,
) {
    let rules = Rules { settings };
    errors.extend(rules.addresses());
    errors.extend(rules.idle_keys());
    errors.extend(rules.nobody_to_trust());
    errors.extend(rules.exposure(without_credentials));
    errors.extend(rules.origin_kind());
    errors.extend(rules.origin_credentials());
    errors.extend(rules.origin_decides());
    errors.extend(rules.budgets(stores));
    errors.extend(stores.disk.into_iter().flat_map(|disk| rules.disk(disk, stores.cache)));
}

/// The least that a store's budget must be.
fn budget_min(cache: &CacheConfig, shards: u64, has_disk: bool) -> u64 {
    let tables = if has_disk { DISK_TABLE_BYTES_MIN } else { 0 };
    shards * (BLOCKS_PER_SHARD_MIN * cache.block_bytes + tables)
}

/// What shards are fed from.
#[derive(Clone, Copy)]
pub(super) struct Stores<'a> {
    pub(super) cache: &'a CacheConfig,
    pub(super) disk: Option<&'a DiskConfig>,
}

impl Stores<'_> {
    /// Shards on a machine of `cores` cores: no more than the smallest store can feed.
    pub(super) fn shard_count_auto(self, cores: usize) -> u16 {
        let cores = cores as u64;
        let spared = if cores >= CORES_WITH_SPARE_MIN { cores - 1 } else { cores };
        let fed = self.cache.data_bytes.min(self.cache.metadata_bytes)
            / budget_min(self.cache, 1, self.disk.is_some());
        let fed = fed.min(self.disk.map_or(SHARDS_AUTO_MAX, |disk| self.fed_by(disk)));
        u16::try_from(spared.min(fed).clamp(1, SHARDS_AUTO_MAX)).expect("it is clamped")
    }

    fn fed_by(self, disk: &DiskConfig) -> u64 {
        let fed = |(_, kind, bytes): (_, AreaKind, u64)| {
            let least = |shards| area_budget_min(kind, shards, self.cache.block_bytes);
            bytes.saturating_sub(least(0)) / (least(1) - least(0))
        };
        disk_budgets(disk).map(fed).into_iter().min().unwrap_or(0).min(u64::from(SHARDS_MAX))
    }
}

fn disk_budgets(disk: &DiskConfig) -> [(&'static str, AreaKind, u64); 3] {
    [
        ("data_bytes", AreaKind::Data, disk.data_bytes),
        ("metadata_bytes", AreaKind::Metadata, disk.metadata_bytes),
        ("mapping_bytes", AreaKind::Mappings, disk.mapping_bytes),
    ]
}

fn counted(shards: u64) -> String {
    format!("{shards} shard{}", if shards == 1 { "" } else { "s" })
}

struct Rules<'a> {
    settings: &'a Settings,
}

impl Rules<'_> {
    fn addresses(&self) -> Option<ConfigError> {
        let (listen, admin) = (self.address("listen")?, self.address("admin")?);
        let overlap = listen.ip() == admin.ip()
            || listen.ip().is_unspecified()
            || admin.ip().is_unspecified();
        (overlap && listen.port() == admin.port() && listen.port() != 0).then(|| {
            ConfigError::Conflict {
                problem: format!(
                    "{} and {} share a port",
                    self.said("server", "listen"),
                    self.said("server", "admin")
                ),
                cure: "give one of them another".to_owned(),
            }
        })
    }

    /// A list of balancers that names none, as an empty variable of a template gives: everybody would be
    /// believed.
    fn nobody_to_trust(&self) -> Option<ConfigError> {
        let (section, name) = ("server", "proxy_protocol_from");
        let setting = self.settings.named(section, name)?;
        let is_empty = setting.value == Value::Networks(Vec::new());
        (is_empty && self.is_set(section, name)).then(|| ConfigError::Conflict {
            problem: format!("{} names nobody", self.said(section, name)),
            cure: "name the balancers' networks, or remove it to believe everybody who connects"
                .to_owned(),
        })
    }

    /// Keys that say more of what is off: who sets one believes it to be on.
    fn idle_keys(&self) -> Vec<ConfigError> {
        let is_off = |section: &str, name: &str| {
            let setting = self.settings.named(section, name);
            setting.is_none_or(|it| it.value == Value::Text("off".to_owned()))
        };
        [
            ("server", "unix_socket_mode", "unix_socket", "there is no server.unix_socket"),
            ("server", "proxy_protocol_from", "proxy_protocol", "server.proxy_protocol is off"),
            ("disk", "data_bytes", "path", "there is no disk.path"),
            ("disk", "metadata_bytes", "path", "there is no disk.path"),
            ("disk", "mapping_bytes", "path", "there is no disk.path"),
            ("disk", "admission", "path", "there is no disk.path"),
            ("disk", "carry_over", "path", "there is no disk.path"),
        ]
        .into_iter()
        .filter(|(section, name, needed, _)| self.is_set(section, name) && is_off(section, needed))
        .map(|(section, name, needed, state)| ConfigError::Conflict {
            problem: format!("{} is set, but {state}", self.said(section, name)),
            cure: format!("set {section}.{needed}, or remove {section}.{name}"),
        })
        .collect()
    }

    fn exposure(&self, without_credentials: bool) -> Vec<ConfigError> {
        let exposed = |name: &str| self.address(name).is_some_and(|it| !it.ip().is_loopback());
        let mut errors = Vec::new();
        if exposed("listen") && without_credentials {
            errors.push(ConfigError::Conflict {
                problem: format!(
                    "{} is beyond loopback, and no credentials are configured",
                    self.said("server", "listen")
                ),
                cure: "add [[credentials]] with access_key and secret_key to the file, or set \
                       NILAS_CREDENTIALS_ACCESS_KEY and NILAS_CREDENTIALS_SECRET_KEY, or listen \
                       on 127.0.0.1"
                    .to_owned(),
            });
        }
        if exposed("admin") && self.settings.named("server", "admin_token").is_none() {
            errors.push(ConfigError::Conflict {
                problem: format!(
                    "{} is beyond loopback, and no token is configured",
                    self.said("server", "admin")
                ),
                cure: "set server.admin_token (NILAS_SERVER_ADMIN_TOKEN), or use 127.0.0.1"
                    .to_owned(),
            });
        }
        errors
    }

    /// What leaves a decision to the origin needs one that decides.
    fn origin_decides(&self) -> Vec<ConfigError> {
        if self.text("kind") == Some("s3") {
            return Vec::new();
        }
        let relays = |name: &&&str| {
            let setting = self.settings.named("auth", name);
            setting.is_some_and(|it| it.value == Value::Text("relay".to_owned()))
        };
        let conflict = |problem: String| ConfigError::Conflict {
            problem: format!("{problem}, but a local directory refuses nobody"),
            cure: "take it out, or set origin.kind = \"s3\"".to_owned(),
        };
        let mut errors: Vec<ConfigError> = ["anonymous", "sigv2"]
            .iter()
            .filter(relays)
            .map(|name| conflict(self.said("auth", name)))
            .collect();
        let holder = KeyIndex::find(CREDENTIALS, "origin_access_key");
        let named = self.settings.iter().find(|(id, _)| Some(id.key) == holder);
        errors.extend(named.map(|(id, _)| {
            conflict(format!("{CREDENTIALS}.{} has an origin_access_key", id.item))
        }));
        errors
    }

    fn origin_kind(&self) -> Vec<ConfigError> {
        let is_s3 = self.text("kind") == Some("s3");
        let (strange, other) = if is_s3 { (LOCAL_KEYS, "local") } else { (S3_KEYS, "s3") };
        let mut errors: Vec<ConfigError> = strange
            .iter()
            .filter(|name| self.is_set("origin", name))
            .map(|name| ConfigError::Conflict {
                problem: format!(
                    "{} is set, but {}",
                    self.said("origin", name),
                    self.said("origin", "kind")
                ),
                cure: format!("set origin.kind = \"{other}\", or remove origin.{name}"),
            })
            .collect();
        if is_s3 && self.settings.named("origin", "endpoint").is_none() {
            errors.push(ConfigError::Conflict {
                problem: format!(
                    "{}, but there is no origin.endpoint",
                    self.said("origin", "kind")
                ),
                cure: "set origin.endpoint, such as \
                       \"https://s3.eu-central-1.amazonaws.com\""
                    .to_owned(),
            });
        }
        errors
    }

    fn origin_credentials(&self) -> Option<ConfigError> {
        let keys = ["access_key", "secret_key"].map(|name| self.is_set("origin", name));
        match keys {
            [true, false] => self.lonely("access_key", "origin.secret_key"),
            [false, true] => self.lonely("secret_key", "origin.access_key"),
            [true, true] => self.overruled_keys(),
            [false, false] => self.missing_keys(),
        }
    }

    /// Both keys are given: nothing else may say who asks.
    fn overruled_keys(&self) -> Option<ConfigError> {
        if self.text("credentials") == Some("anonymous") {
            self.contradiction("access_key", "credentials")
        } else if self.is_set("origin", "profile") {
            self.contradiction("access_key", "profile")
        } else {
            None
        }
    }

    /// No key is given: nothing may need one.
    fn missing_keys(&self) -> Option<ConfigError> {
        if self.is_set("origin", "session_token") {
            return self.lonely("session_token", "origin.access_key and origin.secret_key");
        }
        match self.text("credentials") {
            Some("config") => self.lonely("credentials", "origin.access_key and origin.secret_key"),
            Some("anonymous") if self.is_set("origin", "profile") => {
                self.contradiction("profile", "credentials")
            }
            _ => None,
        }
    }

    fn lonely(&self, name: &str, missing: &str) -> Option<ConfigError> {
        Some(ConfigError::Conflict {
            problem: format!("{} stands without {missing}", self.said("origin", name)),
            cure: format!("set {missing}, or remove origin.{name}"),
        })
    }

    fn contradiction(&self, one: &str, other: &str) -> Option<ConfigError> {
        let (one, other) = (self.said("origin", one), self.said("origin", other));
        Some(ConfigError::Conflict {
            problem: format!("{one} contradicts {other}"),
            cure: "remove one of them".to_owned(),
        })
    }

    /// The shards that are asked for; one where it is the budgets that decide.
    fn shards(&self) -> u64 {
        match self.settings.named("server", "shards").map(|it| &it.value) {
            Some(Value::Count(count)) => *count,
            _ => 1,
        }
    }

    fn disk(&self, disk: &DiskConfig, cache: &CacheConfig) -> Vec<ConfigError> {
        let shards = u16::try_from(self.shards()).expect("the table bounds it");
        if shards > SHARDS_MAX {
            return vec![ConfigError::Conflict {
                problem: format!(
                    "{} is more than the {SHARDS_MAX} shards that a cache device has room for",
                    self.said("server", "shards")
                ),
                cure: "lower it, or remove disk.path".to_owned(),
            }];
        }
        disk_budgets(disk)
            .into_iter()
            .map(|(name, kind, bytes)| {
                (name, bytes, area_budget_min(kind, shards, cache.block_bytes))
            })
            .filter(|(_, bytes, least)| bytes < least)
            .map(|(name, _, least)| ConfigError::Conflict {
                problem: format!(
                    "{} is too little for {} with blocks of {}",
                    self.said("disk", name),
                    counted(u64::from(shards)),
                    size_text(cache.block_bytes)
                ),
                cure: format!(
                    "raise it to {} or more, or lower cache.block_bytes or server.shards",
                    size_text(least)
                ),
            })
            .collect()
    }

    fn budgets(&self, stores: Stores<'_>) -> Vec<ConfigError> {
        let cache = stores.cache;
        let shards = self.shards();
        let least = budget_min(cache, shards, stores.disk.is_some());
        [("data_bytes", cache.data_bytes), ("metadata_bytes", cache.metadata_bytes)]
            .into_iter()
            .filter(|(_, bytes)| *bytes < least)
            .map(|(name, _)| ConfigError::Conflict {
                problem: format!(
                    "{} is too little for {} of {BLOCKS_PER_SHARD_MIN} blocks of {} each{}",
                    self.said("cache", name),
                    counted(shards),
                    size_text(cache.block_bytes),
                    if stores.disk.is_some() { " and a cache device's tables" } else { "" }
                ),
                cure: format!(
                    "raise it to {} or more, or lower cache.block_bytes or server.shards",
                    size_text(least)
                ),
            })
            .collect()
    }

    fn address(&self, name: &str) -> Option<SocketAddr> {
        match &self.settings.named("server", name)?.value {
            Value::Address(address) => Some(*address),
            _ => None,
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        match &self.settings.named("origin", name)?.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    fn is_set(&self, section: &str, name: &str) -> bool {
        self.settings
            .named(section, name)
            .is_some_and(|setting| setting.source != super::Source::Default)
    }

    /// `section.name = value (source)`, secrets hidden.
    fn said(&self, section: &str, name: &str) -> String {
        let setting = self.settings.named(section, name).expect("only what is set is told of");
        let value = super::effective::toml_value(&setting.value);
        format!("{section}.{name} = {value} ({})", setting.source)
    }
}

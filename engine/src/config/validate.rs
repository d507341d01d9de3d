//! What must hold between keys: budgets against blocks and shards, addresses against each other,
//! an origin's keys against its kind, and who may ask from beyond loopback.

use std::net::SocketAddr;

use super::CacheConfig;
use super::error::ConfigError;
use super::key::{KeyIndex, LISTED_SECTION};
use super::kind::Value;
use super::setting::Settings;
use super::unit::size_text;

/// Blocks that a shard's share of a store must hold: half of it may be filling while the other
/// half is read.
const BLOCKS_PER_SHARD_MIN: u64 = 4;
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
    cache: &CacheConfig,
    without_credentials: bool,
    errors: &mut Vec<ConfigError>,
) {
    let rules = Rules { settings };
    errors.extend(rules.addresses());
    errors.extend(rules.idle_server_keys());
    errors.extend(rules.exposure(without_credentials));
    errors.extend(rules.origin_kind());
    errors.extend(rules.origin_credentials());
    errors.extend(rules.origin_decides());
    errors.extend(rules.budgets(cache));
}

/// The least that a store's budget must be.
fn budget_min(cache: &CacheConfig, shards: u64) -> u64 {
    shards * BLOCKS_PER_SHARD_MIN * cache.block_bytes
}

/// Shards on a machine of `cores` cores: no more than the smaller store can feed.
pub(super) fn shard_count_auto(cache: &CacheConfig, cores: usize) -> u16 {
    let cores = cores as u64;
    let spared = if cores >= CORES_WITH_SPARE_MIN { cores - 1 } else { cores };
    let fed = cache.data_bytes.min(cache.metadata_bytes) / budget_min(cache, 1);
    u16::try_from(spared.min(fed).clamp(1, SHARDS_AUTO_MAX)).expect("it is clamped")
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

    /// Keys that say more of what is off: who sets one believes it to be on.
    fn idle_server_keys(&self) -> Vec<ConfigError> {
        let server = |name: &str| self.settings.named("server", name);
        let is_off =
            |name: &str| server(name).is_none_or(|it| it.value == Value::Text("off".to_owned()));
        [
            ("unix_socket_mode", "unix_socket", "there is no server.unix_socket"),
            ("proxy_protocol_from", "proxy_protocol", "server.proxy_protocol is off"),
        ]
        .into_iter()
        .filter(|(name, needed, _)| self.is_set("server", name) && is_off(needed))
        .map(|(name, needed, state)| ConfigError::Conflict {
            problem: format!("{} is set, but {state}", self.said("server", name)),
            cure: format!("set server.{needed}, or remove server.{name}"),
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
        let holder = KeyIndex::find(LISTED_SECTION, "origin_access_key");
        let named = self.settings.iter().find(|(id, _)| Some(id.key) == holder);
        errors.extend(named.map(|(id, _)| {
            conflict(format!("{LISTED_SECTION}.{} has an origin_access_key", id.item))
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

    fn budgets(&self, cache: &CacheConfig) -> Vec<ConfigError> {
        let shards = match self.settings.named("server", "shards").map(|it| &it.value) {
            Some(Value::Count(count)) => *count,
            _ => 1,
        };
        let least = budget_min(cache, shards);
        [("data_bytes", cache.data_bytes), ("metadata_bytes", cache.metadata_bytes)]
            .into_iter()
            .filter(|(_, bytes)| *bytes < least)
            .map(|(name, _)| ConfigError::Conflict {
                problem: format!(
                    "{} is too little for {shards} shard{} of {BLOCKS_PER_SHARD_MIN} blocks of {} \
                     each",
                    self.said("cache", name),
                    if shards == 1 { "" } else { "s" },
                    size_text(cache.block_bytes)
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

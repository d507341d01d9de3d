//! From settings to typed values. Every key of the table is read here, by `credential` or by `catalog`.
//! Nothing is judged: `validate` has done that, `kind` has bounded each value.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use nilas_shards::admission::AdmissionKind;
use nilas_shards::area::AreaPolicies;
use nilas_shards::carry_over::CarryOverKind;
use nilas_shards::eviction::EvictionKind;
use tracing::level_filters::LevelFilter;

use super::error::{ConfigError, ConfigErrors};
use super::glob::Glob;
use super::kind::Value;
use super::secret::Secret;
use super::setting::{Settings, Source};
use super::validate::Stores;
use super::{
    AuthConfig, CacheConfig, Config, DiskConfig, Inputs, LimitsConfig, LogConfig, LogFormat,
    OriginConfig, ProxyTrust, RingChoice, ServerConfig, UnixSocketConfig, WriteAllocate, catalog,
    credential, validate, warm,
};
use crate::access::Unproven;
use crate::origin::{
    Addressing, CredentialSource, LocalDirectorySettings, OriginSettings, S3Settings,
};
use crate::tables::{TablesSettings, WarmRule};

/// Makes a configuration of `settings`, and checks it as a whole.
pub(super) fn config(settings: Settings, inputs: &Inputs) -> Result<Config, ConfigErrors> {
    let mut errors: Vec<ConfigError> = Vec::new();
    let reader = Reader::new(&settings);
    let auth = auth(&reader);
    let mut credentials = credential::read_all(&settings, inputs, &mut errors);
    let of_file = credential::of_file(auth.credentials_file.as_deref(), &credentials, &mut errors);
    let credentials_of_file = of_file.len();
    credentials.extend(of_file);
    let catalogs = catalog::read_all(&settings, &mut errors);
    let rules = warm::read_all(&settings, !catalogs.is_empty(), &mut errors);
    let cache = cache(&reader);
    let disk = disk(&reader);
    let is_open_to_nobody = credentials.is_empty() && auth.credentials_file.is_none();
    let stores = Stores { cache: &cache, disk: disk.as_ref() };
    validate::all(&settings, stores, is_open_to_nobody, &mut errors);
    if !errors.is_empty() {
        return Err(ConfigErrors(errors));
    }
    Ok(Config {
        server: server(&reader, stores, inputs.cores),
        origin: origin(&reader),
        buckets_allow: reader.globs("buckets", "allow"),
        credentials,
        credentials_of_file,
        catalogs,
        tables: tables(&reader, stores, rules),
        auth,
        cache,
        disk,
        limits: limits(&reader),
        log: log(&reader),
        settings,
    })
}

fn server(reader: &Reader<'_>, stores: Stores<'_>, cores: usize) -> ServerConfig {
    ServerConfig {
        listen: reader.address("server", "listen"),
        unix_socket: unix_socket(reader),
        proxy: proxy(reader),
        admin: reader.address("server", "admin"),
        admin_token: reader.secret("server", "admin_token"),
        shard_count: match reader.value("server", "shards") {
            Value::Count(count) => u16::try_from(*count).expect("the table bounds it"),
            _ => stores.shard_count_auto(cores),
        },
        ring: match reader.text("server", "ring").as_str() {
            "io_uring" => RingChoice::IoUring,
            "epoll" => RingChoice::Epoll,
            _ => RingChoice::Auto,
        },
        pin: matches!(reader.value("server", "pin"), Value::Boolean(true)),
        domains: match reader.value("server", "domains") {
            Value::Names(names) => names.clone(),
            other => reader.mistaken(other),
        },
        drain_timeout: reader.duration("server", "drain_timeout"),
    }
}

fn unix_socket(reader: &Reader<'_>) -> Option<UnixSocketConfig> {
    let mode = match reader.text("server", "unix_socket_mode").as_str() {
        "0600" => 0o600,
        "0666" => 0o666,
        _ => 0o660,
    };
    reader.path("server", "unix_socket").map(|path| UnixSocketConfig { path, mode })
}

fn proxy(reader: &Reader<'_>) -> Option<ProxyTrust> {
    let networks = match reader.value("server", "proxy_protocol_from") {
        Value::Networks(networks) => networks.clone(),
        other => reader.mistaken(other),
    };
    let is_on = reader.text("server", "proxy_protocol") == "v2";
    is_on.then_some(ProxyTrust { networks })
}

fn origin(reader: &Reader<'_>) -> OriginConfig {
    let settings = if reader.text("origin", "kind") == "s3" {
        OriginSettings::S3(s3(reader))
    } else {
        OriginSettings::LocalDirectory(LocalDirectorySettings {
            path: reader.path("origin", "path").expect("it has a default"),
            first_byte_latency: reader.duration("origin", "first_byte_latency"),
        })
    };
    OriginConfig {
        settings,
        create_directory: reader.is_default("origin", "path"),
        in_flight_requests_max: reader.count("origin", "in_flight_requests_max"),
        first_byte_timeout: reader.duration("origin", "first_byte_timeout"),
        body_idle_timeout: reader.duration("origin", "body_idle_timeout"),
        hedge: matches!(reader.value("origin", "hedge"), Value::Boolean(true)),
    }
}

fn s3(reader: &Reader<'_>) -> S3Settings {
    S3Settings {
        endpoint: reader.optional_text("origin", "endpoint").expect("checked by `validate`"),
        region: reader.text("origin", "region"),
        addressing: match reader.text("origin", "addressing").as_str() {
            "virtual_host" => Addressing::VirtualHost,
            _ => Addressing::Path,
        },
        credentials: origin_credentials(reader),
        ca_bundle: reader.path("origin", "ca_bundle"),
        write_timeout: reader.duration("origin", "write_timeout"),
    }
}

fn origin_credentials(reader: &Reader<'_>) -> CredentialSource {
    let access_key = reader.optional_text("origin", "access_key");
    let secret_key = reader.secret("origin", "secret_key");
    let session_token = reader.secret("origin", "session_token");
    let profile = reader.optional_text("origin", "profile");
    if reader.text("origin", "credentials") == "anonymous" {
        return CredentialSource::Anonymous;
    }
    match (access_key, secret_key) {
        (Some(access_key), Some(secret_key)) => CredentialSource::Keys {
            access_key,
            secret_key: secret_key.expose().to_owned(),
            session_token: session_token.map(|token| token.expose().to_owned()),
        },
        _ => CredentialSource::Default { profile },
    }
}

fn auth(reader: &Reader<'_>) -> AuthConfig {
    let unproven = |name: &str| match reader.text("auth", name).as_str() {
        "relay" => Unproven::Relay,
        _ => Unproven::Deny,
    };
    AuthConfig {
        credentials_file: reader.path("auth", "credentials_file"),
        anonymous: unproven("anonymous"),
        sigv2: unproven("sigv2"),
    }
}

fn cache(reader: &Reader<'_>) -> CacheConfig {
    CacheConfig {
        data_bytes: reader.size("cache", "data_bytes"),
        metadata_bytes: reader.size("cache", "metadata_bytes"),
        mapping_bytes: reader.size("cache", "mapping_bytes"),
        block_bytes: reader.size("cache", "block_bytes"),
        eviction: EvictionKind::named(&reader.text("cache", "eviction"))
            .expect("the table has its names"),
        mutable_ttl: reader.duration("cache", "mutable_ttl"),
        stale_if_error: reader.duration("cache", "stale_if_error"),
        authorisation_ttl: reader.duration("cache", "authorisation_ttl"),
        ambiguous_write_hold: reader.duration("cache", "ambiguous_write_hold"),
        write_allocate: WriteAllocate::named(&reader.text("cache", "write_allocate")),
        immutable_globs: reader.globs("cache", "immutable_globs"),
    }
}

/// What is on the device counts where there is one: all that is in memory is there, too.
fn tables(reader: &Reader<'_>, stores: Stores<'_>, rules: Vec<WarmRule>) -> TablesSettings {
    let Stores { cache, disk } = stores;
    let kept = |memory: u64, on_disk: Option<u64>| on_disk.unwrap_or(0).max(memory);
    TablesSettings {
        warms: matches!(reader.value("tables", "warm"), Value::Boolean(true)),
        page_indexes: matches!(reader.value("tables", "page_indexes"), Value::Boolean(true)),
        requests_max: reader.count("tables", "requests_max"),
        bytes_per_second: reader.size("tables", "bytes_per_second"),
        memory_bytes: reader.size("tables", "memory_bytes"),
        footer_bytes: reader.size("tables", "footer_bytes"),
        metadata_bytes: kept(cache.metadata_bytes, disk.map(|disk| disk.metadata_bytes)),
        data_bytes: kept(cache.data_bytes, disk.map(|disk| disk.data_bytes)),
        rules,
    }
}

/// Its keys are read whether there is a device or not.
fn disk(reader: &Reader<'_>) -> Option<DiskConfig> {
    let [data_bytes, metadata_bytes, mapping_bytes] =
        ["data_bytes", "metadata_bytes", "mapping_bytes"].map(|name| reader.size("disk", name));
    let [admission, carry_over] = ["admission", "carry_over"].map(|name| reader.text("disk", name));
    let policies = AreaPolicies {
        admission: AdmissionKind::named(&admission).expect("the table has its names"),
        carry_over: CarryOverKind::named(&carry_over).expect("the table has its names"),
    };
    let path = reader.path("disk", "path")?;
    Some(DiskConfig { path, data_bytes, metadata_bytes, mapping_bytes, policies })
}

fn limits(reader: &Reader<'_>) -> LimitsConfig {
    LimitsConfig {
        connections_per_shard_max: reader.count("limits", "connections_per_shard_max"),
        header_timeout: reader.duration("limits", "header_timeout"),
        body_idle_timeout: reader.duration("limits", "body_idle_timeout"),
        send_idle_timeout: reader.duration("limits", "send_idle_timeout"),
        send_stall_max: reader.duration("limits", "send_stall_max"),
        buffer_bytes: reader.size("limits", "buffer_bytes"),
        keep_alive_idle: reader.duration("limits", "keep_alive_idle"),
    }
}

fn log(reader: &Reader<'_>) -> LogConfig {
    LogConfig {
        level: match reader.text("log", "level").as_str() {
            "error" => LevelFilter::ERROR,
            "info" => LevelFilter::INFO,
            "debug" => LevelFilter::DEBUG,
            "trace" => LevelFilter::TRACE,
            _ => LevelFilter::WARN,
        },
        format: match reader.text("log", "format").as_str() {
            "json" => LogFormat::Json,
            _ => LogFormat::Human,
        },
        audit_file: reader.path("log", "audit_file"),
    }
}

/// Reads values as what their keys' kinds say, and notes which keys were read. A key that is not
/// in the table, or of another kind, is a bug.
struct Reader<'a> {
    settings: &'a Settings,
    read: RefCell<BTreeSet<(String, String)>>,
}

impl<'a> Reader<'a> {
    fn new(settings: &'a Settings) -> Reader<'a> {
        Reader { settings, read: RefCell::default() }
    }

    fn optional(&self, section: &str, name: &str) -> Option<&'a Value> {
        self.read.borrow_mut().insert((section.to_owned(), name.to_owned()));
        self.settings.named(section, name).map(|setting| &setting.value)
    }

    fn value(&self, section: &str, name: &str) -> &'a Value {
        self.optional(section, name).expect("this key has a default")
    }

    fn mistaken(&self, value: &Value) -> ! {
        unreachable!("the table says another kind than {value:?}")
    }

    fn is_default(&self, section: &str, name: &str) -> bool {
        self.settings.named(section, name).is_some_and(|setting| setting.source == Source::Default)
    }

    fn address(&self, section: &str, name: &str) -> SocketAddr {
        match self.value(section, name) {
            Value::Address(address) => *address,
            other => self.mistaken(other),
        }
    }

    fn size(&self, section: &str, name: &str) -> u64 {
        match self.value(section, name) {
            Value::Size(bytes) => *bytes,
            other => self.mistaken(other),
        }
    }

    fn count(&self, section: &str, name: &str) -> usize {
        match self.value(section, name) {
            Value::Count(count) => usize::try_from(*count).expect("the table bounds it"),
            other => self.mistaken(other),
        }
    }

    fn duration(&self, section: &str, name: &str) -> Duration {
        match self.value(section, name) {
            Value::Duration(duration) => *duration,
            other => self.mistaken(other),
        }
    }

    fn globs(&self, section: &str, name: &str) -> Vec<Glob> {
        match self.value(section, name) {
            Value::Globs(globs) => globs.clone(),
            other => self.mistaken(other),
        }
    }

    fn text(&self, section: &str, name: &str) -> String {
        self.optional_text(section, name).expect("this key has a default")
    }

    fn optional_text(&self, section: &str, name: &str) -> Option<String> {
        self.optional(section, name).map(|value| match value {
            Value::Text(text) => text.clone(),
            other => self.mistaken(other),
        })
    }

    fn path(&self, section: &str, name: &str) -> Option<PathBuf> {
        self.optional(section, name).map(|value| match value {
            Value::Path(path) => path.clone(),
            other => self.mistaken(other),
        })
    }

    fn secret(&self, section: &str, name: &str) -> Option<Secret> {
        self.optional(section, name).map(|value| match value {
            Value::Secret(secret) => secret.clone(),
            other => self.mistaken(other),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::is_listed;
    use super::super::table::KEYS;
    use super::*;

    #[test]
    fn every_key_of_the_table_is_read() {
        let mut settings = Settings::defaults();
        let key = super::super::KeyIndex::find("origin", "endpoint").expect("it is in the table");
        let endpoint = Value::Text("http://127.0.0.1:1".to_owned());
        settings.set(super::super::SettingId::of(key), endpoint, Source::Default);
        let reader = Reader::new(&settings);
        let cache = cache(&reader);
        let disk = disk(&reader);
        server(&reader, Stores { cache: &cache, disk: disk.as_ref() }, 2);
        tables(&reader, Stores { cache: &cache, disk: disk.as_ref() }, Vec::new());
        origin(&reader);
        s3(&reader);
        limits(&reader);
        log(&reader);
        auth(&reader);
        reader.globs("buckets", "allow");
        let read = reader.read.borrow();
        for key in KEYS.iter().filter(|key| !is_listed(key.section)) {
            let name = (key.section.to_owned(), key.name.to_owned());
            assert!(read.contains(&name), "{} is in the table but nothing reads it", key.dotted());
        }
    }
}

//! The keys themselves, in the order in which they are shown. A key is here only if the node acts
//! on it; a test compares this table with what `build` reads.

use super::key::Key;
use super::kind::Kind;
use nilas_base::{KIB, MIB};
use nilas_shards::admission::AdmissionKind;
use nilas_shards::area::AreaPolicies;
use nilas_shards::carry_over::CarryOverKind;
use nilas_shards::eviction::EvictionKind;

const fn key(
    section: &'static str,
    name: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    help: &'static str,
) -> Key {
    Key { section, name, kind, default, short_flag: None, help }
}

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;
/// A budget in bytes: what a machine can have.
const BUDGET: Kind = Kind::Size { min: MIB, max: 1 << 50 };
/// A time that must pass before something is given up.
const TIMEOUT: Kind = Kind::Duration { min_ns: SECOND / 100, max_ns: DAY };

/// A simulated latency.
const LATENCY: Kind = Kind::Duration { min_ns: 0, max_ns: 60 * SECOND };

/// Every key, in the order in which it is shown.
#[rustfmt::skip]
pub static KEYS: &[Key] = &[
    key("server", "listen", Kind::Address, Some("127.0.0.1:9000"),
        "Address of the S3 endpoint. Beyond loopback it needs [[credentials]].").short("listen"),
    key("server", "unix_socket", Kind::UnixPath, None,
        "Path of a Unix socket on which S3 is served beside server.listen. The file is made at the start \
         and removed at the stop; its folder must be there."),
    key("server", "unix_socket_mode", Kind::Choice(&["0600", "0660", "0666"]), Some("0660"),
        "Who may connect to it: the node's user, its group too, or every user of this machine."),
    key("server", "proxy_protocol", Kind::Choice(&["off", "v2"]), Some("off"),
        "v2: every connection to server.listen begins with a PROXY header of version 2, which says where the \
         client is; without one it is closed. For a port that only a balancer reaches."),
    key("server", "proxy_protocol_from", Kind::Networks, Some(""),
        "Networks that PROXY headers are taken from; connections from elsewhere are closed. None: from \
         anywhere."),
    key("server", "admin", Kind::Address, Some("127.0.0.1:9001"),
        "Address of the admin port. Beyond loopback it needs server.admin_token."),
    key("server", "admin_token", Kind::Secret, None,
        "Bearer token that the admin port asks for; /healthz and /readyz stay open."),
    key("server", "shards", Kind::CountOrAuto { max: 1024 }, Some("auto"),
        "Serving threads. auto: one a core, leaving one core in four or more to the control \
         threads, and no more than the budgets can feed.").short("shards"),
    key("server", "ring", Kind::Choice(&["auto", "io_uring", "epoll"]), Some("auto"),
        "How the kernel is asked. auto: io_uring where it is allowed, else epoll.").short("ring"),
    key("server", "pin", Kind::Boolean, Some("true"),
        "Whether each shard stays on one core."),
    key("server", "domains", Kind::Domains, Some(""),
        "Domains under which a bucket may be a host name (bucket.domain)."),
    key("server", "drain_timeout", TIMEOUT, Some("30s"),
        "How long a stopping node waits for requests in flight."),

    key("origin", "kind", Kind::Choice(&["local", "s3"]), Some("local"),
        "What holds the objects: a directory of this machine, or something that speaks S3."),
    key("origin", "path", Kind::Path, Some("nilas-data"),
        "local: the directory; its sub-directories are buckets. Only the default one is created."),
    key("origin", "first_byte_latency", LATENCY, Some("0s"),
        "local: a simulated wait before each answer."),
    key("origin", "endpoint", Kind::Endpoint, None,
        "s3: http:// or https://, host, and port."),
    key("origin", "region", Kind::Text, Some("us-east-1"),
        "s3: the region that signatures name."),
    key("origin", "addressing", Kind::Choice(&["path", "virtual_host"]), Some("path"),
        "s3: endpoint/bucket/key, or bucket.endpoint/key."),
    key("origin", "credentials", Kind::Choice(&["auto", "config", "anonymous"]), Some("auto"),
        "s3: config: origin.access_key and origin.secret_key. auto: those where given, else \
         environment, profile file, web identity, container and instance metadata, in this \
         order. anonymous: requests go unsigned."),
    key("origin", "access_key", Kind::Text, None,
        "s3: the access key that requests are signed with."),
    key("origin", "secret_key", Kind::Secret, None,
        "s3: the secret key that requests are signed with."),
    key("origin", "session_token", Kind::Secret, None,
        "s3: the session token of temporary credentials."),
    key("origin", "profile", Kind::Text, None,
        "s3: the profile to take from the AWS files."),
    key("origin", "ca_bundle", Kind::Path, None,
        "s3: a PEM file of certificates to trust instead of the usual public ones."),
    key("origin", "in_flight_requests_max", Kind::Count { min: 1, max: 65_536 }, Some("512"),
        "Requests in flight at the origin; more of them queue."),
    key("origin", "first_byte_timeout", TIMEOUT, Some("10s"),
        "How long a read may wait for the head of the origin's answer."),
    key("origin", "body_idle_timeout", TIMEOUT, Some("10s"),
        "How long an answer's body may stand still; then its rest is asked for anew."),
    key("origin", "write_timeout", TIMEOUT, Some("5m"),
        "s3: how long a write may wait for the origin's answer once the origin has its last byte; then \
         its outcome is unknown."),
    key("origin", "hedge", Kind::Boolean, Some("true"),
        "Whether a read whose first byte is slower than 95 of 100 is asked a second time beside \
         the first."),

    key("buckets", "allow", Kind::Globs, Some("*"),
        "Buckets that are served, as patterns; others are refused with AccessDenied."),

    key("credentials", "access_key", Kind::Text, None,
        "An access key that clients may sign with."),
    key("credentials", "secret_key", Kind::Secret, None,
        "Its secret key."),
    key("credentials", "secret_key_file", Kind::Path, None,
        "A file that holds its secret key instead."),
    key("credentials", "secret_key_env", Kind::Text, None,
        "An environment variable that holds its secret key instead."),
    key("credentials", "origin_access_key", Kind::Text, None,
        "s3: the access key that its requests are signed with for the origin, instead of the node's."),
    key("credentials", "origin_secret_key", Kind::Secret, None,
        "s3: the secret key that goes with it."),

    key("credentials", "mode", Kind::Choice(&["read_only", "read_write", "admin"]), None,
        "What it may do: read_only reads and lists objects, read_write also writes and deletes them, \
         admin everything. admin where nothing is said."),
    key("credentials", "buckets", Kind::Globs, None,
        "The buckets that it covers, as patterns; all where there is none."),
    key("credentials", "prefixes", Kind::Prefixes, None,
        "The beginnings of the keys that it covers; all where there is none."),
    key("credentials", "requests_per_second_max", Kind::Count { min: 1, max: 1_000_000_000 }, None,
        "Requests a second; more are refused with SlowDown."),
    key("credentials", "bytes_per_second_max", Kind::Size { min: KIB, max: 1 << 50 }, None,
        "Bytes sent and received a second; while more have passed, requests are refused with SlowDown."),
    key("credentials", "requests_in_flight_max", Kind::Count { min: 1, max: 1_000_000 }, None,
        "Requests under way; more are refused with SlowDown."),

    key("catalog", "name", Kind::Text, None,
        "What an Iceberg REST catalog that is watched is called here: letters, digits, - and _."),
    key("catalog", "url", Kind::Url, None,
        "Its address, without /v1."),
    key("catalog", "warehouse", Kind::Text, None,
        "The warehouse that it is asked for."),
    key("catalog", "prefix", Kind::Text, None,
        "What its paths begin with after /v1, where the catalog does not say that itself."),
    key("catalog", "include", Kind::Globs, Some(""),
        "Tables that are watched, as patterns of namespace.table, such as sales.*; none: all."),
    key("catalog", "exclude", Kind::Globs, Some(""),
        "Tables that are not, even where catalog.include lets them in."),
    key("catalog", "poll_interval", Kind::Duration { min_ns: SECOND / 10, max_ns: DAY }, Some("30s"),
        "How often each table is asked for; a tenth more or less, by chance."),
    key("catalog", "listing_interval", Kind::Duration { min_ns: SECOND / 10, max_ns: DAY }, Some("5m"),
        "How often all tables are listed anew."),
    key("catalog", "tables_max", Kind::Count { min: 1, max: 1_000_000 }, Some("10000"),
        "Tables that are watched at most; the rest is left out, which is told."),
    key("catalog", "requests_in_flight_max", Kind::Count { min: 1, max: 256 }, Some("4"),
        "Requests under way at the catalog."),
    key("catalog", "request_timeout", TIMEOUT, Some("30s"),
        "How long a request may take, its answer's last byte included."),
    key("catalog", "answer_bytes_max", Kind::Size { min: 64 * KIB, max: 1 << 32 }, Some("64MiB"),
        "How long an answer may be; a table's metadata is one."),
    key("catalog", "vended_credentials", Kind::Boolean, Some("false"),
        "Whether the catalog is asked to lend credentials for each table's files, which they are then read with."),
    key("catalog", "auth", Kind::Choice(&["auto", "none", "token", "oauth2", "sigv4"]), Some("auto"),
        "How requests prove who asks. auto: by catalog.token or catalog.token_file, else by catalog.oauth2_client_id, \
         where one is given, else not at all."),
    key("catalog", "token", Kind::Secret, None,
        "A bearer token."),
    key("catalog", "token_file", Kind::Path, None,
        "A file that holds the bearer token instead; read again whenever it changes."),
    key("catalog", "oauth2_client_id", Kind::Text, None,
        "The client of OAuth2's client credentials."),
    key("catalog", "oauth2_client_secret", Kind::Secret, None,
        "Its secret."),
    key("catalog", "oauth2_client_secret_file", Kind::Path, None,
        "A file that holds its secret instead."),
    key("catalog", "oauth2_scope", Kind::Text, Some("catalog"),
        "The scope that tokens are asked for with."),
    key("catalog", "oauth2_server_url", Kind::Url, None,
        "Where tokens are asked for, where that is not /v1/oauth/tokens below catalog.url."),
    key("catalog", "region", Kind::Text, Some("us-east-1"),
        "sigv4: the region that signatures name."),
    key("catalog", "signing_name", Kind::Text, None,
        "sigv4: the service that signatures name; where nothing is said, glue or s3tables as the host begins, else \
         execute-api."),
    key("catalog", "access_key", Kind::Text, None,
        "sigv4: the access key that requests are signed with; without one, keys are looked for as with \
         origin.credentials = \"auto\"."),
    key("catalog", "secret_key", Kind::Secret, None,
        "sigv4: the secret key that goes with it."),
    key("catalog", "session_token", Kind::Secret, None,
        "sigv4: the session token of temporary credentials."),
    key("catalog", "profile", Kind::Text, None,
        "sigv4: the profile to take from the AWS files."),
    key("catalog", "ca_bundle", Kind::Path, None,
        "A PEM file of certificates to trust instead of the usual public ones."),
    key("catalog", "hint_secret", Kind::Secret, None,
        "What commit hints at /admin/catalog/events are signed with; without one none are taken for this catalog."),

    key("auth", "credentials_file", Kind::Path, None,
        "A file of more [[credentials]], read again whenever it changes; see `nilas credential`."),
    key("auth", "anonymous", Kind::Choice(&["deny", "relay"]), Some("deny"),
        "s3: unsigned requests. deny: refused. relay: asked of the origin unsigned, which decides."),
    key("auth", "sigv2", Kind::Choice(&["deny", "relay"]), Some("deny"),
        "s3: requests with a signature of version 2. deny: refused. relay: sent on as they came; the \
         origin must know the client's key."),

    key("cache", "data_bytes", BUDGET, Some("1GiB"),
        "Memory for data, over all shards."),
    key("cache", "metadata_bytes", BUDGET, Some("256MiB"),
        "Memory for table metadata and footers, over all shards; data cannot take from it."),
    key("cache", "mapping_bytes", Kind::Size { min: 64 * KIB, max: 1 << 50 }, Some("128MiB"),
        "Memory for what is known of objects (version, headers, checksums), over all shards."),
    key("cache", "block_bytes", Kind::PowerOfTwoSize { min: MIB, max: 8 * MIB }, Some("2MiB"),
        "Length of a block. Another length is another cache."),
    key("cache", "eviction", Kind::Choice(EvictionKind::NAMES), Some(EvictionKind::DEFAULT.name()),
        "How the stores in memory choose what leaves for what comes."),
    key("cache", "mutable_ttl", Kind::Duration { min_ns: 0, max_ns: DAY }, Some("5s"),
        "How long an object that may change is served without asking the origin; 0s: always ask."),
    key("cache", "authorisation_ttl", Kind::Duration { min_ns: 0, max_ns: DAY }, Some("5m"),
        "How long an identity of the origin is believed to be allowed an object that never changes; \
         of no account where all credentials are one identity."),
    key("cache", "ambiguous_write_hold", TIMEOUT, Some("15m"),
        "How long every read of a key asks the origin after a write whose outcome is unknown: it \
         may still happen."),
    key("cache", "stale_if_error", Kind::Duration { min_ns: 0, max_ns: DAY }, Some("0s"),
        "How long after cache.mutable_ttl an object that may change is still served while the \
         origin gives no answer; 0s: not at all."),
    key("cache", "write_allocate", Kind::Choice(&["off", "metadata", "all"]), Some("metadata"),
        "Which objects of at most 8MiB are in the cache once they were uploaded through the node: none, \
         Iceberg's metadata, or all. Parts of a multipart upload never are."),
    key("cache", "immutable_globs", Kind::Globs, Some(""),
        "Patterns of bucket/key for objects that never change, beside those that Iceberg's \
         names show."),

    key("tables", "warm", Kind::Boolean, Some("true"),
        "Whether what engines plan with (table metadata, manifests, footers) is fetched at the start and after \
         each commit, for the tables of the watched catalogs, and what [[warm]] says."),
    key("tables", "page_indexes", Kind::Boolean, Some("false"),
        "Whether the page indexes of Parquet files are fetched with their footers, as far as they have room: for \
         engines that skip pages by them. Most that lie within 64 KiB of a file's end come with its footer anyway."),
    key("tables", "requests_max", Kind::Count { min: 1, max: 16 }, Some("8"),
        "Reads for the sake of tables that are under way at a time."),
    key("tables", "bytes_per_second", Kind::Size { min: 64 * KIB, max: 1 << 40 }, Some("256MiB"),
        "Bytes a second that the origin is asked for, for the sake of tables."),
    key("tables", "memory_bytes", BUDGET, Some("1GiB"),
        "Memory for what manifests say and for the index of files, about 200 bytes a file, over all tables. \
         A table that has no room is cached as any objects are."),
    key("tables", "footer_bytes", BUDGET, Some("64MiB"),
        "Memory for parsed footers, beside that."),

    key("warm", "tables", Kind::Globs, None,
        "Tables whose data is fetched before anybody asks for it, and after each commit, as patterns of \
         catalog.namespace.table."),
    key("warm", "partitions", Kind::Globs, Some(""),
        "Partitions of them, as patterns of what Iceberg writes into paths, such as day=2026-*; none: all."),
    key("warm", "columns", Kind::Columns, Some(""),
        "Columns of them, those within named ones too; none: all."),
    key("warm", "pin", Kind::Boolean, Some("false"),
        "Whether it is looked for once a minute, and fetched again where it has left the cache."),

    key("disk", "path", Kind::Path, None,
        "A directory, in which the file nilas.cache is made, or a block device: the cache device. Without one \
         the cache is in memory alone."),
    key("disk", "data_bytes", BUDGET, Some("10GiB"),
        "Bytes of it for data, over all shards. Other sizes, another number of shards or another \
         cache.block_bytes may lay it out anew, and empty."),
    key("disk", "metadata_bytes", BUDGET, Some("1GiB"),
        "Bytes of it for table metadata and footers, over all shards."),
    key("disk", "mapping_bytes", BUDGET, Some("256MiB"),
        "Bytes of it for what is known of objects that never change, over all shards."),
    key("disk", "admission", Kind::Choice(AdmissionKind::NAMES), Some(AreaPolicies::DEFAULT.admission.name()),
        "What data is written to it once other data must leave for it. second-touch: what was brought from \
         the origin before, not long ago. Table metadata and footers always are."),
    key("disk", "carry_over", Kind::Choice(CarryOverKind::NAMES), Some(AreaPolicies::DEFAULT.carry_over.name()),
        "What stays of the oldest part of it, when that is emptied. never: nothing; touched: what was read \
         since it was written; frequent: what was read more than once lately."),

    key("limits", "connections_per_shard_max", Kind::Count { min: 1, max: 1_000_000 }, Some("4096"),
        "Client connections on each shard; more are turned away with SlowDown."),
    key("limits", "header_timeout", TIMEOUT, Some("10s"),
        "How long a request's head may take from its first byte, and a PROXY header from the accept."),
    key("limits", "body_idle_timeout", TIMEOUT, Some("30s"),
        "How long a request's body may stand still."),
    key("limits", "send_idle_timeout", TIMEOUT, Some("60s"),
        "How long a client may take none of an answer."),
    key("limits", "send_stall_max", TIMEOUT, Some("10s"),
        "The same, while others wait for the memory that the answer keeps: the longest-stalled \
         connection is closed then."),
    key("limits", "buffer_bytes", Kind::Size { min: 8 * MIB, max: 1 << 50 }, Some("128MiB"),
        "Memory for bytes on their way that are not in the cache (uploads, relayed answers, answers \
         of the origin), over all shards; more of them wait, and are refused with SlowDown last."),
    key("limits", "keep_alive_idle", TIMEOUT, Some("75s"),
        "How long a connection may wait for its next request."),

    key("log", "level", Kind::Choice(&["error", "warn", "info", "debug", "trace"]), Some("warn"),
        "The least severe lines that are written, to standard error."),
    key("log", "format", Kind::Choice(&["human", "json"]), Some("human"),
        "Lines for people, or one JSON object a line."),
    key("log", "audit_file", Kind::Path, None,
        "A file to which each refused or administrative request is appended, one JSON object a line; \
         it may be moved away and is then begun anew."),
];

//! The node: where wire, store and origin meet. One file a story (`connection`, `get`, `relay`,
//! `put`, and on the owners' side `open` and `fill`); the rooms below it are `origin/` (where bytes
//! come from) and `admin/` (what an operator sees). Nothing here parses bytes or touches a ring
//! itself; see `nilas-net` and `nilas-shards`.

pub mod admin;
pub mod catalog;
pub mod config;
pub mod metrics;
pub mod mutation;
pub mod node;
pub mod origin;
pub mod purge;
pub mod reading;
pub mod startup;
pub mod trace;

mod access;
mod answer;
mod audit;
pub mod authority;
mod both;
mod buffers;
mod call;
mod client;
mod connection;
mod disk;
mod epoch;
mod fill;
mod freshness;
mod get;
mod hold;
mod identity;
pub mod inner;
mod invalidate;
mod mapping;
mod naming;
mod open;
mod persist;
mod put;
mod relay;
mod relief;
mod request;
mod settings;
mod shard;
mod socket_file;
mod source;
pub mod tables;
mod wire;
mod written;

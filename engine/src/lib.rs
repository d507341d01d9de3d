//! The node: where wire, store and origin meet. One file a story (`get`, `head`, `relay`, `put`);
//! the rooms below it are `origin/` (where bytes come from) and `admin/` (what an operator sees).
//! Nothing here parses bytes or touches a ring itself; see `nilas-net` and `nilas-shards`.

pub mod admin;
pub mod config;
pub mod metrics;
pub mod origin;
pub mod startup;

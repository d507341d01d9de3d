//! Shards: one thread a core with its ring, executor, timers, sockets and mailboxes, and the store
//! whose bytes it alone changes. It knows no protocol; `net` and `engine` do.
//! Begin at `reactor` for what runs, at `ring` for what talks to the kernel, at `store` for what is kept.

mod arena;
mod doorbell;
pub mod eviction;
pub mod store;
mod sys;

pub use doorbell::Doorbell;

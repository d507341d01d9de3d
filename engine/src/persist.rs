//! What of a shard's knowledge outlives it: the mappings of immutable objects, that a write has begun,
//! and what was purged.

#![expect(dead_code, reason = "the stories that use these rules follow")]

pub mod entry;
mod kept;
mod outline;
mod writes;

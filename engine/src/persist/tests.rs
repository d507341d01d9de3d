//! Shards that are started anew on what they left behind, by a clean stop or a sudden one. Several
//! shards run on one thread, on epoll, with their journals in one temporary file.

mod bench;
mod restart;
mod size;
mod soak;
mod tail;

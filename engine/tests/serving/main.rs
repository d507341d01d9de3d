//! A node as its clients see it, over real sockets, on both real ring bodies: what is read equals
//! what was written, what is warm asks the origin nothing, what is bad is refused.

#[path = "../support/client.rs"]
mod client;
#[path = "../support/node.rs"]
mod node;
#[path = "../support/time.rs"]
mod time;
#[path = "../support/wording.rs"]
mod wording;

mod cache;
mod chain;
mod disconnect;
mod drain;
mod expect;
mod framing;
mod freshness;
mod gone;
mod key;
mod limit;
mod mangled;
mod overwrite;
mod pressure;
mod read;
mod signature;
mod wire;
mod write;

/// Stamps tests on every real ring body.
macro_rules! on_both_bodies {
    ($($name:ident)*) => {
        mod io_uring {
            $(#[test] fn $name() { super::$name(nilas_shards::RingBody::IoUring); })*
        }
        mod epoll {
            $(#[test] fn $name() { super::$name(nilas_shards::RingBody::Epoll); })*
        }
    };
}
use on_both_bodies;

/// Bytes that no other seed gives.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = nilas_base::Rng::from_seed(seed);
    let words = std::iter::repeat_with(|| rng.next_u64().to_le_bytes());
    let mut bytes: Vec<u8> = words.take(length.div_ceil(8)).flatten().collect();
    bytes.truncate(length);
    bytes
}

//! Ceilings and fairness, on both real ring bodies: readers that stall do not hold up others, and
//! what a node holds stays within its budget whatever is done to it.

#![expect(clippy::print_stdout, reason = "latencies and peaks are told, not judged")]

#[expect(dead_code, reason = "other suites use the rest")]
#[path = "../support/client.rs"]
mod client;
#[expect(dead_code, reason = "other suites use the rest")]
#[path = "../support/node.rs"]
mod node;
#[path = "../support/time.rs"]
mod time;
#[expect(dead_code, reason = "other suites use the rest")]
#[path = "../support/wording.rs"]
mod wording;

mod child;
mod memory;
mod stall;
mod upload;

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

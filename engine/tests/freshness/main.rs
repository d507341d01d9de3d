//! What a node knows after writes, deletes, copies, completed uploads, purges and refusals, over
//! real sockets and on both real ring bodies: never an old version after a new one was promised,
//! never two in one answer, and nothing forgotten that nobody touched.

#[allow(dead_code, reason = "shared with other tests")]
#[path = "../support/client.rs"]
mod client;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../support/node.rs"]
mod node;
#[path = "../support/time.rs"]
mod time;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../support/wording.rs"]
mod wording;

mod exact;
mod history;
mod hold;
mod origin;
mod purge;
mod race;
mod refusal;
mod report;
mod settle;

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

use nilas_shards::RingBody;
use node::{BUCKET, TestNode};
use origin::WritableOrigin;

/// Bytes that no other seed gives.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = nilas_base::Rng::from_seed(seed);
    let words = std::iter::repeat_with(|| rng.next_u64().to_le_bytes());
    let mut bytes: Vec<u8> = words.take(length.div_ceil(8)).flatten().collect();
    bytes.truncate(length);
    bytes
}

/// The target of a key in the bucket.
fn target(key: &str) -> String {
    format!("/{BUCKET}/{key}")
}

/// A node of two shards before an origin, which believes what it knows for long.
fn node_before(origin: &WritableOrigin, ring: RingBody, flags: &[&str]) -> TestNode {
    let endpoint = format!("http://{}", origin.address());
    let mut all = vec![
        "--origin.kind",
        "s3",
        "--origin.endpoint",
        &endpoint,
        "--origin.credentials",
        "anonymous",
    ];
    if !flags.contains(&"--cache.mutable_ttl") {
        all.extend(["--cache.mutable_ttl", "1h"]);
    }
    all.extend(flags);
    TestNode::start(ring, &all)
}

//! What a node knows after writes, deletes, copies, completed uploads, purges and refusals, over
//! real sockets and on both real ring bodies: never an old version after a new one was promised,
//! never two in one answer, and nothing forgotten that nobody touched.

#[allow(dead_code, reason = "shared with other tests")]
#[path = "../support/client.rs"]
mod client;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../support/form.rs"]
mod form_wording;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../support/node.rs"]
mod node;
#[path = "../support/suite.rs"]
mod suite;
#[path = "../support/time.rs"]
mod time;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../support/wording.rs"]
mod wording;

mod deference;
mod exact;
mod form;
mod history;
mod hold;
mod identity;
mod list;
mod origin;
mod purge;
mod race;
mod refusal;
mod report;
mod restart;
mod settle;
mod written;

use nilas_shards::RingBody;
use node::{TestNode, target};
use origin::WritableOrigin;
use suite::{noise, on_both_bodies};

/// A node of two shards before an origin, which believes what it knows for long.
fn node_before(origin: &WritableOrigin, ring: RingBody, flags: &[&str]) -> TestNode {
    let default: &[&str] = match flags.contains(&"--cache.mutable_ttl") {
        true => &[],
        false => &["--cache.mutable_ttl", "1h"],
    };
    TestNode::start_before(origin.address(), ring, &[default, flags].concat())
}

//! A node whose origin misbehaves, over real sockets: delays, cuts, resets, stalls, lies and outages.
//! Clients get the right bytes or an error that S3 has a name for, in time; nothing wrong stays.

#[allow(dead_code, reason = "shared with other tests")]
#[path = "../support/client.rs"]
mod client;
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

mod ahead;
mod behaviour;
mod body;
mod flood;
mod head;
mod hedge;
mod origin;
mod outage;
mod weather;

use std::time::Duration;

use nilas_base::Clock;
use nilas_shards::RingBody;

use behaviour::Behaviour;
use client::Answer;
use node::{TestNode, target};
use origin::{Asked, FaultyOrigin};
use suite::{noise, on_both_bodies};

/// Flags of a node that gives an origin up soon.
const HASTY: [&str; 4] =
    ["--origin.first_byte_timeout", "1500ms", "--origin.body_idle_timeout", "800ms"];
/// How long it waits for the first byte of an answer.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_millis(1500);
/// How long it waits between two pieces of a body.
const BODY_IDLE_TIMEOUT: Duration = Duration::from_millis(800);

/// A node of two shards before an origin; nothing of the bucket changes unless a flag says so.
fn node_before(origin: &FaultyOrigin, ring: RingBody, flags: &[&str]) -> TestNode {
    let default: &[&str] = match flags.contains(&"--cache.mutable_ttl") {
        true => &[],
        false => &["--cache.immutable_globs", "**"],
    };
    TestNode::start_before(origin.address(), ring, &[default, flags].concat())
}

/// Asks for an answer that may be cut, on a connection of its own; `None` where it was.
fn get_unless_cut(node: &TestNode, target: &str, headers: &[(&str, &str)]) -> Option<Answer> {
    let mut client = node.client();
    let head = client.signed_head("GET", target, headers, 0);
    client.write(&head);
    if client.is_closed() { None } else { client.answer_unless_cut() }
}

/// How long something takes.
fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let clock = Clock::system();
    let begun = clock.now();
    let result = run();
    (result, clock.now().since(begun))
}

/// A script: the first so many requests for an object are answered in this way, the others well.
fn at_first(count: u64, behaviour: Behaviour) -> impl Fn(&Asked) -> Behaviour + Send + Sync {
    move |asked| if asked.number < count { behaviour.clone() } else { Behaviour::well() }
}

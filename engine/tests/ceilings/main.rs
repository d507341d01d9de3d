//! Ceilings and fairness, on both real ring bodies: readers that stall do not hold up others, and
//! what a node holds stays within its budget whatever is done to it.

#![expect(clippy::print_stdout, reason = "latencies and peaks are told, not judged")]

#[expect(dead_code, reason = "other suites use the rest")]
#[path = "../support/client.rs"]
mod client;
#[expect(dead_code, reason = "other suites use the rest")]
#[path = "../support/node.rs"]
mod node;
#[path = "../support/suite.rs"]
mod suite;
#[path = "../support/time.rs"]
mod time;
#[expect(dead_code, reason = "other suites use the rest")]
#[path = "../support/wording.rs"]
mod wording;

mod child;
mod memory;
mod stall;
mod upload;

use suite::{noise, on_both_bodies};

//! A node as its clients see it, over real sockets, on both real ring bodies: what is read equals
//! what was written, what is warm asks the origin nothing, what is bad is refused.

#[path = "../support/client.rs"]
mod client;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../support/form.rs"]
mod form_wording;
#[expect(dead_code, reason = "other suites use the rest")]
#[path = "../support/node.rs"]
mod node;
#[path = "../support/suite.rs"]
mod suite;
#[path = "../support/time.rs"]
mod time;
#[path = "../support/wording.rs"]
mod wording;

mod audit;
mod cache;
mod chain;
mod disconnect;
mod drain;
mod expect;
mod form;
mod framing;
mod freshness;
mod gone;
mod inner;
mod key;
mod limit;
mod mangled;
mod overwrite;
mod pressure;
mod proxy;
mod read;
mod scope;
mod signature;
mod tail;
mod unix;
mod wire;
mod write;

use suite::{noise, on_both_bodies};

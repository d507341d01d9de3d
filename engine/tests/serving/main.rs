//! A node as its clients see it, over real sockets, on both real ring bodies: what is read equals
//! what was written, what is warm asks the origin nothing, what is bad is refused.

#[path = "../support/client.rs"]
mod client;
#[path = "../support/node.rs"]
mod node;

mod read;

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

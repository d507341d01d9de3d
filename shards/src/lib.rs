//! Shards: one thread a core with its ring, executor, timers, sockets and mailboxes, and the store
//! whose bytes it alone changes. It knows no protocol; `net` and `engine` do.
//! Begin at `reactor` for what runs, at `ring` for what talks to the kernel, at `store` for what is kept.

pub mod admission;
pub mod area;
mod arena;
mod buffer;
pub mod carry_over;
pub mod confinement;
pub mod device;
pub mod disk;
mod doorbell;
mod endpoint;
pub mod eviction;
mod exchange;
mod executor;
mod file;
mod inbox;
pub mod journal;
mod kind;
mod listener;
#[cfg(feature = "mutations")]
pub mod mutation;
mod operation;
mod parts;
mod pin;
mod probe;
mod reactor;
mod received;
pub mod ring;
mod signal;
mod sketch;
mod socket;
pub mod store;
mod sys;
mod timer;

pub use buffer::Buffer;
pub use doorbell::Doorbell;
pub use endpoint::{Peer, Transport};
pub use exchange::{CALLS_IN_FLIGHT_MAX, Delivered, Exchange, ExchangeSeat};
pub use file::File;
pub use listener::Listener;
pub use parts::{HEAD_BUFFER_BYTES, HeadBuffer, HeadFull, PARTS_MAX, Parts};
pub use pin::{give_way, go_first, pin_to_core, processor_time, usable_cores};
pub use probe::{Finding, ProbeError, ProbeReport, RingChoice, Severity, UnknownRing, probe};
pub use reactor::Reactor;
pub use reactor::sleep::{Elapsed, Sleep, Timeout};
pub use reactor::turn::{Turn, Wait};
pub use received::Received;
pub use ring::simulated::{
    DiskCondition, DiskEvents, NetworkCondition, SimulatedWorld, TraceEvent,
};
pub use ring::{Ring, RingBody, RingOptions, open_ring};
pub use socket::Socket;
pub use sys::unix::{UNIX_PATH_BYTES_MAX, bind_unix, unix_path_is_served};

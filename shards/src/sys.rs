//! The one door to the kernel and to raw memory: every `unsafe` block of the project is in this room.
//! What leaves it is safe to use, whatever the caller does; nothing here knows a request or a block.
#![allow(unsafe_code)]

pub(crate) mod affinity;
pub(crate) mod confinement;
pub(crate) mod epoll;
pub(crate) mod eventfd;
pub(crate) mod file;
pub(crate) mod limit;
pub(crate) mod memory;
pub(crate) mod message;
pub(crate) mod provided;
pub(crate) mod scheduling;
pub(crate) mod socket;
pub(crate) mod thread;
pub(crate) mod unix;
pub(crate) mod uring;

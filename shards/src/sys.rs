//! The one door to the kernel and to raw memory: every `unsafe` block of the project is in this room.
//! What leaves it is safe to use, whatever the caller does; nothing here knows a request or a block.
#![allow(unsafe_code)]

pub(crate) mod eventfd;
pub(crate) mod memory;

//! What lies on a cache device, shown to people and machines: `nilas inspect` looks at one, also while a node uses it;
//! `nilas cache verify` reads all of a stopped node's. Nothing here ever writes to a device.
//! Opening and reading is `device`'s, a segment's records `segment`'s; `inspect` and `verify` make the facts, `text`
//! puts them for people, `command` is the command line.

pub mod command;
mod device;
mod fact;
mod inspect;
mod segment;
pub(crate) mod text;
mod verify;

#[cfg(test)]
mod tests;

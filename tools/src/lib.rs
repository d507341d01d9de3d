//! The yard's tools: `tidy` holds the tree to its own rules, `verify` runs every check, `python`
//! prepares what tests and lab share, `recorder` counts what reaches an origin. `admin`,
//! `credential`, `tables` and `cache` are what operators use, by the command `nilas`.
//! Nothing that serves a client depends on this crate.

pub mod admin;
pub mod cache;
pub mod credential;
mod progress;
pub mod python;
pub mod recorder;
pub mod tables;
pub mod tidy;
pub mod trace;
pub mod verify;

use std::path::Path;

/// The root of the tree that these tools were built from.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the yard stands in the tree")
}

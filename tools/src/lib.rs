//! The yard's tools: `tidy` holds the tree to its own rules, `recorder` counts what reaches an origin.
//! Nothing that serves a client depends on this crate.

pub mod recorder;
pub mod tidy;

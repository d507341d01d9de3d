//! Catalog and metadata bytes in, facts out: what tables there are, which files their snapshots list,
//! what a commit changed, and whose column a byte range of a file is.
//! Nothing here does I/O, knows the time or decides what is kept: `nilas-engine` asks and acts.

pub mod catalog;
pub mod change;
pub mod fault;
pub mod footer;
pub mod location;
pub mod manifest;
pub mod mapper;
pub mod metadata;
pub mod residents;
pub mod state;

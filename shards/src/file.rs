//! Open files, real ones and those of a simulated world. The operations in flight on one share it, so
//! that a descriptor is never closed, and its number given to another file, under an operation.
//! Each ring takes its own kind only: the other one reaches it by a mistake, and is refused.

use crate::ring::simulated::DiskId;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

/// An open file; clones are the same one.
#[derive(Clone, Debug)]
pub struct File(Body);

#[derive(Clone, Debug)]
enum Body {
    Real(Arc<std::fs::File>),
    Simulated(DiskId),
}

impl File {
    /// The file itself, for what needs no ring. `InvalidInput` where it is simulated.
    pub fn as_std(&self) -> io::Result<&std::fs::File> {
        match &self.0 {
            Body::Real(file) => Ok(file),
            Body::Simulated(_) => Err(wrong_kind("a simulated file is not the system's")),
        }
    }

    pub(crate) fn descriptor(&self) -> io::Result<RawFd> {
        self.as_std().map(AsRawFd::as_raw_fd)
    }

    pub(crate) fn simulated(disk: DiskId) -> File {
        File(Body::Simulated(disk))
    }

    pub(crate) fn disk(&self) -> io::Result<DiskId> {
        match &self.0 {
            Body::Simulated(disk) => Ok(*disk),
            Body::Real(_) => Err(wrong_kind("a real file is not of a simulated world")),
        }
    }
}

impl From<std::fs::File> for File {
    fn from(file: std::fs::File) -> File {
        File(Body::Real(Arc::new(file)))
    }
}

fn wrong_kind(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

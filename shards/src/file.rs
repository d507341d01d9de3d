//! Open files of the disks, shared by the operations that are in flight on them, so that a
//! descriptor is never closed, and its number given to another file, under an operation.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

/// An open file; clones are the same one.
#[derive(Clone, Debug)]
pub struct File(Arc<std::fs::File>);

impl File {
    /// The file itself, for what needs no ring.
    pub fn as_std(&self) -> &std::fs::File {
        &self.0
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl From<std::fs::File> for File {
    fn from(file: std::fs::File) -> File {
        File(Arc::new(file))
    }
}

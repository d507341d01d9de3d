//! Why there is no cache device, and what to change. Every problem refuses the start: a node that was given a device
//! and runs without it would surprise whoever gave it.

use std::io;
use std::path::PathBuf;

use nilas_base::MIB;

use crate::disk::{AreaKind, FORMAT_VERSION, Unreadable};

const CURE_OF_NO_ROOM: &str = "Make room there, lower the budgets, or name another place.";

/// A device that cannot be used: a sentence without its end. See [`DeviceError::cure`].
#[derive(Debug, thiserror::Error)]
#[error("the cache device {} {problem}", path.display())]
pub struct DeviceError {
    /// The directory, file or block device that was looked at.
    pub path: PathBuf,
    /// What is the matter with it.
    pub problem: DeviceProblem,
}

/// What is the matter with a device.
#[derive(Debug, thiserror::Error)]
pub enum DeviceProblem {
    /// A budget is too small for the shards.
    #[error(
        "has too little for {shards} shards: a {} budget of {bytes} bytes, where {bytes_min} ({} MiB) are the least",
        budget_name(*kind), bytes_min.div_ceil(MIB)
    )]
    BudgetTooSmall {
        /// Of which areas.
        kind: AreaKind,
        /// How many shards share it.
        shards: u16,
        /// What it is.
        bytes: u64,
        /// The least that works.
        bytes_min: u64,
    },
    /// Its table has no room for the areas of all shards.
    #[error("has no room in its table for {shards} shards, only for {shards_max}")]
    TooManyShards {
        /// Those wanted.
        shards: u16,
        /// The most that it has room for.
        shards_max: u16,
    },
    /// Nothing is there.
    #[error("does not exist")]
    Missing,
    /// Something else is there.
    #[error("is neither a directory nor a block device")]
    Unsuitable,
    /// The operating system did not let it be used.
    #[error("cannot be {tried}: {cause}")]
    Failed {
        /// What was tried, as in "cannot be opened".
        tried: &'static str,
        /// What the kernel answered.
        cause: io::Error,
    },
    /// Another process has it.
    #[error("is used by another process, or mounted")]
    InUse,
    /// The filesystem has too little room left for the file.
    #[error("needs {} MiB more, but its filesystem has {} MiB free", missing_bytes.div_ceil(MIB), free_bytes / MIB)]
    NoRoom {
        /// What the file needs beside what it has already.
        missing_bytes: u64,
        /// What there is.
        free_bytes: u64,
    },
    /// The block device is smaller than its areas.
    #[error("has {has_bytes} bytes, but {wanted_bytes} are wanted")]
    TooSmall {
        /// Its size.
        has_bytes: u64,
        /// What the budgets come to.
        wanted_bytes: u64,
    },
    /// The block device holds something that this program has not written.
    #[error("holds something else: its first MiB is neither blank nor Nilas's")]
    Foreign,
    /// The file in the directory is not one that this program has made.
    #[error("holds something else: it does not begin as a cache of Nilas does")]
    ForeignFile,
    /// A newer program laid it out, perhaps for what exists nowhere else.
    #[error("is of version {0} of the format, this program knows version {known}", known = FORMAT_VERSION)]
    Newer(u16),
    /// It was laid out by a program that knows more, perhaps for what exists nowhere else.
    #[error("has an area of kind {0}, which this program does not know")]
    UnknownArea(u16),
    /// It has no superblock that could be shown.
    #[error("has no superblock: {0}")]
    NoSuperblock(Unreadable),
}

impl DeviceError {
    /// What to change, a sentence.
    pub fn cure(&self) -> String {
        let path = self.path.display();
        match &self.problem {
            DeviceProblem::BudgetTooSmall { kind, .. } => {
                format!("Raise its {} budget, or run fewer shards.", budget_name(*kind))
            }
            DeviceProblem::TooManyShards { .. } => "Run fewer shards.".to_owned(),
            DeviceProblem::Missing => {
                format!("Mount or create it (mkdir -p {path}), or name another.")
            }
            DeviceProblem::Unsuitable => {
                "Name a directory that the cache's file is made in, or a block device.".to_owned()
            }
            DeviceProblem::Failed { cause, .. } => self.cure_of_failure(cause),
            DeviceProblem::InUse => {
                "Stop the other process or unmount it, or give each node a device of its own."
                    .to_owned()
            }
            DeviceProblem::NoRoom { .. } => CURE_OF_NO_ROOM.to_owned(),
            DeviceProblem::TooSmall { .. } => {
                "Lower the budgets, or name a larger device.".to_owned()
            }
            DeviceProblem::Foreign => format!(
                "Name another device; or if nothing on it is needed any more, wipe it by hand: \
                 wipefs --all {path}; dd if=/dev/zero of={path} bs=1M count=1 conv=fsync."
            ),
            DeviceProblem::ForeignFile => format!(
                "Name another directory, or move the file away; or if nothing in it is needed any more, remove it \
                 by hand: rm {path}."
            ),
            DeviceProblem::UnknownArea(_) | DeviceProblem::Newer(_) => {
                "Run the newer version that laid it out, or name another device.".to_owned()
            }
            DeviceProblem::NoSuperblock(_) => "Name the device of a node.".to_owned(),
        }
    }

    fn cure_of_failure(&self, cause: &io::Error) -> String {
        let path = self.path.display();
        match cause.kind() {
            io::ErrorKind::ReadOnlyFilesystem => {
                format!("Remount what {path} lies on read-write, or name another place.")
            }
            io::ErrorKind::PermissionDenied => {
                format!("Give this user the right to read and write {path}, or name another place.")
            }
            io::ErrorKind::NotADirectory => {
                format!("Name a directory: a part of {path} is a file.")
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => CURE_OF_NO_ROOM.to_owned(),
            _ => "See the kernel's log (dmesg) for the disk's state, or name another place."
                .to_owned(),
        }
    }
}

/// Makes a problem of what the kernel answered when something was tried.
pub(super) fn failed(tried: &'static str) -> impl Fn(io::Error) -> DeviceProblem {
    move |cause| DeviceProblem::Failed { tried, cause }
}

fn budget_name(kind: AreaKind) -> &'static str {
    match kind {
        AreaKind::Data => "data",
        AreaKind::Metadata => "metadata",
        AreaKind::Mappings => "mapping",
    }
}

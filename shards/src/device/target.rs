//! What a path leads to: the cache's file in a directory, or a block device. It is opened under a lock, so that no two
//! nodes write one device. A block device is also opened exclusively, which the kernel refuses while it is mounted.

use std::fs::{File, FileType, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::failed;
use super::{DeviceError, DeviceProblem};
use crate::sys;

/// How often a device in use is looked at again, and how long between: two seconds in all.
const IN_USE_LOOKS_MAX: u32 = 40;
const IN_USE_PAUSE: Duration = Duration::from_millis(50);

/// The cache's file in its directory.
pub const FILE_NAME: &str = "nilas.cache";
/// Its bytes are those of objects: for this user alone.
const FILE_MODE: u32 = 0o600;

/// What is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A file of our own.
    File,
    /// Somebody's block device, which has a size of its own.
    BlockDevice,
}

/// Where the device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
}

impl Target {
    /// What a node's path leads to.
    pub(super) fn find(path: &Path) -> Result<Target, DeviceError> {
        let target = |path: PathBuf, kind| Ok(Target { path, kind });
        match file_type(path)? {
            it if it.is_dir() => target(path.join(FILE_NAME), Kind::File),
            it if it.is_block_device() => target(path.to_owned(), Kind::BlockDevice),
            _ => Err(DeviceError { path: path.to_owned(), problem: DeviceProblem::Unsuitable }),
        }
    }

    /// The same, or a file that is named itself.
    pub(super) fn find_to_read(path: &Path) -> Result<Target, DeviceError> {
        if file_type(path)?.is_file() {
            return Ok(Target { path: path.to_owned(), kind: Kind::File });
        }
        Target::find(path)
    }

    pub(super) fn error(&self, problem: DeviceProblem) -> DeviceError {
        DeviceError { path: self.path.clone(), problem }
    }

    /// Opens it for reading and writing, makes the file where there is none, and locks it.
    pub(super) fn open(&self) -> Result<File, DeviceProblem> {
        let is_file = self.kind == Kind::File;
        self.open_with(OpenOptions::new().create(is_file)).map_err(|problem| match problem {
            // The directory is there, and lets no file be made in it.
            DeviceProblem::Missing if is_file => failed("made")(io::ErrorKind::NotFound.into()),
            other => other,
        })
    }

    /// The same, but `None` where there is no file and one could be made.
    pub(super) fn open_existing(&self) -> Result<Option<File>, DeviceProblem> {
        match self.open_with(&mut OpenOptions::new()) {
            Err(DeviceProblem::Missing) if self.kind == Kind::File => {
                let folder = self.path.parent().expect("it is a file in a directory");
                sys::file::takes_files(folder).map_err(failed("made"))?;
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// The directory that the file lies in.
    pub(super) fn folder(&self) -> Result<File, DeviceProblem> {
        File::open(self.path.parent().expect("it is a file in a directory"))
            .map_err(failed("looked for"))
    }

    pub(super) fn open_to_read(&self) -> Result<File, DeviceProblem> {
        File::open(&self.path).map_err(problem_of_opening)
    }

    /// Waits for a moment while it is in use: the kernel lets go of what a ring of a killed process had open some time
    /// after that process has gone, and whoever starts it anew at once would be refused.
    fn open_with(&self, options: &mut OpenOptions) -> Result<File, DeviceProblem> {
        options.read(true).write(true).truncate(false).mode(FILE_MODE);
        if self.kind == Kind::BlockDevice {
            options.custom_flags(libc::O_EXCL);
        }
        let mut looks = 0;
        loop {
            match self.open_once(options) {
                Err(DeviceProblem::InUse) if looks < IN_USE_LOOKS_MAX => looks += 1,
                opened => return opened,
            }
            std::thread::park_timeout(IN_USE_PAUSE);
        }
    }

    fn open_once(&self, options: &OpenOptions) -> Result<File, DeviceProblem> {
        let file = options.open(&self.path).map_err(problem_of_opening)?;
        let found = file.metadata().map_err(failed("looked at"))?.file_type();
        if self.kind == Kind::File && !found.is_file() {
            return Err(DeviceProblem::Unsuitable);
        }
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(DeviceProblem::InUse),
            Err(TryLockError::Error(cause)) => Err(failed("locked")(cause)),
        }
    }
}

fn file_type(path: &Path) -> Result<FileType, DeviceError> {
    let facts = std::fs::metadata(path).map_err(problem_of_opening);
    let error = |problem| DeviceError { path: path.to_owned(), problem };
    Ok(facts.map_err(error)?.file_type())
}

fn problem_of_opening(cause: io::Error) -> DeviceProblem {
    match cause.kind() {
        io::ErrorKind::NotFound => DeviceProblem::Missing,
        io::ErrorKind::ResourceBusy => DeviceProblem::InUse,
        _ => failed("opened")(cause),
    }
}

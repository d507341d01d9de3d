//! A file that is replaced whole: whoever reads it sees the old text or the new one, and two who
//! change it do so one after the other. The lock is on the folder, as the file itself is another one
//! after each change.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// A new file's mode: its owner's alone.
const FILE_MODE: u32 = 0o600;
/// How often a lock that somebody holds is tried again.
const LOCK_TRIES_MAX: usize = 500;
/// The pause between.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// A file in a folder that is locked for others who change it.
pub(super) struct Place {
    path: PathBuf,
    folder: PathBuf,
    lock: File,
}

/// A new text beside the file; gone when dropped without having taken its place.
pub(super) struct Draft<'a> {
    place: &'a Place,
    path: PathBuf,
    warning: Option<String>,
}

impl Place {
    /// Waits until nobody else changes files of this folder. A link is followed: the file that it
    /// leads to is the one that is replaced.
    pub(super) fn lock(path: &Path) -> Result<Place, String> {
        let failed = |error: io::Error| format!("{} cannot be changed: {error}", path.display());
        let path = match std::fs::canonicalize(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => path.to_owned(),
            found => found.map_err(failed)?,
        };
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let lock = File::open(&folder).map_err(failed)?;
        for _ in 0..LOCK_TRIES_MAX {
            match lock.try_lock() {
                Ok(()) => return Ok(Place { path, folder, lock }),
                Err(TryLockError::WouldBlock) => pause(LOCK_PAUSE),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
        Err(format!(
            "{} is locked by another command; try again when it has ended",
            folder.display()
        ))
    }

    /// The file's text; `None` where there is no file.
    pub(super) fn read(&self) -> Result<Option<String>, String> {
        read(&self.path)
    }

    /// Writes a new text beside the file, with the file's mode and owner.
    pub(super) fn draft(&self, text: &str) -> Result<Draft<'_>, String> {
        let name = self.path.file_name().ok_or_else(|| {
            format!("{} names no file: name the credentials file", self.path.display())
        })?;
        let path = self.folder.join(format!(".{}.new", name.to_string_lossy()));
        let failed = |error: io::Error| format!("{} cannot be written: {error}", path.display());
        // Whoever left one there has ended: the lock is ours.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let made = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&path);
        let mut file = made.map_err(failed)?;
        let mut draft = Draft { place: self, path: path.clone(), warning: None };
        draft.warning = self.keep_owner(&file).map_err(failed)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        Ok(draft)
    }

    /// Gives a new file the old one's mode, and its owner where that is allowed.
    fn keep_owner(&self, file: &File) -> io::Result<Option<String>> {
        let old = match std::fs::metadata(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        let new = file.metadata()?;
        let is_same = (old.uid(), old.gid()) == (new.uid(), new.gid());
        let is_kept = is_same || fchown(file, Some(old.uid()), Some(old.gid())).is_ok();
        file.set_permissions(Permissions::from_mode(old.mode() & 0o777))?;
        Ok((!is_kept).then(|| {
            let (path, uid, gid) = (self.path.display(), old.uid(), old.gid());
            format!(
                "{path} belonged to user {uid} and group {gid}, and now to you: see that the node can \
                 read it, or it keeps what it read before"
            )
        }))
    }
}

impl Draft<'_> {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the file; tells what could not be kept of it.
    pub(super) fn take_place(mut self) -> Result<Option<String>, String> {
        let place = self.place;
        std::fs::rename(&self.path, &place.path)
            .and_then(|()| place.lock.sync_all())
            .map_err(|error| format!("{} cannot be replaced: {error}", place.path.display()))?;
        Ok(self.warning.take())
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        // One that has taken its place is no longer there.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The text of a file; `None` where there is none.
pub(super) fn read(path: &Path) -> Result<Option<String>, String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
    }
}

fn pause(duration: Duration) {
    let (_sender, receiver) = mpsc::channel::<()>();
    // Nobody sends: the time-out is what is waited for.
    let _ = receiver.recv_timeout(duration);
}

//! One object as it is: its file, held open, and what is known of it. What was opened stays
//! whole while it is read, whatever becomes of the key. No symbolic link is followed below the root.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use nilas_base::UnixMillis;

use super::bucket::Bucket;
use super::key_path::{path_beside_folder, path_of};
use super::sidecar::{FileIdentity, Sidecar};

/// How often an object is opened again because it was replaced in between.
const OPEN_TRIES_MAX: usize = 16;

/// An object, open.
#[derive(Debug)]
pub(super) struct StoredObject {
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) identity: FileIdentity,
    pub(super) bytes: u64,
    pub(super) modified: UnixMillis,
    pub(super) sidecar: Sidecar,
}

impl StoredObject {
    /// The object of `key`; `None` where there is none.
    pub(super) fn open(bucket: &Bucket, key: &str) -> io::Result<Option<StoredObject>> {
        let plain = bucket.folder().join(path_of(key));
        for _ in 0..OPEN_TRIES_MAX {
            let Some((file, path)) = open_either(&plain)? else { return Ok(None) };
            let object = Opened::of(bucket, file, path)?;
            // Replaced since it was opened: its sidecar may have gone with it.
            if object.sidecar.is_some() || object.is_current()? {
                return Ok(Some(object.settled()));
            }
        }
        Err(io::Error::other("the object changes faster than it can be opened"))
    }
}

struct Opened {
    file: File,
    path: PathBuf,
    identity: FileIdentity,
    bytes: u64,
    modified: UnixMillis,
    sidecar: Option<Sidecar>,
}

impl Opened {
    fn of(bucket: &Bucket, file: File, path: PathBuf) -> io::Result<Opened> {
        let metadata = file.metadata()?;
        let identity = FileIdentity::of(&metadata);
        let since = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        let modified = UnixMillis(since.as_millis() as u64);
        let sidecar = Sidecar::read(bucket, identity)?;
        Ok(Opened { file, path, identity, bytes: metadata.len(), modified, sidecar })
    }

    fn is_current(&self) -> io::Result<bool> {
        match fs::symlink_metadata(&self.path) {
            Ok(metadata) => Ok(FileIdentity::of(&metadata) == self.identity),
            Err(error) if is_absent(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn settled(self) -> StoredObject {
        let sidecar = self.sidecar.unwrap_or_else(|| Sidecar::derived(self.identity));
        StoredObject {
            file: self.file,
            path: self.path,
            identity: self.identity,
            bytes: self.bytes,
            modified: self.modified,
            sidecar,
        }
    }
}

fn open_either(plain: &Path) -> io::Result<Option<(File, PathBuf)>> {
    let beside = path_beside_folder(plain);
    for path in [plain, &beside] {
        if let Some(file) = open_file(path)? {
            return Ok(Some((file, path.to_owned())));
        }
    }
    Ok(None)
}

fn open_file(path: &Path) -> io::Result<Option<File>> {
    // Asked first: opening a pipe would wait for its other end.
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Ok(None),
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(error),
    }
    match is_without_links(path).and_then(|plain| plain.then(|| File::open(path)).transpose()) {
        Err(error) if is_absent(&error) => Ok(None),
        opened => opened,
    }
}

/// Whether no part of this path below the root, which is canonical, is a symbolic link.
pub(super) fn is_without_links(path: &Path) -> io::Result<bool> {
    Ok(fs::canonicalize(path)? == path)
}

/// Whether there is nothing at a path, for whichever reason.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

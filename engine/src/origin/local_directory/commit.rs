//! Where a key changes: under the bucket's lock, by one rename. Conditions are checked under the
//! same lock, so that of writers who race for `If-None-Match: *` exactly one wins.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nilas_net::{Code, S3Error};

use super::bucket::{Bucket, Temporary, make_folders};
use super::condition::Conditions;
use super::failure::{Failure, Outcome};
use super::key_path::{path_beside_folder, path_of};
use super::object::{StoredObject, is_absent, is_without_links};
use super::sidecar::{FileIdentity, Sidecar};

/// What is to take a key's place. The file is whole and on the disk.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) file: Temporary,
    pub(super) sidecar: Sidecar,
}

/// Puts `content` at `key`, where `conditions` and then `under_lock` allow it.
pub(super) fn commit(
    bucket: &Bucket,
    key: &str,
    content: Content,
    conditions: &Conditions,
    under_lock: impl FnOnce() -> Outcome<()>,
) -> Outcome<()> {
    let _lock = bucket.lock()?;
    let old = StoredObject::open(bucket, key)?;
    conditions.allow_write(old.as_ref())?;
    under_lock()?;
    let path = free_path(bucket, key)?;
    let identity = FileIdentity::of(&content.file.file.metadata()?);
    content.sidecar.write(bucket, identity)?;
    content.file.place(&path)?;
    if let Some(old) = old {
        forget(bucket, &old, &path)?;
    }
    Ok(())
}

fn forget(bucket: &Bucket, old: &StoredObject, new_path: &Path) -> io::Result<()> {
    if old.path != new_path {
        fs::remove_file(&old.path)?;
    }
    Sidecar::remove(bucket, old.identity);
    Ok(())
}

/// Removes `key`, where `conditions` allow it. A key that is not there is removed already.
pub(super) fn remove(bucket: &Bucket, key: &str, conditions: &Conditions) -> Outcome<()> {
    let _lock = bucket.lock()?;
    let mut current = StoredObject::open(bucket, key)?;
    conditions.allow_write(current.as_ref())?;
    // Twice at most: a crash can leave one file beside the folder and one in its place.
    while let Some(object) = current {
        fs::remove_file(&object.path)?;
        Sidecar::remove(bucket, object.identity);
        remove_empty_parents(bucket, &object.path);
        current = StoredObject::open(bucket, key)?;
    }
    Ok(())
}

/// Folders are made for keys and go with them.
fn remove_empty_parents(bucket: &Bucket, path: &Path) {
    let below = |folder: &&Path| *folder != bucket.folder() && folder.starts_with(bucket.folder());
    for folder in path.ancestors().skip(1).take_while(below) {
        if fs::remove_dir(folder).is_err() {
            return;
        }
    }
}

/// A path that `key`'s file can be renamed to: its folders are made, and what was in the way of
/// them, or is a folder itself, stands beside.
fn free_path(bucket: &Bucket, key: &str) -> Outcome<PathBuf> {
    let plain = bucket.folder().join(path_of(key));
    let parent = plain.parent().expect("a key's path is in its bucket");
    stand_aside(bucket, parent)?;
    make_folders(bucket.folder(), parent)?;
    if !is_without_links(parent)? {
        let message = "a symbolic link is in the key's path; none is followed below the root";
        return Err(Failure::Refused(S3Error::because(Code::AccessDenied, message)));
    }
    let is_taken = fs::symlink_metadata(&plain).is_ok_and(|found| found.is_dir());
    if is_taken && fs::remove_dir(&plain).is_err() {
        return Ok(path_beside_folder(&plain));
    }
    Ok(plain)
}

/// Moves aside an object whose file is where a folder is to be.
fn stand_aside(bucket: &Bucket, folder: &Path) -> io::Result<()> {
    let below = |folder: &&Path| *folder != bucket.folder();
    for folder in folder.ancestors().take_while(below) {
        match fs::symlink_metadata(folder) {
            Ok(found) if found.is_file() => fs::rename(folder, path_beside_folder(folder))?,
            Err(error) if !is_absent(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

//! A bucket: one folder, its hidden folder, and the lock under which its keys change.
//! The lock is the file system's, so that two nodes on one directory agree on one winner.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::key_path::HIDDEN_FOLDER;

/// Bytes of a bucket's name; a folder's name may be that long.
const BUCKET_NAME_BYTES_MAX: usize = 255;

static NAME_COUNT: AtomicU64 = AtomicU64::new(0);

/// A bucket that exists.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    folder: PathBuf,
}

impl Bucket {
    /// The bucket `name` below `root`, which is canonical; `None` where there is none.
    pub(super) fn open(root: &Path, name: &str) -> io::Result<Option<Bucket>> {
        if !is_readable_name(name) {
            return Ok(None);
        }
        let folder = root.join(name);
        match fs::symlink_metadata(&folder) {
            Ok(metadata) if metadata.is_dir() => Ok(Some(Bucket { folder })),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Where its objects are.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where all else is.
    pub(super) fn hidden(&self) -> PathBuf {
        self.folder.join(HIDDEN_FOLDER)
    }

    /// Waits for the right to change keys. Freed when the file is dropped.
    pub(super) fn lock(&self) -> io::Result<File> {
        let path = self.hidden().join("lock");
        make_folders(self.folder(), &self.hidden())?;
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        file.lock()?;
        Ok(file)
    }

    /// A new empty file, gone when it is dropped unless it was given a place.
    pub(super) fn temporary(&self) -> io::Result<Temporary> {
        let folder = self.hidden().join("temporary");
        make_folders(self.folder(), &folder)?;
        loop {
            let path = folder.join(unique_name());
            match OpenOptions::new().create_new(true).read(true).write(true).open(&path) {
                Ok(file) => return Ok(Temporary { file, path, placed: false }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Puts `bytes` at `path`, whole or not at all, durably.
    pub(super) fn write_whole(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut temporary = self.temporary()?;
        temporary.file.write_all(bytes)?;
        temporary.file.sync_all()?;
        make_folders(self.folder(), path.parent().expect("a file is in a folder"))?;
        temporary.place(path)
    }
}

/// 32 hexadecimal digits that were never given before, by this process or another.
pub(super) fn unique_name() -> String {
    let count = NAME_COUNT.fetch_add(1, Ordering::Relaxed);
    let salt = |extra: u32| RandomState::new().hash_one((count, std::process::id(), extra));
    format!("{:016x}{:016x}", salt(0), salt(1))
}

/// A file on its way to its place.
#[derive(Debug)]
pub(super) struct Temporary {
    pub(super) file: File,
    path: PathBuf,
    placed: bool,
}

impl Temporary {
    /// Takes the place of whatever is at `path`, durably.
    pub(super) fn place(mut self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path, path)?;
        self.placed = true;
        sync_folder(path.parent().expect("a file is in a folder"))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.placed {
            // Left behind, it is litter in the hidden folder, never an object.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Makes the folders from `base`, which exists, down to `folder`, durably.
pub(super) fn make_folders(base: &Path, folder: &Path) -> io::Result<()> {
    if folder == base || folder.is_dir() {
        return Ok(());
    }
    let parent = folder.parent().expect("a folder below the base has a parent");
    make_folders(base, parent)?;
    match fs::create_dir(folder) {
        Ok(()) => sync_folder(parent),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Whether a folder of this name is shown as a bucket. Wider than S3's rule, so that folders that
/// are already there can be read; narrower than the file system's, so that none leads elsewhere.
pub(super) fn is_readable_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (1..=BUCKET_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(plain)
        && !name.starts_with('.')
}

/// Whether S3 would make a bucket of this name.
pub(super) fn is_valid_new_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let inner = |byte: u8| plain(byte) || matches!(byte, b'.' | b'-');
    let ends_plainly =
        name.bytes().next().is_some_and(plain) && name.bytes().last().is_some_and(plain);
    let is_address = name.parse::<std::net::Ipv4Addr>().is_ok();
    (3..=63).contains(&name.len())
        && name.bytes().all(inner)
        && ends_plainly
        && !name.contains("..")
        && !is_address
}

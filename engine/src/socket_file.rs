//! The file of the Unix socket: who may take its path, and when it goes. One that a dead node left behind is replaced,
//! one that somebody serves on never, and what is no socket is nobody's to remove.
//! Which shard accepts from it is up to the kernel; see `node/thread`.

use std::fs::{File, Metadata, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use nilas_shards::{bind_unix, unix_path_is_served};

use crate::config::UnixSocketConfig;

/// How often a start looks whether another one has done with their folder, 10 ms apart.
const LOCK_LOOKS_MAX: usize = 300;
const LOCK_LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// A socket that listens, and its file, which goes with it.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    listener: UnixListener,
    /// What was made, so that another's in its place is left alone.
    identity: Identity,
}

type Identity = (u64, u64, i64, i64);

/// Why a path cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum SocketFileError {
    /// Somebody listens there.
    #[error("another process serves on it")]
    InUse,
    /// There is something else.
    #[error("what is there is no socket")]
    NoSocket,
    /// There is no folder for it.
    #[error("its folder {} {problem}", .folder.display())]
    Folder {
        /// Which.
        folder: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The system says no.
    #[error("{0}")]
    System(#[from] io::Error),
}

impl SocketFileError {
    /// What to do about it.
    pub fn cure(&self) -> &'static str {
        match self {
            SocketFileError::InUse => "Stop that one, or set server.unix_socket to another path.",
            SocketFileError::NoSocket => "Move it away, or set server.unix_socket to another path.",
            SocketFileError::Folder { .. } => {
                "Create the folder, or set server.unix_socket to a path in one that is there."
            }
            SocketFileError::System(_) => {
                "Give this user the right to write in its folder, or set server.unix_socket to another path."
            }
        }
    }
}

/// Looks whether `path` could be listened on; changes nothing.
pub fn look(path: &Path) -> Result<(), SocketFileError> {
    open_folder(path).and_then(|_| is_left_behind(path)).map(drop)
}

impl SocketFile {
    /// Listens on a path, replacing what a dead node left there.
    pub fn claim(config: &UnixSocketConfig) -> Result<SocketFile, SocketFileError> {
        let path = config.path.clone();
        let folder = open_folder(&path)?;
        // Held until the socket listens: of two starts at once the second finds the first one serving.
        lock(&folder)?;
        if is_left_behind(&path)? {
            std::fs::remove_file(&path)?;
        }
        let listener = bind_unix(&path, config.mode)?;
        let identity = identity(&std::fs::symlink_metadata(&path)?);
        Ok(SocketFile { path, listener, identity })
    }

    /// The same socket for one shard more.
    pub fn share(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_own =
            std::fs::symlink_metadata(&self.path).is_ok_and(|it| identity(&it) == self.identity);
        if is_own {
            // What cannot be removed is found to be left behind by the next start.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A number of a file is used again when the file has gone, hence the time.
fn identity(facts: &Metadata) -> Identity {
    (facts.dev(), facts.ino(), facts.mtime(), facts.mtime_nsec())
}

fn open_folder(path: &Path) -> Result<File, SocketFileError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let problem = match File::open(folder).and_then(|file| Ok((file.metadata()?.is_dir(), file))) {
        Ok((true, file)) => return Ok(file),
        Ok((false, _)) => "is no folder".to_owned(),
        Err(error) if error.kind() == ErrorKind::NotFound => "does not exist".to_owned(),
        Err(error) => format!("cannot be used: {error}"),
    };
    Err(SocketFileError::Folder { folder: folder.to_owned(), problem })
}

/// Whether there is a socket that nobody listens on; false where there is nothing.
fn is_left_behind(path: &Path) -> Result<bool, SocketFileError> {
    match std::fs::symlink_metadata(path) {
        Ok(facts) if !facts.file_type().is_socket() => Err(SocketFileError::NoSocket),
        Ok(_) if unix_path_is_served(path)? => Err(SocketFileError::InUse),
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn lock(folder: &File) -> io::Result<()> {
    let (_sender, nobody) = mpsc::channel::<()>();
    for _ in 0..LOCK_LOOKS_MAX {
        match folder.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => {
                // Nobody sends: the time-out is what is waited for.
                let _ = nobody.recv_timeout(LOCK_LOOK_INTERVAL);
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::Error::new(ErrorKind::ResourceBusy, "another process keeps its folder locked"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn config(path: &Path) -> UnixSocketConfig {
        UnixSocketConfig { path: path.to_owned(), mode: 0o660 }
    }

    fn place() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s3.sock");
        (folder, path)
    }

    #[test]
    fn a_file_that_a_dead_node_left_is_replaced_and_goes_with_the_new_one() {
        let (_folder, path) = place();
        drop(UnixListener::bind(&path).expect("nothing is there"));
        assert!(path.exists(), "its listener has died");
        look(&path).expect("it can be replaced");
        let claimed = SocketFile::claim(&config(&path)).expect("nobody serves there");
        UnixStream::connect(&path).expect("it listens");
        drop(claimed);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_somebody_serves_on_is_left_alone() {
        let (_folder, path) = place();
        let living = SocketFile::claim(&config(&path)).expect("nothing is there");
        assert!(matches!(look(&path), Err(SocketFileError::InUse)));
        let told = SocketFile::claim(&config(&path)).expect_err("it is served").to_string();
        assert!(told.contains("another process serves on it"), "{told}");
        UnixStream::connect(&path).expect("it still listens");
        drop(living);
    }

    #[test]
    fn what_is_no_socket_is_left_alone() {
        let (folder, path) = place();
        std::fs::write(&path, b"precious").expect("a file");
        let told = SocketFile::claim(&config(&path)).expect_err("it is a file").to_string();
        assert!(told.contains("no socket") && path.exists(), "{told}");
        let below =
            look(&folder.path().join("none/s3.sock")).expect_err("no such folder").to_string();
        assert!(below.contains("none does not exist"), "{below}");
        let below = look(&path.join("s3.sock")).expect_err("that is no folder").to_string();
        assert!(below.contains("s3.sock"), "{below}");
    }

    #[test]
    fn another_ones_file_in_its_place_is_not_removed() {
        let (_folder, path) = place();
        let claimed = SocketFile::claim(&config(&path)).expect("nothing is there");
        std::fs::remove_file(&path).expect("it is there");
        let successor = SocketFile::claim(&config(&path)).expect("nothing is there");
        drop(claimed);
        UnixStream::connect(&path).expect("the successor listens");
        drop(successor);
        assert!(!path.exists());
    }

    #[test]
    fn of_two_starts_at_once_one_serves_and_the_other_is_told() {
        for _ in 0..20 {
            let (_folder, path) = place();
            drop(UnixListener::bind(&path).expect("nothing is there"));
            let claims = std::thread::scope(|scope| {
                let starts = [(); 2].map(|()| scope.spawn(|| SocketFile::claim(&config(&path))));
                starts.map(|start| start.join().expect("it does not panic"))
            });
            assert_eq!(claims.iter().filter(|claim| claim.is_ok()).count(), 1, "{claims:?}");
            UnixStream::connect(&path).expect("one of them listens");
        }
    }
}

//! The local directory as an S3 origin: a file an operation, asked as a client asks.

mod bucket;
mod condition;
mod copy;
mod form;
mod listing;
mod multipart;
mod object;
mod safety;

use std::path::Path;
use std::sync::Arc;

use nilas_base::Clock;

use super::LocalDirectory;
use crate::origin::Origin;
use crate::origin::question::ask;

/// An origin in a folder of its own, gone with it.
struct Place {
    folder: tempfile::TempDir,
    origin: Arc<dyn Origin>,
}

impl Place {
    /// An origin with the bucket `lake`.
    async fn with_bucket() -> Place {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let directory = LocalDirectory::open(folder.path(), Clock::system()).expect("usable");
        let origin: Arc<dyn Origin> = Arc::new(directory);
        ask("PUT", "/lake").expect(&origin, 200).await;
        Place { folder, origin }
    }

    fn bucket_folder(&self) -> std::path::PathBuf {
        self.folder.path().join("lake")
    }
}

/// Files and folders below `folder`, hidden ones left out.
fn visible(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("readable")
        .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    names
}

//! The directory itself: whether it is there and can be used, and what a crash left in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use nilas_base::Clock;

use super::bucket::{Bucket, is_readable_name, unique_name};

/// How old a temporary file is when it is taken for a crash's. Another node may be writing younger
/// ones at this moment.
const LEFTOVER_AGE: Duration = Duration::from_secs(24 * 3600);

/// The canonical path of a directory that can be an origin; or what is wrong and what to do.
pub(super) fn check(path: &Path) -> Result<PathBuf, String> {
    let shown = path.display();
    let root = fs::canonicalize(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            format!("the origin directory {shown} does not exist; create it: mkdir -p '{shown}'")
        }
        _ => format!(
            "the origin directory {shown} cannot be opened: {error}; check its path and rights"
        ),
    })?;
    if !root.is_dir() {
        return Err(format!("the origin directory {shown} is no directory; name one"));
    }
    let trial = root.join(format!(".nilas-trial-{}", unique_name()));
    let written = fs::write(&trial, b"").and_then(|()| fs::remove_file(&trial));
    written.map_err(|error| {
        format!(
            "the origin directory {shown} cannot be written to: {error}; give this process's user \
             the right to, or choose another directory"
        )
    })?;
    Ok(root)
}

/// Whether it can still be used, and holds `bucket` where one is named.
pub(super) fn probe(root: &Path, bucket: Option<&str>) -> Result<String, String> {
    check(root)?;
    let shown = root.display();
    let Some(name) = bucket else {
        return Ok(format!("the directory {shown} is there and can be written to"));
    };
    match Bucket::open(root, name) {
        Ok(Some(_)) => Ok(format!("the directory {shown} is there and holds the bucket {name:?}")),
        Ok(None) => Err(format!(
            "the directory {shown} has no bucket {name:?}; create it: mkdir '{shown}/{name}'"
        )),
        Err(error) => Err(format!("the bucket {name:?} in {shown} cannot be opened: {error}")),
    }
}

/// Removes temporary files that no writer can still have.
pub(super) fn remove_leftovers(root: &Path, clock: &Clock) {
    // Litter in a hidden folder: what cannot be removed now is removed another time.
    let buckets = fs::read_dir(root).into_iter().flatten().flatten();
    for name in buckets.filter_map(|entry| entry.file_name().into_string().ok()) {
        let Ok(Some(bucket)) = Bucket::open(root, &name) else { continue };
        debug_assert!(is_readable_name(&name), "it was opened by this name");
        let files = fs::read_dir(bucket.hidden().join("temporary")).into_iter().flatten().flatten();
        for file in files.filter(|file| is_leftover(file, clock)) {
            let _ = fs::remove_file(file.path());
        }
    }
}

fn is_leftover(file: &fs::DirEntry, clock: &Clock) -> bool {
    let Ok(modified) = file.metadata().and_then(|metadata| metadata.modified()) else {
        return false;
    };
    let modified_ms = modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    u128::from(clock.wall().0).saturating_sub(modified_ms) > LEFTOVER_AGE.as_millis()
}

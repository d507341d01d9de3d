//! The local directory: it must be there, be a directory, and take a file. One that was named but
//! is missing is more likely a mount that failed than a wish for an empty one.

use std::io::ErrorKind;
use std::path::Path;

use nilas_shards::Finding;

use super::fatal;

/// A file that is made and removed to see whether that works; the process makes it unique.
const TRIAL_PREFIX: &str = ".nilas-trial-";

/// Looks at the directory, making it first where `create` allows.
pub(super) fn probe(path: &Path, create: bool) -> Result<(), Finding> {
    if create {
        create_directory(path)?;
    }
    match std::fs::metadata(path) {
        Ok(facts) if facts.is_dir() => try_to_write(path),
        Ok(_) => Err(fatal(
            format!("{} is not a directory.", path.display()),
            "The local origin has no place for its objects.",
            "Set origin.path to a directory.".to_owned(),
        )),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(fatal(
            format!("The directory {} does not exist.", path.display()),
            "The local origin has no place for its objects.",
            format!("Mount or create it (mkdir -p {}), or set origin.path.", path.display()),
        )),
        Err(error) => Err(fatal(
            format!("The directory {} cannot be looked at: {error}.", path.display()),
            "The local origin cannot reach its objects.",
            "Give this user the right to read it, or set origin.path.".to_owned(),
        )),
    }
}

fn create_directory(path: &Path) -> Result<(), Finding> {
    std::fs::create_dir_all(path).map_err(|error| {
        fatal(
            format!("The directory {} cannot be created: {error}.", path.display()),
            "The local origin has no place for its objects.",
            "Start in a directory where this user can write, or set origin.path.".to_owned(),
        )
    })
}

fn try_to_write(path: &Path) -> Result<(), Finding> {
    let trial = path.join(format!("{TRIAL_PREFIX}{}", std::process::id()));
    std::fs::write(&trial, b"").and_then(|()| std::fs::remove_file(&trial)).map_err(|error| {
        fatal(
            format!("The directory {} cannot be written: {error}.", path.display()),
            "Every write through the node would fail.",
            format!(
                "Give this user the right to write there, make room or remount {} read-write, or \
                 set origin.path.",
                path.display()
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_directory_that_is_missing_is_not_created() {
        let parent = tempfile::tempdir().expect("a temporary directory can be made");
        let path = parent.path().join("missing");
        let told = probe(&path, false).expect_err("it is missing").to_string();
        assert!(told.contains("does not exist") && told.contains("origin.path"), "{told}");
        assert!(!path.exists());
        probe(&path, true).expect("the default one is created");
        assert_eq!(std::fs::read_dir(&path).expect("it can be listed").count(), 0);
    }

    #[test]
    fn a_file_in_its_place_is_told() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
        let told = probe(file.path(), false).expect_err("it is a file").to_string();
        assert!(told.contains("is not a directory"), "{told}");
        let below = probe(&file.path().join("deep"), true).expect_err("it cannot be made");
        assert!(below.to_string().contains("cannot be created"), "{below}");
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_told() {
        // Nobody, not even root, can make a file there.
        let told = probe(Path::new("/proc"), false).expect_err("it takes no files").to_string();
        assert!(told.contains("/proc cannot be written"), "{told}");
    }
}

//! The audit file: it can be appended to, or made. Nothing is made yet.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::Path;

use nilas_shards::Finding;

use super::fatal;

/// Looks at the file, or at the folder that it is to be made in.
pub(super) fn probe(path: &Path) -> Option<Finding> {
    let problem = match OpenOptions::new().append(true).open(path) {
        Ok(_) => return None,
        Err(error) if error.kind() == ErrorKind::NotFound => folder_problem(path)?,
        Err(error) => format!("{} cannot be appended to: {error}.", path.display()),
    };
    Some(fatal(
        problem,
        "Refused and administrative requests could not be recorded.",
        "Give this user the right to write there, or set log.audit_file to another path."
            .to_owned(),
    ))
}

fn folder_problem(path: &Path) -> Option<String> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    match std::fs::metadata(folder) {
        Ok(facts) if facts.is_dir() => None,
        Ok(_) => Some(format!("{} is no folder.", folder.display())),
        Err(error) => Some(format!("The folder {} cannot be used: {error}.", folder.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_yet_needs_its_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(probe(&folder.path().join("audit")), None);
        assert!(!folder.path().join("audit").exists(), "nothing is made");
        let finding = probe(&folder.path().join("none/audit")).expect("no such folder");
        assert!(finding.cause.contains("none"), "{finding}");
        assert!(probe(folder.path()).is_some(), "a folder is no file");
    }
}

//! The Unix socket: its path is free, or was left behind by a dead node. Nothing is made yet.

use nilas_shards::Finding;

use super::fatal;
use crate::config::UnixSocketConfig;
use crate::socket_file;

/// Looks at the path.
pub(super) fn probe(config: &UnixSocketConfig) -> Option<Finding> {
    let error = socket_file::look(&config.path).err()?;
    let cause = format!("server.unix_socket {}: {error}.", config.path.display());
    Some(fatal(cause, "Nobody could reach the node there.", error.cure().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_cannot_be_taken_is_told_with_its_cure() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| UnixSocketConfig { path: folder.path().join(name), mode: 0o660 };
        assert_eq!(probe(&at("s3.sock")), None);
        assert!(!at("s3.sock").path.exists(), "nothing is made");
        let told = probe(&at("none/s3.sock")).expect("no such folder").to_string();
        for part in ["server.unix_socket", "none does not exist", "Create the folder"] {
            assert!(told.contains(part), "{part} is not in: {told}");
        }
        let _living =
            std::os::unix::net::UnixListener::bind(at("s3.sock").path).expect("it is free");
        let told = probe(&at("s3.sock")).expect("it is served").to_string();
        assert!(
            told.contains("another process serves on it. ") && told.contains("Stop that"),
            "{told}"
        );
    }
}

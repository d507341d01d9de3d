//! The credentials file: the same items as in the configuration, in a file of their own, which may
//! change while the node runs.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::error::{ConfigError, ConfigErrors};
use super::key::CREDENTIALS;
use super::{ClientCredential, Inputs, credential, file};

/// Every credential of the file, in order. What is wrong in it is told all at once, without a word
/// of what stands in it.
pub fn read_credentials_file(path: &Path) -> Result<Vec<ClientCredential>, ConfigErrors> {
    let mut errors = Vec::new();
    let settings = file::read(path, &mut errors);
    for (id, setting) in settings.iter() {
        if id.key.key().section != CREDENTIALS {
            errors.push(ConfigError::Conflict {
                problem: format!("{} stands in a file of credentials", setting.source.place(*id)),
                cure: format!("keep nothing but [[{CREDENTIALS}]] there"),
            });
        }
    }
    let inputs = Inputs { variables: std::env::vars().collect(), ..Inputs::default() };
    let credentials = credential::read_all(&settings, &inputs, &mut errors);
    if errors.is_empty() { Ok(credentials) } else { Err(ConfigErrors(errors)) }
}

/// What to say of a file with secrets that other users of this machine can read or change, if they
/// can.
pub fn exposure(path: &Path) -> Option<String> {
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (mode & OF_OTHERS != 0).then(|| {
        let (path, kept) = (path.display(), mode & !OF_OTHERS);
        format!("others can read or change {path} (its mode is {mode:o}): chmod {kept:o} {path}")
    })
}

/// The part of a file's mode that is for those who are neither its owner nor of its group.
const OF_OTHERS: u32 = 0o007;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<ClientCredential>, String> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("credentials.toml");
        std::fs::write(&path, text).expect("the folder can be written");
        read_credentials_file(&path).map_err(|errors| errors.to_string())
    }

    #[test]
    fn items_are_read_in_order() {
        let found = read(
            "[[credentials]]\naccess_key = \"a\"\nsecret_key = \"s\"\n\
             [[credentials]]\naccess_key = \"b\"\nsecret_key = \"t\"\n",
        );
        let keys: Vec<String> =
            found.expect("well formed").into_iter().map(|one| one.access_key).collect();
        assert_eq!(keys, ["a", "b"]);
        assert!(read("").expect("nobody may ask yet").is_empty());
    }

    #[test]
    fn anything_else_in_it_is_refused_without_its_text() {
        let error = read("[origin]\nsecret_key = \"geheim\"\n").expect_err("not a credential");
        assert!(error.contains("credentials.toml:2"), "{error}");
        assert!(error.contains("nothing but [[credentials]]"), "{error}");
        assert!(!error.contains("geheim"), "{error}");
        let error = read("[[credentials]]\naccess_key = \"a\"\n").expect_err("half a credential");
        assert!(error.contains("no secret key"), "{error}");
    }

    #[test]
    fn a_file_that_others_can_read_is_told_of() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("credentials.toml");
        std::fs::write(&path, "").expect("the folder can be written");
        let told = |mode| {
            let set = std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode));
            set.expect("it is ours");
            exposure(&path)
        };
        assert_eq!(told(0o600), None);
        assert_eq!(told(0o640), None, "a group is somebody's choice");
        let text = told(0o644).expect("others can read it");
        assert!(text.contains("mode is 644") && text.contains("chmod 640"), "{text}");
        assert_eq!(exposure(&folder.path().join("none")), None);
    }
}

//! The credentials file: the same items as in the configuration, in a file of their own, which may
//! change while the node runs.

use std::path::Path;

use super::error::{ConfigError, ConfigErrors};
use super::key::LISTED_SECTION;
use super::{ClientCredential, Inputs, credential, file};

/// Every credential of the file, in order. What is wrong in it is told all at once, without a word
/// of what stands in it.
pub fn read_credentials_file(path: &Path) -> Result<Vec<ClientCredential>, ConfigErrors> {
    let mut errors = Vec::new();
    let settings = file::read(path, &mut errors);
    for (id, setting) in settings.iter() {
        if id.key.key().section != LISTED_SECTION {
            errors.push(ConfigError::Conflict {
                problem: format!("{} stands in a file of credentials", setting.source.place(*id)),
                cure: format!("keep nothing but [[{LISTED_SECTION}]] there"),
            });
        }
    }
    let inputs = Inputs { variables: std::env::vars().collect(), ..Inputs::default() };
    let credentials = credential::read_all(&settings, &inputs, &mut errors);
    if errors.is_empty() { Ok(credentials) } else { Err(ConfigErrors(errors)) }
}

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
}

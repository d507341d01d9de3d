//! The credentials file that a node follows, changed while it runs. A change is made to the text, so
//! that comments and order stay; it is read as the node will read it, and only then takes the file's
//! place. What a secret is, only the one who made it is told.
//! The text is `document`'s, the file `place`'s, the command line `command`'s.

pub mod command;
mod document;
mod place;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use nilas_engine::config::{ClientCredential, exposure, read_credentials_file};
use nilas_engine::startup::generate_credential;

use document::Document;
pub use document::{Listed, NewItem};
use place::Place;

/// A credentials file.
pub struct CredentialsFile {
    path: PathBuf,
}

/// A change that was made.
#[derive(Debug)]
pub struct Changed<T> {
    /// What it gave.
    pub value: T,
    /// What the operator should know beside.
    pub warnings: Vec<String>,
}

impl CredentialsFile {
    /// The file at `path`.
    pub fn new(path: impl Into<PathBuf>) -> CredentialsFile {
        CredentialsFile { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a credential with new keys, or with the access key that is asked for; makes the file where
    /// there is none.
    pub fn create(&self, item: &NewItem) -> Result<Changed<ClientCredential>, String> {
        let mut new = generate()?;
        if let Some(access_key) = &item.access_key {
            new.access_key.clone_from(access_key);
        }
        let place = Place::lock(&self.path)?;
        let mut document = match place.read()? {
            Some(text) => self.parse(&text)?,
            None => Document::default(),
        };
        if document.has(&new.access_key)? {
            return Err(format!(
                "{} has the access key {} already: rotate or revoke it, or choose another",
                self.path.display(),
                new.access_key
            ));
        }
        document.add(&new, item)?;
        let warnings = self.replace(&place, &document)?;
        Ok(Changed { value: new, warnings })
    }

    /// Gives a credential a new secret, and leaves all else as it is.
    pub fn rotate(&self, access_key: &str) -> Result<Changed<ClientCredential>, String> {
        let new = ClientCredential { access_key: access_key.to_owned(), ..generate()? };
        let (place, mut document) = self.open()?;
        let elsewhere = document.set_secret(access_key, new.secret_key.expose())?;
        let mut warnings = self.replace(&place, &document)?;
        warnings.extend(elsewhere.map(|before| {
            format!(
                "the secret of {access_key} stood in {before}, and stands in {} now",
                self.path.display()
            )
        }));
        Ok(Changed { value: new, warnings })
    }

    /// Removes a credential.
    pub fn revoke(&self, access_key: &str) -> Result<Changed<()>, String> {
        let (place, mut document) = self.open()?;
        document.remove(access_key)?;
        let warnings = self.replace(&place, &document)?;
        Ok(Changed { value: (), warnings })
    }

    /// What stands in it, without secrets.
    pub fn list(&self) -> Result<Changed<Vec<Listed>>, String> {
        let text = place::read(&self.path)?.ok_or_else(|| self.missing())?;
        let mut warnings: Vec<String> = exposure(&self.path).into_iter().collect();
        if let Err(errors) = read_credentials_file(&self.path) {
            warnings.push(format!("a node could not use this file as it stands:\n{errors}"));
        }
        Ok(Changed { value: self.parse_any(&text)?.list()?, warnings })
    }

    fn open(&self) -> Result<(Place, Document), String> {
        let place = Place::lock(&self.path)?;
        let text = place.read()?.ok_or_else(|| self.missing())?;
        let document = self.parse(&text)?;
        Ok((place, document))
    }

    fn missing(&self) -> String {
        format!(
            "there is no file {}: name the node's auth.credentials_file, or make one with `nilas \
             credential create`",
            self.path.display()
        )
    }

    /// A file that is broken is the operator's to mend: a change could hide what is wrong.
    fn parse(&self, text: &str) -> Result<Document, String> {
        read_credentials_file(&self.path).map_err(|errors| {
            format!(
                "{} cannot be used as it stands, and was not changed; a file or variable that it names \
                 must be there for this command, too:\n{errors}",
                self.path.display()
            )
        })?;
        self.parse_any(text)
    }

    fn parse_any(&self, text: &str) -> Result<Document, String> {
        Document::parse(text)
            .map_err(|line| format!("{}:{line}: this is not TOML", self.path.display()))
    }

    /// Puts the new text in the file's place, if a node could use it.
    fn replace(&self, place: &Place, document: &Document) -> Result<Vec<String>, String> {
        let draft = place.draft(&document.text())?;
        read_credentials_file(draft.path()).map_err(|errors| {
            let errors = errors.to_string();
            let named = self.path.display().to_string();
            let errors = errors.replace(&draft.path().display().to_string(), &named);
            format!("nothing was changed, as a node could not use the file then:\n{errors}")
        })?;
        let mut warnings: Vec<String> = draft.take_place()?.into_iter().collect();
        warnings.extend(exposure(&self.path));
        Ok(warnings)
    }
}

fn generate() -> Result<ClientCredential, String> {
    generate_credential().map_err(|error| error.to_string())
}

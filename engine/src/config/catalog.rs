//! The catalogs that are watched: each item of `[[catalog]]` with what its keys say together. Secrets are
//! never repeated in an error.

use super::credential::read_file;
use super::error::ConfigError;
use super::item::Item;
use super::key::CATALOGS;
use super::kind::Value;
use super::secret::Secret;
use super::setting::Settings;
use crate::catalog::{CatalogSettings, OAuth2Settings, ProofSource, SigV4Settings};
use crate::origin::CredentialSource;

/// Characters of a catalog's name.
const NAME_CHARACTERS_MAX: usize = 64;
/// Keys that only one way of proving who asks reads.
const PROOF_KEYS: &[(&str, &[&str])] = &[
    ("token", &["token", "token_file"]),
    (
        "oauth2",
        &[
            "oauth2_client_id",
            "oauth2_client_secret",
            "oauth2_client_secret_file",
            "oauth2_scope",
            "oauth2_server_url",
        ],
    ),
    ("sigv4", &["region", "signing_name", "access_key", "secret_key", "session_token", "profile"]),
];

/// Every catalog, in order.
pub(super) fn read_all(settings: &Settings, errors: &mut Vec<ConfigError>) -> Vec<CatalogSettings> {
    let mut catalogs: Vec<CatalogSettings> = Vec::new();
    for number in 0..settings.items(CATALOGS) {
        let item = Item { settings, section: CATALOGS, number };
        match item.catalog() {
            Ok(next) if catalogs.iter().any(|one| one.name == next.name) => {
                let problem = format!("the name {:?}, which an earlier item has too", next.name);
                errors.push(item.wrong(&problem, "give each catalog a name of its own"));
            }
            Ok(catalog) => catalogs.push(catalog),
            Err(error) => errors.push(error),
        }
    }
    catalogs
}

impl Item<'_> {
    fn catalog(&self) -> Result<CatalogSettings, ConfigError> {
        let name = self.name()?;
        let Some(url) = self.text("url") else {
            return Err(self.wrong("no url", "set it to the catalog's address, without /v1"));
        };
        Ok(CatalogSettings {
            proof: self.proof(&url)?,
            name,
            url,
            warehouse: self.text("warehouse"),
            prefix: self.text("prefix"),
            include: self.globs("include"),
            exclude: self.globs("exclude"),
            poll_interval: self.duration("poll_interval"),
            listing_interval: self.duration("listing_interval"),
            tables_max: self.number("tables_max"),
            requests_in_flight_max: self.number("requests_in_flight_max"),
            request_timeout: self.duration("request_timeout"),
            answer_bytes_max: self.number("answer_bytes_max"),
            vended_credentials: matches!(
                self.value("vended_credentials"),
                Some(Value::Boolean(true))
            ),
            ca_bundle: self.path("ca_bundle"),
            hint_secret: self.secret("hint_secret"),
        })
    }

    fn name(&self) -> Result<String, ConfigError> {
        let is_plain = |name: &String| {
            name.len() <= NAME_CHARACTERS_MAX
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        match self.text("name") {
            Some(name) if is_plain(&name) => Ok(name),
            Some(_) => {
                let problem = "a name that is more than letters, digits, - and _";
                let cure = format!("keep to these, and to {NAME_CHARACTERS_MAX} of them");
                Err(self.wrong(problem, &cure))
            }
            None => Err(self.wrong("no name", "set one: pages, metrics and hints use it")),
        }
    }

    fn proof(&self, url: &str) -> Result<ProofSource, ConfigError> {
        let chosen = self.text("auth").expect("it has a default");
        let is_any_set = |names: &[&str]| names.iter().any(|name| self.is_set(name));
        let kind = match chosen.as_str() {
            "auto" if is_any_set(&["token", "token_file"]) => "token",
            "auto" if self.is_set("oauth2_client_id") => "oauth2",
            "auto" => "none",
            chosen => chosen,
        };
        self.refuse_idle_keys(kind)?;
        match kind {
            "token" => self.token(),
            "oauth2" => self.oauth2(),
            "sigv4" => self.sigv4(url),
            _ => Ok(ProofSource::None),
        }
    }

    /// Keys of another way of proving who asks: who sets one believes that it is used.
    fn refuse_idle_keys(&self, kind: &str) -> Result<(), ConfigError> {
        let others = PROOF_KEYS.iter().filter(|(other, _)| *other != kind);
        let idle = others.flat_map(|(other, names)| names.iter().map(move |name| (other, name)));
        match idle.into_iter().find(|(_, name)| self.is_set(name)) {
            None => Ok(()),
            Some((other, name)) => {
                let problem = format!("{name}, which only auth = \"{other}\" reads");
                let cure = format!("set auth = \"{other}\", or remove {name}");
                Err(self.wrong(&problem, &cure))
            }
        }
    }

    fn token(&self) -> Result<ProofSource, ConfigError> {
        match (self.secret("token"), self.path("token_file")) {
            (Some(_), Some(_)) => Err(self.wrong("both token and token_file", "keep one of them")),
            (Some(token), None) => Ok(ProofSource::Token(token)),
            (None, Some(path)) => Ok(ProofSource::TokenFile(path)),
            (None, None) => Err(self.wrong(
                "auth = \"token\", but no token",
                "set token or token_file, or take auth out",
            )),
        }
    }

    fn oauth2(&self) -> Result<ProofSource, ConfigError> {
        let file = self.path("oauth2_client_secret_file");
        let secret = match (self.secret("oauth2_client_secret"), &file) {
            (Some(_), Some(_)) => {
                let problem = "both oauth2_client_secret and oauth2_client_secret_file";
                return Err(self.wrong(problem, "keep one of them"));
            }
            (Some(secret), None) => Some(secret),
            (None, Some(path)) => Some(self.of_file(path)?),
            (None, None) => None,
        };
        let (Some(client_id), Some(client_secret)) = (self.text("oauth2_client_id"), secret) else {
            let problem = "one of oauth2_client_id and its secret without the other";
            return Err(self.wrong(problem, "set both"));
        };
        Ok(ProofSource::OAuth2(OAuth2Settings {
            client_id,
            client_secret,
            scope: self.text("oauth2_scope").expect("it has a default"),
            server_url: self.text("oauth2_server_url"),
        }))
    }

    fn of_file(&self, path: &std::path::Path) -> Result<Secret, ConfigError> {
        match read_file(path) {
            Ok(text) if !text.is_empty() => Ok(Secret::new(text)),
            Ok(_) => Err(self.wrong("an empty oauth2_client_secret_file", "put the secret there")),
            Err(cause) => {
                let problem = format!("an oauth2_client_secret_file that cannot be read: {cause}");
                Err(self.wrong(&problem, "name one that can"))
            }
        }
    }

    fn sigv4(&self, url: &str) -> Result<ProofSource, ConfigError> {
        let (access_key, secret_key) = (self.text("access_key"), self.secret("secret_key"));
        let (session_token, profile) = (self.secret("session_token"), self.text("profile"));
        let credentials = match (access_key, secret_key) {
            (Some(_), Some(_)) if profile.is_some() => {
                return Err(self.wrong("both access_key and profile", "keep one of them"));
            }
            (Some(access_key), Some(secret_key)) => CredentialSource::Keys {
                access_key,
                secret_key: secret_key.expose().to_owned(),
                session_token: session_token.map(|token| token.expose().to_owned()),
            },
            (None, None) if session_token.is_none() => CredentialSource::Default { profile },
            _ => {
                let problem = "some of access_key, secret_key and session_token";
                return Err(self.wrong(problem, "set access_key and secret_key, or none of them"));
            }
        };
        let service = self.text("signing_name").unwrap_or_else(|| service_of(url).to_owned());
        let region = self.text("region").expect("it has a default");
        Ok(ProofSource::SigV4(SigV4Settings { region, service, credentials }))
    }
}

/// The service that a host's name says it is; else what Iceberg's own clients name.
fn service_of(url: &str) -> &'static str {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    ["glue", "s3tables"]
        .into_iter()
        .find(|service| host.strip_prefix(service).is_some_and(|rest| rest.starts_with(['.', '-'])))
        .unwrap_or("execute-api")
}

#[cfg(test)]
mod tests;

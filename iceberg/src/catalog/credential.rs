//! Credentials that a catalog lends for a table's files: each for the locations that begin with its prefix.
//! Never printed: `Debug` names prefix and expiry alone.

use std::fmt;

use nilas_base::UnixMillis;
use serde::Deserialize;

use super::{Answer, CatalogError, Properties};

/// Credentials of one answer.
const CREDENTIALS_MAX: usize = 256;
/// The properties that tell when credentials end, in milliseconds since 1970; of Azure's, one an account follows.
const EXPIRY_KEYS: [&str; 3] =
    ["s3.session-token-expires-at-ms", "gcs.oauth2.token-expires-at", "expiration-time"];
const EXPIRY_KEY_AZURE: &str = "adls.sas-token-expires-at-ms.";
/// A smaller number than this is one of seconds, which some servers write; in milliseconds it lies in 1973.
const MILLIS_MIN: u64 = 100_000_000_000;
/// What a table's own configuration holds where it lends credentials the older way.
const SECRET_KEYS: [&str; 3] = ["s3.access-key-id", "gcs.oauth2.token", "adls.sas-token"];

/// Credentials for the locations that begin with a prefix.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
pub struct StorageCredential {
    /// As the catalog wrote it.
    pub prefix: String,
    /// The properties that make them.
    pub config: Properties,
}

impl StorageCredential {
    /// When the first of them ends, if they say that.
    pub fn expires_at(&self) -> Option<UnixMillis> {
        let is_expiry = |key: &str| EXPIRY_KEYS.contains(&key) || key.starts_with(EXPIRY_KEY_AZURE);
        let times = self.config.iter().filter(|(key, _)| is_expiry(key));
        let times = times.filter_map(|(_, value)| value.trim().parse::<u64>().ok());
        let millis =
            times.map(|time| if time < MILLIS_MIN { time.saturating_mul(1000) } else { time });
        millis.min().map(UnixMillis)
    }
}

impl fmt::Debug for StorageCredential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (prefix, expires_at) = (&self.prefix, self.expires_at());
        write!(formatter, "StorageCredential {{ prefix: {prefix:?}, expires_at: {expires_at:?} }}")
    }
}

/// All credentials of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageCredentials(Vec<StorageCredential>);

impl StorageCredentials {
    /// These, and those that a table's configuration holds itself, which are for every location.
    pub(super) fn new(
        mut credentials: Vec<StorageCredential>,
        config: &Properties,
    ) -> Result<StorageCredentials, CatalogError> {
        let is_secret = |key: &String| SECRET_KEYS.iter().any(|known| key.starts_with(known));
        if config.keys().any(is_secret) {
            credentials.push(StorageCredential { prefix: String::new(), config: config.clone() });
        }
        if credentials.len() > CREDENTIALS_MAX {
            let cause = format!("more than {CREDENTIALS_MAX} credentials for one table");
            return Err(CatalogError::unusable(cause));
        }
        Ok(StorageCredentials(credentials))
    }

    /// Those for a location: of the longest prefix that it begins with.
    pub fn of(&self, location: &str) -> Option<&StorageCredential> {
        let fitting = self.0.iter().filter(|it| location.starts_with(&it.prefix));
        fitting.max_by_key(|credential| credential.prefix.len())
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &StorageCredential> {
        self.0.iter()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// When the first of them ends, as far as they say that.
    pub fn expires_at(&self) -> Option<UnixMillis> {
        self.0.iter().filter_map(StorageCredential::expires_at).min()
    }

    /// Whether one does not say when it ends.
    pub fn has_unknown_end(&self) -> bool {
        self.0.iter().any(|credential| credential.expires_at().is_none())
    }
}

#[derive(Deserialize)]
struct CredentialsBody {
    #[serde(rename = "storage-credentials")]
    storage_credentials: Vec<StorageCredential>,
}

/// The credentials in the answer of the endpoint that gives them alone.
pub fn credentials_answer(answer: &Answer) -> Result<StorageCredentials, CatalogError> {
    let body: CredentialsBody = answer.json()?;
    StorageCredentials::new(body.storage_credentials, &Properties::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credential(prefix: &str, config: &[(&str, &str)]) -> StorageCredential {
        let config = config.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        StorageCredential { prefix: prefix.to_owned(), config: config.collect() }
    }

    #[test]
    fn the_longest_prefix_wins() {
        let all = ["s3://lake/a", "s3://lake/", "s3://lake/a/b"].map(|it| credential(it, &[]));
        let own = credential("", &[("s3.access-key-id", "k")]);
        let all = StorageCredentials::new(all.into(), &own.config).expect("they are few");
        for (location, prefix) in [
            ("s3://lake/a/b/c.parquet", "s3://lake/a/b"),
            ("s3://lake/a/c.parquet", "s3://lake/a"),
            ("s3://lake/c.parquet", "s3://lake/"),
            ("gs://other/c.parquet", ""),
        ] {
            assert_eq!(all.of(location).map(|it| it.prefix.as_str()), Some(prefix));
        }
        let none = StorageCredentials::new(Vec::new(), &Properties::new()).expect("none are few");
        assert!(none.is_empty() && none.of("s3://lake/a").is_none());
    }

    #[test]
    fn the_first_end_counts_and_seconds_are_understood() {
        for (config, expires_at) in [
            (&[("s3.session-token-expires-at-ms", "1700000000123")][..], Some(1_700_000_000_123)),
            (&[("expiration-time", "1700000000")], Some(1_700_000_000_000)),
            (
                &[
                    ("adls.sas-token-expires-at-ms.a", "1700000000002"),
                    ("adls.sas-token-expires-at-ms.b", "1700000000001"),
                ],
                Some(1_700_000_000_001),
            ),
            (&[("s3.session-token-expires-at-ms", "soon")], None),
            (&[("s3.secret-access-key", "geheim")], None),
        ] {
            let credential = credential("s3://lake", config);
            assert_eq!(credential.expires_at(), expires_at.map(UnixMillis));
            assert!(!format!("{credential:?}").contains("geheim"));
        }
    }

    #[test]
    fn the_endpoint_of_credentials_gives_them_by_prefix() {
        let body =
            r#"{"storage-credentials":[{"prefix":"s3://a","config":{"s3.access-key-id":"k"}}]}"#;
        let answer = Answer { status: 200, body: body.into(), ..Answer::default() };
        let credentials = credentials_answer(&answer).expect("well formed");
        assert_eq!(credentials.iter().count(), 1);
        assert!(credentials.has_unknown_end() && credentials.expires_at().is_none());
    }
}

//! Which catalog is watched, how it is reached, and by what requests prove who asks; what configuration is
//! turned into.

use std::path::PathBuf;
use std::time::Duration;

use nilas_iceberg::catalog::TableName;

use crate::config::{Glob, Secret};
use crate::origin::CredentialSource;

/// A catalog that is watched.
#[derive(Clone, Debug)]
pub struct CatalogSettings {
    /// What it is called here.
    pub name: String,
    /// Its address, without `/v1`.
    pub url: String,
    /// The warehouse that it is asked for.
    pub warehouse: Option<String>,
    /// What its paths begin with after `/v1`, where it does not say that itself.
    pub prefix: Option<String>,
    /// Tables that are watched; all where there is none.
    pub include: Vec<Glob>,
    /// Tables that are not, all the same.
    pub exclude: Vec<Glob>,
    /// How often each table is asked for.
    pub poll_interval: Duration,
    /// How often all tables are listed.
    pub listing_interval: Duration,
    /// Tables that are watched at most.
    pub tables_max: usize,
    /// Requests under way.
    pub requests_in_flight_max: usize,
    /// How long a request may take.
    pub request_timeout: Duration,
    /// How long an answer may be.
    pub answer_bytes_max: usize,
    /// Whether it is asked to lend credentials.
    pub vended_credentials: bool,
    /// How requests prove who asks.
    pub proof: ProofSource,
    /// A PEM file of certificates to trust.
    pub ca_bundle: Option<PathBuf>,
    /// What commit hints are signed with.
    pub hint_secret: Option<Secret>,
}

/// How requests prove who asks.
#[derive(Clone, Debug)]
pub enum ProofSource {
    /// Not at all.
    None,
    /// By a token.
    Token(Secret),
    /// By the token that a file holds at the moment.
    TokenFile(PathBuf),
    /// By tokens that a server gives for a client's credentials.
    OAuth2(OAuth2Settings),
    /// By Signature Version 4.
    SigV4(SigV4Settings),
}

/// OAuth2's client credentials.
#[derive(Clone, Debug)]
pub struct OAuth2Settings {
    /// The client.
    pub client_id: String,
    /// Its secret.
    pub client_secret: Secret,
    /// The scope that is asked for.
    pub scope: String,
    /// Where; below the catalog's address where nothing is said.
    pub server_url: Option<String>,
}

/// What signatures name, and with what they are made.
#[derive(Clone, Debug)]
pub struct SigV4Settings {
    /// The region.
    pub region: String,
    /// The service.
    pub service: String,
    /// The keys.
    pub credentials: CredentialSource,
}

impl CatalogSettings {
    /// Whether a table is watched.
    pub fn wants(&self, name: &TableName) -> bool {
        let text = name.to_string();
        let fits = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(&text));
        (self.include.is_empty() || fits(&self.include)) && !fits(&self.exclude)
    }
}

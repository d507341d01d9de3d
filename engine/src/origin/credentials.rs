//! What requests to an S3 origin are signed with: given outright, found where AWS's own tools look,
//! or none. Found ones are kept and renewed before they expire; a failed renewal leaves the old
//! ones in use for as long as they are valid. Never printed: `Debug` names the source alone.

mod send;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nilas_base::{Clock, Monotonic};
use reqsign_aws_v4::{Credential, DefaultCredentialProvider};
use reqsign_core::{Context, FileRead, OsEnv, ProvideCredential, SigningCredential};
use tokio::sync::Mutex;

use self::send::CredentialSend;
use super::CredentialSource;
use super::s3_relay::Connector;
use super::signer::SigningKey;

/// How long before their expiry credentials are renewed. Instance metadata gives new ones five
/// minutes before the old ones end.
const RENEWAL_BEFORE_EXPIRY: Duration = Duration::from_secs(240);
/// How long a failed search is taken as an answer, so that a burst of requests asks once.
const FAILURE_KEPT: Duration = Duration::from_secs(2);
/// How long a search may take, all places together.
const SEARCH_TIME_MAX: Duration = Duration::from_secs(20);

/// Gives the key of the moment.
#[derive(Debug)]
pub(crate) enum Credentials {
    Fixed(Arc<SigningKey>),
    Found(Box<Search>),
    Anonymous,
}

/// Looks for credentials where AWS's tools do.
#[derive(Debug)]
pub(crate) struct Search {
    context: Context,
    provider: DefaultCredentialProvider,
    clock: Clock,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    found: Option<(Credential, Arc<SigningKey>)>,
    failure: Option<(Monotonic, String)>,
}

impl fmt::Debug for Kept {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Kept {{ found: {} }}", self.found.is_some())
    }
}

impl Credentials {
    /// Credentials from this source. `connector` reaches the services that give some.
    pub(crate) fn new(
        source: &CredentialSource,
        connector: Connector,
        clock: Clock,
    ) -> Credentials {
        match source.clone() {
            CredentialSource::Anonymous => Credentials::Anonymous,
            CredentialSource::Keys { access_key, secret_key, session_token } => {
                Credentials::Fixed(Arc::new(SigningKey { access_key, secret_key, session_token }))
            }
            CredentialSource::Default { profile } => {
                let context = Context::new()
                    .with_file_read(SmallFile)
                    .with_http_send(CredentialSend::new(connector))
                    .with_env(OsEnv);
                Credentials::Found(Box::new(Search::new(context, profile, clock)))
            }
        }
    }

    /// The key to sign with now; none where requests go unsigned. The error says what was tried.
    pub(crate) async fn key(&self) -> Result<Option<Arc<SigningKey>>, String> {
        match self {
            Credentials::Fixed(key) => Ok(Some(Arc::clone(key))),
            Credentials::Anonymous => Ok(None),
            Credentials::Found(search) => search.key().await.map(Some),
        }
    }
}

impl Search {
    fn new(context: Context, profile: Option<String>, clock: Clock) -> Search {
        let builder = DefaultCredentialProvider::builder().no_sso().no_process();
        let builder = match profile {
            Some(profile) => builder.with_profile(profile),
            None => builder,
        };
        Search { context, provider: builder.build(), clock, kept: Mutex::default() }
    }

    async fn key(&self) -> Result<Arc<SigningKey>, String> {
        // Held while searching, so that a thousand requests search once.
        let mut kept = self.kept.lock().await;
        if let Some((credential, key)) = &kept.found
            && self.lasts(credential, RENEWAL_BEFORE_EXPIRY)
        {
            return Ok(Arc::clone(key));
        }
        let recently = |at: Monotonic| self.clock.now().since(at) < FAILURE_KEPT;
        let failure = match &kept.failure {
            Some((at, cause)) if recently(*at) => cause.clone(),
            _ => match self.search().await {
                Ok(credential) => return Ok(kept.take(credential)),
                Err(cause) => cause,
            },
        };
        kept.failure = Some((self.clock.now(), failure.clone()));
        match &kept.found {
            Some((credential, key)) if self.lasts(credential, Duration::ZERO) => {
                Ok(Arc::clone(key))
            }
            _ => Err(failure),
        }
    }

    fn lasts(&self, credential: &Credential, how_long: Duration) -> bool {
        let wall_ms = self.clock.wall().0.saturating_add(how_long.as_millis() as u64);
        i64::try_from(wall_ms)
            .ok()
            .and_then(|wall_ms| reqsign_core::time::Timestamp::from_millisecond(wall_ms).ok())
            .is_some_and(|then| credential.is_valid_at(then))
    }

    async fn search(&self) -> Result<Credential, String> {
        let search = self.provider.provide_credential(&self.context);
        let cure = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, a web identity \
                    token or an instance role, or give the keys in the configuration";
        match tokio::time::timeout(SEARCH_TIME_MAX, search).await {
            Err(_) => Err(format!("the search took more than {SEARCH_TIME_MAX:?}; {cure}")),
            Ok(Err(error)) => Err(format!("{error}; {cure}")),
            Ok(Ok(None)) => Err(format!("none were found; {cure}")),
            Ok(Ok(Some(credential))) => Ok(credential),
        }
    }
}

impl Kept {
    fn take(&mut self, credential: Credential) -> Arc<SigningKey> {
        let key = Arc::new(SigningKey {
            access_key: credential.access_key_id.clone(),
            secret_key: credential.secret_access_key.clone(),
            session_token: credential.session_token.clone(),
        });
        self.found = Some((credential, Arc::clone(&key)));
        self.failure = None;
        key
    }
}

/// Reads token and profile files.
#[derive(Debug)]
struct SmallFile;

impl FileRead for SmallFile {
    async fn file_read(&self, path: &str) -> reqsign_core::Result<Vec<u8>> {
        tokio::fs::read(path).await.map_err(|error| {
            reqsign_core::Error::unexpected(format!("{path} cannot be read")).with_source(error)
        })
    }
}

#[cfg(test)]
mod tests;

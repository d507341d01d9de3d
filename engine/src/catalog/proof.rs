//! How requests prove who asks, now: a token that is fixed, that a file holds, or that a server gives and
//! that is renewed before it ends; or a signature. A refused proof is replaced once, if there is another.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use nilas_base::{Clock, Monotonic};
use nilas_iceberg::catalog::{token_answer, token_form};

use super::client::Root;
use super::settings::{OAuth2Settings, ProofSource, SigV4Settings};
use super::sigv4;
use super::status::{CatalogCount, CatalogStatus};
use super::transport::{Call, Transport};
use super::trouble::Trouble;
use crate::config::Secret;
use crate::origin::{Connector, Credentials};

/// Bytes of a file that holds a token.
const TOKEN_FILE_BYTES_MAX: u64 = 64 << 10;
/// How long a token is taken for good whose server does not say it.
const TOKEN_LIFE_ASSUMED: Duration = Duration::from_secs(3600);
/// How long before its end a token is renewed; of a short one, a quarter of its life.
const RENEWAL_BEFORE_END: Duration = Duration::from_secs(60);

/// Proves who asks.
pub(super) enum Proof {
    None,
    Fixed(Secret),
    File(TokenFile),
    OAuth2(Box<Tokens>),
    SigV4 { settings: SigV4Settings, credentials: Credentials, clock: Clock },
}

/// The token that a call was sent with.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Proved(Option<Secret>);

impl Proof {
    pub(super) fn new(
        source: &ProofSource,
        root: &Root,
        connector: Connector,
        clock: &Clock,
    ) -> Result<Proof, String> {
        Ok(match source {
            ProofSource::None => Proof::None,
            ProofSource::Token(token) => Proof::Fixed(token.clone()),
            ProofSource::TokenFile(path) => Proof::File(TokenFile::new(path.clone())),
            ProofSource::OAuth2(settings) => {
                Proof::OAuth2(Box::new(Tokens::new(settings.clone(), root, clock.clone())?))
            }
            ProofSource::SigV4(settings) => {
                let credentials = Credentials::new(&settings.credentials, connector, clock.clone());
                Proof::SigV4 { settings: settings.clone(), credentials, clock: clock.clone() }
            }
        })
    }

    /// Adds the proof to a call.
    pub(super) async fn prove(
        &self,
        call: &mut Call,
        transport: &Transport,
        status: &CatalogStatus,
    ) -> Result<Proved, Trouble> {
        let token = match self {
            Proof::None => return Ok(Proved(None)),
            Proof::Fixed(token) => token.clone(),
            Proof::File(file) => file.token(false)?,
            Proof::OAuth2(tokens) => tokens.token(transport, status).await?,
            Proof::SigV4 { settings, credentials, clock } => {
                let key = credentials.key().await.map_err(|cause| Trouble::Proof { cause })?;
                if let Some(key) = key {
                    let scope = (settings.region.as_str(), settings.service.as_str());
                    sigv4::sign(call, &key, scope, clock.wall())?;
                }
                return Ok(Proved(None));
            }
        };
        call.set(AUTHORIZATION, &format!("Bearer {}", token.expose()))?;
        Ok(Proved(Some(token)))
    }

    /// Says that the catalog refused a proof. True where there may be another.
    pub(super) async fn refused(&self, proved: &Proved) -> bool {
        match self {
            Proof::None | Proof::Fixed(_) | Proof::SigV4 { .. } => false,
            Proof::File(file) => {
                file.token(true).is_ok_and(|token| Some(&token) != proved.0.as_ref())
            }
            Proof::OAuth2(tokens) => {
                tokens.forget(proved).await;
                true
            }
        }
    }
}

/// A token in a file that may change.
pub(super) struct TokenFile {
    path: PathBuf,
    kept: Mutex<Option<(Option<Facts>, Secret)>>,
}

/// What tells that a file has changed: a new one in its place, too.
type Facts = (u64, u64, SystemTime);

impl TokenFile {
    pub(super) fn new(path: PathBuf) -> TokenFile {
        TokenFile { path, kept: Mutex::default() }
    }

    /// The token of now. While a file is being replaced, and cannot be read, it is the last one.
    pub(super) fn token(&self, is_refused: bool) -> Result<Secret, Trouble> {
        let now = facts(&self.path);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((seen, token)) = &*kept
            && *seen == now
            && !is_refused
        {
            return Ok(token.clone());
        }
        match (read_token(&self.path), &*kept) {
            (Ok(token), _) => {
                *kept = Some((now, token.clone()));
                Ok(token)
            }
            (Err(_), Some((_, token))) => Ok(token.clone()),
            (Err(cause), None) => Err(Trouble::Proof { cause }),
        }
    }
}

fn facts(path: &Path) -> Option<Facts> {
    use std::os::unix::fs::MetadataExt;
    let facts = std::fs::metadata(path).ok()?;
    Some((facts.ino(), facts.len(), facts.modified().ok()?))
}

fn read_token(path: &Path) -> Result<Secret, String> {
    let told = |cause: String| format!("the token file {}: {cause}", path.display());
    let facts = std::fs::metadata(path).map_err(|error| told(error.to_string()))?;
    if facts.len() > TOKEN_FILE_BYTES_MAX {
        return Err(told(format!("it is longer than {TOKEN_FILE_BYTES_MAX} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| told(error.to_string()))?;
    match text.trim() {
        "" => Err(told("it is empty".to_owned())),
        token => Ok(Secret::new(token)),
    }
}

/// Tokens that a server gives for a client's credentials.
pub(super) struct Tokens {
    settings: OAuth2Settings,
    server: Root,
    clock: Clock,
    /// Held while a token is asked for, so that many requests ask for one.
    kept: tokio::sync::Mutex<Option<Kept>>,
}

struct Kept {
    token: Secret,
    renewed_at: Monotonic,
    /// Until when it is good, if that is known.
    ends_at: Option<Monotonic>,
}

impl Tokens {
    fn new(settings: OAuth2Settings, root: &Root, clock: Clock) -> Result<Tokens, String> {
        let server = match &settings.server_url {
            Some(url) => Root::parse(url)?,
            None => root.below("/v1/oauth/tokens"),
        };
        Ok(Tokens { settings, server, clock, kept: tokio::sync::Mutex::default() })
    }

    async fn token(
        &self,
        transport: &Transport,
        status: &CatalogStatus,
    ) -> Result<Secret, Trouble> {
        let mut kept = self.kept.lock().await;
        let now = self.clock.now();
        if let Some(known) = kept.as_ref().filter(|known| now < known.renewed_at) {
            return Ok(known.token.clone());
        }
        match self.ask(transport, status).await {
            Ok(new) => Ok(kept.insert(new).token.clone()),
            Err(trouble) => match &*kept {
                Some(known) if known.ends_at.is_none_or(|end| now < end) => Ok(known.token.clone()),
                _ => Err(trouble),
            },
        }
    }

    async fn ask(&self, transport: &Transport, status: &CatalogStatus) -> Result<Kept, Trouble> {
        let OAuth2Settings { client_id, client_secret, scope, .. } = &self.settings;
        let form = token_form(Some(client_id), client_secret.expose(), scope);
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        let call = Call {
            method: Method::POST,
            endpoint: self.server.endpoint.clone(),
            target: self.server.target("", ""),
            headers: HeaderMap::from_iter([(CONTENT_TYPE, kind)]),
            body: Bytes::from(form),
        };
        status.count(CatalogCount::TokenRequests);
        let asked_at = self.clock.now();
        let answer = transport.send(&call).await?;
        let token = token_answer(&answer).map_err(|error| Trouble::Proof {
            cause: format!("{} gives no token: {error}", self.server),
        })?;
        let life = token.expires_in.unwrap_or(TOKEN_LIFE_ASSUMED);
        let renewed_at = asked_at.after(life - RENEWAL_BEFORE_END.min(life / 4));
        let ends_at = token.expires_in.map(|life| asked_at.after(life));
        Ok(Kept { token: Secret::new(token.text), renewed_at, ends_at })
    }

    /// Forgets a token that was refused, unless another has taken its place already.
    async fn forget(&self, proved: &Proved) {
        let mut kept = self.kept.lock().await;
        if kept.as_ref().is_some_and(|known| Some(&known.token) == proved.0.as_ref()) {
            *kept = None;
        }
    }
}

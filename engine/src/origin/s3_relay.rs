//! An origin that speaks S3. A request is re-signed under the origin's credentials and sent on as it
//! came; the answer is passed back as it comes. Nothing is parsed that need not be. Bodies stream
//! both ways, bounded; one that breaks off takes its connection with it, so that neither side can
//! mistake it for a whole one.

mod connector;
mod download;
mod endpoint;
mod exchange;
mod head;
mod pool;
mod probe;
#[cfg(test)]
mod tests;
mod upload;

use std::sync::Arc;

use http::Method;
use nilas_base::Clock;
use sha2::{Digest, Sha256};

pub(crate) use connector::Connector;
pub(crate) use endpoint::Endpoint;
pub(super) use exchange::Patience;

use self::exchange::Exchange;
use self::head::{Head, Signing};
use self::pool::Pool;
use super::credentials::Credentials;
use super::{
    Addressing, BoxFuture, LentKeys, Origin, OriginAnswer, OriginError, OriginRequest,
    OriginResult, RequestBody, S3Settings, Signer, SigningKey,
};

/// An S3 origin.
#[derive(Debug)]
pub struct S3Relay {
    endpoint: Endpoint,
    addressing: Addressing,
    region: String,
    credentials: Credentials,
    lent: LentKeys,
    pool: Arc<Pool>,
    patience: Patience,
    clock: Clock,
}

impl S3Relay {
    /// The origin that `settings` describe. Nothing is connected yet; the error says what is wrong
    /// with them.
    pub fn new(settings: &S3Settings, clock: Clock) -> Result<S3Relay, String> {
        let endpoint = Endpoint::parse(&settings.endpoint)?;
        let connector = Connector::new(settings.ca_bundle.as_deref())?;
        let credentials = Credentials::new(&settings.credentials, connector.clone(), clock.clone());
        Ok(S3Relay {
            endpoint,
            addressing: settings.addressing,
            region: settings.region.clone(),
            credentials,
            lent: LentKeys::default(),
            pool: Arc::new(Pool::new(connector, clock.clone())),
            patience: Patience { write_first_byte: settings.write_timeout, ..Patience::default() },
            clock,
        })
    }

    /// The same, reading in the node's own name with what is lent, where something is.
    pub fn with_lent(self, lent: LentKeys) -> S3Relay {
        S3Relay { lent, ..self }
    }

    /// The same, with other time-outs.
    #[cfg(test)]
    pub(super) fn with_patience(self, patience: Patience) -> S3Relay {
        S3Relay { patience, ..self }
    }

    async fn relay(&self, request: OriginRequest) -> Result<OriginAnswer, OriginError> {
        if let Some(lent) = self.lent_for(&request) {
            return self.relay_lent(request, &lent).await;
        }
        let key = match &request.signer {
            Signer::Node => self.own_key().await?,
            Signer::Key(key) => Some(Arc::clone(key)),
            Signer::Nobody | Signer::AsSent => None,
        };
        let head = self.head(&request, key.as_deref())?;
        self.exchange().run(head, request.body).await
    }

    async fn own_key(&self) -> Result<Option<Arc<SigningKey>>, OriginError> {
        let failed = |cause| OriginError::Credentials { origin: self.describe(), cause };
        self.credentials.key().await.map_err(failed)
    }

    /// The key that is lent for a read of an object in the node's own name.
    fn lent_for(&self, request: &OriginRequest) -> Option<Arc<SigningKey>> {
        let is_read = matches!(request.method, Method::GET | Method::HEAD)
            && matches!(request.body, RequestBody::Empty);
        let key = request.key.as_deref().filter(|_| is_read && request.signer == Signer::Node)?;
        self.lent.of(&request.bucket, key, self.clock.wall())
    }

    /// Reads with a key that is lent, and once more with the node's own where that one is refused: a catalog that
    /// lends what is good for nothing costs a request, not the answer.
    async fn relay_lent(
        &self,
        request: OriginRequest,
        lent: &Arc<SigningKey>,
    ) -> Result<OriginAnswer, OriginError> {
        let head = self.head(&request, Some(lent))?;
        let answer = self.exchange().run(head, RequestBody::Empty).await?;
        if !is_refusal(&answer) {
            return Ok(answer);
        }
        // Nothing but what is lent may be known here.
        let Ok(own) = self.own_key().await else { return Ok(answer) };
        drop(answer);
        let head = self.head(&request, own.as_deref())?;
        let answer = self.exchange().run(head, RequestBody::Empty).await?;
        if !is_refusal(&answer) {
            self.lent.refused(lent);
        }
        Ok(answer)
    }

    fn head(&self, request: &OriginRequest, key: Option<&SigningKey>) -> Result<Head, OriginError> {
        let signing = Signing { key, region: &self.region, now: self.clock.wall() };
        Head::new(&self.endpoint, self.addressing, request, &signing)
    }

    fn exchange(&self) -> Exchange<'_> {
        Exchange { pool: &self.pool, patience: self.patience }
    }
}

fn is_refusal(answer: &OriginAnswer) -> bool {
    matches!(answer.status, 401 | 403)
}

impl Origin for S3Relay {
    fn handle(self: Arc<Self>, request: OriginRequest) -> BoxFuture<'static, OriginResult> {
        Box::pin(async move { self.relay(request).await })
    }

    fn id(&self) -> [u8; 16] {
        let digest = Sha256::digest(format!("s3\n{}\n{:?}", self.endpoint, self.addressing));
        digest[..16].try_into().expect("a SHA-256 has 32 bytes")
    }

    fn describe(&self) -> String {
        format!("S3 at {}", self.endpoint)
    }

    fn probe(
        self: Arc<Self>,
        bucket: Option<String>,
    ) -> BoxFuture<'static, Result<String, String>> {
        Box::pin(async move { probe::probe(&self, bucket.as_deref()).await })
    }
}

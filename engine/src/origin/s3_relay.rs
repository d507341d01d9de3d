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
    Addressing, BoxFuture, Origin, OriginAnswer, OriginError, OriginRequest, OriginResult,
    S3Settings, Signer,
};

/// An S3 origin.
#[derive(Debug)]
pub struct S3Relay {
    endpoint: Endpoint,
    addressing: Addressing,
    region: String,
    credentials: Credentials,
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
            pool: Arc::new(Pool::new(connector, clock.clone())),
            patience: Patience { write_first_byte: settings.write_timeout, ..Patience::default() },
            clock,
        })
    }

    /// The same, with other time-outs.
    #[cfg(test)]
    pub(super) fn with_patience(self, patience: Patience) -> S3Relay {
        S3Relay { patience, ..self }
    }

    async fn relay(&self, request: OriginRequest) -> Result<OriginAnswer, OriginError> {
        let key = match &request.signer {
            Signer::Node => self
                .credentials
                .key()
                .await
                .map_err(|cause| OriginError::Credentials { origin: self.describe(), cause })?,
            Signer::Key(key) => Some(Arc::clone(key)),
            Signer::Nobody | Signer::AsSent => None,
        };
        let signing = Signing { key: key.as_deref(), region: &self.region, now: self.clock.wall() };
        let head = Head::new(&self.endpoint, self.addressing, &request, &signing)?;
        Exchange { pool: &self.pool, patience: self.patience }.run(head, request.body).await
    }
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

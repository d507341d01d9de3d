//! Asks a catalog: a question of the protocol becomes a call with its proof, and a refused proof is replaced
//! once. What an answer means is the asker's.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::header::IF_NONE_MATCH;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use nilas_base::Clock;
use nilas_iceberg::catalog::{Answer, CatalogError, Question};

use super::proof::Proof;
use super::settings::CatalogSettings;
use super::status::{CatalogCount, CatalogStatus};
use super::transport::{Bounds, Call, Transport};
use super::trouble::Trouble;
use crate::origin::{Connector, Endpoint};

/// A place below which everything of a server lies.
#[derive(Clone, Debug)]
pub(super) struct Root {
    pub(super) endpoint: Endpoint,
    /// Without its last slash; empty of a host alone.
    path: String,
}

impl Root {
    /// Reads `http(s)://host[:port][/path]`.
    pub(super) fn parse(url: &str) -> Result<Root, String> {
        let scheme_end = url.find("://").map_or(0, |at| at + 3);
        let path_at = url[scheme_end..].find('/').map_or(url.len(), |at| scheme_end + at);
        let endpoint = Endpoint::parse(&url[..path_at])?;
        let path = url[path_at..].trim_end_matches('/').to_owned();
        if path.parse::<Uri>().is_err() && !path.is_empty() {
            return Err(format!("the path of {url:?} is none that a request can hold"));
        }
        Ok(Root { endpoint, path })
    }

    /// A place below this one.
    pub(super) fn below(&self, path: &str) -> Root {
        Root { endpoint: self.endpoint.clone(), path: format!("{}{path}", self.path) }
    }

    /// What a request to a path below it asks for.
    pub(super) fn target(&self, path: &str, query: &str) -> String {
        let mark = if query.is_empty() { "" } else { "?" };
        let target = format!("{}{path}{mark}{query}", self.path);
        if target.starts_with('/') { target } else { format!("/{target}") }
    }
}

impl fmt::Display for Root {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.endpoint, self.path)
    }
}

/// Asks one catalog.
pub(super) struct Client {
    root: Root,
    wants_credentials: bool,
    transport: Transport,
    proof: Proof,
    status: Arc<CatalogStatus>,
}

impl Client {
    /// A client of the catalog that `settings` describe; the error says what is wrong with them. Nothing is asked yet.
    pub(super) fn new(
        settings: &CatalogSettings,
        status: Arc<CatalogStatus>,
        clock: Clock,
    ) -> Result<Client, String> {
        let root = Root::parse(&settings.url)?;
        let connector = Connector::new(settings.ca_bundle.as_deref())?;
        let proof = Proof::new(&settings.proof, &root, connector.clone(), &clock)?;
        let (time_max, bytes_max) = (settings.request_timeout, settings.answer_bytes_max);
        let transport = Transport::new(connector, Bounds { time_max, bytes_max }, clock);
        let wants_credentials = settings.vended_credentials;
        Ok(Client { root, wants_credentials, transport, proof, status })
    }

    /// Asks, a second time where the catalog refuses the proof and there is another.
    pub(super) async fn ask(&self, question: &Question) -> Result<Answer, Trouble> {
        let (answer, is_refused) = self.ask_once(question).await?;
        if is_refused {
            let (answer, _) = self.ask_once(question).await?;
            return Ok(answer);
        }
        Ok(answer)
    }

    /// Asks, and says whether to ask again with another proof.
    async fn ask_once(&self, question: &Question) -> Result<(Answer, bool), Trouble> {
        let mut call = self.call(question)?;
        let proved = self.proof.prove(&mut call, &self.transport, &self.status).await?;
        self.status.count(CatalogCount::Requests);
        let answer = self.transport.send(&call).await?;
        let is_refused = matches!(answer.status, 401 | 419) && self.proof.refused(&proved).await;
        Ok((answer, is_refused))
    }

    fn call(&self, question: &Question) -> Result<Call, Trouble> {
        let target = self.root.target(&question.path, &question.query);
        if target.parse::<Uri>().is_err() {
            // Of a name or a prefix beyond what an HTTP request may hold.
            let cause = format!("a path of {} bytes that no request can hold", target.len());
            return Err(CatalogError::Unusable { cause }.into());
        }
        let mut headers = HeaderMap::new();
        if let Some(etag) = &question.known_etag
            && let Ok(etag) = HeaderValue::from_str(etag)
        {
            headers.insert(IF_NONE_MATCH, etag);
        }
        if question.lends_credentials && self.wants_credentials {
            let name = HeaderName::from_static("x-iceberg-access-delegation");
            headers.insert(name, HeaderValue::from_static("vended-credentials"));
        }
        let endpoint = self.root.endpoint.clone();
        Ok(Call { method: Method::GET, endpoint, target, headers, body: Bytes::new() })
    }
}

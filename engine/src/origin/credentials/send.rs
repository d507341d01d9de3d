//! The few small requests by which credentials are asked for: instance and container metadata,
//! web identity. Nothing of them is logged; an answer is read up to a limit.

use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http_body_util::{BodyExt, Full, Limited};
use reqsign_core::{Error, HttpSend, Result};

use crate::origin::s3_relay::{Connector, Endpoint};

/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// How long one request may take, all in all.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(5);
/// How long connecting may take. Off a cloud, the metadata address leads nowhere.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);

/// Sends them.
#[derive(Debug)]
pub(super) struct CredentialSend {
    connector: Connector,
}

impl CredentialSend {
    pub(super) fn new(connector: Connector) -> CredentialSend {
        CredentialSend { connector: connector.with_time_max(CONNECT_TIME_MAX) }
    }

    async fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> std::result::Result<http::Response<Bytes>, String> {
        let (mut parts, body) = request.into_parts();
        let uri = parts.uri.clone();
        let authority = uri.authority().ok_or("the address has no host")?;
        let scheme = uri.scheme_str().unwrap_or("https");
        let endpoint = Endpoint::parse(&format!("{scheme}://{authority}"))?;
        let host = endpoint.host_header().parse().map_err(|_| "the host cannot be a header")?;
        parts.headers.insert(HOST, host);
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        parts.uri = target.parse().map_err(|_| "the path is none")?;

        let mut sender = self.connector.connect::<Full<Bytes>>(&endpoint).await.map_err(text)?;
        let request = http::Request::from_parts(parts, Full::new(body));
        let answer = sender.send_request(request).await.map_err(text)?;
        let (parts, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(text)?;
        Ok(http::Response::from_parts(parts, body.to_bytes()))
    }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

impl HttpSend for CredentialSend {
    async fn http_send(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>> {
        let cause = match tokio::time::timeout(REQUEST_TIME_MAX, self.send(request)).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(cause)) => cause,
            Err(_) => format!("no answer within {REQUEST_TIME_MAX:?}"),
        };
        Err(Error::unexpected(format!("a request for credentials failed: {cause}")))
    }
}

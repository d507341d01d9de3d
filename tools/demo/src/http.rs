//! The HTTP client under `object_store`: hyper with a pool, plain HTTP on loopback and nothing
//! more, so that the demo needs no TLS of its own.

use async_trait::async_trait;
use http_body_util::BodyExt;
use hyper_util::client::legacy::{Client, connect};
use hyper_util::rt::TokioExecutor;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};

/// Makes clients for `object_store`.
#[derive(Debug)]
pub(crate) struct PlainConnector;

impl HttpConnector for PlainConnector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let mut connector = connect::HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(HttpClient::new(PlainService { client }))
    }
}

#[derive(Debug)]
struct PlainService {
    client: Client<connect::HttpConnector, HttpRequestBody>,
}

#[async_trait]
impl HttpService for PlainService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = self.client.request(request).await;
        let answer = answer.map_err(|error| {
            let kind =
                if error.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Request };
            HttpError::new(kind, error)
        })?;
        Ok(answer.map(|body| {
            let body = body.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error));
            HttpResponseBody::new(body)
        }))
    }
}

//! One request and the head of its answer: a connection, time-outs, and the one retry there is. A
//! request without a body that changes nothing is sent again, once, when a connection that was idle
//! turns out to be dead before any answer. Nothing else is sent twice.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use hyper::body::Incoming;

use super::download::answer;
use super::head::{Framing, Head};
use super::pool::{Connection, Pool};
use super::upload::{Progress, Upload};
use crate::origin::{OriginAnswer, OriginError, RequestBody};

/// How long an origin may be silent. Each ends in an [`OriginError::TimedOut`].
#[derive(Clone, Copy, Debug)]
pub(in crate::origin) struct Patience {
    /// Before the answer to a read.
    pub(in crate::origin) read_first_byte: Duration,
    /// Before the answer to anything else, counted from the last byte that the origin took: a copy
    /// or the completion of an upload is real work there.
    pub(in crate::origin) write_first_byte: Duration,
    /// Between two pieces of an answer's body.
    pub(in crate::origin) body_idle: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            read_first_byte: Duration::from_secs(30),
            write_first_byte: Duration::from_secs(300),
            body_idle: Duration::from_secs(30),
        }
    }
}

/// What an exchange needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange<'a> {
    pub(super) pool: &'a Arc<Pool>,
    pub(super) patience: Patience,
}

impl Exchange<'_> {
    /// Sends the request and waits for the answer's head.
    pub(super) async fn run(
        self,
        head: Head,
        body: RequestBody,
    ) -> Result<OriginAnswer, OriginError> {
        let Head { endpoint, method, target, mut headers, framing, awaited } = head;
        let has_body = !matches!(framing, Framing::None);
        let is_repeatable = !has_body && matches!(method, Method::GET | Method::HEAD);
        let (mut upload, progress) = Upload::new(body, framing);
        if has_body {
            set_length(&mut headers, upload.length());
            if awaited.is_none() {
                upload.begin().await.map_err(|_| OriginError::BodyAborted)?;
            }
        }
        let mut connection = self.pool.take(&endpoint, is_repeatable).await?;
        let was_reused = connection.is_reused;
        let mut request = build(&method, &target, &headers, upload);
        if let Some(awaited) = awaited {
            hyper::ext::on_informational(&mut request, move |answer| {
                if answer.status() == StatusCode::CONTINUE {
                    awaited.notify_one();
                }
            });
        }
        let error = match self.send(&mut connection, request, &progress, &method).await {
            Ok(response) if is_repeatable && was_reused && is_about_connection(&response) => {
                OriginError::broken("it was closed after having been idle")
            }
            Ok(response) => return Ok(self.pass_back(response, connection)),
            Err(Failure { error, .. }) if !is_repeatable || !was_reused => return Err(error),
            Err(Failure { is_silence: true, error }) => return Err(error),
            Err(Failure { error, .. }) => error,
        };
        tracing::debug!(%error, "an idle connection was dead; the request is sent again");
        let mut connection = self.pool.open(&endpoint).await?;
        let request = build(&method, &target, &headers, Upload::none());
        match self.send(&mut connection, request, &progress, &method).await {
            Ok(response) => Ok(self.pass_back(response, connection)),
            Err(Failure { error, .. }) => Err(error),
        }
    }

    fn pass_back(self, response: Response<Incoming>, connection: Connection) -> OriginAnswer {
        answer(response, connection, self.pool, self.patience.body_idle)
    }

    async fn send(
        self,
        connection: &mut Connection,
        request: Request<Upload>,
        progress: &Progress,
        method: &Method,
    ) -> Result<Response<Incoming>, Failure> {
        let limit = match *method {
            Method::GET | Method::HEAD => self.patience.read_first_byte,
            _ => self.patience.write_first_byte,
        };
        let answer = connection.sender.send_request(request);
        match patiently(answer, progress, limit).await {
            Some(Ok(response)) => Ok(response),
            Some(Err(_)) if progress.is_aborted() => Err(Failure::of(OriginError::BodyAborted)),
            Some(Err(error)) => Err(Failure::of(OriginError::broken(format!(
                "{} broke off before its answer: {error}",
                connection.endpoint
            )))),
            None => Err(Failure {
                error: OriginError::TimedOut {
                    origin: connection.endpoint.to_string(),
                    step: "its answer was waited for",
                    waited: limit,
                },
                is_silence: true,
            }),
        }
    }
}

/// Whether an answer may be one to a connection that was idle for too long, not to the request: some
/// say so in this way, and close it.
fn is_about_connection(response: &Response<Incoming>) -> bool {
    let closes = response
        .headers()
        .get(CONNECTION)
        .is_some_and(|connection| connection.as_bytes().eq_ignore_ascii_case(b"close"));
    match response.status() {
        StatusCode::REQUEST_TIMEOUT => true,
        StatusCode::BAD_REQUEST => closes,
        _ => false,
    }
}

struct Failure {
    error: OriginError,
    /// Whether nothing came at all: asking again would only double the wait.
    is_silence: bool,
}

impl Failure {
    fn of(error: OriginError) -> Failure {
        Failure { error, is_silence: false }
    }
}

/// Waits while the upload moves or the client is the one who is slow, and then for `limit`.
async fn patiently<T>(
    answer: impl Future<Output = T>,
    progress: &Progress,
    limit: Duration,
) -> Option<T> {
    let mut answer = std::pin::pin!(answer);
    loop {
        let seen = progress.seen();
        if let Ok(answer) = tokio::time::timeout(limit, &mut answer).await {
            return Some(answer);
        }
        if progress.seen() == seen && !progress.waits_for_client() {
            return None;
        }
    }
}

fn set_length(headers: &mut HeaderMap, length: Option<u64>) {
    match length {
        Some(length) => headers.insert(CONTENT_LENGTH, HeaderValue::from(length)),
        None => headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked")),
    };
}

fn build(method: &Method, target: &Uri, headers: &HeaderMap, upload: Upload) -> Request<Upload> {
    let mut request = Request::new(upload);
    *request.method_mut() = method.clone();
    *request.uri_mut() = target.clone();
    *request.version_mut() = Version::HTTP_11;
    *request.headers_mut() = headers.clone();
    request
}

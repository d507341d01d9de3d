//! HTTP to a catalog: one request, one whole answer, bounded in time and length. Nothing is followed, and
//! nothing of a request is logged: it holds the proof of who asks.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_TYPE, ETAG, HOST, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::SendRequest;
use nilas_base::{Clock, Monotonic};
use nilas_iceberg::catalog::Answer;

use super::trouble::Trouble;
use crate::origin::{Connector, Endpoint};

/// Idle connections that are kept.
const IDLE_CONNECTIONS_MAX: usize = 16;
/// How long one is kept; many servers close theirs after 15 s or more.
const IDLE_TIME_MAX: Duration = Duration::from_secs(8);
/// The longest time that a catalog is left alone for because it asks for that.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(600);

/// A request.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) endpoint: Endpoint,
    /// Path and query, as they go out.
    pub(super) target: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Call {
    /// A header of this call.
    pub(super) fn set(&mut self, name: HeaderName, value: &str) -> Result<(), Trouble> {
        let mut value = HeaderValue::from_str(value).map_err(|_| Trouble::Proof {
            cause: format!("what is to be sent as {name} holds characters that no header may"),
        })?;
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(())
    }
}

/// How much an exchange may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) time_max: Duration,
    pub(super) bytes_max: usize,
}

type Sender = SendRequest<Full<Bytes>>;

/// Sends calls.
pub(super) struct Transport {
    connector: Connector,
    bounds: Bounds,
    clock: Clock,
    idle: Mutex<Vec<(Endpoint, Sender, Monotonic)>>,
}

impl Transport {
    pub(super) fn new(connector: Connector, bounds: Bounds, clock: Clock) -> Transport {
        Transport { connector, bounds, clock, idle: Mutex::default() }
    }

    /// Sends a call and reads its answer to the end.
    pub(super) async fn send(&self, call: &Call) -> Result<Answer, Trouble> {
        let waited = self.bounds.time_max;
        match tokio::time::timeout(waited, self.exchange(call)).await {
            Ok(result) => result,
            Err(_) => Err(Trouble::Slow { waited }),
        }
    }

    async fn exchange(&self, call: &Call) -> Result<Answer, Trouble> {
        if let Some(mut sender) = self.take_idle(&call.endpoint)
            && let Ok(response) = sender.send_request(request(call)).await
        {
            return self.receive(call, response, sender).await;
        }
        // A connection that was idle may have been closed just now: a new one decides.
        let connecting = self.connector.connect::<Full<Bytes>>(&call.endpoint).await;
        let mut sender =
            connecting.map_err(|error| Trouble::Unreachable { cause: error.to_string() })?;
        let response = sender.send_request(request(call)).await.map_err(|error| broken(&error))?;
        self.receive(call, response, sender).await
    }

    async fn receive(
        &self,
        call: &Call,
        response: Response<Incoming>,
        sender: Sender,
    ) -> Result<Answer, Trouble> {
        let (head, body) = response.into_parts();
        let text = |name: HeaderName| {
            head.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let body = self.read(body).await?;
        self.keep(call, sender);
        Ok(Answer {
            status: head.status.as_u16(),
            etag: text(ETAG),
            retry_after: text(RETRY_AFTER).and_then(|after| self.retry_after(&after)),
            content_type: text(CONTENT_TYPE),
            body,
        })
    }

    async fn read(&self, mut body: Incoming) -> Result<Bytes, Trouble> {
        let bytes_max = self.bounds.bytes_max;
        let is_too_long = |bytes: u64| bytes > bytes_max as u64;
        if is_too_long(body.size_hint().lower()) {
            return Err(Trouble::TooLong { bytes_max });
        }
        let mut whole = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|error| broken(&error))?.into_data() else { continue };
            if is_too_long((whole.len() + data.len()) as u64) {
                return Err(Trouble::TooLong { bytes_max });
            }
            whole.extend_from_slice(&data);
        }
        Ok(whole.freeze())
    }

    /// Seconds, or a date.
    fn retry_after(&self, text: &str) -> Option<Duration> {
        let seconds = text.trim().parse().ok().or_else(|| {
            let date = nilas_net::date::parse_http_date(text.trim().as_bytes())?;
            Some(date.0.saturating_sub(self.clock.wall().0 / 1000))
        });
        seconds.map(|seconds| Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
    }

    fn take_idle(&self, endpoint: &Endpoint) -> Option<Sender> {
        let now = self.clock.now();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(_, sender, since)| !sender.is_closed() && now.since(*since) < IDLE_TIME_MAX);
        let fits = |(other, sender, _): &(Endpoint, Sender, Monotonic)| {
            other == endpoint && sender.is_ready()
        };
        let at = idle.iter().rposition(fits)?;
        Some(idle.remove(at).1)
    }

    fn keep(&self, call: &Call, sender: Sender) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_CONNECTIONS_MAX {
            idle.push((call.endpoint.clone(), sender, self.clock.now()));
        }
    }
}

fn broken(error: &hyper::Error) -> Trouble {
    Trouble::Broken { cause: error.to_string() }
}

fn request(call: &Call) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(call.body.clone()));
    *request.method_mut() = call.method.clone();
    *request.uri_mut() = call.target.parse().expect("checked where calls are made");
    let headers = request.headers_mut();
    *headers = call.headers.clone();
    let host = HeaderValue::from_str(&call.endpoint.host_header());
    headers.insert(HOST, host.expect("an endpoint's host is a name or an address"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers
        .insert(USER_AGENT, HeaderValue::from_static(concat!("nilas/", env!("CARGO_PKG_VERSION"))));
    request
}

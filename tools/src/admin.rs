//! The operator's side of a node's admin port: one request, one answer, in plain HTTP. What the node
//! says is wrong is repeated to the person who asked; nothing is tried twice.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::http::response::Parts;
use hyper::{Method, Request, Uri, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

#[cfg(test)]
mod tests;

/// How long the node may take to answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);
/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The longest page: ten thousand tables.
const PAGE_BYTES_MAX: usize = 64 << 20;
/// The longest piece of a trace: 65,536 lines of four numbers.
const TRACE_BYTES_MAX: usize = 8 << 20;
const NO_TOKEN: &str =
    "the node asks for a token: give server.admin_token with --token or in NILAS_ADMIN_TOKEN";

/// What is to be purged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// A bucket, or a part of it.
    Objects {
        /// The bucket.
        bucket: String,
        /// One object of it.
        key: Option<String>,
        /// What begins so of it.
        prefix: Option<String>,
    },
    /// A table of a watched catalog.
    Table(String),
}

/// Which node, and what it asks for.
#[derive(Clone, Debug, clap::Args)]
pub struct NodeArguments {
    /// The node's admin port.
    #[arg(long, default_value = "http://127.0.0.1:9001")]
    admin: String,
    /// The node's server.admin_token. Without it NILAS_ADMIN_TOKEN is used, which other users of
    /// this machine cannot see.
    #[arg(long)]
    token: Option<String>,
}

impl NodeArguments {
    /// The port that they mean.
    pub fn port(&self) -> Result<AdminPort, String> {
        let token = self.token.clone().or_else(|| std::env::var("NILAS_ADMIN_TOKEN").ok());
        AdminPort::new(&self.admin, token.as_deref())
    }
}

/// A node's admin port.
pub struct AdminPort {
    host: String,
    token: Option<HeaderValue>,
}

impl AdminPort {
    /// The port at `http://host:port`, and what it asks for.
    pub fn new(url: &str, token: Option<&str>) -> Result<AdminPort, String> {
        let uri: Uri = url.parse().map_err(|error| format!("{url:?} is no URL: {error}"))?;
        let host = uri.authority().map(|authority| authority.as_str().to_owned());
        let (Some("http"), Some(host), "/" | "") = (uri.scheme_str(), host, uri.path()) else {
            return Err(format!(
                "{url:?} is no admin port: give http://host:port, the node's server.admin"
            ));
        };
        let bearer = |token| {
            HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| "the token holds characters that no header can".to_owned())
        };
        Ok(AdminPort { host, token: token.map(bearer).transpose()? })
    }

    /// Has the node forget; returns when it has.
    pub async fn purge(&self, what: &Purge) -> Result<(), String> {
        let order = match what {
            Purge::Table(table) => json!({"table": table}),
            Purge::Objects { bucket, key, prefix } => {
                let mut order = json!({"bucket": bucket});
                for (name, value) in [("key", key), ("prefix", prefix)] {
                    if let Some(value) = value {
                        order[name] = json!(value);
                    }
                }
                order
            }
        };
        let answer = tokio::time::timeout(ANSWER_TIME_MAX, self.post("/admin/purge", &order));
        let (status, text) = answer.await.map_err(|_| {
            format!(
                "{} has not answered within {} s; purge again to know",
                self.host,
                ANSWER_TIME_MAX.as_secs()
            )
        })??;
        match status {
            200 => Ok(()),
            401 => Err(NO_TOKEN.to_owned()),
            _ => Err(format!("the node says {status}: {}", complaint(&text))),
        }
    }

    /// What clients have read since this recorder asked last: lines, the first of which names their
    /// columns, and how many more reads were lost.
    pub async fn fetch_trace(&self, recorder: u64) -> Result<(String, u64), String> {
        let path = format!("/admin/trace?recorder={recorder}");
        let request = self.request(Method::GET, &path, Full::default());
        let (head, text) = self.ask(request, TRACE_BYTES_MAX).await?;
        let lost =
            head.headers.get("x-nilas-lost").and_then(|lost| lost.to_str().ok()?.parse().ok());
        match (head.status.as_u16(), lost) {
            (200, Some(lost)) => Ok((text, lost)),
            (200 | 404, _) => Err("the node is too old to be recorded".to_owned()),
            (401, _) => Err(NO_TOKEN.to_owned()),
            (status, _) => Err(format!("the node says {status}: {}", complaint(&text))),
        }
    }

    /// A page in JSON.
    pub async fn page(&self, path: &str) -> Result<Value, String> {
        let request = self.request(Method::GET, path, Full::default());
        let (head, text) = self.ask(request, PAGE_BYTES_MAX).await?;
        self.understood(head.status.as_u16(), &text)
    }

    /// What the node answers to an order.
    pub async fn order(&self, path: &str, order: &Value) -> Result<Value, String> {
        let (status, text) = self.post(path, order).await?;
        self.understood(status, &text)
    }

    fn understood(&self, status: u16, text: &str) -> Result<Value, String> {
        match status {
            200 | 202 => serde_json::from_str(text)
                .map_err(|error| format!("{} answers with no JSON: {error}", self.host)),
            401 => Err(NO_TOKEN.to_owned()),
            _ => Err(format!("the node says {status}: {}", complaint(text))),
        }
    }

    async fn post(&self, path: &str, body: &Value) -> Result<(u16, String), String> {
        let mut request =
            self.request(Method::POST, path, Full::new(Bytes::from(body.to_string())));
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let (head, text) = self.ask(request, ANSWER_BYTES_MAX).await?;
        Ok((head.status.as_u16(), text))
    }

    async fn ask(
        &self,
        request: Request<Full<Bytes>>,
        bytes_max: usize,
    ) -> Result<(Parts, String), String> {
        let away =
            |error: &dyn std::fmt::Display| format!("{} does not answer: {error}", self.host);
        let socket = TcpStream::connect(self.address()).await.map_err(|error| away(&error))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(socket)).await.map_err(|error| away(&error))?;
        // It ends with the answer; how it ends is told by the answer.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        let answer = sender.send_request(request).await.map_err(|error| away(&error))?;
        let (head, body) = answer.into_parts();
        let bytes = Limited::new(body, bytes_max).collect().await;
        let bytes = bytes.map_err(|error| away(&error))?.to_bytes();
        Ok((head, String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Host and port.
    fn address(&self) -> String {
        let has_port =
            self.host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        if has_port { self.host.clone() } else { format!("{}:80", self.host) }
    }

    fn request(&self, method: Method, path: &str, body: Full<Bytes>) -> Request<Full<Bytes>> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().expect("a path is a URI");
        let headers = request.headers_mut();
        headers.insert(HOST, HeaderValue::from_str(&self.host).expect("it came from a URI"));
        if let Some(token) = &self.token {
            headers.insert(AUTHORIZATION, token.clone());
        }
        request
    }
}

/// What an answer says is wrong: its `error`, or all of it.
fn complaint(text: &str) -> String {
    let told: Option<Value> = serde_json::from_str(text).ok();
    let error = told.as_ref().and_then(|told| told["error"].as_str());
    error.unwrap_or(text.trim()).to_owned()
}

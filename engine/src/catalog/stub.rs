//! A catalog that says what a test tells it to, over real connections, and keeps a record of what it was asked.
//! It knows nothing of the protocol but the few sound answers of `lake`.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A request as it came.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) method: String,
    /// As it was sent, nothing decoded.
    pub(super) path: String,
    pub(super) query: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Asked {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(super) fn bearer(&self) -> &str {
        self.header("authorization").and_then(|it| it.strip_prefix("Bearer ")).unwrap_or_default()
    }
}

/// What it is answered.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
    /// Bytes of the body after which the connection ends.
    pub(super) cut_after: Option<usize>,
    pub(super) delay: Duration,
}

impl Reply {
    pub(super) fn json(body: Value) -> Reply {
        let headers = vec![("content-type", "application/json".to_owned())];
        let body = body.to_string().into_bytes();
        Reply { status: 200, headers, body, cut_after: None, delay: Duration::ZERO }
    }

    pub(super) fn error(status: u16, message: &str) -> Reply {
        let error = json!({"message": message, "type": "StubException", "code": status});
        Reply { status, ..Reply::json(json!({"error": error})) }
    }

    pub(super) fn with(mut self, name: &'static str, value: &str) -> Reply {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(super) fn later(self, delay: Duration) -> Reply {
        Reply { delay, ..self }
    }
}

type Script = Arc<dyn Fn(&Asked) -> Reply + Send + Sync>;

/// The server; it ends when this is dropped.
pub(super) struct Stub {
    pub(super) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    serving: JoinHandle<()>,
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Stub {
    pub(super) async fn start(script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Stub {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        Stub::serve(listener, address, Arc::new(script))
    }

    fn serve(listener: TcpListener, address: SocketAddr, script: Script) -> Stub {
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let record = Arc::clone(&asked);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (script, record) = (Arc::clone(&script), Arc::clone(&record));
                tokio::spawn(async move {
                    // A client that leaves ends its connection.
                    let _: Option<()> = converse(stream, script, record).await;
                });
            }
        });
        Stub { address, asked, serving }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Everything that was asked so far.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How often something was asked below this path.
    pub(super) fn count(&self, path: &str) -> usize {
        self.asked().iter().filter(|asked| asked.path.starts_with(path)).count()
    }
}

async fn converse(
    mut stream: TcpStream,
    script: Script,
    record: Arc<Mutex<Vec<Asked>>>,
) -> Option<()> {
    let mut ahead = Vec::new();
    loop {
        let asked = receive(&mut stream, &mut ahead).await?;
        let reply = script(&asked);
        record.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
        tokio::time::sleep(reply.delay).await;
        let mut head = format!("HTTP/1.1 {} Stub\r\n", reply.status);
        for (name, value) in &reply.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if reply.status != 304 {
            head.push_str(&format!("content-length: {}\r\n", reply.body.len()));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes()).await.ok()?;
        let sent = reply.cut_after.unwrap_or(reply.body.len());
        stream.write_all(&reply.body[..sent]).await.ok()?;
        if reply.cut_after.is_some() {
            return None;
        }
    }
}

async fn receive(stream: &mut TcpStream, ahead: &mut Vec<u8>) -> Option<Asked> {
    let end = loop {
        if let Some(at) = ahead.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        (stream.read_buf(ahead).await.ok()? > 0).then_some(())?;
    };
    let head = String::from_utf8(ahead[..end].to_vec()).ok()?;
    ahead.drain(..end + 4);
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?);
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.map_or(0, |(_, value)| value.parse().unwrap_or(0));
    while ahead.len() < length {
        (stream.read_buf(ahead).await.ok()? > 0).then_some(())?;
    }
    let body = String::from_utf8(ahead.drain(..length).collect()).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Some(Asked { method, path: path.to_owned(), query: query.to_owned(), headers, body })
}

/// The answers of a sound catalog with these tables, full names to metadata locations.
pub(super) fn lake(tables: &[(&str, &str)], asked: &Asked) -> Reply {
    let names: Vec<(Vec<&str>, &str, &str)> = tables
        .iter()
        .map(|(name, location)| {
            let mut levels: Vec<&str> = name.split('.').collect();
            let name = levels.pop().expect("a full name");
            (levels, name, *location)
        })
        .collect();
    if asked.path == "/v1/config" {
        return Reply::json(json!({"defaults": {}, "overrides": {}}));
    }
    if asked.path == "/v1/namespaces" {
        let namespaces: Vec<&Vec<&str>> = names.iter().map(|(levels, ..)| levels).collect();
        return Reply::json(json!({"namespaces": namespaces}));
    }
    for (levels, name, location) in &names {
        let namespace = format!("/v1/namespaces/{}/tables", levels.join("%1F"));
        if asked.path == namespace {
            let of = names.iter().filter(|(other, ..)| other == levels);
            let identifiers: Vec<Value> =
                of.map(|(levels, name, _)| json!({"namespace": levels, "name": name})).collect();
            return Reply::json(json!({"identifiers": identifiers}));
        }
        if asked.path == format!("{namespace}/{name}") {
            let etag = format!("\"{location}\"");
            if asked.header("if-none-match") == Some(&etag) {
                return Reply { status: 304, body: Vec::new(), ..Reply::json(json!({})) };
            }
            let body = json!({"metadata-location": location, "metadata": {"location": location}});
            return Reply::json(body).with("etag", &etag);
        }
    }
    Reply::error(404, "nothing of this name")
}

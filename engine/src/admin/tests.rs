//! The admin port through a real socket.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::audit::AuditThread;
use crate::config::{Inputs, Order, load};
use crate::metrics::{Resource, Tier};
use crate::origin::{BoxFuture, OriginError, OriginRequest, OriginResult};
use crate::tables::Tables;
use crate::trace::Tracer;

/// An origin that is or is not there.
struct Somewhere(Result<String, String>);

impl Origin for Somewhere {
    fn handle(self: Arc<Self>, _: OriginRequest) -> BoxFuture<'static, OriginResult> {
        Box::pin(async { Err(OriginError::Closed) })
    }

    fn id(&self) -> [u8; 16] {
        [0; 16]
    }

    fn describe(&self) -> String {
        "somewhere".to_owned()
    }

    fn probe(self: Arc<Self>, _: Option<String>) -> BoxFuture<'static, Result<String, String>> {
        Box::pin(async move { self.0.clone() })
    }
}

fn config(arguments: &[&str]) -> Config {
    let arguments = arguments.iter().map(|it| (*it).to_owned()).collect();
    match load(&Inputs { arguments, cores: 2, ..Inputs::default() }) {
        Ok(Order::Run { config, .. }) => *config,
        other => panic!("not a configuration: {other:?}"),
    }
}

struct Server {
    address: SocketAddr,
    state: Arc<AdminState>,
    lifecycle: Lifecycle,
    audit: AuditLog,
}

async fn serve(arguments: &[&str]) -> Server {
    let lifecycle = Lifecycle::default();
    let state = AdminState::new(&config(arguments), lifecycle.clone(), Clock::system());
    let port = AdminPort::bind("127.0.0.1:0".parse().expect("an address")).await;
    let port = port.expect("loopback has a free port");
    let address = port.address().expect("it is bound");
    tokio::spawn(port.serve(Arc::clone(&state)));
    Server { address, state, lifecycle, audit: AuditLog::default() }
}

impl Server {
    fn show(&self, origin: Result<String, String>) -> Metrics {
        self.show_with(origin, PurgePort::pair().0)
    }

    fn show_with(&self, origin: Result<String, String>, purges: PurgePort) -> Metrics {
        let (metrics, writers) = Metrics::new(2);
        writers[1].hit(Tier::Data, 512);
        self.show_metrics(metrics.clone(), origin, purges);
        metrics
    }

    fn show_metrics(&self, metrics: Metrics, origin: Result<String, String>, purges: PurgePort) {
        self.state.show(NodeView {
            metrics,
            origin: Arc::new(Somewhere(origin)),
            catalogs: Catalogs::default(),
            tables: Tables::none(),
            purges,
            audit: self.audit.clone(),
            tracer: Tracer::default(),
            endpoint: self.address,
            ring: "epoll",
        });
    }

    /// The status and the body of a GET.
    async fn get(&self, path: &str, headers: &str) -> (u16, String) {
        self.ask("GET", path, headers, "").await
    }

    /// The status and the answer of an order to purge.
    async fn purge(&self, headers: &str, order: &str) -> (u16, serde_json::Value) {
        let headers = format!("{headers}content-length: {}\r\n", order.len());
        let (status, body) = self.ask("POST", "/admin/purge", &headers, order).await;
        (status, serde_json::from_str(&body).unwrap_or(body.into()))
    }

    async fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).await.expect("the port is open");
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.expect("it is read");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("it is answered");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let status = head.split(' ').nth(1).expect("a status line").parse().expect("a status");
        (status, body.to_owned())
    }
}

#[tokio::test]
async fn readiness_follows_the_phase_and_health_does_not() {
    let server = serve(&[]).await;
    assert_eq!(server.get("/healthz", "").await, (200, "ok\n".to_owned()));
    let (status, body) = server.get("/readyz", "").await;
    assert!(status == 503 && body.contains("\"phase\":\"starting\""), "{status} {body}");
    assert_eq!(server.get("/metrics", "").await.0, 503);
    server.show(Ok("it is there".to_owned()));
    server.lifecycle.advance(Phase::Ready);
    let (status, body) = server.get("/readyz", "").await;
    assert!(status == 200 && body.contains("\"phase\":\"ready\""), "{status} {body}");
    server.lifecycle.advance(Phase::Draining);
    let (status, body) = server.get("/readyz", "").await;
    assert!(status == 503 && body.contains("\"phase\":\"draining\""), "{status} {body}");
    assert_eq!(server.get("/healthz", "").await.0, 200);
}

#[tokio::test]
async fn a_node_that_looks_through_its_device_is_ready_and_says_so() {
    let server = serve(&[]).await;
    let (metrics, writers) = Metrics::new(2);
    writers.iter().for_each(|shard| shard.ceiling(Resource::DiskDataBytes, 1 << 30));
    server.show_metrics(metrics, Ok("it is there".to_owned()), PurgePort::pair().0);
    assert!(server.get("/readyz", "").await.1.contains("\"phase\":\"starting\""));
    server.lifecycle.advance(Phase::Ready);
    writers[0].disk_is_recovered();
    let (status, body) = server.get("/readyz", "").await;
    assert!(status == 200 && body.contains("\"phase\":\"recovering\""), "{status} {body}");
    assert!(server.get("/admin/stats", "").await.1.contains("\"phase\":\"recovering\""));
    assert_eq!(server.get("/healthz", "").await.0, 200);
    writers[1].disk_is_recovered();
    let (status, body) = server.get("/readyz", "").await;
    assert!(status == 200 && body.contains("\"phase\":\"ready\""), "{status} {body}");
}

#[tokio::test]
async fn an_origin_that_is_away_is_told_but_does_not_stop_readiness() {
    let server = serve(&[]).await;
    server.show(Err("connection refused".to_owned()));
    server.lifecycle.advance(Phase::Ready);
    // The first page starts the probe, a later one tells its answer.
    for _ in 0..100 {
        let (status, body) = server.get("/readyz", "").await;
        assert_eq!(status, 200);
        if body.contains("connection refused") {
            assert!(body.contains("\"reachable\":false"), "{body}");
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the probe's answer is never told");
}

#[tokio::test]
async fn metrics_and_statistics_tell_what_shards_counted() {
    let server = serve(&[]).await;
    server.show(Ok(String::new()));
    let (status, body) = server.get("/metrics", "").await;
    assert_eq!(status, 200);
    assert!(body.contains("nilas_cache_hits_total{tier=\"data\"} 1\n"), "{body}");
    let (status, body) = server.get("/admin/stats", "").await;
    assert_eq!(status, 200);
    let stats: serde_json::Value = serde_json::from_str(&body).expect("it is JSON");
    assert_eq!(stats["cache"]["hits"]["data"], 1);
    assert_eq!(stats["node"]["ring"], "epoll");
    assert_eq!(server.get("/nothing", "").await.0, 404);
}

#[tokio::test]
async fn a_configured_token_guards_all_but_the_probes() {
    let server = serve(&["--server.admin_token", "t0ken"]).await;
    server.show(Ok(String::new()));
    let (status, _) = server.purge(JSON, r#"{"bucket":"lake"}"#).await;
    assert_eq!(status, 401);
    for path in ["/metrics", "/admin/stats", "/admin/config"] {
        for wrong in ["", "authorization: Bearer t0ke\r\n", "authorization: Basic t0ken\r\n"] {
            let (status, body) = server.get(path, wrong).await;
            assert_eq!(status, 401, "{path} {wrong}");
            assert!(!body.contains("t0ken"), "{body}");
        }
        assert_eq!(server.get(path, "authorization: bearer t0ken\r\n").await.0, 200, "{path}");
    }
    assert_eq!(server.get("/healthz", "").await.0, 200);
    let (_, config) = server.get("/admin/config", "authorization: Bearer t0ken\r\n").await;
    assert!(config.contains("\"server.admin_token\"") && !config.contains("t0ken"), "{config}");
}

const JSON: &str = "content-type: application/json\r\n";

#[tokio::test]
async fn a_purge_is_answered_when_it_is_done() {
    let server = serve(&[]).await;
    let order = r#"{"bucket":"lake","prefix":"db/t/"}"#;
    assert_eq!(server.purge(JSON, order).await.0, 503, "the node is starting");
    let (port, mut queue) = PurgePort::pair();
    server.show_with(Ok(String::new()), port);
    let shards = tokio::spawn(async move {
        let (what, done) = queue.next().await.expect("an order");
        done.send(Ok(())).expect("it is waited for");
        what
    });
    let (status, answer) = server.purge(JSON, order).await;
    assert_eq!((status, answer["purged"]["prefix"].as_str()), (200, Some("db/t/")));
    let what = shards.await.expect("an order came");
    assert_eq!((what.bucket.as_str(), what.scope.contains("db/t/a")), ("lake", true));
    let (status, answer) = server.purge(JSON, order).await;
    let error = answer["error"].as_str().expect("an error");
    assert!(status == 503 && error.contains("stopping"), "{status} {error}");
}

#[tokio::test]
async fn what_is_no_order_is_refused_in_json() {
    let server = serve(&[]).await;
    server.show(Ok(String::new()));
    let order = r#"{"bucket":"lake"}"#;
    let long = format!("{{\"bucket\":\"{}\"}}", "b".repeat(20_000));
    for (headers, order, expected) in [
        ("", order, 415),
        ("content-type: text/plain\r\n", order, 415),
        (JSON, "{", 400),
        (JSON, long.as_str(), 413),
    ] {
        let (status, answer) = server.purge(headers, order).await;
        let error = answer["error"].as_str().expect("an error in JSON");
        assert!(status == expected && error.contains("send"), "{status} {error}");
    }
    let (status, body) = server.get("/admin/purge", "").await;
    assert!(status == 405 && body.contains("POST"), "{status} {body}");
}

#[tokio::test]
async fn silent_connections_lose_their_places() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound");
    let bounded = BoundedListener::with(listener, 2, Duration::from_millis(50));
    let state = AdminState::new(&config(&[]), Lifecycle::default(), Clock::system());
    tokio::spawn(async { axum::serve(bounded, route::routes(state)).await });
    let mut silent = Vec::new();
    for _ in 0..4 {
        silent.push(TcpStream::connect(address).await.expect("the kernel queues it"));
    }
    let lifecycle = Lifecycle::default();
    let state = AdminState::new(&config(&[]), lifecycle.clone(), Clock::system());
    let audit = AuditLog::default();
    let (status, _) = Server { address, state, lifecycle, audit }.get("/healthz", "").await;
    assert_eq!(status, 200, "a place came free");
}

#[tokio::test]
async fn who_purges_and_who_is_refused_is_recorded_and_who_reads_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("audit");
    let thread = AuditThread::start(&path, Clock::system()).expect("the folder is writable");
    let token = "of-the-operator-9d1c";
    let mut server = serve(&["--server.admin_token", token]).await;
    server.audit = thread.log().clone();
    let (purges, mut queue) = PurgePort::pair();
    server.show_with(Ok("it is there".to_owned()), purges);
    tokio::spawn(async move {
        while let Some((_, acknowledge)) = queue.next().await {
            let _ = acknowledge.send(Ok(()));
        }
    });
    let headers = format!("authorization: Bearer {token}\r\ncontent-type: application/json\r\n");
    let (status, _) = server.purge(&headers, r#"{"bucket":"lake","prefix":"db/"}"#).await;
    assert_eq!(status, 200);
    assert_eq!(server.purge(&headers, r#"{"bucket":""}"#).await.0, 400);
    assert_eq!(server.get("/admin/stats", &headers).await.0, 200);
    assert_eq!(server.get("/metrics", "authorization: Bearer guess-7f\r\n").await.0, 401);
    assert_eq!(server.get("/healthz", "").await.0, 200);
    drop(thread);
    let text = std::fs::read_to_string(&path).expect("a file");
    assert!(!text.contains(token) && !text.contains("guess-7f"), "{text}");
    let records: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let told = |record: &serde_json::Value| {
        ["operation", "bucket", "prefix", "key", "outcome"]
            .map(|name| record[name].as_str().unwrap_or_default().to_owned())
    };
    let told: Vec<[String; 5]> = records.iter().map(told).collect();
    assert_eq!(told[0], ["Purge", "lake", "db/", "", "done"]);
    assert_eq!(told[1], ["Purge", "", "", "", "failed"]);
    assert_eq!(told[2], ["AdminPage", "", "", "/metrics", "refused"]);
    assert_eq!(told.len(), 3);
    assert!(records[0]["client"].as_str().is_some_and(|it| it.starts_with("127.0.0.1:")));
}

#[tokio::test]
async fn catalogs_are_shown_behind_the_token_and_hints_pass_by_it() {
    let server = serve(&["--server.admin_token=open"]).await;
    server.show(Ok(String::new()));
    assert_eq!(server.get("/admin/catalogs", "").await.0, 401);
    let (status, body) = server.get("/admin/catalogs", "authorization: Bearer open\r\n").await;
    assert_eq!((status, body.as_str()), (200, r#"{"catalogs":[]}"#));
    // Refused for want of a secret, not of a token.
    let (status, body) = server.ask("POST", "/admin/catalog/events", JSON, "").await;
    assert!(status == 403 && body.contains("catalog.hint_secret"), "{status} {body}");
    let long = "x".repeat(70_000);
    let headers = format!("content-length: {}\r\n", long.len());
    assert_eq!(server.ask("POST", "/admin/catalog/events", &headers, &long).await.0, 413);
    assert_eq!(server.get("/admin/catalog/events", "").await.0, 405);
}

//! The recorder's own small door: `GET /records?from=N` lists what was seen since place N, and
//! `PUT /latency?ms=N` changes the latency. Loopback only; no credentials, since it holds none.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::ledger::Ledger;

/// Answers questions until the listener fails.
pub(super) async fn serve(questions: TcpListener, ledger: Arc<Ledger>) -> io::Result<()> {
    loop {
        let (socket, _) = questions.accept().await?;
        let ledger = Arc::clone(&ledger);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let ledger = Arc::clone(&ledger);
                async move { Ok::<_, hyper::Error>(answer(&request, &ledger).await) }
            });
            // A reader that goes away ends its own connection and nothing else.
            let _ = server::Builder::new().serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

async fn answer(request: &Request<Incoming>, ledger: &Ledger) -> Response<Full<Bytes>> {
    let query = request.uri().query().unwrap_or("");
    match (request.method(), request.uri().path(), query.split_once('=')) {
        (&Method::GET, "/records", Some(("from", from))) => match from.parse() {
            Ok(from) => records(ledger, from).await,
            Err(_) => refuse("`from` is a count of records"),
        },
        (&Method::PUT, "/latency", Some(("ms", latency_ms))) => match latency_ms.parse() {
            Ok(latency_ms) => {
                ledger.set_latency_ms(latency_ms);
                Response::new(Full::default())
            }
            Err(_) => refuse("`ms` is a count of milliseconds"),
        },
        _ => refuse("ask GET /records?from=N or PUT /latency?ms=N"),
    }
}

async fn records(ledger: &Ledger, from: usize) -> Response<Full<Bytes>> {
    let records = ledger.since(from).await;
    let text = serde_json::to_vec(&records).expect("records are plain values");
    Response::new(Full::from(text))
}

fn refuse(text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response
}

//! The recorder's own small door: `GET /records?from=N` lists what was seen since place N, `PUT
//! /latency?ms=N` changes the latency, `PUT /faults` puts the rules of its body in the place of those
//! that stand, `DELETE /faults` lifts them, `GET /faults` says how many requests each has met.
//! Loopback only; no credentials, since it holds none.

use std::io;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use tokio::net::TcpListener;

use super::{Rule, Shared};

/// The longest list of rules that is read.
const RULES_BYTES_MAX: usize = 64 << 10;

const DOORS: &str =
    "ask GET /records?from=N, PUT /latency?ms=N, PUT /faults, DELETE /faults or GET /faults";

/// Answers questions until the listener fails.
pub(super) async fn serve(questions: TcpListener, shared: Shared) -> io::Result<()> {
    loop {
        let (socket, _) = questions.accept().await?;
        let shared = shared.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let shared = shared.clone();
                async move { Ok::<_, hyper::Error>(answer(request, &shared).await) }
            });
            // A reader that goes away ends its own connection and nothing else.
            let _ = server::Builder::new().serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

async fn answer(request: Request<Incoming>, shared: &Shared) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let query = head.uri.query().unwrap_or("");
    match (&head.method, head.uri.path(), query.split_once('=')) {
        (&Method::GET, "/records", Some(("from", from))) => match from.parse() {
            Ok(from) => told(&shared.ledger.since(from).await),
            Err(_) => refuse("`from` is a count of records"),
        },
        (&Method::PUT, "/latency", Some(("ms", latency_ms))) => match latency_ms.parse() {
            Ok(latency_ms) => {
                shared.ledger.set_latency_ms(latency_ms);
                Response::default()
            }
            Err(_) => refuse("`ms` is a count of milliseconds"),
        },
        (&Method::PUT, "/faults", None) => put_faults(body, shared).await,
        (&Method::DELETE, "/faults", None) => {
            shared.script.replace(Vec::new()).await;
            Response::default()
        }
        (&Method::GET, "/faults", None) => told(&shared.script.played()),
        _ => refuse(DOORS),
    }
}

async fn put_faults(body: Incoming, shared: &Shared) -> Response<Full<Bytes>> {
    let Ok(bytes) = Limited::new(body, RULES_BYTES_MAX).collect().await else {
        return refuse(&format!("the rules broke off, or are longer than {RULES_BYTES_MAX} bytes"));
    };
    match Rule::list(&bytes.to_bytes()) {
        Ok(rules) => {
            shared.script.replace(rules).await;
            Response::default()
        }
        Err(bad) => refuse(&bad.to_string()),
    }
}

fn told(values: &[impl Serialize]) -> Response<Full<Bytes>> {
    let text = serde_json::to_vec(values).expect("these are plain values");
    Response::new(Full::from(text))
}

fn refuse(text: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text.to_owned()));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response
}

//! The minimal server on hyper and tokio's current-thread runtime: what the node would be with
//! the usual libraries. Parsing and heads are hyper's own; only the objects are shared.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;

use super::memory::Memory;
use crate::error::{Doing, Result};

pub(super) fn serve(memory: Memory, address: SocketAddr) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .doing("starting tokio's runtime")?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, accept(Rc::new(memory), address))
}

async fn accept(memory: Rc<Memory>, address: SocketAddr) -> Result<()> {
    let listener = tokio::net::TcpListener::bind(address).await.doing("listening")?;
    loop {
        let (stream, _) = listener.accept().await.doing("accepting")?;
        stream.set_nodelay(true).doing("setting TCP_NODELAY")?;
        let memory = memory.clone();
        tokio::task::spawn_local(async move {
            let answer = service_fn(|request| {
                let answer = answer(&memory, &request);
                async move { Ok::<_, Infallible>(answer) }
            });
            // A client that leaves is no event of a benchmark.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

fn answer(memory: &Memory, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let body = memory.body(request.uri().path());
    let status = if body.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
    let mut response = Response::new(Full::new(body.unwrap_or_default()));
    *response.status_mut() = status;
    response
}

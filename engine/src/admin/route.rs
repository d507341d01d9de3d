//! The pages. `/healthz` and `/readyz` are open to all who reach the port, hints of catalogs are signed; the
//! others ask for the token where one is configured.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use axum::{Router, http};
use serde_json::json;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::{AdminState, Phase, catalog, hint, purge, record, tables, trace};
use crate::config::Secret;
use crate::metrics::{CONTENT_TYPE, NodeFacts, prometheus_text, stats_json, tables_text};
use crate::origin::OriginSnapshot;

/// The pages of `state`.
pub(super) fn routes(state: Arc<AdminState>) -> Router {
    let guarded = Router::new()
        .route("/metrics", get(metrics))
        .route("/admin/stats", get(stats))
        .route("/admin/config", get(config))
        .route("/admin/catalogs", get(catalog::answer))
        .route("/admin/tables", get(tables::answer))
        .route("/admin/tables/file", get(tables::file))
        .route("/admin/tables/warm", get(tables::jobs).post(tables::warm))
        .route("/admin/tables/warm/{job}", get(tables::job))
        .route("/admin/trace", get(trace::answer))
        .route("/admin/purge", post(purge::answer).fallback(purge::only_post))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&state), ask_for_token));
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readiness))
        .route("/admin/catalog/events", post(hint::answer).fallback(hint::only_post))
        .merge(guarded)
        .fallback(unknown)
        .with_state(state)
}

async fn ask_for_token(
    State(state): State<Arc<AdminState>>,
    request: Request,
    next: Next,
) -> Response {
    match &state.token {
        Some(token) if !bears(request.headers(), token) => {
            record::note_refused(&state, &request);
            (
                StatusCode::UNAUTHORIZED,
                [(header::WWW_AUTHENTICATE, "Bearer")],
                "send Authorization: Bearer with the value of server.admin_token\n",
            )
                .into_response()
        }
        _ => next.run(request).await,
    }
}

/// Digests are compared, in constant time, so that the length tells nothing either.
fn bears(headers: &HeaderMap, token: &Secret) -> bool {
    let sent = headers.get(header::AUTHORIZATION).and_then(|value| {
        let (scheme, sent) = value.as_bytes().split_at_checked("Bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then_some(sent)
    });
    sent.is_some_and(|sent| {
        let (sent, token) = (Sha256::digest(sent), Sha256::digest(token.expose()));
        bool::from(sent.ct_eq(&token))
    })
}

async fn readiness(State(state): State<Arc<AdminState>>) -> Response {
    let phase = state.lifecycle.phase();
    let status =
        if phase == Phase::Ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let origin = state.node.get().map(|node| {
        let mut told = state.reachability.tell(&node.origin);
        told["failing"] = json!(node.metrics.is_breaker_open());
        told
    });
    (status, Json(json!({"phase": phase_label(&state), "origin": origin}))).into_response()
}

/// A node that still looks through its cache device is as good as ready: it serves, and asks the origin
/// for what it has not found yet.
fn phase_label(state: &AdminState) -> &'static str {
    let is_recovering = state.node.get().is_some_and(|node| node.metrics.is_recovering());
    match state.lifecycle.phase() {
        Phase::Ready if is_recovering => "recovering",
        phase => phase.label(),
    }
}

async fn metrics(State(state): State<Arc<AdminState>>) -> Response {
    let Some(node) = state.node.get() else { return starting() };
    let origin = origin_snapshot(&state);
    let facts = NodeFacts {
        is_ready: state.lifecycle.phase() == Phase::Ready,
        start_time_s: state.start_time_s,
        audit: node.audit.counts(),
    };
    let mut text =
        prometheus_text(&node.metrics, origin.as_ref(), &node.catalogs.snapshots(), facts);
    text.push_str(&tables_text(&node.tables));
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response()
}

async fn stats(State(state): State<Arc<AdminState>>) -> Response {
    let Some(node) = state.node.get() else { return starting() };
    let mut page = stats_json(&node.metrics, origin_snapshot(&state).as_ref());
    page["audit"] = node.audit.counts().map_or(json!(null), |counts| {
        json!({"written": counts.written, "dropped": counts.dropped, "failed": counts.failed})
    });
    page["node"] = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "phase": phase_label(&state),
        "endpoint": node.endpoint.to_string(),
        "ring": node.ring,
        "start_time_seconds": state.start_time_s,
        "origin": node.origin.describe(),
    });
    Json(page).into_response()
}

async fn config(State(state): State<Arc<AdminState>>) -> Response {
    Json(state.config.clone()).into_response()
}

fn origin_snapshot(state: &AdminState) -> Option<OriginSnapshot> {
    Some(state.node.get()?.origin.counters()?.snapshot())
}

pub(super) fn starting() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "the node is starting\n").into_response()
}

async fn unknown(uri: http::Uri) -> Response {
    let pages = "/healthz /readyz /metrics /admin/stats /admin/config /admin/catalogs /admin/tables \
                 /admin/tables/file /admin/tables/warm /admin/trace /admin/purge /admin/catalog/events";
    (StatusCode::NOT_FOUND, format!("there is no {}; there are {pages}\n", uri.path()))
        .into_response()
}

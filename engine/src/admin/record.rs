//! What the audit file is told of the admin port: who was refused, and who had what purged. Reading
//! leaves no record.

use axum::extract::{ConnectInfo, Request};
use axum::http::{Extensions, StatusCode};

use super::AdminState;
use super::listener::Peer;
use crate::audit::{Outcome, Record};
use crate::purge::{Purge, PurgeScope};

/// Records a request without the token.
pub(super) fn note_refused(state: &AdminState, request: &Request) {
    let Some(node) = state.node.get() else { return };
    let record = Record::new("AdminPage", request.method().as_str(), Outcome::Refused)
        .from(peer_text(request.extensions()), "")
        .about(None, Some(request.uri().path()))
        .answered(StatusCode::UNAUTHORIZED.as_u16(), "");
    node.audit.write(record);
}

/// Records an order to purge, `what` where it was understood.
pub(super) fn note_purge(
    state: &AdminState,
    peer: String,
    what: Option<&Purge>,
    status: StatusCode,
) {
    let Some(node) = state.node.get() else { return };
    let (key, prefix) = match what.map(|what| &what.scope) {
        Some(PurgeScope::Key(key)) => (Some(key.as_str()), None),
        Some(PurgeScope::Prefix(prefix)) => (None, Some(prefix.as_str())),
        Some(PurgeScope::Bucket) | None => (None, None),
    };
    let outcome = match status {
        // Nothing was given to the shards.
        StatusCode::SERVICE_UNAVAILABLE => Outcome::Failed,
        status => Outcome::of(status.as_u16()),
    };
    let record = Record::new("Purge", "POST", outcome)
        .from(peer, "")
        .about(what.map(|what| what.bucket.as_str()), key)
        .under(prefix)
        .answered(status.as_u16(), "");
    node.audit.write(record);
}

/// Where a request comes from.
pub(super) fn peer_text(extensions: &Extensions) -> String {
    extensions.get::<ConnectInfo<Peer>>().map(|peer| peer.0.0.to_string()).unwrap_or_default()
}

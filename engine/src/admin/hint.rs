//! `POST /admin/catalog/events`: somebody says that a table has changed. Plain JSON, `{"catalog": …, "namespace":
//! …, "table": …}`, or a CloudEvent (1.0, in either mode of HTTP) of a committed snapshot. Proved by a signature
//! under a catalog's `hint_secret` instead of the admin token, as catalogs can send no more. A hint only makes
//! the node ask the catalog sooner: nothing in it is believed.

use std::sync::Arc;

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use nilas_iceberg::catalog::{Namespace, TableName};
use serde::Deserialize;
use serde_json::{Value, json};

use super::AdminState;
use super::signature::{HEADER, Signature};
use crate::catalog::{Catalogs, HintEnd};

/// The longest hint.
const BODY_BYTES_MAX: usize = 64 << 10;
/// The one type of CloudEvents that is acted on.
const COMMITTED: &str = "org.apache.iceberg.snapshot.committed";

/// What is wrong with a hint, and what to do about it.
type Refusal = (StatusCode, String);

/// Answers a hint.
pub(super) async fn answer(State(state): State<Arc<AdminState>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let Some(node) = state.node.get() else { return super::route::starting() };
    let taken = match to_bytes(body, BODY_BYTES_MAX).await {
        Ok(body) => take(&node.catalogs, &head.headers, &body, state.clock.wall()),
        Err(_) => {
            let message = format!("the hint is longer than {BODY_BYTES_MAX} bytes, or broke off");
            Err((StatusCode::PAYLOAD_TOO_LARGE, message))
        }
    };
    match taken {
        Ok(taken) => (StatusCode::ACCEPTED, Json(taken)).into_response(),
        Err((status, message)) => (status, Json(json!({"error": message}))).into_response(),
    }
}

/// Answers whatever is no POST.
pub(super) async fn only_post() -> Response {
    let message =
        json!({"error": "send a POST with {\"catalog\": …, \"namespace\": …, \"table\": …}"});
    let allow = [(header::ALLOW, "POST")];
    (StatusCode::METHOD_NOT_ALLOWED, allow, Json(message)).into_response()
}

fn take(
    catalogs: &Catalogs,
    headers: &HeaderMap,
    body: &[u8],
    now: nilas_base::UnixMillis,
) -> Result<Value, Refusal> {
    let signers = signers(catalogs, headers, body, now)?;
    let hint = match understand(headers, body)? {
        Understood::Hint(hint) => hint,
        Understood::OfAnotherType(kind) => return Ok(json!({"ignored": kind})),
    };
    let table = hint.table().ok_or_else(|| {
        let message = "it names no table; send namespace (a list, or levels with dots) and table";
        (StatusCode::UNPROCESSABLE_ENTITY, message.to_owned())
    })?;
    let named = hint.catalog.as_deref();
    let catalog = match (named, signers.as_slice()) {
        (Some(named), signers) if signers.contains(&named) => named,
        (Some(named), _) => {
            let message = format!("the signature is not of the catalog {named:?}");
            return Err((StatusCode::FORBIDDEN, message));
        }
        (None, [only]) => only,
        (None, _) => {
            let message = "several catalogs share this secret; name one as \"catalog\"";
            return Err((StatusCode::UNPROCESSABLE_ENTITY, message.to_owned()));
        }
    };
    let shown = table.to_string();
    let end = catalogs.hint(catalog, table).expect("a signer is a catalog");
    tell(catalog, &shown, end)
}

fn tell(catalog: &str, table: &str, end: HintEnd) -> Result<Value, Refusal> {
    let taken = |how| Ok(json!({"catalog": catalog, "table": table, "hint": how}));
    match end {
        HintEnd::Taken => taken("taken"),
        HintEnd::Repeated => taken("repeated"),
        HintEnd::Unwatched => taken("unwatched"),
        HintEnd::Dropped => {
            let message = "too many hints wait; the table is asked for in its turn".to_owned();
            Err((StatusCode::TOO_MANY_REQUESTS, message))
        }
    }
}

/// The catalogs under whose secret this is signed.
fn signers<'a>(
    catalogs: &'a Catalogs,
    headers: &HeaderMap,
    body: &[u8],
    now: nilas_base::UnixMillis,
) -> Result<Vec<&'a str>, Refusal> {
    let refuse = |message: String| Err((StatusCode::UNAUTHORIZED, message));
    if catalogs.hint_secrets().next().is_none() {
        let message = "no catalog takes hints; set catalog.hint_secret".to_owned();
        return Err((StatusCode::FORBIDDEN, message));
    }
    let Some(value) = headers.get(HEADER).and_then(|value| value.to_str().ok()) else {
        return refuse(format!("it is not signed; send {HEADER}: t=SECONDS,v1=HEX"));
    };
    let signature = match Signature::read(value, now) {
        Ok(signature) => signature,
        Err(message) => return refuse(message),
    };
    let fitting = catalogs.hint_secrets().filter(|(_, secret)| signature.fits(secret, body));
    let signers: Vec<&str> = fitting.map(|(name, _)| name).collect();
    if signers.is_empty() {
        return refuse(
            "the signature is not of this body under any catalog.hint_secret".to_owned(),
        );
    }
    Ok(signers)
}

/// A namespace: levels, or one text in which dots part them.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Levels {
    List(Vec<String>),
    Dotted(String),
}

/// What a hint may hold; other members are not for us.
#[derive(Debug, Deserialize)]
struct Hint {
    #[serde(default)]
    catalog: Option<String>,
    #[serde(default)]
    namespace: Option<Levels>,
    #[serde(default)]
    table: Option<String>,
}

#[derive(Deserialize)]
struct CloudEvent {
    specversion: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    subject: Option<String>,
    #[serde(default)]
    data: Option<Hint>,
}

#[derive(Debug)]
enum Understood {
    Hint(Hint),
    OfAnotherType(String),
}

impl Hint {
    /// The table: without a namespace, its name's dots part the levels.
    fn table(&self) -> Option<TableName> {
        let name = self.table.as_deref().filter(|name| !name.is_empty())?;
        let levels = match &self.namespace {
            None => return TableName::from_dotted(name),
            Some(Levels::List(levels)) => levels.clone(),
            Some(Levels::Dotted(text)) => text.split('.').map(str::to_owned).collect(),
        };
        let is_whole = !levels.is_empty() && levels.iter().all(|level| !level.is_empty());
        is_whole.then(|| TableName { namespace: Namespace(levels), name: name.to_owned() })
    }
}

fn understand(headers: &HeaderMap, body: &[u8]) -> Result<Understood, Refusal> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let content = text("content-type").unwrap_or_default();
    let content = content.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let malformed = |error: serde_json::Error| {
        let place = (error.line(), error.column());
        let message = format!("it is not understood (line {}, column {})", place.0, place.1);
        (StatusCode::BAD_REQUEST, message)
    };
    match (content.as_str(), text("ce-specversion"), text("ce-type")) {
        ("application/cloudevents+json", ..) => {
            let event: CloudEvent = serde_json::from_slice(body).map_err(malformed)?;
            version_1(&event.specversion)?;
            if event.kind != COMMITTED {
                return Ok(Understood::OfAnotherType(event.kind));
            }
            let none = Hint { catalog: None, namespace: None, table: None };
            let mut hint = event.data.unwrap_or(none);
            if hint.table.is_none() {
                (hint.namespace, hint.table) = (None, event.subject);
            }
            Ok(Understood::Hint(hint))
        }
        ("application/json", Some(version), kind) => {
            version_1(version)?;
            // The subject stands in a header then, which is not signed.
            match kind {
                Some(COMMITTED) => {
                    Ok(Understood::Hint(serde_json::from_slice(body).map_err(malformed)?))
                }
                kind => Ok(Understood::OfAnotherType(kind.unwrap_or_default().to_owned())),
            }
        }
        ("application/json", None, _) => {
            Ok(Understood::Hint(serde_json::from_slice(body).map_err(malformed)?))
        }
        _ => {
            let message =
                "send application/json, or one CloudEvent as application/cloudevents+json";
            Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, message.to_owned()))
        }
    }
}

fn version_1(version: &str) -> Result<(), Refusal> {
    if version.starts_with("1.") {
        return Ok(());
    }
    let message = "only CloudEvents of version 1 are understood".to_owned();
    Err((StatusCode::BAD_REQUEST, message))
}

#[cfg(test)]
mod tests;

//! `POST /admin/purge`: an order in JSON, `{"bucket": …}` with `"key"`, `"prefix"` or neither, answered
//! when every shard has forgotten. Whatever is wrong with an order is said in JSON, with what to send
//! instead. Nothing of the store is touched from here.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{AdminState, record};
use crate::purge::{Purge, PurgeError, PurgeScope};

/// The longest order: S3's longest bucket and key, escaped throughout, have room.
const ORDER_BYTES_MAX: usize = 16 << 10;
/// How long the shards may take.
const PURGE_TIME_MAX: Duration = Duration::from_secs(10);

/// An order as it is sent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    bucket: String,
    key: Option<String>,
    prefix: Option<String>,
}

/// What is wrong with an order, and what to do about it.
type Refusal = (StatusCode, String);

/// Answers an order.
pub(super) async fn answer(State(state): State<Arc<AdminState>>, request: Request) -> Response {
    let peer = record::peer_text(request.extensions());
    let what = understand(request).await;
    let done = match &what {
        Ok(what) => carry_out(&state, what).await,
        Err(refusal) => Err(refusal.clone()),
    };
    let status = done.as_ref().err().map_or(StatusCode::OK, |(status, _)| *status);
    record::note_purge(&state, peer, what.as_ref().ok(), status);
    match done {
        Ok(purged) => Json(json!({"purged": purged})).into_response(),
        Err((status, message)) => (status, Json(json!({"error": message}))).into_response(),
    }
}

/// Answers whatever is no POST.
pub(super) async fn only_post() -> Response {
    let message = json!({"error": format!("send a POST with {EXAMPLE}")});
    let allow = [(header::ALLOW, "POST")];
    (StatusCode::METHOD_NOT_ALLOWED, allow, Json(message)).into_response()
}

const EXAMPLE: &str = "Content-Type: application/json and {\"bucket\": \"B\"}, with \"key\" or \
    \"prefix\" for less than the whole bucket";

async fn understand(request: Request) -> Result<Purge, Refusal> {
    let (head, body) = request.into_parts();
    // A web page of another site cannot send this without asking first.
    if !is_json(&head.headers) {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, format!("send {EXAMPLE}")));
    }
    parse(&read(body).await?)
}

async fn carry_out(state: &AdminState, what: &Purge) -> Result<Value, Refusal> {
    let Some(node) = state.node.get() else {
        let message = "the node is starting; try again when it is ready";
        return Err((StatusCode::SERVICE_UNAVAILABLE, message.to_owned()));
    };
    match tokio::time::timeout(PURGE_TIME_MAX, node.purges.purge(what.clone())).await {
        Ok(Ok(())) => Ok(told(what)),
        Ok(Err(error @ PurgeError::Busy)) => {
            Err((StatusCode::TOO_MANY_REQUESTS, error.to_string()))
        }
        Ok(Err(error @ PurgeError::Stopping)) => {
            Err((StatusCode::SERVICE_UNAVAILABLE, error.to_string()))
        }
        Ok(Err(error @ PurgeError::Passing)) => {
            Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
        }
        Err(_) => {
            let message = format!(
                "the shards have not answered within {} s; the purge is still under way: purge again \
                 to know when it is done",
                PURGE_TIME_MAX.as_secs()
            );
            Err((StatusCode::GATEWAY_TIMEOUT, message))
        }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(|value| {
        let (kind, _) = value.split_once(';').unwrap_or((value, ""));
        kind.trim().eq_ignore_ascii_case("application/json")
    })
}

async fn read(body: Body) -> Result<Vec<u8>, Refusal> {
    let bytes = to_bytes(body, ORDER_BYTES_MAX).await.map_err(|_| {
        let message = format!(
            "the order is longer than {ORDER_BYTES_MAX} bytes, or broke off; send {EXAMPLE}"
        );
        (StatusCode::PAYLOAD_TOO_LARGE, message)
    })?;
    Ok(bytes.into())
}

fn parse(body: &[u8]) -> Result<Purge, Refusal> {
    let refuse = |message: String| (StatusCode::BAD_REQUEST, message);
    let order: Order = serde_json::from_slice(body).map_err(|error| {
        refuse(format!("the order is not understood ({error}); send {EXAMPLE}"))
    })?;
    if order.bucket.is_empty() || order.bucket.contains('/') {
        return Err(refuse(format!(
            "{:?} is no bucket's name; send the bucket alone, and what is below it as \"prefix\"",
            order.bucket
        )));
    }
    let scope = match (order.key, order.prefix) {
        (Some(_), Some(_)) => {
            return Err(refuse("\"key\" and \"prefix\" exclude each other; send one".to_owned()));
        }
        (Some(key), None) if key.is_empty() => {
            return Err(refuse(
                "\"key\" is empty; leave it out to purge the whole bucket".to_owned(),
            ));
        }
        (Some(key), None) => PurgeScope::Key(key),
        (None, Some(prefix)) if prefix.is_empty() => PurgeScope::Bucket,
        (None, Some(prefix)) => PurgeScope::Prefix(prefix),
        (None, None) => PurgeScope::Bucket,
    };
    Ok(Purge { bucket: order.bucket, scope })
}

fn told(what: &Purge) -> Value {
    match &what.scope {
        PurgeScope::Key(key) => json!({"bucket": what.bucket, "key": key}),
        PurgeScope::Prefix(prefix) => json!({"bucket": what.bucket, "prefix": prefix}),
        PurgeScope::Bucket => json!({"bucket": what.bucket}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_names_a_key_a_prefix_or_a_bucket() {
        let scope = |text: &str| parse(text.as_bytes()).expect("an order").scope;
        assert_eq!(scope(r#"{"bucket":"b"}"#), PurgeScope::Bucket);
        assert_eq!(scope(r#"{"bucket":"b","prefix":""}"#), PurgeScope::Bucket);
        assert_eq!(scope(r#"{"bucket":"b","prefix":"a/"}"#), PurgeScope::Prefix("a/".to_owned()));
        assert_eq!(scope(r#"{"bucket":"b","key":"a b+c"}"#), PurgeScope::Key("a b+c".to_owned()));
    }

    #[test]
    fn what_is_no_order_is_refused_with_what_to_change() {
        for (order, cure) in [
            ("", "send Content-Type"),
            ("{}", "missing field `bucket`"),
            (r#"{"bucket":1}"#, "expected a string"),
            (r#"{"bucket":""}"#, "the bucket alone"),
            (r#"{"bucket":"b/a"}"#, "as \"prefix\""),
            (r#"{"bucket":"b","table":"t"}"#, "unknown field `table`"),
            (r#"{"bucket":"b","key":""}"#, "leave it out"),
            (r#"{"bucket":"b","key":"k","prefix":"p"}"#, "send one"),
        ] {
            let (status, message) = parse(order.as_bytes()).expect_err(order);
            assert_eq!(status, StatusCode::BAD_REQUEST);
            assert!(message.contains(cure), "{order}: {message}");
        }
    }
}

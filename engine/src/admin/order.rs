//! Orders in JSON: how they are read, and how they are refused, with what to send instead.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use serde::de::DeserializeOwned;
use serde_json::json;

/// The longest order: S3's longest bucket and key, escaped throughout, have room.
const ORDER_BYTES_MAX: usize = 16 << 10;

/// What is wrong with an order, and what to do about it.
pub(super) type Refusal = (StatusCode, String);

/// Reads an order; `example` says what to send.
pub(super) async fn read<T: DeserializeOwned>(
    request: Request,
    example: &str,
) -> Result<T, Refusal> {
    let (head, body) = request.into_parts();
    // A web page of another site cannot send this without asking first.
    if !is_json(&head.headers) {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, format!("send {example}")));
    }
    parse(&collect(body, example).await?, example)
}

/// Reads the bytes of an order.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8], example: &str) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| {
        let message = format!("the order is not understood ({error}); send {example}");
        (StatusCode::BAD_REQUEST, message)
    })
}

/// Answers what is refused.
pub(super) fn refuse((status, message): Refusal) -> Response {
    (status, Json(json!({"error": message}))).into_response()
}

fn is_json(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(|value| {
        let (kind, _) = value.split_once(';').unwrap_or((value, ""));
        kind.trim().eq_ignore_ascii_case("application/json")
    })
}

async fn collect(body: Body, example: &str) -> Result<Vec<u8>, Refusal> {
    let bytes = to_bytes(body, ORDER_BYTES_MAX).await.map_err(|_| {
        let message = format!(
            "the order is longer than {ORDER_BYTES_MAX} bytes, or broke off; send {example}"
        );
        (StatusCode::PAYLOAD_TOO_LARGE, message)
    })?;
    Ok(bytes.into())
}

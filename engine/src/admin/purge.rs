//! `POST /admin/purge`: an order in JSON, `{"bucket": …}` with `"key"`, `"prefix"` or neither, or
//! `{"table": …}` for all that lies in a watched table's folders; answered when every shard has forgotten.
//! Whatever is wrong with an order is said in JSON, with what to send instead. Nothing of the store is
//! touched from here.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::order::{self, Refusal};
use super::{AdminState, NodeView, record, tables};
use crate::purge::{Purge, PurgeError, PurgeScope};

/// How long the shards may take for one purge.
const PURGE_TIME_MAX: Duration = Duration::from_secs(10);

/// An order as it is sent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    bucket: Option<String>,
    key: Option<String>,
    prefix: Option<String>,
    table: Option<String>,
}

/// An order that is understood.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    Objects(Purge),
    Table(String),
}

/// Answers an order.
pub(super) async fn answer(State(state): State<Arc<AdminState>>, request: Request) -> Response {
    let peer = record::peer_text(request.extensions());
    let understood = match order::read(request, EXAMPLE).await {
        Ok(order) => understand(order),
        Err(refusal) => Err(refusal),
    };
    let (purges, done) = match understood {
        Ok(wanted) => carry_out(&state, wanted).await,
        Err(refusal) => (Vec::new(), Err(refusal)),
    };
    let status = done.as_ref().err().map_or(StatusCode::OK, |(status, _)| *status);
    record::note_purge(&state, peer, purges.first(), status);
    match done {
        Ok(purged) => Json(json!({"purged": purged})).into_response(),
        Err(refusal) => order::refuse(refusal),
    }
}

/// Answers whatever is no POST.
pub(super) async fn only_post() -> Response {
    let message = json!({"error": format!("send a POST with {EXAMPLE}")});
    let allow = [(header::ALLOW, "POST")];
    (StatusCode::METHOD_NOT_ALLOWED, allow, Json(message)).into_response()
}

const EXAMPLE: &str = "Content-Type: application/json and {\"bucket\": \"B\"}, with \"key\" or \
    \"prefix\" for less than the whole bucket, or {\"table\": \"catalog.namespace.table\"}";

/// What was to be purged, and what came of it.
async fn carry_out(state: &AdminState, wanted: Wanted) -> (Vec<Purge>, Result<Value, Refusal>) {
    let Some(node) = state.node.get() else {
        let message = "the node is starting; try again when it is ready";
        return (Vec::new(), Err((StatusCode::SERVICE_UNAVAILABLE, message.to_owned())));
    };
    let (purges, told) = match wanted {
        Wanted::Objects(purge) => {
            let told = told(&purge);
            (vec![purge], told)
        }
        Wanted::Table(table) => match purges_of(node, &table) {
            Ok(purges) => {
                let each: Vec<Value> = purges.iter().map(told).collect();
                let told = json!({"table": table, "purges": each});
                (purges, told)
            }
            Err(refusal) => return (Vec::new(), Err(refusal)),
        },
    };
    let mut done = Ok(told);
    for purge in &purges {
        if let Err(refusal) = purge_one(node, purge).await {
            done = Err(refusal);
            break;
        }
    }
    // Also what was not waited for may have been purged.
    let buckets: BTreeSet<&str> = purges.iter().map(|purge| purge.bucket.as_str()).collect();
    buckets.into_iter().for_each(|bucket| node.tables.purged(bucket));
    (purges, done)
}

fn purges_of(node: &NodeView, table: &str) -> Result<Vec<Purge>, Refusal> {
    let id = tables::find(&node.tables, table)?;
    node.tables.purges(&id).ok_or_else(|| {
        let message = format!(
            "nothing of {id} has been read, or too many of its files lie outside of its folders; purge by \
             \"bucket\" and \"prefix\""
        );
        (StatusCode::CONFLICT, message)
    })
}

async fn purge_one(node: &NodeView, what: &Purge) -> Result<(), Refusal> {
    match tokio::time::timeout(PURGE_TIME_MAX, node.purges.purge(what.clone())).await {
        Ok(Ok(())) => Ok(()),
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

fn understand(order: Order) -> Result<Wanted, Refusal> {
    let refuse = |message: String| (StatusCode::BAD_REQUEST, message);
    let bucket = match (order.bucket, order.table) {
        (Some(bucket), None) => bucket,
        (None, Some(table)) if order.key.is_none() && order.prefix.is_none() => {
            return Ok(Wanted::Table(table));
        }
        (None, None) => {
            return Err(refuse(format!("neither a bucket nor a table; send {EXAMPLE}")));
        }
        (_, Some(_)) => {
            let message =
                "\"table\" stands alone: send it without \"bucket\", \"key\" and \"prefix\"";
            return Err(refuse(message.to_owned()));
        }
    };
    if bucket.is_empty() || bucket.contains('/') {
        return Err(refuse(format!(
            "{bucket:?} is no bucket's name; send the bucket alone, and what is below it as \"prefix\""
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
    Ok(Wanted::Objects(Purge { bucket, scope }))
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

    fn parse(text: &str) -> Result<Wanted, Refusal> {
        understand(order::parse(text.as_bytes(), EXAMPLE)?)
    }

    #[test]
    fn an_order_names_a_key_a_prefix_or_a_bucket() {
        let scope = |text: &str| match parse(text).expect("an order") {
            Wanted::Objects(purge) => purge.scope,
            Wanted::Table(table) => panic!("a table: {table}"),
        };
        assert_eq!(scope(r#"{"bucket":"b"}"#), PurgeScope::Bucket);
        assert_eq!(scope(r#"{"bucket":"b","prefix":""}"#), PurgeScope::Bucket);
        assert_eq!(scope(r#"{"bucket":"b","prefix":"a/"}"#), PurgeScope::Prefix("a/".to_owned()));
        assert_eq!(scope(r#"{"bucket":"b","key":"a b+c"}"#), PurgeScope::Key("a b+c".to_owned()));
        assert_eq!(parse(r#"{"table":"c.n.t"}"#), Ok(Wanted::Table("c.n.t".to_owned())));
    }

    #[test]
    fn what_is_no_order_is_refused_with_what_to_change() {
        for (order, cure) in [
            ("", "send Content-Type"),
            ("{}", "neither a bucket nor a table"),
            (r#"{"bucket":1}"#, "expected a string"),
            (r#"{"bucket":""}"#, "the bucket alone"),
            (r#"{"bucket":"b/a"}"#, "as \"prefix\""),
            (r#"{"bucket":"b","table":"t"}"#, "stands alone"),
            (r#"{"table":"t","key":"k"}"#, "stands alone"),
            (r#"{"bucket":"b","tables":"t"}"#, "unknown field `tables`"),
            (r#"{"bucket":"b","key":""}"#, "leave it out"),
            (r#"{"bucket":"b","key":"k","prefix":"p"}"#, "send one"),
        ] {
            let (status, message) = parse(order).expect_err(order);
            assert_eq!(status, StatusCode::BAD_REQUEST);
            assert!(message.contains(cure), "{order}: {message}");
        }
    }
}

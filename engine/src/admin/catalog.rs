//! `GET /admin/catalogs`: what is known of each watched catalog and its tables. Lent credentials are shown by
//! prefix and end, never by what they are.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Json, Response};
use nilas_base::UnixMillis;
use nilas_iceberg::catalog::{StorageCredentials, TableName};
use serde_json::{Map, Value, json};

use super::AdminState;
use crate::catalog::{CatalogCount, CatalogSnapshot, Catalogs, TableStatus};

/// Tables of a catalog that are shown one by one; those in trouble first.
const TABLES_SHOWN_MAX: usize = 1000;

/// Answers with the catalogs.
pub(super) async fn answer(State(state): State<Arc<AdminState>>) -> Response {
    let Some(node) = state.node.get() else { return super::route::starting() };
    let snapshots = node.catalogs.snapshots();
    let shown = snapshots.iter().map(|snapshot| catalog_json(&node.catalogs, snapshot));
    Json(json!({"catalogs": shown.collect::<Vec<_>>()})).into_response()
}

fn catalog_json(catalogs: &Catalogs, snapshot: &CatalogSnapshot) -> Value {
    let counts = CatalogCount::ALL
        .iter()
        .map(|what| (what.label().to_owned(), json!(snapshot.count(*what))));
    let mut tables: Vec<(&TableName, &TableStatus)> = snapshot.tables.iter().collect();
    tables.sort_by_key(|(_, status)| status.last_error.is_none());
    let tables = tables.into_iter().take(TABLES_SHOWN_MAX);
    json!({
        "name": &*snapshot.name,
        "url": &*snapshot.url,
        "last_success": date(snapshot.last_success),
        "last_error": error(snapshot.last_error.as_ref()),
        "counts": counts.collect::<Map<_, _>>(),
        "listing": {
            "at": date(snapshot.listed_at),
            "namespaces": snapshot.namespaces,
            "views": snapshot.views,
            "troubles": snapshot.listing_troubles,
        },
        "tables_watched": snapshot.tables.len(),
        "tables": tables.map(|(name, status)| table_json(catalogs, snapshot, name, status))
            .collect::<Vec<_>>(),
    })
}

fn table_json(
    catalogs: &Catalogs,
    snapshot: &CatalogSnapshot,
    name: &TableName,
    status: &TableStatus,
) -> Value {
    let facts = catalogs.facts(&snapshot.name, name);
    json!({
        "namespace": name.namespace.0,
        "name": name.name,
        "last_success": date(status.last_success),
        "last_error": error(status.last_error.as_ref()),
        "failures": status.failures,
        "seen": facts.map(|facts| json!({
            "at": date(Some(facts.seen_at)),
            "changes": facts.changes,
            "etag": facts.etag,
            "metadata_location": facts.metadata_location,
            "metadata_bytes": facts.metadata_bytes,
            "credentials": credentials(&facts.credentials),
        })),
    })
}

fn credentials(lent: &StorageCredentials) -> Vec<Value> {
    let one = |credential: &nilas_iceberg::catalog::StorageCredential| json!({"prefix": credential.prefix, "expires_at": date(credential.expires_at())});
    lent.iter().map(one).collect()
}

fn error(error: Option<&(UnixMillis, String)>) -> Value {
    error.map_or(Value::Null, |(at, cause)| json!({"at": date(Some(*at)), "cause": cause}))
}

/// A time as people and programs read it.
pub(super) fn date(time: Option<UnixMillis>) -> Value {
    time.map_or(Value::Null, |time| {
        json!(String::from_utf8_lossy(&nilas_net::date::iso_date(time)))
    })
}

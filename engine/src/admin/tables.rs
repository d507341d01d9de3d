//! `GET /admin/tables`: each table of the watched catalogs, how far it was read and warmed, and what is wrong
//! with it. `GET /admin/tables/file?bucket=…&key=…`: which table a file is of. `POST /admin/tables/warm`: an
//! order to have data at hand, with an estimate; `GET /admin/tables/warm` and `…/NUMBER`: what came of it.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use nilas_base::ByteRange;
use nilas_iceberg::mapper::{FileFact, Mapper};
use serde::Deserialize;
use serde_json::{Value, json};

use super::catalog::date;
use super::order::{self, Refusal};
use super::{AdminState, NodeView};
use crate::config::Glob;
use crate::tables::{Job, NoTable, OrderError, Shelved, TableId, Tables, WarmOrder, WarmRule};

/// Tables that are shown one by one; those with faults first.
const TABLES_SHOWN_MAX: usize = 10_000;
/// Column ranges of a file that are shown.
const RANGES_SHOWN_MAX: usize = 1000;

/// Answers with the tables.
pub(super) async fn answer(State(state): State<Arc<AdminState>>) -> Response {
    let Some(node) = state.node.get() else { return super::route::starting() };
    Json(tables_json(&node.tables)).into_response()
}

fn tables_json(tables: &Tables) -> Value {
    let index = tables.index();
    let (footers, footer_bytes) = tables.footers();
    let shelf = tables.shelf().tables();
    let mut shown: Vec<(&TableId, &Shelved)> = shelf.iter().collect();
    shown.sort_by_key(|(_, table)| table.trouble.is_none() && table.faults().is_empty());
    let warmed: u64 = shelf.values().map(|table| table.warmth.done_bytes).sum();
    json!({
        "tables_watched": shelf.len(),
        "tables": shown.into_iter().take(TABLES_SHOWN_MAX)
            .map(|(id, table)| table_json(id, table)).collect::<Vec<_>>(),
        "memory_bytes": shelf.values().map(|table| table.memory_bytes).sum::<u64>(),
        "metadata_bytes_warmed": warmed,
        "metadata_bytes_room": tables.room_bytes(),
        "index": {
            "files": index.file_count(),
            "footers": footers,
            "memory_bytes": index.memory_bytes(),
            "footer_bytes": footer_bytes,
        },
    })
}

fn table_json(id: &TableId, table: &Shelved) -> Value {
    let metadata = table.state.as_ref().map(|state| state.metadata());
    let manifests = table.state.as_ref().map(|state| state.manifests().count());
    let warmth = &table.warmth;
    json!({
        "table": id.to_string(),
        "catalog": &*id.catalog,
        "namespace": id.name.namespace.0,
        "name": id.name.name,
        "state": state_text(table),
        "metadata_location": metadata.map(|it| &*it.path),
        "location": metadata.map(|it| &*it.location),
        "format_version": metadata.map(|it| it.format_version),
        "snapshot_id": metadata.and_then(|it| it.current_snapshot_id),
        "snapshots": metadata.map(|it| it.snapshots.len()),
        "manifests": manifests,
        "read_at": date(table.read_at),
        "memory_bytes": table.memory_bytes,
        "trouble": table.trouble,
        "faults": table.faults().iter().map(ToString::to_string).collect::<Vec<_>>(),
        "fault_count": table.state.as_ref().map_or(0, |state| state.faults().count()),
        "warmth": {
            "warm": warmth.is_warm,
            "history_warm": warmth.is_over,
            "planned": warmth.planned,
            "planned_bytes": warmth.planned_bytes,
            "done": warmth.done,
            "done_bytes": warmth.done_bytes,
            "origin_bytes": warmth.origin_bytes,
            "left_out": warmth.left_out,
            "failed": warmth.failed,
            "failures": warmth.failures,
        },
    })
}

/// One word for people and scripts.
fn state_text(table: &Shelved) -> &'static str {
    let is_current = table.warmth.generation == table.generation;
    match () {
        () if table.state.is_none() && table.trouble.is_some() => "unreadable",
        () if !table.is_read || table.state.is_none() => "reading",
        () if table.indexed != table.generation => "indexing",
        () if !is_current || !table.warmth.is_warm => "warming",
        () if !table.is_wholly_warm() => "partly warm",
        () => "warm",
    }
}

const FILE_EXAMPLE: &str =
    "ask with ?bucket=B&key=K, encoded, and perhaps first and last, the numbers of bytes";

/// Which file is asked about.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileQuery {
    bucket: String,
    key: String,
    first: Option<u64>,
    last: Option<u64>,
}

/// Answers whose file, and whose columns, some bytes are.
pub(super) async fn file(
    State(state): State<Arc<AdminState>>,
    query: Result<Query<FileQuery>, QueryRejection>,
) -> Response {
    let Some(node) = state.node.get() else { return super::route::starting() };
    let query = match query {
        Ok(Query(query)) if query.last.is_none_or(|last| last >= query.first.unwrap_or(0)) => query,
        Ok(_) => {
            return order::refuse((
                StatusCode::BAD_REQUEST,
                format!("last is before first; {FILE_EXAMPLE}"),
            ));
        }
        Err(error) => {
            let message = format!("{}; {FILE_EXAMPLE}", error.body_text());
            return order::refuse((StatusCode::BAD_REQUEST, message));
        }
    };
    let index = node.tables.index();
    match index.file(query.bucket.as_bytes(), query.key.as_bytes()) {
        Some(fact) => Json(file_json(&index, &query, fact)).into_response(),
        None => {
            let message = format!("no watched table lists {}/{}", query.bucket, query.key);
            order::refuse((StatusCode::NOT_FOUND, message))
        }
    }
}

fn file_json(index: &Mapper, query: &FileQuery, fact: FileFact) -> Value {
    let range = ByteRange::new(
        query.first.unwrap_or(0),
        query.last.map_or(u64::MAX, |last| last.saturating_add(1)).max(query.first.unwrap_or(0)),
    );
    let overlaps = index.range(query.bucket.as_bytes(), query.key.as_bytes(), range);
    let columns = overlaps.map(|overlaps| {
        let mut shown = Vec::new();
        let mut overlaps = overlaps;
        while let Some(overlap) = overlaps.next()
            && shown.len() < RANGES_SHOWN_MAX
        {
            shown.push(json!({
                "row_group": overlap.row_group,
                "field_id": overlap.field_id,
                "column": overlaps.path(overlap.column),
                "part": format!("{:?}", overlap.part),
                "bytes": overlap.bytes,
            }));
        }
        shown
    });
    json!({
        "table": index.table(fact.table).map(|(name, _)| name),
        "partition": index.partition(fact.file.partition).map(|(name, _)| name),
        "kind": format!("{:?}", fact.file.kind),
        "format": format!("{:?}", fact.file.format),
        "bytes": fact.file.bytes,
        "rows": fact.file.rows,
        "columns": columns,
    })
}

/// An order as it is sent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    table: String,
    #[serde(default)]
    columns: Vec<String>,
    #[serde(default)]
    partitions: Vec<String>,
    snapshot_id: Option<i64>,
}

const EXAMPLE: &str = "Content-Type: application/json and {\"table\": \"catalog.namespace.table\"}, with \
    \"columns\", \"partitions\" or \"snapshot_id\" for less than all of the current snapshot";

/// Answers an order to warm.
pub(super) async fn warm(State(state): State<Arc<AdminState>>, request: Request) -> Response {
    let Some(node) = state.node.get() else { return super::route::starting() };
    let begun = match order::read::<Order>(request, EXAMPLE).await {
        Ok(order) => begin(node, order),
        Err(refusal) => Err(refusal),
    };
    match begun {
        Ok(job) => (StatusCode::ACCEPTED, Json(job_json(&job))).into_response(),
        Err(refusal) => order::refuse(refusal),
    }
}

fn begin(node: &NodeView, order: Order) -> Result<Job, Refusal> {
    let table = find(&node.tables, &order.table)?;
    let partitions = order.partitions.iter().map(|text| Glob::new(text)).collect();
    let (tables, columns, pins) = (Vec::new(), order.columns, false);
    let rule = WarmRule { tables, partitions, columns, pins };
    let order = WarmOrder { table, snapshot_id: order.snapshot_id, rule };
    node.tables.jobs().begin(&order).map_err(|error| {
        let status = match error {
            OrderError::Busy => StatusCode::TOO_MANY_REQUESTS,
            OrderError::Unread(..) => StatusCode::CONFLICT,
            OrderError::NoColumn { .. }
            | OrderError::NoSnapshot(..)
            | OrderError::NoPartition(_) => StatusCode::BAD_REQUEST,
        };
        (status, error.to_string())
    })
}

/// The table that an order names.
pub(super) fn find(tables: &Tables, text: &str) -> Result<TableId, Refusal> {
    tables.find(text).map_err(|error| {
        let status = match error {
            NoTable::Unknown(_) => StatusCode::NOT_FOUND,
            NoTable::Several(..) => StatusCode::BAD_REQUEST,
        };
        (status, error.to_string())
    })
}

/// Answers with all jobs.
pub(super) async fn jobs(State(state): State<Arc<AdminState>>) -> Response {
    let Some(node) = state.node.get() else { return super::route::starting() };
    let jobs: Vec<Value> = node.tables.jobs().all().iter().map(job_json).collect();
    Json(json!({ "jobs": jobs })).into_response()
}

/// Answers with one job.
pub(super) async fn job(
    State(state): State<Arc<AdminState>>,
    Path(number): Path<String>,
) -> Response {
    let Some(node) = state.node.get() else { return super::route::starting() };
    match number.parse().ok().and_then(|number| node.tables.jobs().get(number)) {
        Some(job) => Json(job_json(&job)).into_response(),
        None => {
            let message = format!("there is no job {number}; it may have ended long ago");
            order::refuse((StatusCode::NOT_FOUND, message))
        }
    }
}

fn job_json(job: &Job) -> Value {
    json!({
        "job": job.number,
        "table": job.table.to_string(),
        "began_at": date(Some(job.began_at)),
        "ended_at": date(job.ended_at),
        "files": job.files,
        "estimated_bytes": job.estimated_bytes,
        "files_done": job.files_done,
        "bytes_done": job.bytes_done,
        "origin_bytes": job.origin_bytes,
        "left_out": job.left_out,
        "failed": job.failed,
        "failures": job.failures,
    })
}

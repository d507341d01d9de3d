//! `nilas tables` and `nilas warm`: the tables of the catalogs that a node watches, as its admin port tells
//! of them, and data that is fetched before anybody asks for it. `report` says it for people.

mod report;

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use crate::admin::NodeArguments;
use crate::progress::Progress;

/// How often a job is asked after.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Of `nilas tables`.
#[derive(Args)]
pub struct TablesArguments {
    /// One table, as catalog.namespace.table: with its faults, and what could not be fetched.
    table: Option<String>,
    /// Print what the node says, as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    node: NodeArguments,
}

impl TablesArguments {
    /// What is to be printed.
    pub async fn carry_out(self) -> Result<String, String> {
        let mut page = self.node.port()?.page("/admin/tables").await?;
        if let Some(name) = &self.table {
            let tables = page["tables"].as_array_mut().map(std::mem::take).unwrap_or_default();
            let is_meant = |table: &Value| report::is_called(table, name);
            let found: Vec<Value> = tables.into_iter().filter(is_meant).collect();
            if found.is_empty() {
                return Err(format!(
                    "the node watches no table {name:?}; `nilas tables` lists them"
                ));
            }
            if !self.json {
                return Ok(found.iter().map(report::table).collect::<Vec<_>>().join("\n\n"));
            }
            page["tables"] = Value::Array(found);
        }
        match self.json {
            true => Ok(format!("{page:#}")),
            false => Ok(report::tables(&page)),
        }
    }
}

/// Of `nilas warm`.
#[derive(Args)]
pub struct WarmArguments {
    /// The table, as catalog.namespace.table, or without the catalog where one alone has it.
    table: String,
    /// Only these columns, and what lies in them, where the format tells columns apart.
    #[arg(long, value_delimiter = ',')]
    columns: Vec<String>,
    /// Only partitions that one of these patterns fits, such as day=2026-*.
    #[arg(long, value_delimiter = ',')]
    partitions: Vec<String>,
    /// The files of this snapshot instead of the current one.
    #[arg(long)]
    snapshot: Option<i64>,
    /// Do not wait until it is done.
    #[arg(long)]
    no_wait: bool,
    /// Print the job as the node tells of it, as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    node: NodeArguments,
}

impl WarmArguments {
    /// What is to be printed at the end; an error where some of it could not be fetched.
    pub async fn carry_out(self) -> Result<String, String> {
        let port = self.node.port()?;
        let mut order = json!({
            "table": self.table,
            "columns": self.columns,
            "partitions": self.partitions,
        });
        if let Some(snapshot) = self.snapshot {
            order["snapshot_id"] = json!(snapshot);
        }
        let mut job = port.order("/admin/tables/warm", &order).await?;
        if !self.no_wait {
            let path = format!("/admin/tables/warm/{}", job["job"]);
            let mut progress = Progress::on_terminal(report::number(&job["estimated_bytes"]));
            while job["ended_at"].is_null() {
                progress.tell(report::number(&job["bytes_done"]));
                tokio::time::sleep(LOOK_INTERVAL).await;
                job = port.page(&path).await?;
            }
        }
        let told = if self.json { format!("{job:#}") } else { report::job(&job) };
        match report::number(&job["failed"]) {
            0 => Ok(told),
            _ => Err(format!("some files could not be fetched\n{told}")),
        }
    }
}

//! `nilas`: what an operator asks of a running node through its admin port, of the file of
//! credentials that it follows, and of its cache device. See `nilas_tools::admin`,
//! `nilas_tools::tables`, `nilas_tools::credential` and `nilas_tools::cache`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool that speaks to a terminal")]

use std::io::{ErrorKind as IoErrorKind, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use nilas_tools::admin::{NodeArguments, Purge};
use nilas_tools::cache::command::{CODE_UNREAD, CacheArguments, InspectArguments, Told};
use nilas_tools::credential::command::CredentialArguments;
use nilas_tools::tables::{TablesArguments, WarmArguments};
use nilas_tools::trace::RecordArguments;

/// Asks something of a running node, changes the credentials that it follows, or looks at its cache device.
#[derive(Parser)]
#[command(name = "nilas", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Has the node forget what it knows of a bucket, or of a part of it, bytes included.
    Purge(PurgeArguments),
    /// Shows the tables of the catalogs that a node watches: how far each is warm, and what is wrong with it.
    Tables(TablesArguments),
    /// Has a table's data fetched before anybody asks for it, and waits until it is at hand.
    Warm(WarmArguments),
    /// Makes, lists, renews and withdraws the credentials of a node, while it runs.
    Credential(CredentialArguments),
    /// Shows what lies on a node's cache device; the node may run.
    Inspect(InspectArguments),
    /// Works on the cache device of a stopped node.
    Cache(CacheArguments),
    /// Works on traces of what clients read.
    #[command(subcommand)]
    Trace(Trace),
}

#[derive(Subcommand)]
enum Trace {
    /// Writes down what clients read of a node, for `cargo perf replay`.
    Record(RecordArguments),
}

#[derive(Args)]
struct PurgeArguments {
    /// The bucket; all of it, unless a part is named.
    #[arg(long, required_unless_present = "table")]
    bucket: Option<String>,
    /// Only the object with this key.
    #[arg(long, conflicts_with_all = ["prefix", "table"])]
    key: Option<String>,
    /// Only the objects whose keys begin so.
    #[arg(long, conflicts_with = "table")]
    prefix: Option<String>,
    /// A table of a watched catalog, as catalog.namespace.table: all that lies in its folders.
    #[arg(long, conflicts_with = "bucket")]
    table: Option<String>,
    #[command(flatten)]
    node: NodeArguments,
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Purge(arguments) => end(purge(arguments).and_then(|told| print(&told)), 1),
        Command::Tables(arguments) => {
            let told = runtime().and_then(|runtime| runtime.block_on(arguments.carry_out()));
            end(told.and_then(|told| print(&told)), 1)
        }
        Command::Warm(arguments) => {
            let told = runtime().and_then(|runtime| runtime.block_on(arguments.carry_out()));
            end(told.and_then(|told| print(&told)), 1)
        }
        Command::Trace(Trace::Record(arguments)) => {
            let told = runtime().and_then(|runtime| runtime.block_on(arguments.carry_out()));
            end(told.and_then(|told| print(&told)), 1)
        }
        Command::Credential(arguments) => {
            end(credential(&arguments).and_then(|told| print_secret(&told)), 1)
        }
        Command::Inspect(arguments) => end(arguments.carry_out().and_then(|told| print(&told)), 1),
        Command::Cache(arguments) => match arguments.carry_out() {
            Ok(Told { text, code }) => match print(&text) {
                Ok(()) => ExitCode::from(code),
                failed => end(failed, CODE_UNREAD),
            },
            Err(error) => end(Err(error), CODE_UNREAD),
        },
    }
}

fn end(done: Result<(), String>, code_failed: u8) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nilas: {error}");
            ExitCode::from(code_failed)
        }
    }
}

/// A reader that has seen enough, such as `head`, is no failure.
fn print(text: &str) -> Result<(), String> {
    match write_out(text) {
        Err(error) if error.kind() == IoErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| format!("standard output takes nothing: {error}")),
    }
}

fn print_secret(text: &str) -> Result<(), String> {
    write_out(text).map_err(|error| {
        format!(
            "it is done, but standard output takes nothing ({error}); rotate a secret that is lost"
        )
    })
}

fn write_out(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush())
}

fn credential(arguments: &CredentialArguments) -> Result<String, String> {
    let Some(file) = arguments.file(|name| std::env::var_os(name)) else {
        let missing = "name the credentials file with --file or in NILAS_CREDENTIALS_FILE";
        Arguments::command().error(ErrorKind::MissingRequiredArgument, missing).exit()
    };
    let told = arguments.carry_out(&file)?;
    for warning in told.warnings {
        eprintln!("nilas: {warning}");
    }
    Ok(told.value)
}

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime can be made: {error}"))
}

fn purge(arguments: PurgeArguments) -> Result<String, String> {
    let PurgeArguments { bucket, key, prefix, table, node } = arguments;
    let port = node.port()?;
    let bucket = bucket.unwrap_or_default();
    let told = match (&table, &key, &prefix) {
        (Some(table), ..) => format!("purged {table}"),
        (None, Some(key), _) => format!("purged {bucket}/{key}"),
        (None, None, Some(prefix)) => format!("purged {bucket}/{prefix}*"),
        (None, None, None) => format!("purged {bucket}"),
    };
    let what = match table {
        Some(table) => Purge::Table(table),
        None => Purge::Objects { bucket, key, prefix },
    };
    runtime()?.block_on(port.purge(&what))?;
    Ok(told)
}

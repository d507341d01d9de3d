//! `nilas`: what an operator asks of a running node, through its admin port. See `nilas_tools::admin`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool that speaks to a terminal")]

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use nilas_tools::admin::{AdminPort, Purge};

/// Asks something of a running node.
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
}

#[derive(Args)]
struct PurgeArguments {
    /// The bucket; all of it, unless a part is named.
    #[arg(long)]
    bucket: String,
    /// Only the object with this key.
    #[arg(long, conflicts_with = "prefix")]
    key: Option<String>,
    /// Only the objects whose keys begin so.
    #[arg(long)]
    prefix: Option<String>,
    /// The node's admin port.
    #[arg(long, default_value = "http://127.0.0.1:9001")]
    admin: String,
    /// The node's server.admin_token. Without it NILAS_ADMIN_TOKEN is used, which other users of
    /// this machine cannot see.
    #[arg(long)]
    token: Option<String>,
}

fn main() -> ExitCode {
    let Command::Purge(arguments) = Arguments::parse().command;
    match purge(arguments) {
        Ok(told) => {
            println!("{told}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("nilas: {error}");
            ExitCode::FAILURE
        }
    }
}

fn purge(arguments: PurgeArguments) -> Result<String, String> {
    let PurgeArguments { bucket, key, prefix, admin, token } = arguments;
    let token = token.or_else(|| std::env::var("NILAS_ADMIN_TOKEN").ok());
    let port = AdminPort::new(&admin, token.as_deref())?;
    let told = match (&key, &prefix) {
        (Some(key), _) => format!("purged {bucket}/{key}"),
        (None, Some(prefix)) => format!("purged {bucket}/{prefix}*"),
        (None, None) => format!("purged {bucket}"),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime can be made: {error}"))?;
    runtime.block_on(port.purge(&Purge { bucket, key, prefix }))?;
    Ok(told)
}

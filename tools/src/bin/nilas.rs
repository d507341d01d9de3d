//! `nilas`: what an operator asks of a running node through its admin port, and of the file of
//! credentials that it follows. See `nilas_tools::admin` and `nilas_tools::credential`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool that speaks to a terminal")]

use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use nilas_tools::admin::{AdminPort, Purge};
use nilas_tools::credential::command::CredentialArguments;

/// Asks something of a running node, or changes the credentials that it follows.
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
    /// Makes, lists, renews and withdraws the credentials of a node, while it runs.
    Credential(CredentialArguments),
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
    let told = match Arguments::parse().command {
        Command::Purge(arguments) => purge(arguments),
        Command::Credential(arguments) => credential(&arguments),
    };
    match told.and_then(|told| print(&told)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nilas: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| {
        format!(
            "it is done, but standard output takes nothing ({error}); rotate a secret that is lost"
        )
    })
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

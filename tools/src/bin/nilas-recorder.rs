//! The recorder as a process: it prints its two addresses as one line of JSON, then passes requests
//! on until it is stopped, or plays the faults it is told to. See `nilas_tools::recorder`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool that speaks to a terminal")]

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use nilas_tools::recorder::{Recorder, Rule, Settings};

/// A transparent proxy that records each request, and plays faults on order.
#[derive(Parser)]
struct Arguments {
    /// The origin's address.
    #[arg(long)]
    origin: SocketAddr,
    /// Where clients connect.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Where the record is read.
    #[arg(long, default_value = "127.0.0.1:0")]
    control: SocketAddr,
    /// Milliseconds added before each request.
    #[arg(long, default_value_t = 0)]
    latency_ms: u64,
    /// A file of rules that say which requests are met by which faults: a JSON list of objects, such
    /// as [{"fault": "cut", "after_bytes": 1000, "method": "GET", "prefix": "/bucket/", "times": 1}].
    /// The control port takes the same by PUT /faults, and lifts them by DELETE /faults.
    #[arg(long)]
    faults: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the recorder stopped: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> io::Result<()> {
    let settings = Settings {
        listen: arguments.listen,
        control: arguments.control,
        origin: arguments.origin,
        latency: Duration::from_millis(arguments.latency_ms),
        faults: arguments.faults.as_deref().map(rules).transpose()?.unwrap_or_default(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let recorder = Recorder::bind(&settings).await?;
        let addresses = serde_json::json!({
            "listen": recorder.listen_address().to_string(),
            "control": recorder.control_address()?.to_string(),
        });
        println!("{addresses}");
        recorder.run().await
    })
}

fn rules(file: &Path) -> io::Result<Vec<Rule>> {
    let named =
        |what: &dyn std::fmt::Display| io::Error::other(format!("{}: {what}", file.display()));
    let json = std::fs::read(file).map_err(|error| named(&error))?;
    Rule::list(&json).map_err(|bad| named(&bad))
}

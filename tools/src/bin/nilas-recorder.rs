//! The recorder as a process: it prints its two addresses as one line of JSON, then passes requests
//! on until it is stopped. See `nilas_tools::recorder`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool that speaks to a terminal")]

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use nilas_tools::recorder::{Recorder, Settings};

/// A transparent proxy that records each request.
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
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let recorder = Recorder::bind(&settings).await?;
        let addresses = serde_json::json!({
            "listen": recorder.listen_address()?.to_string(),
            "control": recorder.control_address()?.to_string(),
        });
        println!("{addresses}");
        recorder.run().await
    })
}

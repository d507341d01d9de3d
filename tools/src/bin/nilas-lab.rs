//! `cargo lab`: a real lakehouse on this machine: SeaweedFS as origin and catalog, TPC-H tables in
//! Iceberg, and the node before them. It prints how to connect and runs until Ctrl-C. The work is
//! done by `lakehouse.lab` in tools/end_to_end, which the tests share.
#![allow(clippy::print_stderr, reason = "a tool that speaks to a terminal")]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use clap::Parser;
use nilas_tools::{python, root};

/// A real lakehouse on this machine, and the node before it.
#[derive(Parser)]
struct Arguments {
    /// TPC-H's scale: 0.1 is 35 MB, 1 is 350 MB.
    #[arg(long, default_value = "0.1")]
    scale: String,
    /// Milliseconds added before each of the node's requests to the origin.
    #[arg(long, default_value_t = 0)]
    latency_ms: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse_from(std::env::args().filter(|argument| argument != "--"));
    match run(&arguments) {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("the lab could not be set up: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> io::Result<std::convert::Infallible> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--bin", "nilas-server", "--bin", "nilas-recorder"]);
    if !build.current_dir(root()).status()?.success() {
        return Err(io::Error::other("the node did not build"));
    }
    let interpreter = python::prepare(root())?;
    let mut lab = Command::new(interpreter);
    lab.args(["-m", "lakehouse.lab", "--scale", &arguments.scale])
        .arg(format!("--latency-ms={}", arguments.latency_ms))
        .current_dir(python::folder(root()));
    // The lab takes this process's place, so that Ctrl-C reaches it and nothing is in between.
    Err(lab.exec())
}

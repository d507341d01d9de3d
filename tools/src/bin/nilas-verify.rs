//! `cargo verify`: every check of the tree. `--quick` leaves out what needs Python. Fails if any
//! check fails; its last line is `N passed, N failed`.

use std::process::ExitCode;

use clap::Parser;

/// Runs every check of the tree.
#[derive(Parser)]
struct Arguments {
    /// Leave out what needs Python.
    #[arg(long)]
    quick: bool,
}

fn main() -> ExitCode {
    // The alias takes arguments with and without a leading `--`.
    let arguments = Arguments::parse_from(std::env::args().filter(|argument| argument != "--"));
    if nilas_tools::verify::run(nilas_tools::root(), arguments.quick) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

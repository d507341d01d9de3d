//! `cargo tidy`: prints what breaks the house rules in this tree, and fails if
//! anything does. Warnings alone do not fail it.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool that speaks to a terminal")]

use std::process::ExitCode;

use nilas_tools::tidy::{self, Weight};

fn main() -> ExitCode {
    let findings = match tidy::check(nilas_tools::root()) {
        Ok(findings) => findings,
        Err(error) => {
            eprintln!("tidy could not read the tree: {error}");
            return ExitCode::from(2);
        }
    };
    for finding in &findings {
        println!("{finding}");
    }
    let failures = findings.iter().filter(|finding| finding.weight == Weight::Failure).count();
    println!("tidy: {failures} failures, {} warnings", findings.len() - failures);
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

//! Verify: every check of the tree, one after another, each under its heading and with its time.
//! A failure does not stop the others; all are named at the end. The last line counts.

mod count;
mod demo;
mod step;

use std::io;
use std::path::Path;
use std::process::Command;
use std::thread;

use nilas_base::Clock;

use crate::tidy::{self, Weight};
use crate::{python, verify::count::Count, verify::step::Verifier};

/// Runs the checks in the tree at `root`; `quick` leaves out what needs Python. Whether all passed.
pub fn run(root: &Path, quick: bool) -> bool {
    let mut verifier = Verifier::new(Clock::system());
    verifier.step("toolchain", || toolchain(root));
    verifier.step("format", || step::cargo(root, &["fmt", "--all", "--check"]));
    verifier.step("tidy", || check_tree(root));
    thread::scope(|scope| {
        // Packages come over the network while the compiler has the cores.
        let python = (!quick).then(|| scope.spawn(|| python::prepare(root)));
        let lints =
            ["clippy", "--quiet", "--workspace", "--all-targets", "--", "--deny", "warnings"];
        verifier.step("clippy", || step::cargo(root, &lints));
        verifier.step("tests", || step::cargo(root, &["test", "--quiet", "--workspace"]));
        verifier.step("simulation", || simulate(root));
        verifier.step("build", || step::cargo(root, &["build", "--quiet", "--workspace"]));
        if let Some(python) = python {
            let python = python.join().expect("preparing Python does not panic");
            verifier.step("engines", || end_to_end(root, &python?));
        }
    });
    verifier.step("demo", || demo::check(root));
    verifier.finish()
}

/// A minimal installation of Rust comes without the formatter and the linter.
fn toolchain(root: &Path) -> io::Result<Count> {
    let is_there = |tool: &str| {
        let asked = step::cargo_command(root).args([tool, "--version"]).output();
        asked.is_ok_and(|answer| answer.status.success())
    };
    if is_there("fmt") && is_there("clippy") {
        return Ok(Count::PASSED);
    }
    let mut install = Command::new("rustup");
    step::run(install.args(["component", "add", "rustfmt", "clippy"]).current_dir(root))
}

/// Seeds that are played at least, and the time in which as many more are as it allows: what is left
/// of three minutes when the node with its planted mistakes is built and the judge is judged.
const SEEDS_MIN: &str = "500";
const SIMULATION_SECONDS: &str = "120";

/// Tests of the node with its planted mistakes, by the one name of the
/// feature. No package is named, or all that the node stands on would be built again.
const WITH_MISTAKES: [&str; 4] = ["test", "--quiet", "--features", "nilas-sim/mutations"];

/// The judge and the store's model against planted mistakes, then fair and foul weather.
fn simulate(root: &Path) -> io::Result<Count> {
    let judge =
        ["--test", "field_report", "--test", "mutation", "--test", "seed", "--test", "sparse_read"];
    let judged = step::cargo(root, &[WITH_MISTAKES.as_slice(), &judge].concat())?;
    let model = ["--test", "area", "--", "planted"];
    let modelled = step::cargo(root, &[WITH_MISTAKES.as_slice(), &model].concat())?;
    let played =
        step::cargo(root, &["sim", "--seeds", SEEDS_MIN, "--seconds", SIMULATION_SECONDS])?;
    Ok([judged, modelled, played].into_iter().sum())
}

fn check_tree(root: &Path) -> io::Result<Count> {
    let findings = tidy::check(root)?;
    for finding in &findings {
        step::say(&finding.to_string());
    }
    let failed = findings.iter().filter(|finding| finding.weight == Weight::Failure).count();
    Ok(if failed == 0 { Count::PASSED } else { Count { passed: 0, failed: failed as u64 } })
}

fn end_to_end(root: &Path, interpreter: &Path) -> io::Result<Count> {
    let mut command = Command::new(interpreter);
    command.args(["-m", "pytest", "--color=no", "--durations=5"]).current_dir(python::folder(root));
    step::run(&mut command)
}

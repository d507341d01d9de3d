//! One step: its heading, its command with every line shown as it comes, its time, its count.
#![allow(clippy::print_stdout, reason = "a tool that speaks to a terminal")]

use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nilas_base::Clock;

use super::count::Count;

/// What has been checked so far.
pub(super) struct Verifier {
    clock: Clock,
    done: Vec<Done>,
}

struct Done {
    name: &'static str,
    count: Count,
    time: Duration,
}

impl Verifier {
    pub(super) fn new(clock: Clock) -> Verifier {
        Verifier { clock, done: Vec::new() }
    }

    /// Does one step; a step that could not be done at all has failed.
    pub(super) fn step(&mut self, name: &'static str, act: impl FnOnce() -> io::Result<Count>) {
        println!("\n── {name} ──");
        let start = self.clock.now();
        let count = act().unwrap_or_else(|error| {
            println!("{name}: {error}");
            Count::FAILED
        });
        let time = self.clock.now().since(start);
        println!("── {name}: {:.1} s", time.as_secs_f64());
        self.done.push(Done { name, count, time });
    }

    /// The summary. Whether everything passed.
    pub(super) fn finish(self) -> bool {
        println!("\n── summary ──");
        for Done { name, count, time } in &self.done {
            let verdict = if count.failed == 0 { "ok" } else { "FAILED" };
            println!("{name:<10} {verdict:<8} {:>7.1} s", time.as_secs_f64());
        }
        let total: Count = self.done.iter().map(|done| done.count).sum();
        println!("{} passed, {} failed", total.passed, total.failed);
        total.failed == 0
    }
}

/// Shows a line.
pub(super) fn say(line: &str) {
    println!("{line}");
}

/// Runs cargo, the one that runs us where there is one.
pub(super) fn cargo(root: &Path, arguments: &[&str]) -> io::Result<Count> {
    run(cargo_command(root).args(arguments))
}

/// Cargo in the tree.
pub(super) fn cargo_command(root: &Path) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root);
    command
}

/// Runs a command, shows what it says, and counts the tests in it. A command without tests counts
/// as one; one that failed without saying how many has one failure.
pub(super) fn run(command: &mut Command) -> io::Result<Count> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().expect("it is piped");
    let mut counts = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line?;
        println!("{line}");
        counts.push(Count::of_line(&line));
    }
    let succeeded = child.wait()?.success();
    let count: Count = counts.into_iter().sum();
    Ok(match (succeeded, count) {
        (true, Count { passed: 0, failed: 0 }) => Count::PASSED,
        (false, Count { failed: 0, passed }) => Count { passed, failed: 1 },
        (_, count) => count,
    })
}

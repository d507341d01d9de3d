//! `cargo sim`: plays seeds, counts them and what was wrong, and prints one command that repeats the
//! first wrong one. Ends with a failure if anything was wrong; with `--mutation`, if nothing was.
#![allow(clippy::print_stdout, reason = "a tool that speaks to a terminal")]

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use nilas_engine::mutation::Mutation;
use nilas_sim::season::{Season, Tally, one, play};

/// Plays whole nodes from seeds.
#[derive(Parser)]
struct Arguments {
    /// How many seeds.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first one.
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Goes on after the last seed until so many seconds have passed.
    #[arg(long, default_value_t = 0)]
    seconds: u64,
    /// Threads, each with seeds of its own; all cores by default.
    #[arg(long)]
    threads: Option<usize>,
    /// Prints what happens in the first seed, step by step, and plays no other.
    #[arg(long)]
    journal: bool,
    /// Plants this mistake; the run succeeds if it is found.
    #[arg(long)]
    mutation: Option<String>,
}

fn main() -> ExitCode {
    // The alias takes arguments with and without a leading `--`.
    let arguments = Arguments::parse_from(std::env::args().filter(|argument| argument != "--"));
    let mutation = match arguments.mutation.as_deref().map(|name| (name, Mutation::named(name))) {
        None => None,
        Some((_, Some(mutation))) => Some(mutation),
        Some((name, None)) => {
            let known: Vec<&str> = Mutation::ALL.iter().map(|known| known.name()).collect();
            println!("no mutation is called {name}; there are {}", known.join(", "));
            return ExitCode::FAILURE;
        }
    };
    if arguments.journal {
        let outcome = one(arguments.first_seed, mutation, true);
        outcome.journal.iter().chain(&outcome.violations).for_each(|line| println!("{line}"));
        return ExitCode::SUCCESS;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let tally = play(&Season {
        first_seed: arguments.first_seed,
        seeds: arguments.seeds,
        time: Duration::from_secs(arguments.seconds),
        threads: arguments.threads.unwrap_or(cores).max(1),
        mutation,
    });
    report(&tally, mutation)
}

fn report(tally: &Tally, mutation: Option<Mutation>) -> ExitCode {
    if let Some(first) = &tally.first_wrong {
        for violation in &first.violations {
            println!("seed {}: {violation}", first.seed);
        }
        let planted = mutation.map_or(String::new(), |it| format!(" --mutation {}", it.name()));
        println!("repeat: cargo sim -- --seeds 1 --first-seed {}{planted}", first.seed);
    }
    let Tally { seeds, answers, wrong_seeds, seconds, .. } = tally;
    println!("{seeds} seeds, {answers} answers, {wrong_seeds} violations, {seconds:.1} s");
    if (*wrong_seeds > 0) == mutation.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

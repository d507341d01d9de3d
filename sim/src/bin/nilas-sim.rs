//! `cargo sim`: plays seeds, counts them and what was wrong, and prints one command that repeats the
//! first wrong one. Ends with a failure if anything was wrong; with `--mutation`, if nothing was.
#![allow(clippy::print_stdout, reason = "a tool that speaks to a terminal")]

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use nilas_sim::device::DeviceCounts;
use nilas_sim::mistake::Mistake;
use nilas_sim::season::{Season, Tally, one, play};
use nilas_sim::weather::DeviceShare;

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
    /// Which seeds have a cache device.
    #[arg(long, value_enum, default_value_t = Devices::Half)]
    devices: Devices,
    /// Plants this mistake; the run succeeds if it is found.
    #[arg(long)]
    mutation: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Devices {
    /// None.
    None,
    /// Every second one, drawn.
    Half,
    /// All.
    All,
}

impl Devices {
    fn share(self) -> DeviceShare {
        match self {
            Devices::None => DeviceShare::None,
            Devices::Half => DeviceShare::Half,
            Devices::All => DeviceShare::All,
        }
    }
}

fn main() -> ExitCode {
    // The alias takes arguments with and without a leading `--`.
    let arguments = Arguments::parse_from(std::env::args().filter(|argument| argument != "--"));
    let mistake = match arguments.mutation.as_deref().map(|name| (name, Mistake::named(name))) {
        None => None,
        Some((_, Some(mistake))) => Some(mistake),
        Some((name, None)) => {
            let known: Vec<&str> = Mistake::all().iter().map(|known| known.name()).collect();
            println!("no mutation is called {name}; there are {}", known.join(", "));
            return ExitCode::FAILURE;
        }
    };
    let devices = arguments.devices.share();
    if arguments.journal {
        let outcome = one(arguments.first_seed, devices, mistake, true);
        outcome.journal.iter().chain(&outcome.violations).for_each(|line| println!("{line}"));
        return ExitCode::SUCCESS;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let tally = play(&Season {
        first_seed: arguments.first_seed,
        seeds: arguments.seeds,
        time: Duration::from_secs(arguments.seconds),
        threads: arguments.threads.unwrap_or(cores).max(1),
        devices,
        mistake,
    });
    report(&tally, arguments.devices, mistake)
}

fn report(tally: &Tally, devices: Devices, mistake: Option<Mistake>) -> ExitCode {
    if let Some(first) = &tally.first_wrong {
        for violation in &first.violations {
            println!("seed {}: {violation}", first.seed);
        }
        let planted = mistake.map_or(String::new(), |it| format!(" --mutation {}", it.name()));
        let devices = match devices {
            Devices::None => " --devices none",
            Devices::Half => "",
            Devices::All => " --devices all",
        };
        println!("repeat: cargo sim -- --seeds 1 --first-seed {}{devices}{planted}", first.seed);
    }
    let Tally { seeds, answers, wrong_seeds, seconds, .. } = tally;
    let wrong = wrong_seeds.len();
    println!("{seeds} seeds, {answers} answers, {wrong} violations, {seconds:.1} s");
    if wrong > 1 {
        println!("wrong in seeds {wrong_seeds:?}");
    }
    tell(&tally.device);
    if (wrong > 0) == mistake.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tell(device: &DeviceCounts) {
    let DeviceCounts { devices, restarts, power_cuts, hits, .. } = device;
    let DeviceCounts { hits_after_restart, damaged, failures, reclaimed, .. } = device;
    println!(
        "{devices} with a cache device: {hits} hits ({hits_after_restart} after a restart), \
         {damaged} damaged records, {failures} failures, {reclaimed} segments reclaimed, \
         {restarts} restarts ({power_cuts} with a power cut)"
    );
}

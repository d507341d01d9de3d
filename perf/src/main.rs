//! The command line of the performance yard. Measures on this machine, prints a table, keeps a
//! record; what is measured and how is in the library.

use std::io::{Write, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use nilas_base::Clock;
use nilas_perf::bake_off::{self, serve_runtime};
use nilas_perf::cold_read::{self, ColdReadOptions, serve_origin};
use nilas_perf::disk_read::{self, DiskReadOptions, DiskReadOutcome, disk_read_table};
use nilas_perf::error::{Error, Result};
use nilas_perf::link::Link;
use nilas_perf::machine::{machine_facts, utc_text};
use nilas_perf::mapper::{self, MapperOptions, mapper_table};
use nilas_perf::record::{Record, RecordRow};
use nilas_perf::recovery::{self, RecoveryOptions, RecoveryOutcome, recovery_table};
use nilas_perf::regression::{check_comparisons, compare_texts};
use nilas_perf::replay::{self, ReplayOptions, device_table, replay_table};
use nilas_perf::server::Runtime;
use nilas_perf::suite::{Outcome, RunOptions};
use nilas_perf::table::{comparisons_table, rows_table, time_rows_table};
use nilas_perf::tables::{self, TablesOptions, TablesOutcome, tables_table};
use nilas_perf::time_row::{TimeOutcome, TimeRow, missed_aims};
use nilas_perf::upload::{self, UploadOptions, serve_uploads};
use nilas_perf::warm_get::{self, WarmGetOptions};

/// Measures Nilas beside others in the same run.
#[derive(Debug, Parser)]
#[command(name = "nilas-perf", version)]
struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Signed warm GETs through nilas-server beside nginx serving the same files unsigned.
    ServeMatrix {
        #[command(flatten)]
        options: WarmGetOptions,
        #[command(flatten)]
        run: RunOptions,
        #[command(flatten)]
        keep: Keep,
        /// Fail when an aim is missed.
        #[arg(long)]
        gate: bool,
    },
    /// Cold reads through nilas-server, beside reading directly and nginx's slice cache.
    ColdRead {
        #[command(flatten)]
        options: ColdReadOptions,
        #[command(flatten)]
        keep: Keep,
        /// Fail when an aim is missed.
        #[arg(long)]
        gate: bool,
    },
    /// Uploads through nilas-server, beside writing directly.
    Upload {
        #[command(flatten)]
        options: UploadOptions,
        #[command(flatten)]
        keep: Keep,
        /// Fail when an aim is missed.
        #[arg(long)]
        gate: bool,
    },
    /// How long a node takes to find what its cache device held, beside plain reads of it.
    Recovery {
        #[command(flatten)]
        options: RecoveryOptions,
        #[command(flatten)]
        keep: Keep,
        /// Fail when an aim is missed.
        #[arg(long)]
        gate: bool,
    },
    /// Hits of the cache device and what is written to it, beside fio on the same disk.
    DiskRead {
        #[command(flatten)]
        options: DiskReadOptions,
        #[command(flatten)]
        keep: Keep,
        /// Fail when an aim is missed.
        #[arg(long)]
        gate: bool,
    },
    /// Lookups in the index of a lakehouse's files, its memory and its builds, beside a map of paths.
    Mapper {
        #[command(flatten)]
        options: MapperOptions,
        #[command(flatten)]
        keep: Keep,
        /// Fail when an aim is missed.
        #[arg(long)]
        gate: bool,
    },
    /// What watched catalogs cost warm GETs: unchanged, down, slow, wrong, flooding, and one with a large table.
    Tables {
        #[command(flatten)]
        options: TablesOptions,
        #[command(flatten)]
        keep: Keep,
        /// Fail when an aim is missed.
        #[arg(long)]
        gate: bool,
    },
    /// What each eviction policy misses of the same reads, beside the least that any could.
    Replay {
        #[command(flatten)]
        options: ReplayOptions,
        #[command(flatten)]
        keep: Keep,
    },
    /// The same minimal GET server on each runtime that is built in, beside nginx.
    BakeOff {
        /// Runtimes to measure; all that are built in by default.
        #[arg(long, value_delimiter = ',')]
        runtimes: Vec<Runtime>,
        #[command(flatten)]
        run: RunOptions,
        #[command(flatten)]
        keep: Keep,
    },
    /// Compares two records by their ratios; fails when one grew by more than the tolerance.
    Regression {
        /// The older record.
        before: PathBuf,
        /// The newer record.
        after: PathBuf,
        /// Growth allowed: 0.1 is a tenth.
        #[arg(long, default_value_t = 0.1)]
        tolerance: f64,
    },
    /// Serves a folder's files behind a link, for `cold-read`.
    #[command(hide = true)]
    ColdOrigin {
        #[arg(long)]
        address: std::net::SocketAddr,
        #[arg(long)]
        root: PathBuf,
        #[command(flatten)]
        link: Link,
    },
    /// Takes what is written behind a link, for `upload`.
    #[command(hide = true)]
    UploadOrigin {
        #[arg(long)]
        address: std::net::SocketAddr,
        #[arg(long)]
        discard: bool,
        #[command(flatten)]
        link: Link,
    },
    /// Serves a folder's objects from memory on one runtime, for `bake-off`.
    #[command(hide = true)]
    BakeOffServer {
        #[arg(long)]
        runtime: Runtime,
        #[arg(long)]
        address: std::net::SocketAddr,
        #[arg(long)]
        root: PathBuf,
    },
}

#[derive(Debug, Args)]
struct Keep {
    /// The folder for the record.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/record"), hide_default_value = true)]
    record: PathBuf,
    /// Keep no record of this run.
    #[arg(long)]
    no_record: bool,
}

fn main() -> ExitCode {
    // Aliases may or may not put a `--` before the arguments; it means nothing here.
    let mut arguments: Vec<_> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|argument| argument == "--") {
        arguments.remove(1);
    }
    match run(Command::parse_from(arguments).action) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(stderr(), "nilas-perf: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(action: Action) -> Result<()> {
    match action {
        Action::ServeMatrix { options, run, keep, gate } => {
            let facts = machine_facts(&Clock::system());
            let outcome = warm_get::measure(&options, &run, &mut stderr())?;
            let missed = warm_get::missed_aims(&outcome.rows);
            finish(outcome, facts, &keep)?;
            judge(missed, gate)
        }
        Action::ColdRead { options, keep, gate } => {
            let facts = machine_facts(&Clock::system());
            let outcome = cold_read::measure(&options, &mut stderr())?;
            finish_workloads(outcome, facts, (&keep, gate), cold_read::aim)
        }
        Action::Upload { options, keep, gate } => {
            let facts = machine_facts(&Clock::system());
            let outcome = upload::measure(&options, &mut stderr())?;
            finish_workloads(outcome, facts, (&keep, gate), upload::aim)
        }
        Action::Recovery { options, keep, gate } => {
            let machine = machine_facts(&Clock::system());
            let RecoveryOutcome { facts, rows } = recovery::measure(&options, &mut stderr())?;
            let words = (recovery_table(&rows), recovery::missed_aims(&rows));
            finish_suite(recovery::SUITE, (machine, facts, rows), words, (&keep, gate))
        }
        Action::DiskRead { options, keep, gate } => {
            let machine = machine_facts(&Clock::system());
            let DiskReadOutcome { facts, rows } = disk_read::measure(&options, &mut stderr())?;
            let words = (disk_read_table(&rows), disk_read::missed_aims(&rows));
            finish_suite(disk_read::SUITE, (machine, facts, rows), words, (&keep, gate))
        }
        Action::Mapper { options, keep, gate } => {
            let machine = machine_facts(&Clock::system());
            let rows = mapper::measure(&options, &mut stderr());
            let words = (mapper_table(&rows), mapper::missed_aims(&rows));
            finish_suite(mapper::SUITE, (machine, Vec::new(), rows), words, (&keep, gate))
        }
        Action::Tables { options, keep, gate } => {
            let machine = machine_facts(&Clock::system());
            let TablesOutcome { facts, rows } = tables::measure(&options, &mut stderr())?;
            let words = (tables_table(&rows), tables::missed_aims(&rows));
            finish_suite(tables::SUITE, (machine, facts, rows), words, (&keep, gate))
        }
        Action::Replay { options, keep } => {
            if !options.device_shares.is_empty() {
                let facts = machine_facts(&Clock::system());
                let rows = replay::measure_device(&options, &mut stderr())?;
                say(&device_table(&rows));
                return keep_record(replay::DEVICE_SUITE, &Record { facts, rows }, &keep);
            }
            let facts = machine_facts(&Clock::system());
            let rows = replay::measure(&options, &mut stderr())?;
            say(&replay_table(&rows));
            keep_record(replay::SUITE, &Record { facts, rows }, &keep)
        }
        Action::BakeOff { runtimes, run, keep } => {
            let facts = machine_facts(&Clock::system());
            let outcome = bake_off::measure(&runtimes, &run, &mut stderr())?;
            finish(outcome, facts, &keep)
        }
        Action::Regression { before, after, tolerance } => {
            let comparisons = compare_texts(&read_record(&before)?, &read_record(&after)?)?;
            say(&comparisons_table(&comparisons, tolerance));
            check_comparisons(&comparisons, tolerance)
        }
        Action::UploadOrigin { address, discard, link } => serve_uploads(address, link, discard),
        Action::ColdOrigin { address, root, link } => serve_origin(address, &root, link),
        Action::BakeOffServer { runtime, address, root } => serve_runtime(runtime, address, &root),
    }
}

/// Names and values.
type Facts = Vec<(String, String)>;

/// Prints a suite's table, keeps its record of the machine's facts, the run's and the rows, and says what its aims make
/// of it.
fn finish_suite<Row: RecordRow>(
    suite: &str,
    (machine, of_run, rows): (Facts, Facts, Vec<Row>),
    (table, missed): (String, Option<String>),
    (keep, gate): (&Keep, bool),
) -> Result<()> {
    say(&table);
    let facts = machine.into_iter().chain(of_run).collect();
    keep_record(suite, &Record { facts, rows }, keep)?;
    judge(missed, gate)
}

/// What a missed aim means.
fn judge(missed: Option<String>, gate: bool) -> Result<()> {
    match missed {
        Some(missed) if gate => Err(Error::Failed(missed)),
        _ => Ok(()),
    }
}

/// Prints the table and keeps the record.
fn finish(outcome: Outcome, machine: Vec<(String, String)>, keep: &Keep) -> Result<()> {
    say(&rows_table(&outcome.rows, outcome.reference, warm_get::aim));
    let facts = machine.into_iter().chain(outcome.facts).collect();
    keep_record(outcome.suite, &Record { facts, rows: outcome.rows }, keep)
}

/// The same for a suite of whole workloads, and what its missed aims mean.
fn finish_workloads(
    outcome: TimeOutcome,
    machine: Vec<(String, String)>,
    (keep, gate): (&Keep, bool),
    aim: fn(&TimeRow) -> Option<f64>,
) -> Result<()> {
    let TimeOutcome { suite, facts, rows } = outcome;
    say(&time_rows_table(&rows, aim));
    let missed = missed_aims(&rows, aim);
    let facts = machine.into_iter().chain(facts).collect();
    keep_record(suite, &Record { facts, rows }, keep)?;
    judge(missed, gate)
}

fn keep_record<R: RecordRow>(suite: &str, record: &Record<R>, keep: &Keep) -> Result<()> {
    if keep.no_record {
        return Ok(());
    }
    let date = utc_text(Clock::system().wall());
    let path = free_path(&keep.record, &format!("{date}-{suite}"));
    std::fs::create_dir_all(&keep.record)
        .and_then(|()| std::fs::write(&path, record.to_csv()))
        .map_err(|source| Error::System { doing: "keeping the record".to_owned(), source })?;
    say(&format!("\nrecord: {}\n", path.display()));
    Ok(())
}

/// A file that is not there yet: two runs may end within the same second.
fn free_path(folder: &Path, name: &str) -> PathBuf {
    let mut path = folder.join(format!("{name}.csv"));
    for number in 2.. {
        if !path.exists() {
            break;
        }
        path = folder.join(format!("{name}-{number}.csv"));
    }
    path
}

fn read_record(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|source| Error::System {
        doing: format!("reading record {}", path.display()),
        source,
    })
}

fn say(text: &str) {
    // A closed pipe at the end of a run is the reader's choice.
    let _ = stdout().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::free_path;

    #[test]
    fn a_record_takes_no_other_ones_place() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let first = free_path(folder.path(), "now-replay");
        assert_eq!(first, folder.path().join("now-replay.csv"));
        std::fs::write(&first, "kept").expect("a writable folder");
        assert_eq!(free_path(folder.path(), "now-replay"), folder.path().join("now-replay-2.csv"));
    }
}

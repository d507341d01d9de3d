//! `cargo demo`: a node before a local directory that is made to answer like a distant object
//! store, a sample Iceberg table of TPC-H rows, and one question asked of it twice. The second time
//! nothing is fetched. Then the node stays up, for other engines to be tried.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that speaks to a terminal"
)]

mod house;
mod http;
mod reading;
mod report;
mod sample;
mod storage;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use iceberg::Catalog;
use indicatif::{ProgressBar, ProgressStyle};
use nilas_base::Clock;

use house::House;
use reading::Answer;
use report::{Measured, Report, grouped};

/// A sample lakehouse read through the node, cold and warm.
#[derive(Parser)]
struct Arguments {
    /// End after the two readings.
    #[arg(long)]
    once: bool,
    /// Print the measurements as one line of JSON at the end.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    // The alias takes arguments with and without a leading `--`.
    let arguments = Arguments::parse_from(std::env::args().filter(|argument| argument != "--"));
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the demo failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let house = House::open()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (report, metadata_location) = runtime.block_on(show(&house))?;
    print!("\n{}", report.table());
    if !arguments.once {
        println!("\nThe node stays up. The table: {metadata_location}");
        println!("{}\nCtrl-C ends it.", house.connect_text());
    }
    if arguments.json {
        println!("{}", serde_json::to_string(&report)?);
    }
    if !arguments.once {
        runtime.block_on(tokio::signal::ctrl_c())?;
    }
    house.close();
    Ok(())
}

/// Writes the table, reads it twice, and measures. The text is where the table's metadata is.
async fn show(house: &House) -> Result<(Report, String), Box<dyn Error>> {
    println!(
        "A node on {}, before a local directory that waits {} ms before each first byte.",
        house.endpoint_url(),
        house::FIRST_BYTE_LATENCY_MS
    );
    let catalog = house.catalog().await?;
    let progress = bar("writing", sample::FILES as u64, "data files");
    let expected = sample::write(&catalog, &progress).await?;
    progress.finish();
    println!(
        "An Iceberg table of TPC-H's lineitem, {} data files. The question is TPC-H's sixth:",
        sample::FILES
    );
    println!("what was earned in 1994 on small orders with a small discount?");
    let cold = measure(house, &catalog, "cold", expected).await?;
    let warm = measure(house, &catalog, "warm", expected).await?;
    println!(
        "Both readings found {} rows and earned {}.",
        grouped(expected.rows),
        expected.revenue / 10_000
    );
    let table = catalog.load_table(&sample::table_name()).await?;
    let metadata_location = table.metadata_location_result()?.to_owned();
    Ok((Report { cold, warm }, metadata_location))
}

/// One reading, timed, with what the node asked of its origin meanwhile.
async fn measure(
    house: &House,
    catalog: &dyn Catalog,
    name: &'static str,
    expected: Answer,
) -> Result<Measured, Box<dyn Error>> {
    let progress = bar(name, expected.rows, "rows");
    let clock = Clock::system();
    let before = house.origin_counts();
    let start = clock.now();
    let answer = reading::read(catalog, &progress).await?;
    let seconds = clock.now().since(start).as_secs_f64();
    let after = house.origin_counts();
    progress.finish();
    if answer != expected {
        return Err(format!(
            "the {name} reading found {answer:?}, and the rows themselves say {expected:?}"
        )
        .into());
    }
    Ok(Measured {
        seconds,
        rows: answer.rows,
        origin_requests: after.requests - before.requests,
        origin_bytes: after.bytes - before.bytes,
    })
}

/// A progress bar; it is not drawn where there is no terminal.
fn bar(name: &'static str, length: u64, unit: &'static str) -> ProgressBar {
    let style = format!("{{prefix:>8}} {{bar:40}} {{pos}} of {{len}} {unit}");
    let bar = ProgressBar::new(length).with_prefix(name);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar.with_style(ProgressStyle::with_template(&style).expect("the template is plain"))
}

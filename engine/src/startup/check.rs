//! `--check`: what a start would find, without serving. It prints the effective configuration,
//! the findings of the probes, and what the origin answers.

use std::io::{self, Write};
use std::time::Duration;

use nilas_shards::{Finding, Severity};

use crate::config::{Config, Glob};
use crate::origin;

/// How long the origin may take to answer.
const ORIGIN_TIME_MAX: Duration = Duration::from_secs(15);

/// Checks everything and prints it to `page`; true where the node would start and its origin
/// answers.
pub fn check<W: Write>(config: &Config, page: &mut W) -> io::Result<bool> {
    writeln!(page, "# Configuration, each value with its source\n\n{}", config.effective_text())?;
    writeln!(page, "# Machine\n")?;
    let would_start = match super::probe(config) {
        Ok(report) => {
            write_findings(page, &report.findings)?;
            writeln!(page, "ok: it would run {} shards", config.server.shard_count)?;
            writeln!(page, "ok: the ring would be {}", report.ring.name())?;
            if let Some(prospect) = super::device::prospect(config) {
                writeln!(page, "ok: it would {prospect}")?;
            }
            true
        }
        Err(refusal) => {
            write_findings(page, &refusal.findings)?;
            false
        }
    };
    writeln!(page, "\n# Origin\n")?;
    let origin_answers = match probe_origin(config) {
        Ok(found) => writeln!(page, "ok: {found}").map(|()| true)?,
        Err(problem) => writeln!(page, "error: {problem}").map(|()| false)?,
    };
    Ok(would_start && origin_answers)
}

fn write_findings<W: Write>(page: &mut W, findings: &[Finding]) -> io::Result<()> {
    for finding in findings {
        let severity = match finding.severity {
            Severity::Fatal => "error",
            Severity::Warning => "warning",
        };
        writeln!(page, "{severity}: {finding}")?;
    }
    Ok(())
}

fn probe_origin(config: &Config) -> Result<String, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime to ask it with: {error}"))?;
    let bucket = config.buckets_allow.iter().find_map(Glob::literal);
    let answer = runtime.block_on(async {
        let origin = origin::build(
            &config.origin.settings,
            &nilas_base::Clock::system(),
            &origin::LentKeys::default(),
        )
        .map_err(|error| error.to_string())?;
        let name = origin.describe();
        let told =
            |text: String| if text.contains(&name) { text } else { format!("{name}: {text}") };
        match tokio::time::timeout(ORIGIN_TIME_MAX, origin.probe(bucket)).await {
            Ok(answer) => answer.map(told).map_err(told),
            Err(_) => Err(told(format!("no answer within {} s", ORIGIN_TIME_MAX.as_secs()))),
        }
    });
    // What is still open at the origin is not waited for.
    runtime.shutdown_background();
    answer
}

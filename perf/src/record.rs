//! A record: one dated run as CSV, facts of the machine and of the run as `# name: value` lines
//! before it. Records are kept under `perf/record/` and compared by ratio, never by absolutes.
//!
//! A suite's rows name their columns; a figure has three decimals; the reference's own ratio is 1.

use std::fmt::Write;
use std::str::FromStr;

use crate::error::{Error, Result};

/// A row of a record: what one server did in one cell.
pub trait RecordRow: Sized {
    /// Its columns, separated by commas.
    const COLUMNS: &'static str;

    /// Writes its line.
    fn write_to(&self, text: &mut String);

    /// Reads it back from the fields of a line, as many as there are columns.
    fn from_fields(fields: &[&str]) -> std::result::Result<Self, String>;

    /// What it is a row of, for people; no other row of the record has this name.
    fn name(&self) -> String;

    /// Its ratio to the reference.
    fn ratio(&self) -> f64;
}

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct Record<R = Row> {
    /// Facts of the machine and the run, in order.
    pub facts: Vec<(String, String)>,
    /// One row a server and cell.
    pub rows: Vec<R>,
}

/// What one server did in one cell of a matrix of short bursts.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What was measured: `warm-get` or `bake-off`.
    pub suite: String,
    /// The server's name.
    pub server: String,
    /// Its version.
    pub version: String,
    /// Bytes of each object.
    pub size_bytes: usize,
    /// Connections, one request in flight on each.
    pub connections: usize,
    /// Bursts.
    pub rounds: usize,
    /// Answers of all bursts.
    pub requests: u64,
    /// Median over the bursts.
    pub requests_per_second: f64,
    /// Median latency of all answers, µs.
    pub p50_us: f64,
    /// 99th percentile of all answers, µs.
    pub p99_us: f64,
    /// Server's processor time a request, the best burst, µs.
    pub cpu_us_min: f64,
    /// Server's processor time a request, the median burst, µs.
    pub cpu_us_median: f64,
    /// Median over the rounds of this server's processor time by the reference's.
    pub cpu_ratio: f64,
    /// Median share of the time in which the load's thread ran.
    pub client_busy: f64,
}

impl<R: RecordRow> Record<R> {
    /// Whether `text` is a record of such rows.
    pub fn is_told_by(text: &str) -> bool {
        text.lines().find(|line| !line.starts_with("# ")) == Some(R::COLUMNS)
    }

    /// The record as text.
    pub fn to_csv(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.facts {
            let _ = writeln!(text, "# {name}: {}", value.replace('\n', " "));
        }
        let _ = writeln!(text, "{}", R::COLUMNS);
        for row in &self.rows {
            row.write_to(&mut text);
        }
        text
    }

    /// Reads back what [`Record::to_csv`] wrote.
    pub fn from_csv(text: &str) -> Result<Record<R>> {
        let mut record = Record { facts: Vec::new(), rows: Vec::new() };
        let mut columns_seen = false;
        for (index, line) in text.lines().enumerate() {
            let failed = |cause: String| Error::Record { line: index + 1, cause };
            if let Some(fact) = line.strip_prefix("# ") {
                let (name, value) =
                    fact.split_once(": ").ok_or_else(|| failed("a fact without value".into()))?;
                record.facts.push((name.to_owned(), value.to_owned()));
            } else if columns_seen {
                record.rows.push(row_of::<R>(line).map_err(failed)?);
            } else if line == R::COLUMNS {
                columns_seen = true;
            } else {
                return Err(failed(format!("the columns must be: {}", R::COLUMNS)));
            }
        }
        Ok(record)
    }
}

fn row_of<R: RecordRow>(line: &str) -> std::result::Result<R, String> {
    let fields: Vec<&str> = line.split(',').collect();
    let count = R::COLUMNS.split(',').count();
    if fields.len() != count {
        return Err(format!("{} fields in place of {count}", fields.len()));
    }
    R::from_fields(&fields)
}

impl RecordRow for Row {
    const COLUMNS: &'static str = "suite,server,version,size_bytes,connections,rounds,requests,\
requests_per_second,p50_us,p99_us,cpu_us_min,cpu_us_median,cpu_ratio,client_busy";

    fn write_to(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{},{:.3},{:.3},{:.3},{:.3},{:.3},{:.3},{:.3}",
            plain(&self.suite),
            plain(&self.server),
            plain(&self.version),
            self.size_bytes,
            self.connections,
            self.rounds,
            self.requests,
            self.requests_per_second,
            self.p50_us,
            self.p99_us,
            self.cpu_us_min,
            self.cpu_us_median,
            self.cpu_ratio,
            self.client_busy
        );
    }

    fn from_fields(fields: &[&str]) -> std::result::Result<Row, String> {
        Ok(Row {
            suite: fields[0].to_owned(),
            server: fields[1].to_owned(),
            version: fields[2].to_owned(),
            size_bytes: number(fields[3])?,
            connections: number(fields[4])?,
            rounds: number(fields[5])?,
            requests: number(fields[6])?,
            requests_per_second: number(fields[7])?,
            p50_us: number(fields[8])?,
            p99_us: number(fields[9])?,
            cpu_us_min: number(fields[10])?,
            cpu_us_median: number(fields[11])?,
            cpu_ratio: number(fields[12])?,
            client_busy: number(fields[13])?,
        })
    }

    fn name(&self) -> String {
        let Row { suite, server, size_bytes, connections, .. } = self;
        format!("{suite} {server}, {size_bytes} bytes, {connections} connections")
    }

    fn ratio(&self) -> f64 {
        self.cpu_ratio
    }
}

/// A field without what would end it.
pub(crate) fn plain(field: &str) -> String {
    field.replace([',', '\n'], " ")
}

/// A field's number.
pub(crate) fn number<T: FromStr>(field: &str) -> std::result::Result<T, String> {
    field.parse().map_err(|_| format!("`{field}` is no number"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn row(server: &str, size_bytes: usize, cpu_ratio: f64) -> Row {
        Row {
            suite: "warm-get".to_owned(),
            server: server.to_owned(),
            version: "1.2.3".to_owned(),
            size_bytes,
            connections: 16,
            rounds: 7,
            requests: 12_345,
            requests_per_second: 1763.25,
            p50_us: 101.5,
            p99_us: 900.125,
            cpu_us_min: 8.5,
            cpu_us_median: 9.75,
            cpu_ratio,
            client_busy: 0.5,
        }
    }

    #[test]
    fn a_damaged_record_names_the_line() {
        let record =
            Record { facts: vec![("cores".into(), "2".into())], rows: vec![row("a", 1, 1.0)] };
        let text = record.to_csv();
        let damaged = text.replace("12345", "many");
        assert!(matches!(Record::<Row>::from_csv(&damaged), Err(Error::Record { line: 3, .. })));
        let short = text.replace(",0.500", "");
        assert!(matches!(Record::<Row>::from_csv(&short), Err(Error::Record { line: 3, .. })));
        let other = text.replace("suite,", "suit,");
        assert!(matches!(Record::<Row>::from_csv(&other), Err(Error::Record { line: 2, .. })));
    }

    proptest! {
        #[test]
        fn a_record_is_read_back_as_written(
            value in "[ -~]{1,40}",
            ratio_thousandths in 1_u32..100_000,
            size_bytes in 1_usize..10_000_000,
        ) {
            let record = Record {
                facts: vec![("cpu_model".into(), value.clone()), ("cores".into(), "2".into())],
                rows: vec![
                    row("nilas", size_bytes, f64::from(ratio_thousandths) / 1000.0),
                    row("nginx", size_bytes, 1.0),
                ],
            };
            prop_assert_eq!(Record::<Row>::from_csv(&record.to_csv()).expect("own text"), record);
        }
    }
}

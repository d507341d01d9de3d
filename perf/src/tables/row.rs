//! One line of the record of the tables suite, its table and its aims. Later records are compared by the p99 beside
//! each catalog, by that of a node which watches none in the same rounds.

use std::fmt::Write;

use crate::record::{RecordRow, number, plain};

/// What a catalog may add to the p99 of warm GETs.
const P99_RATIO_AIM: f64 = 1.05;
/// Requests for one poll of one unchanged table.
const REQUESTS_A_POLL_AIM: f64 = 1.0;

/// What warm GETs were beside one kind of catalog.
#[derive(Clone, Debug, PartialEq)]
pub struct TablesRow {
    /// `tables`.
    pub suite: String,
    /// nilas-server's version.
    pub version: String,
    /// What the catalog did.
    pub condition: String,
    /// Bursts.
    pub rounds: usize,
    /// Answers of all bursts.
    pub requests: u64,
    /// Median over the bursts of the median latency, µs.
    pub p50_us: f64,
    /// Median over the bursts of the 99th percentile, µs.
    pub p99_us: f64,
    /// Median over the rounds of the 99th percentile by that without a catalog.
    pub p99_ratio: f64,
    /// The least and the most of those ratios.
    pub p99_ratio_min: f64,
    /// See there.
    pub p99_ratio_max: f64,
    /// Server's processor time a GET, all of its threads, the median burst, µs.
    pub server_us: f64,
    /// Requests to the catalog a second.
    pub catalog_requests_per_second: f64,
    /// Requests for a table by polls of one; 0 where there were none.
    pub requests_a_poll: f64,
    /// Commits that became known to the shards in all bursts.
    pub commits: u64,
    /// Median of the time from a commit to that, ms; 0 without any.
    pub known_after_ms: f64,
}

impl RecordRow for TablesRow {
    const COLUMNS: &'static str = "suite,version,condition,rounds,requests,p50_us,p99_us,p99_ratio,\
p99_ratio_min,p99_ratio_max,server_us,catalog_requests_per_second,requests_a_poll,commits,known_after_ms";

    fn write_to(&self, text: &mut String) {
        let names = [&self.suite, &self.version, &self.condition];
        names.iter().for_each(|name| text.push_str(&(plain(name) + ",")));
        let _ = write!(text, "{},{}", self.rounds, self.requests);
        for figure in [
            self.p50_us,
            self.p99_us,
            self.p99_ratio,
            self.p99_ratio_min,
            self.p99_ratio_max,
            self.server_us,
            self.catalog_requests_per_second,
            self.requests_a_poll,
        ] {
            let _ = write!(text, ",{figure:.3}");
        }
        let _ = writeln!(text, ",{},{:.1}", self.commits, self.known_after_ms);
    }

    fn from_fields(fields: &[&str]) -> Result<TablesRow, String> {
        Ok(TablesRow {
            suite: fields[0].to_owned(),
            version: fields[1].to_owned(),
            condition: fields[2].to_owned(),
            rounds: number(fields[3])?,
            requests: number(fields[4])?,
            p50_us: number(fields[5])?,
            p99_us: number(fields[6])?,
            p99_ratio: number(fields[7])?,
            p99_ratio_min: number(fields[8])?,
            p99_ratio_max: number(fields[9])?,
            server_us: number(fields[10])?,
            catalog_requests_per_second: number(fields[11])?,
            requests_a_poll: number(fields[12])?,
            commits: number(fields[13])?,
            known_after_ms: number(fields[14])?,
        })
    }

    fn name(&self) -> String {
        format!("{} {}", self.suite, self.condition)
    }

    fn ratio(&self) -> f64 {
        self.p99_ratio
    }
}

/// The rows as a Markdown table.
pub fn tables_table(rows: &[TablesRow]) -> String {
    let mut text =
        "| catalog | p50, µs | p99, µs | ratio | least | most | server, µs a GET | asked, /s | \
                    requests a poll | commits | known after, ms |\n\
                    |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
            .to_owned();
    for row in rows {
        let _ = writeln!(
            text,
            "| {} | {:.0} | {:.0} | {:.2} | {:.2} | {:.2} | {:.1} | {:.0} | {:.2} | {} | {:.0} |",
            row.condition,
            row.p50_us,
            row.p99_us,
            row.p99_ratio,
            row.p99_ratio_min,
            row.p99_ratio_max,
            row.server_us,
            row.catalog_requests_per_second,
            row.requests_a_poll,
            row.commits,
            row.known_after_ms,
        );
    }
    text
}

/// The aims that are missed, in words.
pub fn missed_aims(rows: &[TablesRow]) -> Option<String> {
    let mut missed = Vec::new();
    for row in rows {
        let (condition, ratio, polls) = (&row.condition, row.p99_ratio, row.requests_a_poll);
        if ratio > P99_RATIO_AIM {
            missed.push(format!("p99 beside {condition}: {ratio:.2}, aim {P99_RATIO_AIM:.2}"));
        }
        if polls > REQUESTS_A_POLL_AIM {
            missed.push(format!(
                "requests a poll, {condition}: {polls:.2}, aim {REQUESTS_A_POLL_AIM}"
            ));
        }
    }
    (!missed.is_empty()).then(|| format!("aims missed: {}", missed.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use crate::tables::SUITE;

    fn row(condition: &str, p99_ratio: f64, requests_a_poll: f64) -> TablesRow {
        TablesRow {
            suite: SUITE.to_owned(),
            version: "0.1.0".to_owned(),
            condition: condition.to_owned(),
            rounds: 5,
            requests: 100,
            p50_us: 50.5,
            p99_us: 99.25,
            p99_ratio,
            p99_ratio_min: 0.5,
            p99_ratio_max: 1.5,
            server_us: 12.125,
            catalog_requests_per_second: 3.0,
            requests_a_poll,
            commits: 4,
            known_after_ms: 81.5,
        }
    }

    #[test]
    fn a_row_is_read_back_as_it_was_written() {
        let record = Record { facts: Vec::new(), rows: vec![row("down", 1.125, 0.0)] };
        let read = Record::<TablesRow>::from_csv(&record.to_csv()).expect("its own text");
        assert_eq!(read, record);
    }

    #[test]
    fn a_missed_aim_is_named() {
        assert_eq!(missed_aims(&[row("down", 1.05, 1.0)]), None);
        let missed = missed_aims(&[row("slow", 1.06, 1.01)]).expect("two");
        let both =
            "aims missed: p99 beside slow: 1.06, aim 1.05; requests a poll, slow: 1.01, aim 1";
        assert_eq!(missed, both);
    }
}

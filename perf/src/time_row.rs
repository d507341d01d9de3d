//! One line of the record of a suite that takes whole workloads' time: how long one took through one
//! server, and its ratio to the reference's time in the same rounds. See `cold_read` and `upload`.

use std::fmt::Write;

use crate::record::{RecordRow, number, plain};

/// What a suite of whole workloads gives back.
#[derive(Clone, Debug)]
pub struct TimeOutcome {
    /// Its name.
    pub suite: &'static str,
    /// Facts of the run.
    pub facts: Vec<(String, String)>,
    /// The rows, by link, workload, server.
    pub rows: Vec<TimeRow>,
}

/// What one server did with one workload over one link.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeRow {
    /// What was measured: `cold-read` or `upload`.
    pub suite: String,
    /// The server's name; `direct` is the origin itself.
    pub server: String,
    /// Its version.
    pub version: String,
    /// The way to the origin.
    pub link: String,
    /// What was read or written.
    pub workload: String,
    /// Connections of the client.
    pub connections: usize,
    /// Rounds.
    pub rounds: usize,
    /// Bytes that the client read or wrote in a round.
    pub bytes: u64,
    /// Its requests in a round.
    pub requests: usize,
    /// The best round, seconds.
    pub seconds_min: f64,
    /// The median round, seconds.
    pub seconds_median: f64,
    /// Median latency of all answers to their last byte, ms.
    pub p50_ms: f64,
    /// 99th percentile of them, ms.
    pub p99_ms: f64,
    /// The server's processor time in the median round, seconds; zero where it is not known.
    pub cpu_seconds: f64,
    /// What the origin sent by what the client read, or received by what the client wrote, median.
    pub origin_bytes_ratio: f64,
    /// The server whose time is 1.
    pub reference: String,
    /// Median over the rounds of this server's time by the reference's.
    pub time_ratio: f64,
}

impl RecordRow for TimeRow {
    const COLUMNS: &'static str = "suite,server,version,link,workload,connections,rounds,bytes,\
requests,seconds_min,seconds_median,p50_ms,p99_ms,cpu_seconds,origin_bytes_ratio,reference,\
time_ratio";

    fn write_to(&self, text: &mut String) {
        let names = [&self.suite, &self.server, &self.version, &self.link, &self.workload];
        names.iter().for_each(|name| text.push_str(&(plain(name) + ",")));
        let TimeRow { connections, rounds, bytes, requests, .. } = self;
        let _ = write!(text, "{connections},{rounds},{bytes},{requests}");
        let times = [self.seconds_min, self.seconds_median, self.p50_ms, self.p99_ms];
        for figure in times.into_iter().chain([self.cpu_seconds, self.origin_bytes_ratio]) {
            let _ = write!(text, ",{figure:.3}");
        }
        let _ = writeln!(text, ",{},{:.3}", plain(&self.reference), self.time_ratio);
    }

    fn from_fields(fields: &[&str]) -> Result<TimeRow, String> {
        Ok(TimeRow {
            suite: fields[0].to_owned(),
            server: fields[1].to_owned(),
            version: fields[2].to_owned(),
            link: fields[3].to_owned(),
            workload: fields[4].to_owned(),
            connections: number(fields[5])?,
            rounds: number(fields[6])?,
            bytes: number(fields[7])?,
            requests: number(fields[8])?,
            seconds_min: number(fields[9])?,
            seconds_median: number(fields[10])?,
            p50_ms: number(fields[11])?,
            p99_ms: number(fields[12])?,
            cpu_seconds: number(fields[13])?,
            origin_bytes_ratio: number(fields[14])?,
            reference: fields[15].to_owned(),
            time_ratio: number(fields[16])?,
        })
    }

    fn name(&self) -> String {
        let TimeRow { suite, server, link, workload, .. } = self;
        format!("{suite} {server}, {workload} at {link}")
    }

    fn ratio(&self) -> f64 {
        self.time_ratio
    }
}

/// The aims that `rows` miss, in words, where `aim` gives the highest ratio of a row; `None` when every aim is met.
pub fn missed_aims(rows: &[TimeRow], aim: impl Fn(&TimeRow) -> Option<f64>) -> Option<String> {
    let missed: Vec<String> = rows
        .iter()
        .filter_map(|row| {
            let (aim, ratio) = (aim(row)?, row.time_ratio);
            let cell = format!("{} at {}", row.workload, row.link);
            (ratio > aim).then(|| format!("{cell}: {ratio:.2} × {}, aim {aim:.2}", row.reference))
        })
        .collect();
    (!missed.is_empty()).then(|| format!("aims missed: {}", missed.join("; ")))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::{Record, Row};
    use crate::regression::{check_comparisons, compare_texts};

    pub(crate) fn row(server: &str, link: &str, workload: &str, time_ratio: f64) -> TimeRow {
        TimeRow {
            suite: "cold-read".to_owned(),
            server: server.to_owned(),
            version: "1.2.3".to_owned(),
            link: link.to_owned(),
            workload: workload.to_owned(),
            connections: 16,
            rounds: 5,
            bytes: 1 << 30,
            requests: 999,
            seconds_min: 1.25,
            seconds_median: 1.5,
            p50_ms: 31.125,
            p99_ms: 60.5,
            cpu_seconds: 0.75,
            origin_bytes_ratio: 1.031,
            reference: "direct".to_owned(),
            time_ratio,
        }
    }

    fn text(time_ratio: f64) -> String {
        let facts = vec![("cores".to_owned(), "2".to_owned())];
        let rows = vec![row("nilas", "30 ms", "ranges", time_ratio)];
        Record { facts, rows }.to_csv()
    }

    #[test]
    fn a_record_of_cold_reads_is_read_back_as_written() {
        let text = text(0.987);
        assert!(Record::<TimeRow>::is_told_by(&text) && !Record::<Row>::is_told_by(&text));
        let record = Record::<TimeRow>::from_csv(&text).expect("own text");
        assert_eq!(record.to_csv(), text);
        assert_eq!(record.rows, [row("nilas", "30 ms", "ranges", 0.987)]);
    }

    #[test]
    fn cold_reads_are_compared_by_their_times_ratio() {
        let comparisons = compare_texts(&text(0.9), &text(1.05)).expect("two records");
        assert!(check_comparisons(&comparisons, 0.2).is_ok());
        let worse = check_comparisons(&comparisons, 0.1).expect_err("a sixth slower");
        assert!(worse.to_string().contains("nilas, ranges at 30 ms"), "{worse}");
    }

    #[test]
    fn records_of_different_suites_are_not_compared() {
        let other = Record::<Row> { facts: Vec::new(), rows: Vec::new() }.to_csv();
        assert!(compare_texts(&text(0.9), &other).is_err());
    }

    #[test]
    fn a_missed_aim_is_named() {
        let aim = |_: &TimeRow| Some(1.0);
        let rows = [row("nilas", "30 ms", "ranges", 1.25), row("nilas", "0 ms", "ranges", 0.9)];
        let missed = missed_aims(&rows, aim).expect("one is missed");
        assert_eq!(missed, "aims missed: ranges at 30 ms: 1.25 × direct, aim 1.00");
        assert_eq!(missed_aims(&rows[1..], aim), None);
    }
}

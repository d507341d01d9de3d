//! One line of the record of the replay suite, and its table. Its ratio, which later records are compared
//! by, is of missed bytes to those that the best there could be misses.

use std::fmt::Write;

use super::memory::Tally;
use crate::record::{RecordRow, number, plain};

/// What one policy made of one trace in one memory.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayRow {
    /// `replay`.
    pub suite: String,
    /// Nilas's version.
    pub version: String,
    /// The trace's name.
    pub trace: String,
    /// The policy's name.
    pub policy: String,
    /// Memory, in hundredths of the bytes that the trace reads of.
    pub share: u64,
    /// The same, MiB.
    pub budget_mib: u64,
    /// What became of the reads.
    pub tally: Tally,
    /// Missed bytes by those of the bound.
    pub to_bound: f64,
}

impl RecordRow for ReplayRow {
    const COLUMNS: &'static str = "suite,version,trace,policy,share,budget_mib,requests,\
missed_requests,bytes,missed_bytes,origin_requests,origin_bytes,to_bound";

    fn write_to(&self, text: &mut String) {
        let names = [&self.suite, &self.version, &self.trace, &self.policy];
        names.iter().for_each(|name| text.push_str(&(plain(name) + ",")));
        let Tally { requests, missed_requests, bytes, missed_bytes, .. } = self.tally;
        let Tally { origin_requests, origin_bytes, .. } = self.tally;
        let _ = write!(text, "{},{},{requests},{missed_requests}", self.share, self.budget_mib);
        let _ = write!(text, ",{bytes},{missed_bytes},{origin_requests},{origin_bytes}");
        let _ = writeln!(text, ",{:.3}", self.to_bound);
    }

    fn from_fields(fields: &[&str]) -> Result<ReplayRow, String> {
        Ok(ReplayRow {
            suite: fields[0].to_owned(),
            version: fields[1].to_owned(),
            trace: fields[2].to_owned(),
            policy: fields[3].to_owned(),
            share: number(fields[4])?,
            budget_mib: number(fields[5])?,
            tally: Tally {
                requests: number(fields[6])?,
                missed_requests: number(fields[7])?,
                bytes: number(fields[8])?,
                missed_bytes: number(fields[9])?,
                origin_requests: number(fields[10])?,
                origin_bytes: number(fields[11])?,
            },
            to_bound: number(fields[12])?,
        })
    }

    fn name(&self) -> String {
        let ReplayRow { suite, trace, policy, share, .. } = self;
        format!("{suite} {trace}, {policy}, {share} %")
    }

    fn ratio(&self) -> f64 {
        self.to_bound
    }
}

/// The rows as a Markdown table.
pub fn replay_table(rows: &[ReplayRow]) -> String {
    let mut text =
        "| trace | memory, % of what is read | MiB | policy | reads missed, % | bytes missed, % \
        | × least | origin requests |\n|---|---:|---:|---|---:|---:|---:|---:|\n"
            .to_owned();
    for row in rows {
        let ReplayRow { trace, share, budget_mib, policy, tally, to_bound, .. } = row;
        let (requests, bytes) =
            (100.0 * tally.request_miss_ratio(), 100.0 * tally.byte_miss_ratio());
        let _ = writeln!(
            text,
            "| {trace} | {share} | {budget_mib} | {policy} | {requests:.1} | {bytes:.1} | {to_bound:.2} | {} |",
            tally.origin_requests
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

    #[test]
    fn a_record_is_read_back_as_it_was_written() {
        let tally = Tally {
            requests: 9,
            missed_requests: 2,
            bytes: 70,
            missed_bytes: 5,
            ..Tally::default()
        };
        let row = ReplayRow {
            suite: "replay".to_owned(),
            version: "1".to_owned(),
            trace: "loop".to_owned(),
            policy: "lru".to_owned(),
            share: 5,
            budget_mib: 100,
            tally,
            to_bound: 1.25,
        };
        let record = Record { facts: Vec::new(), rows: vec![row] };
        assert_eq!(Record::from_csv(&record.to_csv()).expect("it is a record"), record);
        assert!(
            replay_table(&record.rows).contains("| loop | 5 | 100 | lru | 22.2 | 7.1 | 1.25 | 0 |")
        );
    }
}

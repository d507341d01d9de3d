//! One line of the record of the recovery suite, its table, and its aims: a time for a small cache, a rate
//! for a large one. Its ratio, which later records are compared by, is to plain reads of the same pages.

use std::fmt::Write;

use nilas_base::{GIB, MIB};

use crate::record::{RecordRow, number, plain};

/// 256 MiB of cache are found in less.
const SMALL_BYTES: u64 = 256 * MIB;
const SMALL_AIM_MS: f64 = 11.0;
/// Seconds for each 100 GB, of caches of a GiB and more.
const RATE_AIM: f64 = 1.0;
const RATE_BYTES: f64 = 1e11;

/// How long one device took.
#[derive(Clone, Debug, PartialEq)]
pub struct RecoveryRow {
    /// `recovery`.
    pub suite: String,
    /// Nilas's version.
    pub version: String,
    /// What it was filled with, and how its shards had ended.
    pub filling: String,
    /// Bytes of segments with records.
    pub cache_bytes: u64,
    /// Shards.
    pub shards: u16,
    /// Rounds.
    pub rounds: usize,
    /// Segments with records.
    pub segments: u32,
    /// Of those, such as were read through.
    pub unsealed: u32,
    /// Records that were found.
    pub records: u64,
    /// The best round: from the beginning on all shards to the end on the last, ms.
    pub ms_min: f64,
    /// The median round, ms.
    pub ms_median: f64,
    /// Processor time of all shards together, the median round, ms.
    pub cpu_ms_median: f64,
    /// Plain reads of the same pages, the median round, ms.
    pub floor_ms_median: f64,
    /// Starts of a real node.
    pub node_rounds: usize,
    /// How long the node looked, as it says itself, median, ms.
    pub node_ms: f64,
    /// From the start of the node's process to its first answer's last byte, median, ms.
    pub first_answer_ms: f64,
    /// Starts in which that answer came while the node still looked.
    pub answered_before_its_end: usize,
    /// Median over the rounds of the time by that of the plain reads before it.
    pub floor_ratio: f64,
}

impl RecoveryRow {
    /// Seconds for 100 GB at this rate.
    pub fn seconds_per_100_gb(&self) -> f64 {
        self.ms_median / 1e3 * RATE_BYTES / self.cache_bytes.max(1) as f64
    }

    /// The aim that it misses, in words.
    fn missed(&self) -> Option<String> {
        let rate = self.seconds_per_100_gb();
        if self.cache_bytes <= SMALL_BYTES {
            (self.ms_median > SMALL_AIM_MS)
                .then(|| format!("{}: {:.1} ms, aim {SMALL_AIM_MS}", self.name(), self.ms_median))
        } else {
            (self.cache_bytes >= GIB / 2 && rate > RATE_AIM)
                .then(|| format!("{}: {rate:.2} s for 100 GB, aim {RATE_AIM}", self.name()))
        }
    }
}

/// The aims that `rows` miss, in words; `None` when every aim is met.
pub fn missed_aims(rows: &[RecoveryRow]) -> Option<String> {
    let missed: Vec<String> = rows.iter().filter_map(RecoveryRow::missed).collect();
    (!missed.is_empty()).then(|| format!("aims missed: {}", missed.join("; ")))
}

impl RecordRow for RecoveryRow {
    const COLUMNS: &'static str = "suite,version,filling,cache_bytes,shards,rounds,segments,\
unsealed,records,ms_min,ms_median,cpu_ms_median,floor_ms_median,node_rounds,node_ms,first_answer_ms,\
answered_before_its_end,floor_ratio";

    fn write_to(&self, text: &mut String) {
        let names = [&self.suite, &self.version, &self.filling];
        names.iter().for_each(|name| text.push_str(&(plain(name) + ",")));
        let RecoveryRow { cache_bytes, shards, rounds, segments, unsealed, records, .. } = self;
        let _ = write!(text, "{cache_bytes},{shards},{rounds},{segments},{unsealed},{records}");
        for figure in [self.ms_min, self.ms_median, self.cpu_ms_median, self.floor_ms_median] {
            let _ = write!(text, ",{figure:.3}");
        }
        let (rounds, node, first) = (self.node_rounds, self.node_ms, self.first_answer_ms);
        let _ = write!(text, ",{rounds},{node:.3},{first:.3}");
        let _ = writeln!(text, ",{},{:.3}", self.answered_before_its_end, self.floor_ratio);
    }

    fn from_fields(fields: &[&str]) -> Result<RecoveryRow, String> {
        Ok(RecoveryRow {
            suite: fields[0].to_owned(),
            version: fields[1].to_owned(),
            filling: fields[2].to_owned(),
            cache_bytes: number(fields[3])?,
            shards: number(fields[4])?,
            rounds: number(fields[5])?,
            segments: number(fields[6])?,
            unsealed: number(fields[7])?,
            records: number(fields[8])?,
            ms_min: number(fields[9])?,
            ms_median: number(fields[10])?,
            cpu_ms_median: number(fields[11])?,
            floor_ms_median: number(fields[12])?,
            node_rounds: number(fields[13])?,
            node_ms: number(fields[14])?,
            first_answer_ms: number(fields[15])?,
            answered_before_its_end: number(fields[16])?,
            floor_ratio: number(fields[17])?,
        })
    }

    fn name(&self) -> String {
        format!("{} {}, {} MiB", self.suite, self.filling, self.cache_bytes / MIB)
    }

    fn ratio(&self) -> f64 {
        self.floor_ratio
    }
}

/// The rows as a Markdown table.
pub fn recovery_table(rows: &[RecoveryRow]) -> String {
    let mut text = "| filled with | MiB | segments, of them unsealed | records | ms, min/median \
        | CPU ms | s for 100 GB | plain reads, ms | × plain reads | in a node, ms | first answer, ms \
        | while it looked |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for row in rows {
        let RecoveryRow { filling, segments, unsealed, records, ms_min, ms_median, .. } = row;
        let _ = writeln!(
            text,
            "| {filling} | {} | {segments}, {unsealed} | {records} | {ms_min:.1}/{ms_median:.1} \
             | {:.1} | {:.2} | {:.1} | {:.2} | {:.1} | {:.0} | {} of {} |",
            row.cache_bytes / MIB,
            row.cpu_ms_median,
            row.seconds_per_100_gb(),
            row.floor_ms_median,
            row.floor_ratio,
            row.node_ms,
            row.first_answer_ms,
            row.answered_before_its_end,
            row.node_rounds,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use crate::regression::compare_texts;

    fn row(cache_bytes: u64, ms_median: f64) -> RecoveryRow {
        RecoveryRow {
            suite: "recovery".to_owned(),
            version: "1.2.3".to_owned(),
            filling: "data stopped".to_owned(),
            cache_bytes,
            shards: 2,
            rounds: 9,
            segments: 62,
            unsealed: 0,
            records: 3700,
            ms_min: 2.5,
            ms_median,
            cpu_ms_median: 3.5,
            floor_ms_median: 2.25,
            node_rounds: 3,
            node_ms: 4.5,
            first_answer_ms: 60.125,
            answered_before_its_end: 1,
            floor_ratio: 1.5,
        }
    }

    #[test]
    fn a_record_of_recoveries_is_read_back_as_written() {
        let rows = vec![row(GIB, 7.125)];
        let text = Record { facts: Vec::new(), rows: rows.clone() }.to_csv();
        assert_eq!(Record::<RecoveryRow>::from_csv(&text).expect("own text").rows, rows);
        let compared = compare_texts(&text, &text).expect("a record of a known suite");
        assert_eq!(compared.len(), 1);
        assert!(!compared[0].is_worse(0.0));
    }

    #[test]
    fn a_small_cache_has_an_aim_of_time_and_a_large_one_of_rate() {
        assert_eq!(missed_aims(&[row(250 * MIB, 10.9), row(16 * GIB, 170.0)]), None);
        let missed = missed_aims(&[row(250 * MIB, 11.1), row(16 * GIB, 172.0)]);
        assert_eq!(
            missed.as_deref(),
            Some(
                "aims missed: recovery data stopped, 250 MiB: 11.1 ms, aim 11; \
                 recovery data stopped, 16384 MiB: 1.00 s for 100 GB, aim 1"
            )
        );
    }
}

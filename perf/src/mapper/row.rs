//! One line of the record of the mapper suite, its table and its aim. Its ratio, which later records are
//! compared by, is to a hash map of the same paths in the same run.

use std::fmt::Write;

use super::{MapperOptions, SUITE, middle};
use crate::latency::Latencies;
use crate::record::{RecordRow, number, plain};

/// What half of the lookups may take at most, ns.
const LOOKUP_AIM_NS: f64 = 200.0;

/// What one thing cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MapperRow {
    /// `mapper`.
    pub suite: String,
    /// Nilas's version.
    pub version: String,
    /// What was done.
    pub what: String,
    /// What the figures are: ns, ms or bytes.
    pub unit: String,
    /// Files of the index.
    pub files: u32,
    /// Footers of it.
    pub footers: u32,
    /// The median; of memory, the mean.
    pub p50: f64,
    /// The 99th percentile; of builds the longest.
    pub p99: f64,
    /// The rival's median.
    pub reference_p50: f64,
    /// Its 99th percentile.
    pub reference_p99: f64,
    /// The median by the rival's; 0 where there is none.
    pub ratio: f64,
}

impl MapperRow {
    fn of(
        options: &MapperOptions,
        (what, unit): (&str, &str),
        ours: [f64; 2],
        theirs: [f64; 2],
    ) -> MapperRow {
        MapperRow {
            suite: SUITE.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            what: what.to_owned(),
            unit: unit.to_owned(),
            files: options.files,
            footers: options.footers.min(options.files),
            p50: ours[0],
            p99: ours[1],
            reference_p50: theirs[0],
            reference_p99: theirs[1],
            ratio: if theirs[0] > 0.0 { ours[0] / theirs[0] } else { 0.0 },
        }
    }

    pub(super) fn of_times(
        options: &MapperOptions,
        what: &str,
        ours: &[f64],
        theirs: &[f64],
    ) -> MapperRow {
        let longest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        let figures = |values: &[f64]| [middle(values), longest(values)];
        MapperRow::of(options, (what, "ms"), figures(ours), figures(theirs))
    }

    pub(super) fn of_memory(
        options: &MapperOptions,
        what: &str,
        ours: f64,
        theirs: f64,
    ) -> MapperRow {
        MapperRow::of(options, (what, "bytes"), [ours; 2], [theirs; 2])
    }

    /// Less what the clock takes for itself.
    pub(super) fn of_lookups(
        options: &MapperOptions,
        what: &str,
        (ours, theirs): (&Latencies, &Latencies),
        clock: &Latencies,
    ) -> MapperRow {
        let clock_ns = clock.quantile_us(0.5) * 1e3;
        let figure = |of: &Latencies, share| (of.quantile_us(share) * 1e3 - clock_ns).max(0.0);
        let figures = |of: &Latencies| [figure(of, 0.5), figure(of, 0.99)];
        MapperRow::of(options, (what, "ns"), figures(ours), figures(theirs))
    }

    fn aim(&self) -> Option<f64> {
        (self.unit == "ns" && !self.what.starts_with("one byte")).then_some(LOOKUP_AIM_NS)
    }
}

impl RecordRow for MapperRow {
    const COLUMNS: &'static str =
        "suite,version,what,unit,files,footers,p50,p99,reference_p50,reference_p99,ratio";

    fn write_to(&self, text: &mut String) {
        let names = [&self.suite, &self.version, &self.what, &self.unit];
        names.iter().for_each(|name| text.push_str(&(plain(name) + ",")));
        let _ = write!(text, "{},{}", self.files, self.footers);
        for figure in [self.p50, self.p99, self.reference_p50, self.reference_p99] {
            let _ = write!(text, ",{figure:.1}");
        }
        let _ = writeln!(text, ",{:.3}", self.ratio);
    }

    fn from_fields(fields: &[&str]) -> Result<MapperRow, String> {
        Ok(MapperRow {
            suite: fields[0].to_owned(),
            version: fields[1].to_owned(),
            what: fields[2].to_owned(),
            unit: fields[3].to_owned(),
            files: number(fields[4])?,
            footers: number(fields[5])?,
            p50: number(fields[6])?,
            p99: number(fields[7])?,
            reference_p50: number(fields[8])?,
            reference_p99: number(fields[9])?,
            ratio: number(fields[10])?,
        })
    }

    fn name(&self) -> String {
        let MapperRow { suite, what, files, footers, .. } = self;
        format!("{suite} {what}, {files} files, {footers} footers")
    }

    fn ratio(&self) -> f64 {
        self.ratio
    }
}

/// The rows as a Markdown table.
pub fn mapper_table(rows: &[MapperRow]) -> String {
    let mut text = "| what | unit | p50 | p99 | map of paths, p50 | p99 | ratio | aim, p50 |\n\
                    |---|---|---:|---:|---:|---:|---:|---|\n"
        .to_owned();
    for row in rows {
        let MapperRow { what, unit, p50, p99, reference_p50, reference_p99, ratio, .. } = row;
        let aim = row.aim().map_or(String::new(), |aim| format!("≤ {aim:.0}"));
        let _ = write!(text, "| {what} | {unit} | {p50:.0} | {p99:.0} ");
        let _ = match reference_p50 {
            0.0 => writeln!(text, "| – | – | – | {aim} |"),
            _ => writeln!(text, "| {reference_p50:.0} | {reference_p99:.0} | {ratio:.2} | {aim} |"),
        };
    }
    text
}

/// The aims that are missed, in words.
pub fn missed_aims(rows: &[MapperRow]) -> Option<String> {
    let missed = rows.iter().filter_map(|row| {
        let aim = row.aim().filter(|aim| row.p50 > *aim)?;
        Some(format!("{}: {:.0} {}, aim {aim:.0}", row.what, row.p50, row.unit))
    });
    let missed: Vec<String> = missed.collect();
    (!missed.is_empty()).then(|| format!("aims missed: {}", missed.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(what: &str, unit: &str, p50: f64) -> MapperRow {
        MapperRow { what: what.to_owned(), unit: unit.to_owned(), p50, ..MapperRow::default() }
    }

    #[test]
    fn a_row_is_read_back_as_it_was_written() {
        let written = MapperRow {
            suite: "mapper".to_owned(),
            version: "1".to_owned(),
            files: 10,
            footers: 3,
            p99: 301.5,
            reference_p50: 200.0,
            reference_p99: 400.0,
            ratio: 0.75,
            ..row("known file", "ns", 150.0)
        };
        let mut text = String::new();
        written.write_to(&mut text);
        let fields: Vec<&str> = text.trim_end().split(',').collect();
        assert_eq!(fields.len(), MapperRow::COLUMNS.split(',').count(), "{text}");
        assert_eq!(MapperRow::from_fields(&fields), Ok(written));
    }

    #[test]
    fn only_lookups_have_an_aim() {
        let rows = [row("build", "ms", 900.0), row("known", "ns", 199.0), row("far", "ns", 201.0)];
        assert_eq!(missed_aims(&rows[..2]), None);
        assert_eq!(missed_aims(&rows), Some("aims missed: far: 201 ns, aim 200".to_owned()));
    }
}

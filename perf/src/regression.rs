//! Compares two records by their ratios to the reference: machines differ, ratios travel.
//! Absolutes are never compared, and a row that went missing counts as worse.

use crate::disk_read::DiskReadRow;
use crate::error::{Error, Result};
use crate::mapper::MapperRow;
use crate::record::{Record, RecordRow, Row};
use crate::recovery::RecoveryRow;
use crate::replay::{DeviceRow, ReplayRow};
use crate::tables::TablesRow;
use crate::time_row::TimeRow;

/// What became of one row of the older record.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Suite, server and cell, for people.
    pub name: String,
    /// The older ratio.
    pub before: f64,
    /// The newer ratio; `None` when the newer record lacks the row.
    pub after: Option<f64>,
}

impl Comparison {
    /// Whether it is missing, or grew by more than `tolerance` (0.1 is a tenth).
    pub fn is_worse(&self, tolerance: f64) -> bool {
        self.after.is_none_or(|after| after > self.before * (1.0 + tolerance))
    }
}

/// Compares two records of any suite, as they were kept.
pub fn compare_texts(before: &str, after: &str) -> Result<Vec<Comparison>> {
    if Record::<TimeRow>::is_told_by(before) {
        compare_as::<TimeRow>(before, after)
    } else if Record::<RecoveryRow>::is_told_by(before) {
        compare_as::<RecoveryRow>(before, after)
    } else if Record::<ReplayRow>::is_told_by(before) {
        compare_as::<ReplayRow>(before, after)
    } else if Record::<DiskReadRow>::is_told_by(before) {
        compare_as::<DiskReadRow>(before, after)
    } else if Record::<DeviceRow>::is_told_by(before) {
        compare_as::<DeviceRow>(before, after)
    } else if Record::<MapperRow>::is_told_by(before) {
        compare_as::<MapperRow>(before, after)
    } else if Record::<TablesRow>::is_told_by(before) {
        compare_as::<TablesRow>(before, after)
    } else {
        compare_as::<Row>(before, after)
    }
}

fn compare_as<R: RecordRow>(before: &str, after: &str) -> Result<Vec<Comparison>> {
    Ok(compare_records(&Record::<R>::from_csv(before)?, &Record::<R>::from_csv(after)?))
}

/// Compares each row of `before` with its namesake in `after`.
pub fn compare_records<R: RecordRow>(before: &Record<R>, after: &Record<R>) -> Vec<Comparison> {
    before
        .rows
        .iter()
        .map(|row| {
            let name = row.name();
            let namesake = after.rows.iter().find(|other| other.name() == name);
            Comparison { name, before: row.ratio(), after: namesake.map(RecordRow::ratio) }
        })
        .collect()
}

/// Fails when any comparison is worse than `tolerance` allows, naming each.
pub fn check_comparisons(comparisons: &[Comparison], tolerance: f64) -> Result<()> {
    let worse: Vec<&str> = comparisons
        .iter()
        .filter(|comparison| comparison.is_worse(tolerance))
        .map(|comparison| comparison.name.as_str())
        .collect();
    match (comparisons.is_empty(), worse.is_empty()) {
        (true, _) => Err(Error::Failed("the older record has no rows to compare".to_owned())),
        (false, true) => Ok(()),
        (false, false) => Err(Error::Failed(format!("worse than allowed: {}", worse.join("; ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::row;

    fn record(rows: Vec<Row>) -> Record {
        Record { facts: Vec::new(), rows }
    }

    #[test]
    fn a_ratio_may_grow_as_far_as_the_tolerance() {
        let before = record(vec![row("nilas", 4096, 0.8)]);
        let comparisons = compare_records(&before, &record(vec![row("nilas", 4096, 0.87)]));
        assert!(check_comparisons(&comparisons, 0.1).is_ok());
        assert!(check_comparisons(&comparisons, 0.05).is_err());
    }

    #[test]
    fn slower_absolutes_with_the_same_ratio_are_no_regression() {
        let before = record(vec![row("nilas", 4096, 0.8)]);
        let slower = Row { cpu_us_min: 99.0, cpu_us_median: 99.0, ..row("nilas", 4096, 0.8) };
        assert!(check_comparisons(&compare_records(&before, &record(vec![slower])), 0.0).is_ok());
    }

    #[test]
    fn a_row_that_went_missing_is_a_regression() {
        let before = record(vec![row("nilas", 4096, 0.8), row("nilas", 65_536, 1.1)]);
        let after = record(vec![row("nilas", 4096, 0.8)]);
        let error = check_comparisons(&compare_records(&before, &after), 0.1).expect_err("missing");
        assert!(error.to_string().contains("65536 bytes"), "{error}");
    }

    #[test]
    fn nothing_to_compare_is_not_a_pass() {
        let comparisons = compare_records(&record(Vec::new()), &record(Vec::new()));
        assert!(check_comparisons(&comparisons, 0.1).is_err());
    }
}

//! Rows as a Markdown table: for the terminal, and to be pasted into docs/BENCHMARKS.md.
//! Rounded for people; the exact figures are in the record.

use std::fmt::Write;

use crate::record::Row;
use crate::regression::Comparison;
use crate::time_row::TimeRow;

/// The rows of a run, one line each; `aim` gives the limit of a row's ratio, if it has one.
pub fn rows_table(rows: &[Row], reference: &str, aim: impl Fn(&Row) -> Option<f64>) -> String {
    let mut text = format!(
        "| size, connections | server | req/s | p50/p99 µs | server CPU µs a request, min/median \
         | × {reference} | aim | load busy |\n|---|---|---:|---:|---:|---:|---:|---:|\n"
    );
    for row in rows {
        let aim = aim(row).map_or_else(|| "–".to_owned(), |aim| format!("≤ {aim:.2}"));
        let _ = writeln!(
            text,
            "| {}, {} | {} | {:.0} | {:.0}/{:.0} | {:.1}/{:.1} | {:.2} | {aim} | {:.0} % |",
            size_text(row.size_bytes),
            row.connections,
            row.server,
            row.requests_per_second,
            row.p50_us,
            row.p99_us,
            row.cpu_us_min,
            row.cpu_us_median,
            row.cpu_ratio,
            row.client_busy * 100.0
        );
    }
    text
}

/// The rows of a suite of whole workloads, one line each; `aim` as above, of the time's ratio.
pub fn time_rows_table(rows: &[TimeRow], aim: impl Fn(&TimeRow) -> Option<f64>) -> String {
    let mut text = "| link | workload | server | s, min/median | MB/s | p50/p99 ms | server CPU s \
        | origin bytes | time | aim |\n|---|---|---|---:|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for row in rows {
        let aim = aim(row).map_or_else(|| "–".to_owned(), |aim| format!("≤ {aim:.2}"));
        let TimeRow { link, workload, server, reference, cpu_seconds, .. } = row;
        let cpu = if *cpu_seconds > 0.0 { format!("{cpu_seconds:.2}") } else { "–".to_owned() };
        let _ = writeln!(
            text,
            "| {link} | {workload} | {server} | {:.2}/{:.2} | {:.0} | {:.1}/{:.1} | {cpu} | {:.2} \
             | {:.2} × {reference} | {aim} |",
            row.seconds_min,
            row.seconds_median,
            row.bytes as f64 / 1e6 / row.seconds_median,
            row.p50_ms,
            row.p99_ms,
            row.origin_bytes_ratio,
            row.time_ratio,
        );
    }
    text
}

/// What changed from one record to another.
pub fn comparisons_table(comparisons: &[Comparison], tolerance: f64) -> String {
    let mut text = "| cell | before | after | |\n|---|---:|---:|---|\n".to_owned();
    for comparison in comparisons {
        let after = comparison.after.map_or_else(|| "–".to_owned(), |after| format!("{after:.3}"));
        let verdict = if comparison.is_worse(tolerance) { "worse" } else { "" };
        let (name, before) = (&comparison.name, comparison.before);
        let _ = writeln!(text, "| {name} | {before:.3} | {after} | {verdict} |");
    }
    text
}

fn size_text(size_bytes: usize) -> String {
    match size_bytes {
        bytes if bytes >= 1 << 20 && bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
        bytes if bytes >= 1 << 10 && bytes % (1 << 10) == 0 => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::row;

    #[test]
    fn a_row_becomes_a_line_with_its_aim() {
        let table = rows_table(&[row("nilas", 4096, 0.812)], "nginx", |_| Some(0.9));
        let line = table.lines().last().expect("a line");
        assert_eq!(line, "| 4 KiB, 16 | nilas | 1763 | 102/900 | 8.5/9.8 | 0.81 | ≤ 0.90 | 50 % |");
    }

    #[test]
    fn sizes_are_said_in_whole_units() {
        assert_eq!(size_text(1 << 20), "1 MiB");
        assert_eq!(size_text(65_536), "64 KiB");
        assert_eq!(size_text(1000), "1000 B");
    }

    #[test]
    fn a_worse_cell_is_marked() {
        let comparison = Comparison { name: "x".to_owned(), before: 1.0, after: Some(1.2) };
        assert!(comparisons_table(&[comparison], 0.1).contains("| 1.200 | worse |"));
    }
}

//! Tables and jobs in words, one table a line. What a page does not say is left out or shown as `-`; nothing is
//! asked from here.

use serde_json::Value;

use crate::cache::text::size_text;

/// A number of a page; zero where there is none.
pub(super) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

fn name(table: &Value) -> String {
    let levels = table["namespace"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let all = levels.chain(table["name"].as_str());
    all.collect::<Vec<_>>().join(".")
}

/// As the node writes it, a level that has a dot of its own in backquotes.
fn full_name(table: &Value) -> &str {
    text(&table["table"])
}

/// Whether somebody means this table, or may mean it where nothing is quoted.
pub(super) fn is_called(table: &Value, called: &str) -> bool {
    let name = name(table);
    full_name(table) == called
        || name == called
        || format!("{}.{name}", text(&table["catalog"])) == called
}

/// All tables of a page.
pub(super) fn tables(page: &Value) -> String {
    let tables = page["tables"].as_array().map_or(&[][..], Vec::as_slice);
    if tables.is_empty() {
        return "no tables: the node watches no catalog, or has not heard from one yet (see \
                /admin/catalogs)"
            .to_owned();
    }
    let width = tables.iter().map(|table| full_name(table).chars().count()).max().unwrap_or(0);
    let mut lines = vec![format!(
        "{:<width$}  {:<11}  {:>12}  {:>8}  faults",
        "table", "state", "warm", "left out"
    )];
    for table in tables {
        let warmth = &table["warmth"];
        lines.push(format!(
            "{:<width$}  {:<11}  {:>12}  {:>8}  {}",
            full_name(table),
            text(&table["state"]),
            size_text(number(&warmth["done_bytes"])),
            number(&warmth["left_out"]),
            number(&table["fault_count"])
                + number(&warmth["failed"])
                + u64::from(table["trouble"].is_string()),
        ));
    }
    let index = &page["index"];
    lines.push(format!(
        "{} tables; {} of {} of planning metadata; {} files and {} footers known in {}",
        number(&page["tables_watched"]),
        size_text(number(&page["metadata_bytes_warmed"])),
        size_text(number(&page["metadata_bytes_room"])),
        number(&index["files"]),
        number(&index["footers"]),
        size_text(
            number(&page["memory_bytes"])
                + number(&index["memory_bytes"])
                + number(&index["footer_bytes"])
        ),
    ));
    lines.join("\n")
}

/// One table, with all that is wrong with it.
pub(super) fn table(table: &Value) -> String {
    let warmth = &table["warmth"];
    let mut lines = vec![
        full_name(table).to_owned(),
        format!("state      {}", text(&table["state"])),
        format!("metadata   {}", text(&table["metadata_location"])),
        format!("format     {}", number(&table["format_version"])),
        format!("snapshots  {}", number(&table["snapshots"])),
        format!("manifests  {}", number(&table["manifests"])),
        format!(
            "warm       {} of {} parts, {} of {}; {} left out, {} failed",
            number(&warmth["done"]),
            number(&warmth["planned"]),
            size_text(number(&warmth["done_bytes"])),
            size_text(number(&warmth["planned_bytes"])),
            number(&warmth["left_out"]),
            number(&warmth["failed"]),
        ),
    ];
    if let Some(trouble) = table["trouble"].as_str() {
        lines.push(format!("trouble    {trouble}"));
    }
    for (what, list) in [("fault", &table["faults"]), ("failed", &warmth["failures"])] {
        let all = list.as_array().into_iter().flatten().filter_map(Value::as_str);
        lines.extend(all.map(|one| format!("{what:<9}  {one}")));
    }
    lines.join("\n")
}

/// A job that has ended, or was only begun.
pub(super) fn job(job: &Value) -> String {
    let mut lines = Vec::new();
    let table = text(&job["table"]);
    if job["ended_at"].is_null() {
        lines.push(format!(
            "job {}: {table}, {} files, about {}",
            job["job"],
            number(&job["files"]),
            size_text(number(&job["estimated_bytes"])),
        ));
    } else {
        lines.push(format!(
            "{table}: {} of {} files, {} at hand, {} of them fetched now",
            number(&job["files_done"]),
            number(&job["files"]),
            size_text(number(&job["bytes_done"])),
            size_text(number(&job["origin_bytes"])),
        ));
    }
    let left_out = number(&job["left_out"]);
    if left_out > 0 {
        lines.push(format!("{left_out} files were left out: the cache has no room for them"));
    }
    let failures = job["failures"].as_array().into_iter().flatten().filter_map(Value::as_str);
    lines.extend(failures.map(|one| format!("failed: {one}")));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn table_of(name: &str) -> Value {
        json!({"table": format!("lake.a.b.{name}"), "catalog": "lake", "namespace": ["a", "b"], "name": name,
            "state": "partly warm",
            "fault_count": 1, "faults": ["s3://x: damaged: y"], "trouble": null,
            "warmth": {"done": 3, "planned": 4, "done_bytes": 4096, "planned_bytes": 8192,
                "left_out": 2, "failed": 1, "failures": ["s3://z: gone"]}})
    }

    #[test]
    fn a_table_is_called_with_and_without_its_catalog() {
        for called in ["lake.a.b.t", "a.b.t"] {
            assert!(is_called(&table_of("t"), called), "{called}");
        }
        for called in ["t", "b.t", "pond.a.b.t", ""] {
            assert!(!is_called(&table_of("t"), called), "{called}");
        }
    }

    #[test]
    fn a_table_whose_level_has_a_dot_is_called_with_quotes_and_without() {
        let table =
            json!({"table": "lake.`a.b`.t", "catalog": "lake", "namespace": ["a.b"], "name": "t"});
        for called in ["lake.`a.b`.t", "lake.a.b.t", "a.b.t"] {
            assert!(is_called(&table, called), "{called}");
        }
        assert!(!is_called(&table, "lake.`a`.b.t"));
    }

    #[test]
    fn tables_stand_in_lines_and_their_sums_below() {
        let page = json!({"tables": [table_of("t"), table_of("long_name")], "tables_watched": 2,
            "metadata_bytes_warmed": 8192, "metadata_bytes_room": 1 << 20, "memory_bytes": 1024,
            "index": {"files": 9, "footers": 4, "memory_bytes": 1024, "footer_bytes": 2048}});
        let told = tables(&page);
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines.len(), 4, "{told}");
        assert!(lines[1].starts_with("lake.a.b.t          partly warm"), "{told}");
        assert_eq!(
            lines[3],
            "2 tables; 8 KiB of 1 MiB of planning metadata; 9 files and 4 footers known in 4 KiB"
        );
        assert!(tables(&json!({"tables": []})).contains("no tables"));
    }

    #[test]
    fn one_table_is_told_with_its_faults() {
        let told = table(&table_of("t"));
        for part in ["fault      s3://x: damaged: y", "failed     s3://z: gone", "3 of 4 parts"] {
            assert!(told.contains(part), "{told}");
        }
    }

    #[test]
    fn a_job_is_told_at_its_beginning_and_its_end() {
        let mut told = json!({"job": 7, "table": "lake.a.t", "files": 3, "files_done": 2,
            "estimated_bytes": 2048, "bytes_done": 1024, "origin_bytes": 0, "left_out": 1, "failed": 1,
            "failures": ["s3://x: gone"], "ended_at": null});
        assert!(
            job(&told).starts_with("job 7: lake.a.t, 3 files, about 2 KiB\n1 files were left out")
        );
        told["ended_at"] = json!("2026-01-01T00:00:00Z");
        assert!(
            job(&told)
                .starts_with("lake.a.t: 2 of 3 files, 1 KiB at hand, 0 B of them fetched now")
        );
    }
}

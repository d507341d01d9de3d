//! The demo, run as a visitor would, and its last line: the same rows twice, and nothing fetched
//! the second time.

use std::io;
use std::path::Path;

use serde_json::Value;

use super::count::Count;
use super::step;

pub(super) fn check(root: &Path) -> io::Result<Count> {
    let output = step::cargo_command(root).args(["demo", "--once", "--json"]).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    step::say(said.trim_end());
    if !output.status.success() {
        step::say(&String::from_utf8_lossy(&output.stderr));
        return Err(io::Error::other("it did not end well"));
    }
    let line = said.lines().last().unwrap_or("");
    check_line(line).map(|()| Count::PASSED).map_err(io::Error::other)
}

/// What is wrong with the demo's last line.
fn check_line(line: &str) -> Result<(), String> {
    let value: Value = serde_json::from_str(line).map_err(|error| format!("{line:?}: {error}"))?;
    let number = |run: &str, field: &str| {
        let found = value[run][field].as_f64();
        found.ok_or_else(|| format!("{run}.{field} is missing in {line}"))
    };
    for run in ["cold", "warm"] {
        if number(run, "seconds")? <= 0.0 || number(run, "rows")? <= 0.0 {
            return Err(format!("the {run} reading read nothing: {line}"));
        }
    }
    if number("cold", "rows")? != number("warm", "rows")? {
        return Err(format!("the readings differ: {line}"));
    }
    if number("cold", "origin_requests")? == 0.0 || number("cold", "origin_bytes")? == 0.0 {
        return Err(format!("the cold reading was not cold: {line}"));
    }
    if number("warm", "origin_requests")? + number("warm", "origin_bytes")? > 0.0 {
        return Err(format!("the warm reading asked the origin: {line}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_line;

    fn line(cold: [u64; 3], warm: [u64; 3]) -> String {
        let run = |[rows, requests, bytes]: [u64; 3]| serde_json::json!({"seconds": 0.1, "rows": rows, "origin_requests": requests, "origin_bytes": bytes});
        serde_json::json!({"cold": run(cold), "warm": run(warm)}).to_string()
    }

    #[test]
    fn a_warm_reading_without_the_origin_is_right() {
        assert_eq!(check_line(&line([5, 9, 900], [5, 0, 0])), Ok(()));
    }

    #[test]
    fn everything_else_is_told_apart() {
        for (line, expected) in [
            (line([5, 9, 900], [5, 1, 0]), "asked the origin"),
            (line([5, 0, 0], [5, 0, 0]), "was not cold"),
            (line([5, 9, 900], [4, 0, 0]), "differ"),
            (line([0, 9, 900], [0, 0, 0]), "read nothing"),
            ("{}".into(), "is missing"),
            ("cold".into(), "expected"),
        ] {
            let error = check_line(&line).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
    }
}

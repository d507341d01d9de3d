//! Rules that are none, and the sentence that each gets.

use crate::recorder::Rule;

fn check(json: &str, expected: &str) {
    let bad = Rule::list(json.as_bytes()).expect_err(json).to_string();
    assert!(bad.contains(expected), "{json}: {bad}");
}

#[test]
fn a_bad_rule_is_refused_by_its_place_and_field_and_what_that_takes() {
    check("", "the rules are a JSON list of objects");
    check("{}", "the rules are a JSON list of objects");
    check("[1]", "rule 1 is an object, not 1");
    check("[{}]", "rule 1: `fault` is missing: one of delay, stall, cut,");
    check(r#"[{"fault": "cuts"}]"#, "`fault` takes one of delay, stall, cut,");
    check(r#"[{"fault": "cut"}, {"fault": 7}]"#, "rule 2: `fault` takes one of");
    check(r#"[{"fault": "delay"}]"#, "`ms` is missing: a whole number from 0 to 3600000");
    check(
        r#"[{"fault": "delay", "ms": -1}]"#,
        "`ms` takes a whole number from 0 to 3600000, not -1",
    );
    check(
        r#"[{"fault": "delay", "ms": 1, "before": "x"}]"#,
        "takes one of request, answer, not \"x\"",
    );
    check(
        r#"[{"fault": "cut", "after_bytes": "ten"}]"#,
        "`after_bytes` takes a whole number from 0",
    );
    check(r#"[{"fault": "cut", "after_byte": 1}]"#, "`after_byte` is no field of such a rule");
    check(r#"[{"fault": "cut", "after_byte": 1}]"#, "its fields are fault, after_bytes,");
    check(r#"[{"fault": "cut", "after_bytes": 1, "late_ms": 1}]"#, "leave out `asks_origin`");
    check(r#"[{"fault": "cut", "asks_origin": 1}]"#, "`asks_origin` takes true or false, not 1");
    check(r#"[{"fault": "cut", "asks_origin": false, "late_ms": 1}]"#, "`late_ms` says when");
    check(r#"[{"fault": "rate", "bytes_per_second": 0}]"#, "takes a whole number from 1");
    check(r#"[{"fault": "rate"}]"#, "`bytes_per_second` is missing");
    check(r#"[{"fault": "wrong_length"}]"#, "`by` is missing: a whole number other than 0");
    check(
        r#"[{"fault": "wrong_length", "by": 0}]"#,
        "`by` takes a whole number other than 0, not 0",
    );
    check(r#"[{"fault": "wrong_range"}]"#, "`by`, `total_by` or both");
    check(r#"[{"fault": "surplus"}]"#, "`bytes` is missing: a whole number from 1 to 1048576");
    check(
        r#"[{"fault": "status", "status": 200}]"#,
        "`status` takes a whole number from 400 to 599",
    );
    check(r#"[{"fault": "status", "retry_after_s": "1"}]"#, "`retry_after_s` takes a whole number");
    check(r#"[{"fault": "refuse", "path": "/a"}]"#, "`path` is no field of such a rule");
    check(r#"[{"fault": "reset", "method": 1}]"#, "`method` takes a text, not 1");
    check(r#"[{"fault": "reset", "has_range": "no"}]"#, "`has_range` takes true or false");
    check(r#"[{"fault": "reset", "chance_percent": 101}]"#, "takes a whole number from 0 to 100");
    let many = vec![r#"{"fault": "refuse"}"#; 65].join(",");
    check(&format!("[{many}]"), "65 rules are more than 64");
}

#[test]
fn every_field_of_a_rule_has_a_meaning() {
    let pattern =
        r#""method": "get", "path": "/a", "prefix": "/", "query": "q", "has_range": true"#;
    let draw = r#""skip": 1, "times": 2, "chance_percent": 50, "seed": 3"#;
    for fault in [
        r#""fault": "delay", "ms": 1, "before": "answer""#,
        r#""fault": "stall", "ms": 1, "after_bytes": 0"#,
        r#""fault": "cut", "asks_origin": false"#,
        r#""fault": "reset", "late_ms": 5"#,
        r#""fault": "rate", "bytes_per_second": 1000"#,
        r#""fault": "wrong_length", "by": -1"#,
        r#""fault": "surplus", "bytes": 9"#,
        r#""fault": "wrong_range", "by": 1, "total_by": -1"#,
        r#""fault": "status", "status": 500, "code": "Odd", "retry_after_s": 1, "late_ms": 0"#,
    ] {
        let json = format!("[{{{fault}, {pattern}, {draw}}}]");
        Rule::list(json.as_bytes()).unwrap_or_else(|bad| panic!("{json}: {bad}"));
    }
    assert_eq!(Rule::list(b"[]"), Ok(Vec::new()));
}

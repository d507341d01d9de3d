//! Sizes that a reader can hold: files and functions. Tests are passed over, since a long table of
//! cases is easier to read than a clever one.

use super::source::Source;
use super::{Finding, TextFile};

/// Lines at which a file is asked whether it is two.
const FILE_LINES_QUESTION: usize = 500;
/// Lines beyond which a file is split.
const FILE_LINES_MAX: usize = 800;
/// Lines beyond which a function is split.
const FUNCTION_LINES_MAX: usize = 70;

pub(super) fn check(file: &TextFile) -> Vec<Finding> {
    if file.is_test() {
        return Vec::new();
    }
    let source = Source::new(&file.text);
    let tests = source.test_modules();
    let test_lines: usize =
        tests.iter().map(|module| source.code[module.clone()].lines().count()).sum();
    let lines = file.text.lines().count() - test_lines.min(file.text.lines().count());
    let mut findings = Vec::new();
    if lines > FILE_LINES_MAX {
        let text = format!(
            "{lines} lines, {FILE_LINES_MAX} at most: make the file a door and give it a room"
        );
        findings.push(Finding::failure(&file.path, 0, text));
    } else if lines > FILE_LINES_QUESTION {
        findings.push(Finding::warning(
            &file.path,
            0,
            format!("{lines} lines: are these two rooms?"),
        ));
    }
    for function in source.functions() {
        let in_test = tests.iter().any(|module| module.contains(&function.start_byte));
        if function.lines > FUNCTION_LINES_MAX && !in_test {
            let (name, lines) = (&function.name, function.lines);
            let text =
                format!("`{name}` has {lines} lines, {FUNCTION_LINES_MAX} at most: name its steps");
            findings.push(Finding::failure(&file.path, function.line, text));
        }
    }
    findings
}

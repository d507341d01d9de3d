//! Every Rust file opens with `//!`: what the room is for, what it never does, where to go next.
//! Two to six lines as a rule; a small room, or one of tests, may say it in one.

use super::{Finding, TextFile};

/// Fewer says nothing.
const HEADER_LINES_MIN: usize = 2;
/// More belongs in docs/.
const HEADER_LINES_MAX: usize = 6;
/// A file of fewer lines is small: one line of header says it all.
const SMALL_FILE_LINES: usize = 150;

pub(super) fn check(file: &TextFile) -> Option<Finding> {
    let lines = file.text.lines().take_while(|line| line.starts_with("//!")).count();
    let small = file.is_test() || file.text.lines().count() < SMALL_FILE_LINES;
    let lines_min = if small { 1 } else { HEADER_LINES_MIN };
    if (lines_min..=HEADER_LINES_MAX).contains(&lines) {
        return None;
    }
    let text = if lines < lines_min {
        "open with two to six lines of `//!`: what it is for, what it never does, where next"
    } else {
        "a header has at most six lines: what is longer belongs in docs/"
    };
    Some(Finding::failure(&file.path, 1, text))
}

//! Every Rust file opens with two to six lines of `//!`: what the room is for, what it never does,
//! where to go next.

use super::{Finding, TextFile};

/// Fewer says nothing.
const HEADER_LINES_MIN: usize = 2;
/// More belongs in docs/.
const HEADER_LINES_MAX: usize = 6;

pub(super) fn check(file: &TextFile) -> Option<Finding> {
    let lines = file.text.lines().take_while(|line| line.starts_with("//!")).count();
    if (HEADER_LINES_MIN..=HEADER_LINES_MAX).contains(&lines) {
        return None;
    }
    let text = if lines < HEADER_LINES_MIN {
        "open with two to six lines of `//!`: what it is for, what it never does, where next"
    } else {
        "a header has at most six lines: what is longer belongs in docs/"
    };
    Some(Finding::failure(&file.path, 1, text))
}

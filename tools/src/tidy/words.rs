//! Words that do not belong in the tree: numbers of issues, paths of one machine, work left for
//! later. A comment gives a reason; the history is in git.

use super::source::{Source, words};
use super::{Finding, TextFile};

/// Only a file with one of these endings is read for words.
const READ: &[&str] = &["rs", "md", "toml", "py", "sh", "yml", "yaml", "svg", "html"];

/// Folders of one machine. Written in two halves, lest this file find itself.
const MACHINE_PATHS: &[&str] =
    &[concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/wo", "rk/"), concat!("/Use", "rs/")];

/// Marks of work left undone, likewise in two halves.
const MARKS: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];

pub(super) fn check(file: &TextFile) -> Vec<Finding> {
    let extension = file.path.extension().and_then(|extension| extension.to_str());
    let named = file.path.file_name().is_some_and(|name| name == "Dockerfile" || name == "run");
    if !named && !extension.is_some_and(|extension| READ.contains(&extension)) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let comments =
        if file.is_rust() { Source::new(&file.text).comments } else { file.text.clone() };
    for (index, (line, comment)) in file.text.lines().zip(comments.lines()).enumerate() {
        let mut fail = |text: String| findings.push(Finding::failure(&file.path, index + 1, text));
        if let Some(path) = MACHINE_PATHS.iter().find(|path| is_absolute(line, path)) {
            fail(format!("`{path}…` is a path of one machine: make it relative or a parameter"));
        }
        if let Some(number) = issue_number(comment).filter(|_| extension != Some("svg")) {
            fail(format!("`{number}` speaks of an issue: give the reason itself"));
        }
        if let Some((_, mark)) = words(comment).find(|(_, word)| MARKS.contains(word)) {
            fail(format!("`{mark}`: do it now or leave it out"));
        }
    }
    findings
}

/// Whether the line names a path that begins with `folder`, not one that only contains it.
fn is_absolute(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|before| matches!(before, ' ' | '"' | '\'' | '`' | '=' | '(' | ':'))
    })
}

/// A `#` followed by digits that end a word: an issue's number, not a colour and not a heading.
fn issue_number(comment: &str) -> Option<&str> {
    comment.match_indices('#').find_map(|(at, _)| {
        let digits = comment[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
        let end = at + 1 + digits;
        let before = comment[..at].chars().next_back();
        let starts_word = before.is_none_or(|before| before == ' ' || before == '(');
        let ends_word = comment[end..].chars().next().is_none_or(|after| !after.is_alphanumeric());
        (digits > 0 && starts_word && ends_word).then(|| &comment[at..end])
    })
}

//! Tidy: the house rules that neither the compiler nor clippy can say. Each finding names the
//! file, the rule and what to do instead. Reads the tree and `cargo metadata`, changes nothing.

mod dead;
mod floors;
mod header;
mod naming;
mod size;
mod source;
mod words;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fmt, fs, io};

/// How much a finding weighs: warnings are shown, failures fail the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// A question to the author.
    Warning,
    /// Must be mended.
    Failure,
}

/// One place where the tree breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether it fails the run.
    pub weight: Weight,
    /// Relative to the root of the tree.
    pub path: PathBuf,
    /// Counted from 1; 0 speaks of the whole file.
    pub line: usize,
    /// What is wrong, and the replacement.
    pub text: String,
}

impl Finding {
    fn failure(path: &Path, line: usize, text: impl Into<String>) -> Finding {
        Finding { weight: Weight::Failure, path: path.into(), line, text: text.into() }
    }

    fn warning(path: &Path, line: usize, text: impl Into<String>) -> Finding {
        Finding { weight: Weight::Warning, path: path.into(), line, text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weight = match self.weight {
            Weight::Warning => "warning",
            Weight::Failure => "failure",
        };
        write!(out, "{weight}: {}", self.path.display())?;
        if self.line > 0 {
            write!(out, ":{}", self.line)?;
        }
        write!(out, ": {}", self.text)
    }
}

/// A text file of the tree, read once for all rules.
pub(crate) struct TextFile {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl TextFile {
    pub(crate) fn is_rust(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "rs")
    }

    /// Tests are held to the rules of naming, not to those of size.
    pub(crate) fn is_test(&self) -> bool {
        self.path.file_stem().is_some_and(|stem| stem == "tests")
            || self.path.components().any(|part| {
                matches!(part.as_os_str().to_str(), Some("tests" | "benches" | "fuzz_targets"))
            })
    }
}

/// Everything that is wrong in the tree at `root`, failures and warnings, in the files' order.
pub fn check(root: &Path) -> io::Result<Vec<Finding>> {
    let files = tracked_files(root)?;
    let mut findings = floors::check(&workspace_metadata(root)?);
    findings.extend(check_files(&files));
    Ok(findings)
}

/// The rules that need only the files' texts.
fn check_files(files: &[TextFile]) -> Vec<Finding> {
    let mut findings = dead::check(files);
    for file in files {
        findings.extend(naming::check(file));
        findings.extend(words::check(file));
        findings.extend(floors::check_unsafe(file));
        if file.is_rust() {
            findings.extend(header::check(file));
            findings.extend(size::check(file));
        }
    }
    findings
}

/// Files git knows or would add; what it ignores is nobody's business.
fn tracked_files(root: &Path) -> io::Result<Vec<TextFile>> {
    let listing =
        run(root, "git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
    let mut paths: Vec<&str> = listing.split('\0').filter(|path| !path.is_empty()).collect();
    paths.sort_unstable();
    paths.dedup();
    let mut files = Vec::new();
    for path in paths {
        // Deleted but not yet committed, or not text: nothing to read.
        if let Ok(text) = fs::read_to_string(root.join(path)) {
            files.push(TextFile { path: path.into(), text });
        }
    }
    Ok(files)
}

fn workspace_metadata(root: &Path) -> io::Result<serde_json::Value> {
    let text = run(root, "cargo", &["metadata", "--no-deps", "--format-version", "1"])?;
    serde_json::from_str(&text).map_err(io::Error::other)
}

fn run(root: &Path, program: &str, arguments: &[&str]) -> io::Result<String> {
    let output = Command::new(program).args(arguments).current_dir(root).output()?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("{program} {}: {reason}", arguments.join(" "))));
    }
    String::from_utf8(output.stdout).map_err(io::Error::other)
}

#[cfg(test)]
mod tests;

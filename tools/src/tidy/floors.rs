//! The floors of the house: who may depend on whom, as drawn in docs/ARCHITECTURE.md, against what
//! `cargo metadata` says. And the one door behind which `unsafe` lives.

use std::path::Path;

use serde_json::Value;

use super::source::{Source, words};
use super::{Finding, TextFile};

/// A package, its floor, and its folder. A package may use those of lower floors alone, so rooms of
/// one floor do not know each other. Packages outside this list are refused until they have a place.
const HOUSE: &[(&str, u8)] = &[
    ("nilas-base", 0),
    ("nilas-shards", 1),
    ("nilas-net", 2),
    ("nilas-iceberg", 2),
    ("nilas-engine", 3),
    ("nilas-tools", YARD),
    ("nilas-demo", YARD),
    ("nilas-perf", YARD),
    ("nilas-sim", SIMULATOR),
];

/// The yard may use every floor, and nothing may use the yard.
const YARD: u8 = 9;
/// The simulator: of the yard, but others there may play on it.
const SIMULATOR: u8 = 8;

/// Where `unsafe` may be written.
const UNSAFE_DOOR: &str = "shards/src/sys";

pub(super) fn check(metadata: &Value) -> Vec<Finding> {
    let root = metadata["workspace_root"].as_str().unwrap_or("");
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    packages.iter().flat_map(|package| check_package(package, root)).collect()
}

fn check_package(package: &Value, root: &str) -> Vec<Finding> {
    let name = package["name"].as_str().unwrap_or("");
    let manifest = package["manifest_path"].as_str().unwrap_or("");
    let path = Path::new(manifest).strip_prefix(root).unwrap_or(Path::new(manifest));
    let Some(floor) = floor_of(name) else {
        let text = format!("`{name}` has no floor: give it a place in tools/src/tidy/floors.rs");
        return vec![Finding::failure(path, 0, text)];
    };
    let dependencies = package["dependencies"].as_array().map_or(&[][..], Vec::as_slice);
    let inner = dependencies.iter().filter(|dependency| dependency["path"].is_string());
    let wrong = inner.filter_map(|dependency| {
        let used = dependency["name"].as_str().unwrap_or("");
        // A crate may test itself through a dev-dependency on itself.
        let lower = used == name || floor_of(used).is_some_and(|used| used < floor);
        (!lower).then(|| format!("`{name}` must not use `{used}`: a crate knows only lower floors"))
    });
    wrong.map(|text| Finding::failure(path, 0, text)).collect()
}

fn floor_of(name: &str) -> Option<u8> {
    HOUSE.iter().find(|(package, _)| *package == name).map(|(_, floor)| *floor)
}

/// `unsafe` outside its door, or inside without a note that says why it is sound.
pub(super) fn check_unsafe(file: &TextFile) -> Vec<Finding> {
    if !file.is_rust() || file.path.starts_with("net/fuzz") {
        return Vec::new();
    }
    let source = Source::new(&file.text);
    let behind_door =
        file.path.starts_with(UNSAFE_DOOR) || file.path == Path::new("shards/src/sys.rs");
    let mut findings = Vec::new();
    for (start, _) in words(&source.code).filter(|(_, word)| *word == "unsafe") {
        let line = source.line(start);
        if !behind_door {
            let text = "`unsafe` lives in shards::sys alone: give it a safe door there";
            findings.push(Finding::failure(&file.path, line, text));
        } else if !noted(&file.text, line) {
            findings.push(Finding::failure(
                &file.path,
                line,
                "say why this is sound: `// SAFETY: …`",
            ));
        }
    }
    findings
}

/// Lines above an `unsafe` among which its note stands.
const NOTE_LINES_MAX: usize = 12;

fn noted(text: &str, line: usize) -> bool {
    let from = line.saturating_sub(NOTE_LINES_MAX);
    let above = text.lines().skip(from).take(line - from);
    above.into_iter().any(|line| line.contains("SAFETY") || line.contains("# Safety"))
}

//! Names of files: singular nouns, no drawers for things without a place, no `mod.rs`.

use super::{Finding, TextFile};

/// Names that say nothing, and what to do instead.
const NAMES_AVOIDED: &[(&str, &str)] = &[
    ("mod", "name the door `room.rs` beside the folder `room/`"),
    ("utils", "put each function in the room of the thing it serves"),
    ("util", "put each function in the room of the thing it serves"),
    ("common", "name what is shared, or move it to `base`"),
    ("helpers", "name what it helps with"),
    ("helper", "name what it helps with"),
    ("manager", "name what is kept or decided: a registry, a pool, a plan"),
    ("misc", "give each thing its own room"),
    ("types", "keep a type beside what it is for"),
    ("constants", "keep a number beside what it limits"),
    ("traits", "keep a trait beside its first user"),
];

pub(super) fn check(file: &TextFile) -> Vec<Finding> {
    let parts = file.path.iter().filter_map(|part| part.to_str());
    let stems = parts.map(|part| part.split('.').next().unwrap_or(part));
    let mut findings = Vec::new();
    for stem in stems {
        for (avoided, instead) in NAMES_AVOIDED {
            if stem == *avoided || stem.ends_with(&format!("_{avoided}")) {
                let text = format!("`{stem}` is a name we avoid: {instead}");
                findings.push(Finding::failure(&file.path, 0, text));
            }
        }
    }
    findings
}

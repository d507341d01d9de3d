//! Dead files: a Rust file that no `mod` reaches, a page of docs/ that no page links.
//! A file that the compiler never sees looks alive to a reader and rots.

use std::path::{Component, Path, PathBuf};

use nilas_base::{HashMap, HashSet};

use super::source::{Source, words};
use super::{Finding, TextFile};

pub(super) fn check(files: &[TextFile]) -> Vec<Finding> {
    let mut findings = dead_sources(files);
    findings.extend(dead_pages(files));
    findings
}

fn dead_sources(files: &[TextFile]) -> Vec<Finding> {
    let sources: HashMap<&Path, &TextFile> = files
        .iter()
        .filter(|file| file.is_rust())
        .map(|file| (file.path.as_path(), file))
        .collect();
    let mut waiting: Vec<PathBuf> =
        sources.keys().filter(|path| is_crate_root(path)).map(PathBuf::from).collect();
    let mut reached = HashSet::default();
    while let Some(path) = waiting.pop() {
        if let Some(file) = sources.get(path.as_path())
            && reached.insert(path.clone())
        {
            waiting.extend(modules_of(file));
        }
    }
    let dead = files.iter().filter(|file| file.is_rust() && !reached.contains(&file.path));
    dead.map(|file| {
        Finding::failure(&file.path, 0, "no `mod` reaches this file: name it or remove it")
    })
    .collect()
}

/// Where cargo itself looks for targets.
fn is_crate_root(path: &Path) -> bool {
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    let in_sources = parts[..parts.len() - 1].contains(&"src");
    let is_target = |folder: &str| match folder {
        "tests" | "benches" | "examples" => !in_sources,
        "bin" | "fuzz_targets" => true,
        _ => false,
    };
    match *parts {
        [.., "src", "lib.rs" | "main.rs"] | [.., "build.rs"] => true,
        [.., folder, _, "main.rs"] if is_target(folder) => true,
        [.., folder, _] => is_target(folder),
        _ => false,
    }
}

/// The files that a file's `mod name;` lines may mean.
fn modules_of(file: &TextFile) -> Vec<PathBuf> {
    let code = Source::new(&file.text).code;
    let mut paths: Vec<PathBuf> = explicit_paths(file);
    let mut previous = "";
    for (start, word) in words(&code) {
        let declares =
            previous == "mod" && code[start + word.len()..].trim_start().starts_with(';');
        if declares {
            let room = room_of(&file.path);
            paths.push(room.join(format!("{word}.rs")));
            paths.push(room.join(word).join("mod.rs"));
        }
        previous = word;
    }
    paths
}

/// `#[path = "x.rs"]`, relative to the folder of the file that says it.
fn explicit_paths(file: &TextFile) -> Vec<PathBuf> {
    let folder = file.path.parent().unwrap_or(Path::new(""));
    let marks = file.text.split("#[path = \"").skip(1);
    marks.filter_map(|rest| rest.split('"').next()).map(|path| plain(&folder.join(path))).collect()
}

/// The folder where a file's modules live.
fn room_of(path: &Path) -> PathBuf {
    let folder = path.parent().unwrap_or(Path::new(""));
    match path.file_stem().and_then(|stem| stem.to_str()) {
        Some("lib" | "main" | "mod") => folder.into(),
        _ if is_crate_root(path) => folder.into(),
        Some(stem) => folder.join(stem),
        None => folder.into(),
    }
}

fn dead_pages(files: &[TextFile]) -> Vec<Finding> {
    let pages: Vec<&TextFile> = files.iter().filter(|file| is_page(&file.path)).collect();
    let mut linked = HashSet::default();
    for page in &pages {
        let folder = page.path.parent().unwrap_or(Path::new(""));
        let links = page.text.split("](").skip(1).chain(page.text.split("src=\"").skip(1));
        let targets = links.filter_map(|rest| rest.split([')', '#', '"', ' ']).next());
        linked.extend(targets.map(|target| plain(&folder.join(target))));
    }
    let dead = files.iter().filter(|file| {
        file.path.starts_with("docs")
            && !linked.contains(&file.path)
            && !file.path.starts_with("docs/record")
    });
    dead.map(|file| Finding::failure(&file.path, 0, "no page links this one: link it or remove it"))
        .collect()
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

/// The path without `.` and `..`, by its text alone.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

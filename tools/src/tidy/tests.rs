//! Small trees with one fault each, and the finding each must give.
//! The words that tidy refuses are put together here, lest it find its own tests.

use std::path::Path;

use super::source::Source;
use super::{TextFile, Weight, check_files, floors};

const HEADER: &str = "//! A room.\n//! It does nothing else.\n";

fn tree(files: &[(&str, &str)]) -> Vec<String> {
    let files: Vec<TextFile> = files
        .iter()
        .map(|(path, text)| TextFile { path: path.into(), text: (*text).into() })
        .collect();
    check_files(&files).iter().map(ToString::to_string).collect()
}

fn finds(files: &[(&str, &str)], expected: &[&str]) {
    let findings = tree(files);
    assert_eq!(findings.len(), expected.len(), "{findings:#?}");
    for (finding, expected) in findings.iter().zip(expected) {
        assert!(finding.contains(expected), "{finding} does not say {expected:?}");
    }
}

fn library(body: &str) -> String {
    format!("{HEADER}{body}")
}

#[test]
fn a_tidy_tree_has_no_findings() {
    let library = library("mod segment;\n");
    finds(&[("a/src/lib.rs", &library), ("a/src/segment.rs", HEADER)], &[]);
}

#[test]
fn a_file_that_no_mod_reaches_is_dead() {
    finds(&[("a/src/lib.rs", HEADER), ("a/src/lost.rs", HEADER)], &["lost.rs: no `mod` reaches"]);
}

#[test]
fn a_mod_in_a_comment_or_a_string_reaches_nothing() {
    let library = library("// mod lost;\nconst TEXT: &str = \"mod lost;\";\n");
    finds(&[("a/src/lib.rs", &library), ("a/src/lost.rs", HEADER)], &["no `mod` reaches"]);
}

#[test]
fn rooms_within_rooms_are_reached() {
    let door = library("mod inner;\n#[cfg(test)]\nmod tests;\n");
    finds(
        &[
            ("a/src/lib.rs", &library("pub mod door;\n")),
            ("a/src/door.rs", &door),
            ("a/src/door/inner.rs", HEADER),
            ("a/src/door/tests.rs", HEADER),
        ],
        &[],
    );
}

#[test]
fn targets_are_found_where_cargo_finds_them() {
    let serving = library("mod read;\nmod support;\n");
    let files = [
        ("a/src/lib.rs", HEADER),
        ("a/src/bin/b.rs", HEADER),
        ("a/tests/whole.rs", HEADER),
        ("a/tests/serving/main.rs", serving.as_str()),
        ("a/tests/serving/read.rs", HEADER),
        ("a/tests/serving/support.rs", HEADER),
        ("a/src/store/tests/lost.rs", HEADER),
    ];
    finds(&files, &["store/tests/lost.rs: no `mod` reaches"]);
}

#[test]
fn a_page_that_no_page_links_is_dead() {
    let readme = "[plan](docs/PLAN.md) ![picture](./docs/house.svg)";
    let files =
        [("README.md", readme), ("docs/PLAN.md", ""), ("docs/house.svg", ""), ("docs/LOST.md", "")];
    finds(&files, &["docs/LOST.md: no page links"]);
}

#[test]
fn a_function_of_seventy_one_lines_fails_and_one_of_seventy_does_not() {
    let function =
        |lines: usize| format!("{HEADER}fn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2));
    finds(&[("a/src/lib.rs", &function(70))], &[]);
    finds(&[("a/src/lib.rs", &function(71))], &["lib.rs:3: `long` has 71 lines"]);
}

#[test]
fn tests_are_passed_over_when_lines_are_counted() {
    let steps = "    step();\n".repeat(900);
    let text = format!("{HEADER}#[cfg(test)]\nmod tests {{\nfn long() {{\n{steps}}}\n}}\n");
    finds(&[("a/src/lib.rs", &text)], &[]);
}

#[test]
fn a_long_file_is_questioned_then_refused() {
    let text = |lines: usize| format!("{HEADER}{}", "const A: u8 = 1;\n".repeat(lines));
    finds(&[("a/src/lib.rs", &text(550))], &["warning: a/src/lib.rs: 552 lines"]);
    finds(&[("a/src/lib.rs", &text(850))], &["failure: a/src/lib.rs: 852 lines"]);
}

#[test]
fn a_file_without_a_header_fails() {
    finds(&[("a/src/lib.rs", "const A: u8 = 1;\n")], &["two to six lines"]);
    let long = format!("//! One line.\n{}", "const A: u8 = 1;\n".repeat(150));
    finds(&[("a/src/lib.rs", &long)], &["two to six lines"]);
    finds(&[("a/src/lib.rs", "//! One line.\n"), ("a/tests/b.rs", &long)], &[]);
    finds(&[("a/src/lib.rs", &"//! Line.\n".repeat(7))], &["at most six"]);
}

#[test]
fn names_that_say_nothing_are_refused_with_their_replacement() {
    let library = library("mod utils;\nmod cache_manager;\n");
    let files = [
        ("a/src/lib.rs", library.as_str()),
        ("a/src/utils.rs", HEADER),
        ("a/src/cache_manager.rs", HEADER),
    ];
    finds(&files, &["room of the thing it serves", "a registry, a pool"]);
    finds(
        &[("a/src/lib.rs", &library[..0]), ("b/mod.rs", HEADER)],
        &["b/mod.rs: no `mod`", "two to six", "door"],
    );
}

#[test]
fn numbers_of_issues_paths_of_a_machine_and_marks_are_refused() {
    let text = library(&format!("// See {}12.\n", '#'));
    finds(&[("a/src/lib.rs", &text)], &["speaks of an issue"]);
    let text = format!("run {}ot/x", "/ro");
    finds(&[("README.md", &text)], &["path of one machine"]);
    let text = library(&format!("// {}: later\n", concat!("TO", "DO")));
    finds(&[("a/src/lib.rs", &text)], &["do it now"]);
}

#[test]
fn headings_colours_and_attributes_are_not_issues() {
    let text = library("#[derive(Debug)]\nstruct A; // The colour is `#123456ab`, see r#type.\n");
    finds(&[("a/src/lib.rs", &text), ("README.md", "# 2 commands\n## 3\n")], &[]);
}

#[test]
fn unsafe_lives_behind_its_door_with_a_reason() {
    let body = "fn a() { unsafe { b() } }\n";
    finds(&[("a/src/lib.rs", &library(body))], &["shards::sys alone"]);
    let door = [("shards/src/lib.rs", library("mod sys;\n")), ("shards/src/sys.rs", library(body))];
    let door: Vec<_> = door.iter().map(|(path, text)| (*path, text.as_str())).collect();
    finds(&door, &["say why this is sound"]);
    let reasoned = library(&format!("// SAFETY: it is.\n{body}"));
    finds(&[("shards/src/lib.rs", &library("mod sys;\n")), ("shards/src/sys.rs", &reasoned)], &[]);
}

#[test]
fn comments_strings_and_characters_hide_their_braces() {
    let text = r##"fn a<'a>(x: &'a str) -> char { let _ = "}{"; let _ = r#"}"}"#; /* } /* } */ */ '}' } // }
fn b() { b'\''; '\u{7d}'; }"##;
    let functions = Source::new(text).functions();
    let found: Vec<_> = functions
        .iter()
        .map(|function| (function.name.as_str(), function.line, function.lines))
        .collect();
    assert_eq!(found, [("a", 1, 1), ("b", 2, 1)]);
}

fn package(name: &str, uses: &[&str]) -> serde_json::Value {
    let dependencies: Vec<_> = uses
        .iter()
        .map(|used| serde_json::json!({"name": used, "path": format!("{used}")}))
        .collect();
    serde_json::json!({
        "workspace_root": "house",
        "packages": [{"name": name, "manifest_path": format!("house/{name}/Cargo.toml"), "dependencies": dependencies}],
    })
}

#[test]
fn a_crate_knows_only_lower_floors() {
    assert_eq!(floors::check(&package("nilas-engine", &["nilas-net", "nilas-base"])), []);
    assert_eq!(floors::check(&package("nilas-tools", &["nilas-engine"])), []);
    for (name, used) in [
        ("nilas-base", "nilas-net"),
        ("nilas-net", "nilas-iceberg"),
        ("nilas-shards", "nilas-engine"),
        ("nilas-engine", "nilas-tools"),
        ("nilas-demo", "nilas-tools"),
    ] {
        let findings = floors::check(&package(name, &[used]));
        assert_eq!(findings.len(), 1, "{name} uses {used}");
        assert_eq!(findings[0].weight, Weight::Failure);
        assert_eq!(findings[0].path, Path::new(name).join("Cargo.toml"));
    }
}

#[test]
fn a_crate_without_a_floor_is_refused() {
    let findings = floors::check(&package("nilas-shed", &[]));
    assert!(findings[0].text.contains("has no floor"), "{findings:?}");
}

//! `--help` and the reference page, both made from the table of keys. Nothing is explained here:
//! what a key does is said once, in `table`.

use std::fmt::Write;

use super::key::{Key, brackets, sections};
use super::kind::Kind;
use super::table::KEYS;

/// Column at which a flag's meaning begins.
const MEANING_COLUMN: usize = 6;
/// Characters of a line of help.
const LINE_CHARACTERS_MAX: usize = 96;

const USAGE: &str = "\
nilas-server: an S3 cache node that stands before an object store.

Usage: nilas-server [--config FILE] [--section.key VALUE]...

Without arguments it serves a local directory, nilas-data, on loopback with generated credentials.
A flag wins over the environment, which wins over the file, which wins over the default.
Sizes and durations have units: 64KiB, 2GiB, 1GB; 30ms, 5s, 15m. Lists are separated by commas.

      --config FILE      the TOML file [NILAS_CONFIG]
      --check            check configuration, machine and origin, print what was found, and end
      --help             this text
      --reference        every key, as a page in Markdown
      --version          the version
";

const NOTES: &str = "
Keys of [[credentials]] and [[catalog]] mean the first item; --credentials.1.access_key and
NILAS_CREDENTIALS_1_ACCESS_KEY mean the second. Flags are visible to every user of the machine:
give secrets by file or environment.
";

/// The text of `--help`.
pub fn help_text() -> String {
    let mut text = USAGE.to_owned();
    for section in sections() {
        let brackets = brackets(section);
        let _ = writeln!(text, "\n{}{section}{}", brackets.0, brackets.1);
        for key in KEYS.iter().filter(|key| key.section == section) {
            write_key(&mut text, key);
        }
    }
    text.push_str(NOTES);
    text
}

fn write_key(text: &mut String, key: &Key) {
    let short = key.short_flag.map(|flag| format!(", --{flag}")).unwrap_or_default();
    let flag = format!("--{}{short} {}", key.dotted(), placeholder(&key.kind));
    let _ = writeln!(text, "  {flag}  [{}]", key.variable());
    let meaning = match key.default {
        Some(default) if !default.is_empty() => format!("{} Default: {default}.", key.help),
        _ => key.help.to_owned(),
    };
    for line in wrapped(&meaning, LINE_CHARACTERS_MAX - MEANING_COLUMN) {
        let _ = writeln!(text, "{:MEANING_COLUMN$}{line}", "");
    }
}

fn placeholder(kind: &Kind) -> String {
    match kind {
        Kind::Address => "IP:PORT".to_owned(),
        Kind::Boolean => "true|false".to_owned(),
        Kind::Choice(words) => words.join("|"),
        Kind::Count { .. } => "NUMBER".to_owned(),
        Kind::CountOrAuto { .. } => "NUMBER|auto".to_owned(),
        Kind::Size { .. } | Kind::PowerOfTwoSize { .. } => "SIZE".to_owned(),
        Kind::Duration { .. } => "DURATION".to_owned(),
        Kind::Text => "TEXT".to_owned(),
        Kind::Secret => "SECRET".to_owned(),
        Kind::Path | Kind::UnixPath => "PATH".to_owned(),
        Kind::Endpoint | Kind::Url => "URL".to_owned(),
        Kind::Domains => "DOMAIN,...".to_owned(),
        Kind::Globs => "PATTERN,...".to_owned(),
        Kind::Prefixes => "PREFIX,...".to_owned(),
        Kind::Columns => "COLUMN,...".to_owned(),
        Kind::Networks => "NETWORK,...".to_owned(),
    }
}

fn wrapped(text: &str, characters_max: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is always a line");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > characters_max {
            lines.push(word.to_owned());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines
}

/// The reference page: a table of keys for each section.
pub fn reference_markdown() -> String {
    let mut page = String::from(
        "# Configuration\n\nWritten by `nilas-server --reference`; a test holds it against the \
         table of keys.\n\nOne TOML file, named by `--config` or `NILAS_CONFIG`. `section.key` is \
         set by the flag `--section.key` and by the variable `NILAS_SECTION_KEY`; a flag wins over \
         the environment, which wins over the file, which wins over the default. Keys of \
         `[[credentials]]` and `[[catalog]]` mean the first item there; \
         `--credentials.1.access_key` and `NILAS_CREDENTIALS_1_ACCESS_KEY` mean the second. In flags and variables, lists are \
         separated by commas. An unknown key is refused.\n",
    );
    for section in sections() {
        let brackets = brackets(section);
        let _ = writeln!(page, "\n## `{}{section}{}`\n", brackets.0, brackets.1);
        page.push_str("| key | value | default | what it does |\n|---|---|---|---|\n");
        for key in KEYS.iter().filter(|key| key.section == section) {
            let default = match key.default {
                Some("") => "none".to_owned(),
                Some(default) => format!("`{default}`"),
                None => String::new(),
            };
            let expected = key.kind.expected();
            let _ = writeln!(page, "| `{}` | {expected} | {default} | {} |", key.name, key.help);
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_key_and_fits_a_terminal() {
        let text = help_text();
        for key in KEYS {
            assert!(text.contains(&format!("--{}", key.dotted())), "{}", key.dotted());
            assert!(text.contains(&key.variable()), "{}", key.variable());
        }
        let long = text.lines().find(|line| line.chars().count() > 110);
        assert_eq!(long, None, "a line is too long");
    }

    #[test]
    fn the_reference_page_is_what_the_table_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/CONFIGURATION.md");
        let page = std::fs::read_to_string(path).expect("docs/CONFIGURATION.md can be read");
        assert!(
            page == reference_markdown(),
            "docs/CONFIGURATION.md is old: nilas-server --reference > docs/CONFIGURATION.md"
        );
    }
}

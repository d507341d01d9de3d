//! The TOML file: sections of keys. What is wrong in it is told with its line; the text of a line
//! is never repeated, as a secret may stand in it.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::ConfigError;
use super::key::{ITEMS_MAX, KeyIndex, is_listed, sections};
use super::setting::{SettingId, Settings, Source};
use super::suggest::nearest;
use super::table::KEYS;

/// Bytes of a configuration file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A name or a value, and the byte at which it starts.
type Entry<'t, 's> = (&'t str, usize, &'t Spanned<DeValue<'s>>);

/// Reads the file at `path`.
pub(super) fn read(path: &Path, errors: &mut Vec<ConfigError>) -> Settings {
    let unreadable = |cause: String| ConfigError::Unreadable { path: path.to_owned(), cause };
    let text = match std::fs::metadata(path) {
        Ok(facts) if facts.len() > FILE_BYTES_MAX => {
            Err(unreadable(format!("it is longer than {FILE_BYTES_MAX} bytes")))
        }
        Ok(_) => std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string())),
        Err(error) => Err(unreadable(error.to_string())),
    };
    match text {
        Ok(text) => parse(path, &text, errors),
        Err(error) => {
            errors.push(error);
            Settings::default()
        }
    }
}

/// Reads `text` as the content of the file at `path`.
pub(super) fn parse(path: &Path, text: &str, errors: &mut Vec<ConfigError>) -> Settings {
    let mut reader = Reader { path, text, errors, settings: Settings::default() };
    match DeTable::parse(text) {
        Ok(table) => reader.sections(table.get_ref()),
        Err(error) => reader.syntax(&error),
    }
    reader.settings
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    errors: &'a mut Vec<ConfigError>,
    settings: Settings,
}

impl Reader<'_> {
    fn sections(&mut self, table: &DeTable<'_>) {
        for (name, start, value) in entries(table) {
            if !sections().contains(&name) {
                self.unknown_section(name, start);
                continue;
            }
            match value.get_ref() {
                DeValue::Array(items) if is_listed(name) => {
                    self.items(name, start, items.iter());
                }
                DeValue::Table(keys) if !is_listed(name) => self.keys(name, 0, keys),
                _ => self.wrong_section(name, start),
            }
        }
    }

    fn items<'t, 's: 't, I>(&mut self, section: &str, start: usize, items: I)
    where
        I: Iterator<Item = &'t Spanned<DeValue<'s>>>,
    {
        for (item, value) in items.enumerate() {
            match value.get_ref() {
                DeValue::Table(keys) if item < ITEMS_MAX => self.keys(section, item, keys),
                _ => return self.wrong_section(section, start),
            }
        }
    }

    fn keys(&mut self, section: &str, item: usize, keys: &DeTable<'_>) {
        for (name, start, value) in entries(keys) {
            let Some(key) = KeyIndex::find(section, name) else {
                self.unknown_key(section, name, start);
                continue;
            };
            let id = SettingId { item, key };
            let source = Source::File { path: self.path.to_owned(), line: self.line(start) };
            match key.key().kind.parse_toml(value.get_ref()) {
                Ok(value) => self.settings.set(id, value, source),
                Err(mismatch) => self.errors.push(source.refusal(id, mismatch)),
            }
        }
    }

    fn line(&self, start: usize) -> usize {
        self.text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count() + 1
    }

    fn place(&self, start: usize) -> String {
        format!("{}:{}", self.path.display(), self.line(start))
    }

    fn syntax(&mut self, error: &toml::de::Error) {
        let start = error.span().map_or(0, |span| span.start.min(self.text.len()));
        // What is missing at the end of a line is told of that line, not of the next.
        let start = self.text.as_bytes()[..start].trim_ascii_end().len();
        // Only the parser's first sentence: the rest may quote the text.
        let cause = error.message().lines().next().unwrap_or("malformed").to_owned();
        self.errors.push(ConfigError::Syntax { place: self.place(start), cause });
    }

    fn wrong_section(&mut self, name: &str, start: usize) {
        let expected = if is_listed(name) {
            format!("items, each begun by a line [[{name}]], {ITEMS_MAX} at most")
        } else {
            format!("a section, begun by a line [{name}]")
        };
        let place = format!("{}: {name}", self.place(start));
        self.errors.push(ConfigError::Value {
            place,
            found: "something else".to_owned(),
            expected,
        });
    }

    fn unknown_section(&mut self, name: &str, start: usize) {
        // A known key outside its section is the likeliest slip; else a slip of the pen.
        let hint = match KEYS.iter().find(|key| key.name == name) {
            Some(key) => format!("did you mean {name} under [{}]?", key.section),
            None => match nearest(name, sections()) {
                Some(section) => format!("did you mean [{section}]?"),
                None => format!("there are {}", sections().join(", ")),
            },
        };
        self.unknown("section", name, start, hint);
    }

    fn unknown_key(&mut self, section: &str, name: &str, start: usize) {
        let full = format!("{section}.{name}");
        let dotted: Vec<String> = KEYS.iter().map(super::key::Key::dotted).collect();
        let elsewhere = KEYS.iter().find(|key| key.name == name);
        let hint = match (elsewhere, nearest(&full, dotted.iter().map(String::as_str))) {
            (Some(key), _) => format!("did you mean {}?", key.dotted()),
            (None, Some(known)) => format!("did you mean {known}?"),
            (None, None) => {
                let names = KEYS.iter().filter(|key| key.section == section).map(|key| key.name);
                format!("[{section}] has {}", names.collect::<Vec<_>>().join(", "))
            }
        };
        self.unknown("key", &full, start, hint);
    }

    fn unknown(&mut self, what: &'static str, name: &str, start: usize, hint: String) {
        let place = self.place(start);
        self.errors.push(ConfigError::Unknown { place, what, name: name.to_owned(), hint });
    }
}

/// A table's entries in the order in which they are written.
fn entries<'t, 's>(table: &'t DeTable<'s>) -> Vec<Entry<'t, 's>> {
    let mut entries: Vec<Entry<'t, 's>> = table
        .iter()
        .map(|(name, value)| (name.get_ref().as_ref(), name.span().start, value))
        .collect();
    entries.sort_by_key(|(_, start, _)| *start);
    entries
}

//! Values by key, each with where it came from. Layers are laid one over another, the weakest
//! first: defaults, file, environment, flags.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::error::ConfigError;
use super::key::{ITEMS_MAX, KeyIndex, LISTED_SECTIONS, is_listed};
use super::kind::{Mismatch, Value};

/// Which value: a key, and in a listed section which item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SettingId {
    /// The item, from zero; zero in sections that are not listed.
    pub item: usize,
    /// The key.
    pub key: KeyIndex,
}

impl SettingId {
    /// The one value of a key.
    pub fn of(key: KeyIndex) -> SettingId {
        SettingId { item: 0, key }
    }

    /// `section.name`, or `section.item.name` in a listed section.
    pub fn dotted(self) -> String {
        let key = self.key.key();
        if is_listed(key.section) {
            format!("{}.{}.{}", key.section, self.item, key.name)
        } else {
            key.dotted()
        }
    }

    /// The value that a dotted name means; in a listed section the item may be left out, which
    /// means the first.
    pub(super) fn from_dotted(name: &str) -> Option<SettingId> {
        let (section, rest) = name.split_once('.')?;
        if let (true, Some((item, key_name))) = (is_listed(section), rest.split_once('.')) {
            let item = parse_item(item)?;
            return Some(SettingId { item, key: KeyIndex::find(section, key_name)? });
        }
        KeyIndex::find(section, rest).map(SettingId::of)
    }
}

/// The number of an item, in its one spelling.
pub(super) fn parse_item(text: &str) -> Option<usize> {
    let item: usize = text.parse().ok()?;
    (item < ITEMS_MAX && item.to_string() == text).then_some(item)
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nobody said anything.
    Default,
    /// A file.
    File {
        /// Its path.
        path: PathBuf,
        /// The line, from one.
        line: usize,
    },
    /// The environment variable of this name.
    Variable(String),
    /// The flag of this name, dashes included.
    Flag(String),
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => formatter.write_str("default"),
            Source::File { path, line } => write!(formatter, "{}:{line}", path.display()),
            Source::Variable(name) | Source::Flag(name) => formatter.write_str(name),
        }
    }
}

impl Source {
    /// The source, and the key where the source's own name does not say it.
    pub(super) fn place(&self, id: SettingId) -> String {
        match self {
            Source::Default | Source::File { .. } => format!("{self}: {}", id.dotted()),
            Source::Variable(_) | Source::Flag(_) => self.to_string(),
        }
    }

    pub(super) fn refusal(&self, id: SettingId, mismatch: Mismatch) -> ConfigError {
        let Mismatch { found, expected } = mismatch;
        ConfigError::Value { place: self.place(id), found, expected }
    }
}

/// A value and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The value.
    pub value: Value,
    /// Where it came from.
    pub source: Source,
}

/// Every value that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    values: BTreeMap<SettingId, Setting>,
}

impl Settings {
    /// What the table of keys says when nobody else does.
    pub(super) fn defaults() -> Settings {
        let mut settings = Settings::default();
        settings.fill(0, |section| !is_listed(section));
        settings
    }

    /// Gives each item of the listed sections what nobody has said of it.
    pub(super) fn fill_items(&mut self) {
        for section in LISTED_SECTIONS {
            for item in 0..self.items(section) {
                self.fill(item, |other| other == section);
            }
        }
    }

    fn fill(&mut self, item: usize, is_filled: impl Fn(&str) -> bool) {
        for key in KeyIndex::all().filter(|key| is_filled(key.key().section)) {
            let id = SettingId { item, key };
            if let (Some(text), false) = (key.key().default, self.values.contains_key(&id)) {
                let value = key.key().kind.parse_text(text).expect("a test reads every default");
                self.set(id, value, Source::Default);
            }
        }
    }

    /// Sets a value, over any that was there.
    pub(super) fn set(&mut self, id: SettingId, value: Value, source: Source) {
        self.values.insert(id, Setting { value, source });
    }

    /// Lays `stronger` over these.
    pub(super) fn overlay(&mut self, stronger: Settings) {
        self.values.extend(stronger.values);
    }

    /// One value.
    pub fn get(&self, id: SettingId) -> Option<&Setting> {
        self.values.get(&id)
    }

    /// One value of a section that is not listed. Panics where the table has no such key.
    pub(super) fn named(&self, section: &str, name: &str) -> Option<&Setting> {
        let key = KeyIndex::find(section, name).expect("the table has every key that is asked for");
        self.get(SettingId::of(key))
    }

    /// How many items a listed section has: one more than the highest that is set.
    pub fn items(&self, section: &str) -> usize {
        let listed = self.values.keys().filter(|id| id.key.key().section == section);
        listed.map(|id| id.item + 1).max().unwrap_or(0)
    }

    /// All values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&SettingId, &Setting)> {
        self.values.iter()
    }
}

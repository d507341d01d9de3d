//! What a key is: its names in file, environment and flags, its kind, its default. All of them
//! are made from one entry in `table`, so no source can know a key that another does not.

use super::kind::Kind;
use super::table::KEYS;

/// One key of the configuration.
#[derive(Debug)]
pub struct Key {
    /// The table that it stands in.
    pub section: &'static str,
    /// Its name there.
    pub name: &'static str,
    /// What it can be.
    pub kind: Kind,
    /// What it is when nobody says, as a variable would say it.
    pub default: Option<&'static str>,
    /// A shorter flag.
    pub short_flag: Option<&'static str>,
    /// What it does, in a sentence.
    pub help: &'static str,
}

impl Key {
    /// `section.name`.
    pub fn dotted(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }

    /// The environment variable that sets it.
    pub fn variable(&self) -> String {
        format!("NILAS_{}_{}", self.section, self.name).to_ascii_uppercase()
    }

    pub(super) const fn short(mut self, flag: &'static str) -> Key {
        self.short_flag = Some(flag);
        self
    }
}

/// The section of the clients' credentials, whose keys come once for each item: `[[credentials]]`.
pub(super) const CREDENTIALS: &str = "credentials";
/// The section of the catalogs, whose keys come once for each item: `[[catalog]]`.
pub(super) const CATALOGS: &str = "catalog";
/// The section of the rules of what is to be at hand: `[[warm]]`.
pub(super) const WARM_RULES: &str = "warm";
/// The sections whose keys come once for each item.
pub(super) const LISTED_SECTIONS: [&str; 3] = [CREDENTIALS, CATALOGS, WARM_RULES];

/// Whether a section's keys come once for each item.
pub(super) fn is_listed(section: &str) -> bool {
    LISTED_SECTIONS.contains(&section)
}

/// The brackets around a section's name in a file.
pub(super) fn brackets(section: &str) -> (&'static str, &'static str) {
    if is_listed(section) { ("[[", "]]") } else { ("[", "]") }
}

/// Items that such a section can have.
pub(super) const ITEMS_MAX: usize = 1024;

/// A key's place in [`KEYS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyIndex(usize);

impl KeyIndex {
    /// The key.
    pub fn key(self) -> &'static Key {
        &KEYS[self.0]
    }

    /// Every key, in order.
    pub fn all() -> impl Iterator<Item = KeyIndex> {
        (0..KEYS.len()).map(KeyIndex)
    }

    /// The key `section.name`.
    pub fn find(section: &str, name: &str) -> Option<KeyIndex> {
        KeyIndex::all().find(|index| index.key().section == section && index.key().name == name)
    }
}

/// Every section, in order, once.
pub fn sections() -> Vec<&'static str> {
    let mut sections: Vec<&'static str> = KEYS.iter().map(|key| key.section).collect();
    sections.dedup();
    sections
}

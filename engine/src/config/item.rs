//! One item of a section whose keys come once for each: what each of its keys says. Keys are read as what
//! their kinds say; another kind is a bug.

use std::path::PathBuf;
use std::time::Duration;

use super::error::ConfigError;
use super::glob::Glob;
use super::key::KeyIndex;
use super::kind::Value;
use super::secret::Secret;
use super::setting::{Setting, SettingId, Settings, Source};

/// One item.
pub(super) struct Item<'a> {
    pub(super) settings: &'a Settings,
    pub(super) section: &'static str,
    pub(super) number: usize,
}

impl<'a> Item<'a> {
    pub(super) fn setting(&self, name: &str) -> Option<&'a Setting> {
        let key = KeyIndex::find(self.section, name).expect("the table has every key asked for");
        self.settings.get(SettingId { item: self.number, key })
    }

    pub(super) fn value(&self, name: &str) -> Option<&'a Value> {
        self.setting(name).map(|setting| &setting.value)
    }

    pub(super) fn is_set(&self, name: &str) -> bool {
        self.setting(name).is_some_and(|setting| setting.source != Source::Default)
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.value(name).map(|value| match value {
            Value::Text(text) => text.clone(),
            other => mistaken(name, other),
        })
    }

    pub(super) fn secret(&self, name: &str) -> Option<Secret> {
        self.value(name).map(|value| match value {
            Value::Secret(secret) => secret.clone(),
            other => mistaken(name, other),
        })
    }

    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        self.value(name).map(|value| match value {
            Value::Path(path) => path.clone(),
            other => mistaken(name, other),
        })
    }

    pub(super) fn globs(&self, name: &str) -> Vec<Glob> {
        match self.value(name) {
            Some(Value::Globs(globs)) => globs.clone(),
            other => mistaken(name, &other),
        }
    }

    pub(super) fn duration(&self, name: &str) -> Duration {
        match self.value(name) {
            Some(Value::Duration(duration)) => *duration,
            other => mistaken(name, &other),
        }
    }

    pub(super) fn number(&self, name: &str) -> usize {
        match self.value(name) {
            Some(Value::Count(number) | Value::Size(number)) => {
                usize::try_from(*number).expect("the table bounds it")
            }
            other => mistaken(name, &other),
        }
    }

    pub(super) fn names(&self, name: &str) -> Vec<String> {
        match self.value(name) {
            Some(Value::Names(names)) => names.clone(),
            other => mistaken(name, &other),
        }
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        matches!(self.value(name), Some(Value::Boolean(true)))
    }

    pub(super) fn wrong(&self, problem: &str, cure: &str) -> ConfigError {
        ConfigError::Conflict {
            problem: format!("{}.{} has {problem}", self.section, self.number),
            cure: cure.to_owned(),
        }
    }
}

fn mistaken(name: &str, found: &dyn std::fmt::Debug) -> ! {
    unreachable!("the table says another kind of {name} than {found:?}")
}

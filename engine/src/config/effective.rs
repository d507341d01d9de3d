//! The effective configuration, for people: every value with its source, secrets hidden. The text
//! is TOML, so that it can be kept as a file once its secrets are filled in.

use std::fmt::Write;

use serde_json::json;

use super::key::{KeyIndex, brackets, is_listed, sections};
use super::kind::Value;
use super::secret::HIDDEN;
use super::setting::{Setting, SettingId, Settings};
use super::unit::{duration_text, size_text};

/// Column at which sources stand.
const SOURCE_COLUMN: usize = 48;

/// The settings as TOML with their sources.
pub(super) fn text(settings: &Settings) -> String {
    let mut text = String::new();
    for section in sections() {
        let items = if is_listed(section) { settings.items(section) } else { 1 };
        for item in 0..items {
            let brackets = brackets(section);
            let _ = writeln!(text, "{}{section}{}", brackets.0, brackets.1);
            write_keys(&mut text, settings, section, item);
            text.push('\n');
        }
    }
    text
}

fn write_keys(text: &mut String, settings: &Settings, section: &str, item: usize) {
    for key in KeyIndex::all().filter(|key| key.key().section == section) {
        if let Some(Setting { value, source }) = settings.get(SettingId { item, key }) {
            let line = format!("{} = {}", key.key().name, toml_value(value));
            let _ = writeln!(text, "{line:SOURCE_COLUMN$} # {source}");
        }
    }
}

/// The settings as JSON.
pub(super) fn json(settings: &Settings) -> serde_json::Value {
    let entries = settings.iter().map(|(id, setting)| {
        let entry =
            json!({"value": json_value(&setting.value), "source": setting.source.to_string()});
        (id.dotted(), entry)
    });
    serde_json::Value::Object(entries.collect())
}

/// A value as it would stand in a TOML file.
pub(super) fn toml_value(value: &Value) -> String {
    json_value(value).to_string()
}

/// JSON's texts, numbers, booleans and lists are TOML's too, save for control characters, which no
/// kind but a path lets in.
fn json_value(value: &Value) -> serde_json::Value {
    match value {
        Value::Address(address) => json!(address.to_string()),
        Value::Boolean(boolean) => json!(boolean),
        Value::Text(text) => json!(text),
        Value::Count(count) => json!(count),
        Value::Auto => json!("auto"),
        Value::Size(bytes) => json!(size_text(*bytes)),
        Value::Duration(duration) => json!(duration_text(*duration)),
        Value::Secret(_) => json!(HIDDEN),
        Value::Path(path) => json!(path.display().to_string()),
        Value::Names(names) => json!(names),
        Value::Networks(networks) => {
            json!(networks.iter().map(ToString::to_string).collect::<Vec<_>>())
        }
        Value::Globs(globs) => json!(globs.iter().map(ToString::to_string).collect::<Vec<_>>()),
    }
}

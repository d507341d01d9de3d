//! The environment: `NILAS_SECTION_KEY` for each key, `NILAS_CREDENTIALS_ITEM_KEY` in a listed
//! section. Every other `NILAS_` variable is refused, except those that Kubernetes sets by itself
//! in the pods beside a service named `nilas`.

use super::error::ConfigError;
use super::key::{Key, KeyIndex, LISTED_SECTIONS};
use super::setting::{SettingId, Settings, Source, parse_item};
use super::suggest::nearest;
use super::table::KEYS;

/// Variables of the node begin with this.
const PREFIX: &str = "NILAS_";
/// The variable that names the file; it is not a key.
pub(super) const FILE_VARIABLE: &str = "NILAS_CONFIG";

/// Reads the keys among `variables`. Variables in `exempt` are somebody's secrets, not keys.
pub(super) fn parse(
    variables: &[(String, String)],
    exempt: &[String],
    errors: &mut Vec<ConfigError>,
) -> Settings {
    let mut settings = Settings::default();
    for (name, value) in variables {
        if !name.starts_with(PREFIX) || name == FILE_VARIABLE || exempt.contains(name) {
            continue;
        }
        match setting_of(name) {
            Some(id) => {
                let source = Source::Variable(name.clone());
                match id.key.key().kind.parse_text(value) {
                    Ok(value) => settings.set(id, value, source),
                    Err(mismatch) => errors.push(source.refusal(id, mismatch)),
                }
            }
            None if is_service_link(name, value) => {}
            None => errors.push(unknown(name)),
        }
    }
    settings
}

/// The key that the variable `name` sets.
fn setting_of(name: &str) -> Option<SettingId> {
    let plain = KeyIndex::all().find(|index| index.key().variable() == name).map(SettingId::of);
    plain.or_else(|| LISTED_SECTIONS.iter().find_map(|section| item_setting_of(name, section)))
}

fn item_setting_of(name: &str, section: &str) -> Option<SettingId> {
    let (item, key_name) = name
        .strip_prefix(PREFIX)?
        .strip_prefix(&section.to_ascii_uppercase())?
        .strip_prefix('_')?
        .split_once('_')?;
    let key = KeyIndex::find(section, &key_name.to_ascii_lowercase())?;
    Some(SettingId { item: parse_item(item)?, key })
}

/// Whether Kubernetes made this variable for a service whose name begins with `nilas`.
fn is_service_link(name: &str, value: &str) -> bool {
    let is_port_of = |protocol: &str| name.contains("_PORT_") && name.contains(protocol);
    name.ends_with("_SERVICE_HOST")
        || name.ends_with("_SERVICE_PORT")
        || name.contains("_SERVICE_PORT_")
        || (name.ends_with("_PORT") && value.contains("://"))
        || is_port_of("_TCP")
        || is_port_of("_UDP")
}

fn unknown(name: &str) -> ConfigError {
    let known: Vec<String> = KEYS.iter().map(Key::variable).collect();
    let candidates = known.iter().map(String::as_str).chain([FILE_VARIABLE]);
    let hint = match nearest(name, candidates) {
        Some(variable) => format!("did you mean {variable}?"),
        None => "nilas-server --help lists them".to_owned(),
    };
    ConfigError::Unknown {
        place: "environment".to_owned(),
        what: "variable",
        name: name.to_owned(),
        hint,
    }
}

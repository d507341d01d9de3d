//! The clients' credentials: an access key, and a secret key given outright, in a file or in an
//! environment variable. What is read is never repeated in an error.

use std::path::Path;
use std::sync::Arc;

use super::error::ConfigError;
use super::key::{CREDENTIALS, KeyIndex};
use super::kind::Value;
use super::secret::Secret;
use super::setting::{Setting, SettingId, Settings};
use super::{ClientCredential, Inputs, LimitNumbers, Mode, Scope};
use crate::origin::SigningKey;

/// Characters of an access key.
const ACCESS_KEY_CHARACTERS_MAX: usize = 128;
/// Bytes of a file that holds a secret key.
const SECRET_FILE_BYTES_MAX: u64 = 64 * 1024;
/// The keys that give a secret key, of which an item has one.
const SECRET_KEYS: [&str; 3] = ["secret_key", "secret_key_file", "secret_key_env"];

/// The variables that `settings` names as holders of secrets.
pub(super) fn secret_variables(settings: &Settings) -> Vec<String> {
    let holder = KeyIndex::find(CREDENTIALS, "secret_key_env");
    settings
        .iter()
        .filter(|(id, _)| Some(id.key) == holder)
        .filter_map(|(_, setting)| match &setting.value {
            Value::Text(name) => Some(name.clone()),
            _ => None,
        })
        .collect()
}

/// Every credential, in order.
pub(super) fn read_all(
    settings: &Settings,
    inputs: &Inputs,
    errors: &mut Vec<ConfigError>,
) -> Vec<ClientCredential> {
    let mut credentials: Vec<ClientCredential> = Vec::new();
    for item in 0..settings.items(CREDENTIALS) {
        match read_one(settings, item, inputs) {
            Ok(next) if credentials.iter().any(|one| one.access_key == next.access_key) => {
                errors.push(twice(item, &next.access_key));
            }
            Ok(credential) => credentials.push(credential),
            Err(error) => errors.push(error),
        }
    }
    credentials
}

/// Those of the credentials file, beside the configured ones.
pub(super) fn of_file(
    path: Option<&Path>,
    configured: &[ClientCredential],
    errors: &mut Vec<ConfigError>,
) -> Vec<ClientCredential> {
    let Some(path) = path else { return Vec::new() };
    let found = match super::read_credentials_file(path) {
        Ok(found) => found,
        Err(wrong) => {
            errors.extend(wrong.0);
            return Vec::new();
        }
    };
    for (item, one) in found.iter().enumerate() {
        if configured.iter().any(|other| other.access_key == one.access_key) {
            let problem =
                format!("the access_key {:?}, which the configuration has too", one.access_key);
            let cure = format!("take it out of one of them; the file is {}", path.display());
            errors.push(incomplete(item, &problem, &cure));
        }
    }
    found
}

fn read_one(
    settings: &Settings,
    item: usize,
    inputs: &Inputs,
) -> Result<ClientCredential, ConfigError> {
    let setting = |name: &str| settings.get(id(item, name));
    let access_key = match setting("access_key").map(|setting| (setting, &setting.value)) {
        Some((_, Value::Text(text))) if is_access_key(text) => text.clone(),
        Some((found, _)) => return Err(malformed_access_key(item, found)),
        None => return Err(incomplete(item, "no access_key", "set one, or remove the item")),
    };
    let given: Vec<(&str, &Setting)> =
        SECRET_KEYS.iter().filter_map(|name| Some((*name, setting(name)?))).collect();
    let secret_key = match given.as_slice() {
        [] => {
            let cure = "set secret_key, secret_key_file or secret_key_env";
            return Err(incomplete(item, "an access_key but no secret key", cure));
        }
        [(name, setting)] => resolve(id(item, name), setting, inputs)?,
        [(first, one), (second, other), ..] => {
            let problem = format!(
                "two secret keys: {first} ({}) and {second} ({})",
                one.source, other.source
            );
            return Err(incomplete(item, &problem, "keep one of them"));
        }
    };
    let origin_key = origin_key(item, setting("origin_access_key"), setting("origin_secret_key"))?;
    let (scope, limits) = (scope(settings, item), limits(settings, item));
    Ok(ClientCredential { access_key, secret_key, origin_key, scope, limits })
}

/// What an item may do.
fn scope(settings: &Settings, item: usize) -> Scope {
    let value = |name: &str| settings.get(id(item, name)).map(|setting| &setting.value);
    Scope {
        mode: match value("mode") {
            Some(Value::Text(mode)) if mode == "read_only" => Mode::ReadOnly,
            Some(Value::Text(mode)) if mode == "read_write" => Mode::ReadWrite,
            _ => Mode::Admin,
        },
        buckets: match value("buckets") {
            Some(Value::Globs(buckets)) => buckets.clone(),
            _ => Vec::new(),
        },
        prefixes: match value("prefixes") {
            Some(Value::Names(prefixes)) => prefixes.clone(),
            _ => Vec::new(),
        },
    }
}

/// How much of it.
fn limits(settings: &Settings, item: usize) -> LimitNumbers {
    let number = |name: &str| match settings.get(id(item, name)).map(|setting| &setting.value) {
        Some(Value::Count(number) | Value::Size(number)) => Some(*number),
        _ => None,
    };
    LimitNumbers {
        requests_per_second_max: number("requests_per_second_max"),
        bytes_per_second_max: number("bytes_per_second_max"),
        requests_in_flight_max: number("requests_in_flight_max")
            .map(|number| usize::try_from(number).expect("the table bounds it")),
    }
}

/// The origin's key of an item, both halves or none.
fn origin_key(
    item: usize,
    access: Option<&Setting>,
    secret: Option<&Setting>,
) -> Result<Option<Arc<SigningKey>>, ConfigError> {
    match (access.map(|setting| &setting.value), secret.map(|setting| &setting.value)) {
        (None, None) => Ok(None),
        (Some(Value::Text(access)), Some(Value::Secret(secret))) => {
            Ok(Some(Arc::new(SigningKey {
                access_key: access.clone(),
                secret_key: secret.expose().to_owned(),
                session_token: None,
            })))
        }
        _ => {
            let problem = "one of origin_access_key and origin_secret_key without the other";
            Err(incomplete(item, problem, "set both, or neither"))
        }
    }
}

fn id(item: usize, name: &str) -> SettingId {
    let key = KeyIndex::find(CREDENTIALS, name).expect("the table has every key asked for");
    SettingId { item, key }
}

/// Slashes and commas part the fields of a signature's header, so that they cannot be in a key.
fn is_access_key(text: &str) -> bool {
    text.len() <= ACCESS_KEY_CHARACTERS_MAX
        && text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'/' | b','))
}

fn resolve(id: SettingId, setting: &Setting, inputs: &Inputs) -> Result<Secret, ConfigError> {
    let place = setting.source.place(id);
    let text = match &setting.value {
        Value::Secret(secret) => return Ok(secret.clone()),
        Value::Path(path) => read_file(path),
        Value::Text(name) => read_variable(name, inputs),
        other => unreachable!("a secret key is a secret, a path or a name, not {other:?}"),
    };
    match text {
        Ok(text) if !text.is_empty() => Ok(Secret::new(text)),
        Ok(_) => Err((format!("an empty {}", holder(&setting.value)), "a secret key in it")),
        Err(found) => Err((found, "one that holds the secret key and can be read")),
    }
    .map_err(|(found, expected)| ConfigError::Value {
        place,
        found,
        expected: expected.to_owned(),
    })
}

fn holder(value: &Value) -> &'static str {
    if matches!(value, Value::Path(_)) { "file" } else { "variable" }
}

pub(super) fn read_file(path: &Path) -> Result<String, String> {
    let unreadable = |cause: String| format!("the file {}: {cause}", path.display());
    let facts = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
    if facts.len() > SECRET_FILE_BYTES_MAX {
        return Err(unreadable(format!("it is longer than {SECRET_FILE_BYTES_MAX} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

fn read_variable(name: &str, inputs: &Inputs) -> Result<String, String> {
    let found = inputs.variables.iter().find(|(variable, _)| variable == name);
    found.map(|(_, value)| value.clone()).ok_or_else(|| format!("the unset variable {name}"))
}

fn malformed_access_key(item: usize, found: &Setting) -> ConfigError {
    ConfigError::Value {
        place: found.source.place(id(item, "access_key")),
        found: "something else".to_owned(),
        expected: format!(
            "at most {ACCESS_KEY_CHARACTERS_MAX} visible ASCII characters without / and comma"
        ),
    }
}

fn incomplete(item: usize, problem: &str, cure: &str) -> ConfigError {
    ConfigError::Conflict {
        problem: format!("{CREDENTIALS}.{item} has {problem}"),
        cure: cure.to_owned(),
    }
}

fn twice(item: usize, access_key: &str) -> ConfigError {
    let problem = format!("the access_key {access_key:?}, which an earlier item has too");
    incomplete(item, &problem, "give each item a key of its own")
}

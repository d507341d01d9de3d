//! What a key can be, and how a text or a TOML value becomes one. A value of the wrong kind is
//! answered with what was found and an example of what is right; a secret's text is never in it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use nilas_shards::UNIX_PATH_BYTES_MAX;
use toml::de::DeValue;

use super::glob::Glob;
use super::network::Network;
use super::secret::Secret;
use super::unit::{duration_text, parse_duration, parse_size, size_text};

/// Characters of a wrong value that an error repeats.
const FOUND_CHARACTERS_MAX: usize = 80;

/// What a key can be.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// IP address and port; `localhost` stands for 127.0.0.1.
    Address,
    /// `true` or `false`.
    Boolean,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number within these bounds.
    Count {
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// A whole number from one, or `auto`.
    CountOrAuto {
        /// The most.
        max: u64,
    },
    /// A number of bytes, with a unit.
    Size {
        /// The least, in bytes.
        min: u64,
        /// The most, in bytes.
        max: u64,
    },
    /// A number of bytes that is a power of two.
    PowerOfTwoSize {
        /// The least, in bytes.
        min: u64,
        /// The most, in bytes.
        max: u64,
    },
    /// A duration, with a unit.
    Duration {
        /// The least, in nanoseconds.
        min_ns: u64,
        /// The most, in nanoseconds.
        max_ns: u64,
    },
    /// A text, not empty.
    Text,
    /// A text that is never shown.
    Secret,
    /// A path.
    Path,
    /// A path that fits into a Unix socket's address.
    UnixPath,
    /// `http://` or `https://`, a host and perhaps a port.
    Endpoint,
    /// The same, and perhaps a path.
    Url,
    /// Domain names.
    Domains,
    /// Patterns.
    Globs,
    /// Beginnings of keys.
    Prefixes,
    /// Names of columns.
    Columns,
    /// Networks.
    Networks,
}

/// A key's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Of [`Kind::Address`].
    Address(SocketAddr),
    /// Of [`Kind::Boolean`].
    Boolean(bool),
    /// Of [`Kind::Choice`], [`Kind::Text`], [`Kind::Endpoint`] and [`Kind::Url`].
    Text(String),
    /// Of [`Kind::Count`].
    Count(u64),
    /// Of [`Kind::CountOrAuto`].
    Auto,
    /// Of [`Kind::Size`] and [`Kind::PowerOfTwoSize`], in bytes.
    Size(u64),
    /// Of [`Kind::Duration`].
    Duration(Duration),
    /// Of [`Kind::Secret`].
    Secret(Secret),
    /// Of [`Kind::Path`] and [`Kind::UnixPath`].
    Path(PathBuf),
    /// Of [`Kind::Domains`], [`Kind::Prefixes`] and [`Kind::Columns`].
    Names(Vec<String>),
    /// Of [`Kind::Globs`].
    Globs(Vec<Glob>),
    /// Of [`Kind::Networks`].
    Networks(Vec<Network>),
}

/// Why a value was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mismatch {
    pub(super) found: String,
    pub(super) expected: String,
}

impl Kind {
    /// The value that `text` writes in a variable or a flag. Lists are separated by commas.
    pub(super) fn parse_text(&self, text: &str) -> Result<Value, Mismatch> {
        let value = match self {
            Kind::Domains | Kind::Globs | Kind::Prefixes | Kind::Columns | Kind::Networks => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                return self.parse_items(items);
            }
            Kind::Boolean => text.parse().ok().map(Value::Boolean),
            Kind::Count { .. } => text.parse().ok().map(Value::Count),
            Kind::CountOrAuto { .. } if text == "auto" => Some(Value::Auto),
            Kind::CountOrAuto { .. } => text.parse().ok().map(Value::Count),
            _ => self.parse_word(text),
        };
        self.checked(value, || quoted(text))
    }

    /// The value that stands in a TOML file.
    pub(super) fn parse_toml(&self, value: &DeValue<'_>) -> Result<Value, Mismatch> {
        let parsed = match (self, value) {
            (Kind::Boolean, DeValue::Boolean(boolean)) => Some(Value::Boolean(*boolean)),
            (Kind::Count { .. } | Kind::CountOrAuto { .. }, DeValue::Integer(number)) => {
                u64::from_str_radix(number.as_str(), number.radix()).ok().map(Value::Count)
            }
            (Kind::CountOrAuto { .. }, DeValue::String(text)) if text == "auto" => {
                Some(Value::Auto)
            }
            (
                Kind::Domains | Kind::Globs | Kind::Prefixes | Kind::Columns | Kind::Networks,
                DeValue::Array(items),
            ) => {
                let texts: Option<Vec<&str>> =
                    items.iter().map(|item| item.get_ref().as_str()).collect();
                match texts {
                    Some(texts) => return self.parse_items(texts.into_iter()),
                    None => None,
                }
            }
            (_, DeValue::String(text)) => self.parse_word(text),
            _ => None,
        };
        self.checked(parsed, || toml_found(value))
    }

    /// Kinds that are written the same in TOML strings, variables and flags.
    fn parse_word(&self, text: &str) -> Option<Value> {
        match self {
            Kind::Address => parse_address(text).map(Value::Address),
            Kind::Choice(words) => words.contains(&text).then(|| Value::Text(text.to_owned())),
            Kind::Size { .. } | Kind::PowerOfTwoSize { .. } => parse_size(text).map(Value::Size),
            Kind::Duration { .. } => parse_duration(text).map(Value::Duration),
            Kind::Text if !text.trim().is_empty() => Some(Value::Text(text.to_owned())),
            Kind::Secret if !text.is_empty() => Some(Value::Secret(Secret::new(text))),
            Kind::Path if !text.is_empty() => Some(Value::Path(PathBuf::from(text))),
            Kind::UnixPath if (1..=UNIX_PATH_BYTES_MAX).contains(&text.len()) => {
                (!text.contains('\0')).then(|| Value::Path(PathBuf::from(text)))
            }
            Kind::Endpoint => parse_endpoint(text, false).map(Value::Text),
            Kind::Url => parse_endpoint(text, true).map(Value::Text),
            _ => None,
        }
    }

    fn parse_items<'a, I: Iterator<Item = &'a str>>(&self, items: I) -> Result<Value, Mismatch> {
        let items: Vec<&str> = items.collect();
        let is_right = |item: &&str| match self {
            Kind::Domains => is_domain(item),
            Kind::Networks => Network::parse(item).is_some(),
            _ => !item.is_empty(),
        };
        if let Some(wrong) = items.iter().find(|item| !is_right(item)) {
            return Err(self.mismatch(quoted(wrong)));
        }
        Ok(match self {
            Kind::Domains => Value::Names(items.iter().map(|item| item.to_lowercase()).collect()),
            Kind::Prefixes | Kind::Columns => {
                Value::Names(items.into_iter().map(str::to_owned).collect())
            }
            Kind::Networks => {
                Value::Networks(items.into_iter().filter_map(Network::parse).collect())
            }
            _ => Value::Globs(items.into_iter().map(Glob::new).collect()),
        })
    }

    fn checked(
        &self,
        value: Option<Value>,
        found: impl FnOnce() -> String,
    ) -> Result<Value, Mismatch> {
        let in_bounds = value.filter(|value| match (self, value) {
            (Kind::Count { min, max }, Value::Count(n)) => (*min..=*max).contains(n),
            (Kind::CountOrAuto { max }, Value::Count(n)) => (1..=*max).contains(n),
            (Kind::Size { min, max }, Value::Size(n)) => (*min..=*max).contains(n),
            (Kind::PowerOfTwoSize { min, max }, Value::Size(n)) => {
                n.is_power_of_two() && (*min..=*max).contains(n)
            }
            (Kind::Duration { min_ns, max_ns }, Value::Duration(time)) => {
                (u128::from(*min_ns)..=u128::from(*max_ns)).contains(&time.as_nanos())
            }
            _ => true,
        });
        in_bounds.ok_or_else(|| {
            self.mismatch(if matches!(self, Kind::Secret) { secret_found() } else { found() })
        })
    }

    fn mismatch(&self, found: String) -> Mismatch {
        Mismatch { found, expected: self.expected() }
    }

    /// What the kind takes, as the end of a sentence.
    pub fn expected(&self) -> String {
        match self {
            Kind::Address => "an IP address and a port, such as 127.0.0.1:9000".to_owned(),
            Kind::Boolean => "true or false".to_owned(),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
            Kind::Count { min, max } => format!("a whole number from {min} to {max}"),
            Kind::CountOrAuto { max } => format!("auto or a whole number from 1 to {max}"),
            Kind::Size { min, max } => format!(
                "a size with a unit from {} to {}, such as 64KiB, 2GiB or 1GB",
                size_text(*min),
                size_text(*max)
            ),
            Kind::PowerOfTwoSize { min, max } => format!(
                "a power of two with a unit from {} to {}, such as 2MiB",
                size_text(*min),
                size_text(*max)
            ),
            Kind::Duration { min_ns, max_ns } => format!(
                "a duration with a unit from {} to {}, such as 30ms, 5s or 15m",
                duration_text(Duration::from_nanos(*min_ns)),
                duration_text(Duration::from_nanos(*max_ns))
            ),
            Kind::Text => "a text that is not empty".to_owned(),
            Kind::Secret => "a secret text that is not empty".to_owned(),
            Kind::Path => "a path".to_owned(),
            Kind::UnixPath => format!("a path of at most {UNIX_PATH_BYTES_MAX} bytes"),
            Kind::Endpoint => "http:// or https://, a host and perhaps a port, nothing more, such \
                               as https://s3.eu-central-1.amazonaws.com"
                .to_owned(),
            Kind::Url => "http:// or https://, a host, perhaps a port and a path, such as \
                          https://catalog.example.com/iceberg"
                .to_owned(),
            Kind::Domains => "domain names, such as s3.example.com".to_owned(),
            Kind::Globs => "patterns, such as lake-*".to_owned(),
            Kind::Columns => "names of columns, such as customer.address".to_owned(),
            Kind::Prefixes => "beginnings of keys, such as tables/orders/".to_owned(),
            Kind::Networks => "networks, such as 10.0.0.0/8, or addresses".to_owned(),
        }
    }
}

fn secret_found() -> String {
    "something else (hidden)".to_owned()
}

/// `text` in quotes, cut where it is long.
fn quoted(text: &str) -> String {
    // A user and a password may stand before an `@`: such a text is not repeated.
    if text.contains('@') {
        return "a text with an @, which is not repeated here as a password may be in it"
            .to_owned();
    }
    match text.char_indices().nth(FOUND_CHARACTERS_MAX) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

fn toml_found(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => quoted(text),
        DeValue::Integer(number) => format!("the number {}", number.as_str()),
        DeValue::Float(number) => format!("the number {}", number.as_str()),
        DeValue::Boolean(boolean) => boolean.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

fn parse_address(text: &str) -> Option<SocketAddr> {
    match text.strip_prefix("localhost:") {
        Some(port) => Some(SocketAddr::from(([127, 0, 0, 1], port.parse().ok()?))),
        None => text.parse().ok(),
    }
}

/// The endpoint without its final slash; `None` where there is more than scheme, host and port, and the path where
/// there may be one.
fn parse_endpoint(text: &str, may_have_path: bool) -> Option<String> {
    let uri: http::Uri = text.parse().ok()?;
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    let is_bare = (may_have_path || uri.path() == "/")
        && uri.query().is_none()
        && !text.contains(['@', '#', '?']);
    let host_is_named = uri.host().is_some_and(|host| !host.is_empty());
    (is_http && is_bare && host_is_named).then(|| text.trim_end_matches('/').to_owned())
}

fn is_domain(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

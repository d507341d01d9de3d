//! The command line: `--section.key value` (or `=value`) for each key, short names for a few, and
//! the flags that say what to do. An argument that is no flag is not repeated in an error: it may
//! be the value of a secret that slipped from its flag.

use std::path::PathBuf;

use super::error::ConfigError;
use super::key::{Key, KeyIndex};
use super::setting::{SettingId, Settings, Source};
use super::suggest::nearest;
use super::table::KEYS;

/// What is to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Task {
    /// Serve.
    #[default]
    Serve,
    /// Say whether it would serve.
    Check,
    /// Show the flags.
    Help,
    /// Show every key, as a page in Markdown.
    Reference,
    /// Show the version.
    Version,
}

/// Flags that take no value, and what they ask for.
const TASKS: &[(&str, Task)] = &[
    ("--check", Task::Check),
    ("--help", Task::Help),
    ("-h", Task::Help),
    ("--reference", Task::Reference),
    ("--version", Task::Version),
    ("-V", Task::Version),
];
/// The flag that names the file; it is not a key.
pub(super) const FILE_FLAG: &str = "--config";

/// A command line.
#[derive(Debug, Default)]
pub(super) struct CommandLine {
    pub(super) task: Task,
    pub(super) file: Option<PathBuf>,
    pub(super) settings: Settings,
}

/// Reads `arguments`, the program's name not among them.
pub(super) fn parse(arguments: &[String], errors: &mut Vec<ConfigError>) -> CommandLine {
    let mut line = CommandLine::default();
    let mut rest = arguments.iter().enumerate().peekable();
    while let Some((index, argument)) = rest.next() {
        if let Some((_, task)) = TASKS.iter().find(|(flag, _)| flag == argument) {
            line.task = *task;
            continue;
        }
        if !argument.starts_with("--") {
            errors.push(not_a_flag(index + 1));
            continue;
        }
        let (flag, value) = match argument.split_once('=') {
            Some((flag, value)) => (flag, Some(value)),
            None => (argument.as_str(), None),
        };
        let Some(target) = Target::of(flag) else {
            errors.push(unknown(flag));
            // What follows is the value that was meant for it, not a second mistake.
            if value.is_none() {
                rest.next_if(|(_, next)| !next.starts_with("--"));
            }
            continue;
        };
        match value.or_else(|| rest.next().map(|(_, next)| next.as_str())) {
            Some(value) => line.take(target, flag, value, errors),
            None => errors.push(without_value(flag)),
        }
    }
    line
}

/// What a flag with a value sets.
enum Target {
    File,
    Key(SettingId),
}

impl Target {
    fn of(flag: &str) -> Option<Target> {
        if flag == FILE_FLAG {
            return Some(Target::File);
        }
        let name = flag.strip_prefix("--")?;
        let short = KeyIndex::all().find(|index| index.key().short_flag == Some(name));
        short.map(SettingId::of).or_else(|| SettingId::from_dotted(name)).map(Target::Key)
    }
}

impl CommandLine {
    fn take(&mut self, target: Target, flag: &str, value: &str, errors: &mut Vec<ConfigError>) {
        let Target::Key(id) = target else {
            self.file = Some(PathBuf::from(value));
            return;
        };
        let source = Source::Flag(flag.to_owned());
        match id.key.key().kind.parse_text(value) {
            Ok(value) => self.settings.set(id, value, source),
            Err(mismatch) => errors.push(source.refusal(id, mismatch)),
        }
    }
}

fn not_a_flag(position: usize) -> ConfigError {
    ConfigError::Value {
        place: format!("argument {position}"),
        found: "something that is no flag (not repeated here)".to_owned(),
        expected: "a flag such as --listen, followed by its value".to_owned(),
    }
}

fn without_value(flag: &str) -> ConfigError {
    ConfigError::Value {
        place: flag.to_owned(),
        found: "nothing".to_owned(),
        expected: "a value after it".to_owned(),
    }
}

fn unknown(flag: &str) -> ConfigError {
    let dotted = KEYS.iter().map(Key::dotted);
    let short = KEYS.iter().filter_map(|key| key.short_flag.map(str::to_owned));
    let mut known: Vec<String> = dotted.chain(short).map(|name| format!("--{name}")).collect();
    known.extend(TASKS.iter().map(|(flag, _)| (*flag).to_owned()));
    known.push(FILE_FLAG.to_owned());
    let hint = match nearest(flag, known.iter().map(String::as_str)) {
        Some(known) => format!("did you mean {known}?"),
        None => "nilas-server --help lists them".to_owned(),
    };
    let place = "command line".to_owned();
    ConfigError::Unknown { place, what: "flag", name: flag.to_owned(), hint }
}

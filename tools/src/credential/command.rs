//! `nilas credential`: its flags, and what it prints. A new secret is printed once, by `create` and
//! `rotate`; nothing else prints one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use nilas_engine::config::ClientCredential;
use serde_json::json;

use super::{Changed, CredentialsFile, Listed, NewItem, place};

/// Variables that name the file; the second is the node's own.
const FILE_VARIABLES: [&str; 2] = ["NILAS_CREDENTIALS_FILE", "NILAS_AUTH_CREDENTIALS_FILE"];

/// What is to be done, and in which file.
#[derive(Args, Debug)]
pub struct CredentialArguments {
    /// The node's auth.credentials_file. Without it NILAS_CREDENTIALS_FILE or
    /// NILAS_AUTH_CREDENTIALS_FILE is used.
    #[arg(long, global = true)]
    file: Option<PathBuf>,
    /// Prints JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand, Debug)]
enum Task {
    /// Makes a credential and prints its keys, once.
    Create(CreateArguments),
    /// Shows the credentials and what each may do, without secrets.
    List,
    /// Gives a credential a new secret and prints it, once; the old one is refused from then on.
    Rotate(AccessKey),
    /// Withdraws a credential.
    Revoke(AccessKey),
}

#[derive(Args, Debug)]
struct AccessKey {
    /// Which: its access key.
    access_key: String,
}

#[derive(Args, Debug)]
struct CreateArguments {
    /// Its access key; a new one where none is named.
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    access_key: Option<String>,
    /// What it may do: read and list objects, also write and delete them, or everything.
    #[arg(long, value_parser = ["read_only", "read_write", "admin"])]
    mode: Option<String>,
    /// A bucket that it covers, as a pattern; may be given again. All, where there is none.
    #[arg(long, value_name = "PATTERN", value_parser = NonEmptyStringValueParser::new())]
    bucket: Vec<String>,
    /// A beginning of keys that it covers; may be given again. All, where there is none.
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    prefix: Vec<String>,
    /// Requests a second.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..=1_000_000_000))]
    requests_per_second: Option<i64>,
    /// Bytes a second, sent and received, such as 10MiB.
    #[arg(long, value_name = "SIZE", value_parser = NonEmptyStringValueParser::new())]
    bytes_per_second: Option<String>,
    /// Requests under way at once.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..=1_000_000))]
    requests_in_flight: Option<i64>,
    /// The access key that its requests are signed with for the origin, instead of the node's.
    #[arg(long, requires = "origin_secret_key_file", value_parser = NonEmptyStringValueParser::new())]
    origin_access_key: Option<String>,
    /// A file that holds the secret key that goes with it.
    #[arg(long, value_name = "PATH", requires = "origin_access_key")]
    origin_secret_key_file: Option<PathBuf>,
}

impl CredentialArguments {
    /// The file that is named, by flag or by variable.
    pub fn file(&self, variable: impl Fn(&str) -> Option<OsString>) -> Option<CredentialsFile> {
        let named = || FILE_VARIABLES.iter().find_map(|name| variable(name)).map(PathBuf::from);
        self.file.clone().or_else(named).map(CredentialsFile::new)
    }

    /// Does it; gives the text to print.
    pub fn carry_out(&self, file: &CredentialsFile) -> Result<Changed<String>, String> {
        match &self.task {
            Task::Create(arguments) => {
                let changed = file.create(&arguments.item()?)?;
                Ok(changed.map(|new| self.keys_text(file, &new)))
            }
            Task::Rotate(which) => {
                let changed = file.rotate(&which.access_key)?;
                Ok(changed.map(|new| self.keys_text(file, &new)))
            }
            Task::Revoke(which) => Ok(file.revoke(&which.access_key)?.map(|()| match self.json {
                true => json!({"revoked": which.access_key}).to_string(),
                false => format!("revoked {}", which.access_key),
            })),
            Task::List => Ok(file.list()?.map(|items| match self.json {
                true => json!(items).to_string(),
                false => list_text(&items),
            })),
        }
    }

    fn keys_text(&self, file: &CredentialsFile, new: &ClientCredential) -> String {
        let (access_key, secret_key) = (&new.access_key, new.secret_key.expose());
        match self.json {
            true => json!({
                "access_key": access_key,
                "secret_key": secret_key,
                "file": file.path().display().to_string(),
            })
            .to_string(),
            false => format!("access_key {access_key}\nsecret_key {secret_key}"),
        }
    }
}

impl CreateArguments {
    fn item(&self) -> Result<NewItem, String> {
        let origin_secret = self.origin_secret_key_file.as_deref().map(secret_in).transpose()?;
        Ok(NewItem {
            access_key: self.access_key.clone(),
            mode: self.mode.clone(),
            buckets: self.bucket.clone(),
            prefixes: self.prefix.clone(),
            requests_per_second_max: self.requests_per_second,
            bytes_per_second_max: self.bytes_per_second.clone(),
            requests_in_flight_max: self.requests_in_flight,
            origin_key: self.origin_access_key.clone().zip(origin_secret),
        })
    }
}

fn secret_in(path: &Path) -> Result<String, String> {
    let text = place::read(path)?;
    let text = text.ok_or_else(|| format!("there is no file {}", path.display()))?;
    match text.trim_end_matches(['\n', '\r']) {
        "" => Err(format!("{} is empty: write the secret key into it", path.display())),
        secret => Ok(secret.to_owned()),
    }
}

impl<T> Changed<T> {
    fn map<U>(self, make: impl FnOnce(T) -> U) -> Changed<U> {
        Changed { value: make(self.value), warnings: self.warnings }
    }
}

/// A table for people.
fn list_text(items: &[Listed]) -> String {
    let all = |texts: &[String]| match texts {
        [] => "all".to_owned(),
        texts => texts.join(","),
    };
    let heads = ["ACCESS KEY", "MODE", "BUCKETS", "PREFIXES", "LIMITS", "ORIGIN KEY"];
    let mut rows = vec![heads.map(str::to_owned)];
    rows.extend(items.iter().map(|item| {
        [
            item.access_key.clone(),
            item.mode.clone(),
            all(&item.buckets),
            all(&item.prefixes),
            limits_text(item),
            item.origin_access_key.clone().unwrap_or_else(|| "the node's".to_owned()),
        ]
    }));
    let widths: [usize; 6] = std::array::from_fn(|column| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
    });
    let line = |row: &[String; 6]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn limits_text(item: &Listed) -> String {
    let limits = [
        (&item.requests_per_second_max, "requests/s"),
        (&item.bytes_per_second_max, "bytes/s"),
        (&item.requests_in_flight_max, "at once"),
    ];
    let told: Vec<String> = limits
        .into_iter()
        .filter_map(|(limit, unit)| limit.as_ref().map(|limit| format!("{limit} {unit}")))
        .collect();
    if told.is_empty() { "none".to_owned() } else { told.join(", ") }
}

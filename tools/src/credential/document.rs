//! The text of a credentials file. What is not changed stays as it was written: comments, order,
//! spelling. Nothing here reads or writes a file.

use nilas_engine::config::ClientCredential;
use serde::Serialize;
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, Value, value};

/// The items' name.
const ITEMS: &str = "credentials";

/// What a new credential is to be.
#[derive(Clone, Debug, Default)]
pub struct NewItem {
    /// Its access key; a new one where none is named.
    pub access_key: Option<String>,
    /// What it may do.
    pub mode: Option<String>,
    /// The buckets that it covers.
    pub buckets: Vec<String>,
    /// The beginnings of keys that it covers.
    pub prefixes: Vec<String>,
    /// Its limits, as the file names them.
    pub requests_per_second_max: Option<i64>,
    /// A size, with its unit.
    pub bytes_per_second_max: Option<String>,
    /// At once.
    pub requests_in_flight_max: Option<i64>,
    /// Access key and secret for the origin.
    pub origin_key: Option<(String, String)>,
}

/// What is told of a credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Its access key.
    pub access_key: String,
    /// What it may do.
    pub mode: String,
    /// The buckets that it covers; none stands for all.
    pub buckets: Vec<String>,
    /// The beginnings of keys that it covers; none stands for all.
    pub prefixes: Vec<String>,
    /// Its limits, as they are written.
    pub requests_per_second_max: Option<String>,
    /// The same.
    pub bytes_per_second_max: Option<String>,
    /// The same.
    pub requests_in_flight_max: Option<String>,
    /// The access key that the origin is asked with.
    pub origin_access_key: Option<String>,
}

/// The text, taken apart.
#[derive(Debug, Default)]
pub(super) struct Document(DocumentMut);

impl Document {
    /// Takes a text apart, or tells the line at which it is no TOML; never the text itself.
    pub(super) fn parse(text: &str) -> Result<Document, usize> {
        text.parse().map(Document).map_err(|error: toml_edit::TomlError| {
            let start = error.span().map_or(0, |span| span.start.min(text.len()));
            text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count() + 1
        })
    }

    pub(super) fn text(&self) -> String {
        self.0.to_string()
    }

    pub(super) fn has(&self, access_key: &str) -> Result<bool, String> {
        Ok(self.items()?.is_some_and(|items| find(items, access_key).is_some()))
    }

    /// Adds an item after all that is there.
    pub(super) fn add(&mut self, new: &ClientCredential, item: &NewItem) -> Result<(), String> {
        self.items()?;
        let before = self.0.trailing().as_str().unwrap_or_default().to_owned();
        let is_first = before.is_empty() && self.0.is_empty();
        self.0.set_trailing("");
        let mut table = table_of(new, item);
        table.decor_mut().set_prefix(if is_first { before } else { format!("{before}\n") });
        let items = self.0.entry(ITEMS).or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
        items.as_array_of_tables_mut().expect("looked at above").push(table);
        Ok(())
    }

    /// Replaces a secret; tells where it stood if that was another place.
    pub(super) fn set_secret(
        &mut self,
        access_key: &str,
        secret: &str,
    ) -> Result<Option<String>, String> {
        let (items, index) = self.find_mut(access_key)?;
        let table = items.get_mut(index).expect("it was found");
        if let Some(written) = table.get_mut("secret_key").and_then(Item::as_value_mut) {
            let decor = written.decor().clone();
            *written = Value::from(secret);
            *written.decor_mut() = decor;
            return Ok(None);
        }
        let before = ["secret_key_file", "secret_key_env"].into_iter().find_map(|name| {
            let place = table.remove(name)?.as_str().unwrap_or_default().to_owned();
            let kind = if name == "secret_key_file" { "the file" } else { "the variable" };
            Some(format!("{kind} {place}"))
        });
        table.insert("secret_key", value(secret));
        Ok(before)
    }

    /// Removes an item, and the comment that stands right above it.
    pub(super) fn remove(&mut self, access_key: &str) -> Result<(), String> {
        let (items, index) = self.find_mut(access_key)?;
        let above = prefix_of(items.get(index).expect("it was found"));
        // A paragraph of its own speaks of more than this item.
        let kept = above.rfind("\n\n").map_or("", |end| &above[..end + 1]).to_owned();
        items.remove(index);
        match items.get_mut(index) {
            Some(next) => {
                let joined = join(&kept, &prefix_of(next));
                let joined = if index == 0 { joined.trim_start_matches('\n') } else { &joined };
                next.decor_mut().set_prefix(joined);
            }
            None => {
                let trailing = self.0.trailing().as_str().unwrap_or_default().to_owned();
                self.0.set_trailing(join(&kept, &trailing));
            }
        }
        Ok(())
    }

    /// Every item, without secrets.
    pub(super) fn list(&self) -> Result<Vec<Listed>, String> {
        let items = self.items()?.into_iter().flat_map(ArrayOfTables::iter);
        Ok(items.map(listed).collect())
    }

    fn items(&self) -> Result<Option<&ArrayOfTables>, String> {
        match self.0.get(ITEMS) {
            None => Ok(None),
            Some(Item::ArrayOfTables(items)) => Ok(Some(items)),
            Some(_) => Err(format!(
                "the credentials are written in one line, which this command cannot change: begin each \
                 with a line [[{ITEMS}]]"
            )),
        }
    }

    fn find_mut(&mut self, access_key: &str) -> Result<(&mut ArrayOfTables, usize), String> {
        self.items()?;
        let items = self.0.get_mut(ITEMS).and_then(Item::as_array_of_tables_mut);
        let found = items.and_then(|items| find(items, access_key).map(|index| (items, index)));
        found.ok_or_else(|| {
            format!("there is no access key {access_key}: `nilas credential list` shows all")
        })
    }
}

fn find(items: &ArrayOfTables, access_key: &str) -> Option<usize> {
    items.iter().position(|table| text_of(table, "access_key") == Some(access_key))
}

fn table_of(new: &ClientCredential, item: &NewItem) -> Table {
    let mut table = Table::new();
    table.insert("access_key", value(&new.access_key));
    table.insert("secret_key", value(new.secret_key.expose()));
    let mut set = |name: &str, given: Option<Value>| {
        given.map(|given| table.insert(name, Item::Value(given)));
    };
    set("mode", item.mode.as_ref().map(Value::from));
    set("buckets", array_of(&item.buckets));
    set("prefixes", array_of(&item.prefixes));
    set("requests_per_second_max", item.requests_per_second_max.map(Value::from));
    set("bytes_per_second_max", item.bytes_per_second_max.as_ref().map(Value::from));
    set("requests_in_flight_max", item.requests_in_flight_max.map(Value::from));
    if let Some((access_key, secret_key)) = &item.origin_key {
        set("origin_access_key", Some(access_key.into()));
        set("origin_secret_key", Some(secret_key.into()));
    }
    table
}

fn array_of(texts: &[String]) -> Option<Value> {
    let array: Array = texts.iter().collect();
    (!array.is_empty()).then_some(Value::Array(array))
}

fn listed(table: &Table) -> Listed {
    let text = |name: &str| text_of(table, name).map(str::to_owned);
    let texts = |name: &str| {
        let items = table.get(name).and_then(Item::as_array).into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let written = |name: &str| {
        let number = table.get(name).and_then(Item::as_integer).map(|number| number.to_string());
        number.or_else(|| text(name))
    };
    Listed {
        access_key: text("access_key").unwrap_or_default(),
        mode: text("mode").unwrap_or_else(|| "admin".to_owned()),
        buckets: texts("buckets"),
        prefixes: texts("prefixes"),
        requests_per_second_max: written("requests_per_second_max"),
        bytes_per_second_max: written("bytes_per_second_max"),
        requests_in_flight_max: written("requests_in_flight_max"),
        origin_access_key: text("origin_access_key"),
    }
}

fn text_of<'a>(table: &'a Table, name: &str) -> Option<&'a str> {
    table.get(name).and_then(Item::as_str)
}

/// The comments and empty lines above an item.
fn prefix_of(table: &Table) -> String {
    table.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default().to_owned()
}

/// One after the other, with an empty line between them.
fn join(first: &str, second: &str) -> String {
    match (first.is_empty(), second.starts_with('\n')) {
        (true, _) => second.to_owned(),
        (false, true) => format!("{first}{second}"),
        (false, false) => format!("{first}\n{second}"),
    }
}
